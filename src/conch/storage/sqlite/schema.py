"""The schema of the store's file: which one it has, and how a new or an older file gets the current one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from conch.errors import SchemaMismatch, StoreBusy, StoreUnavailable
from conch.storage.base import Row
from conch.storage.replacement import new_epoch
from conch.storage.sqlite import sqlite3
from conch.storage.sqlite.errors import list_users
from conch.storage.sqlite.files import copy, first_mark, remove, split, stamp, unused
from conch.storage.sqlite.recognition import APPLICATION_ID, foreign
from conch.storage.sqlite.transaction import transaction
from conch.storage.statements import (
    Dialect,
    Migration,
    count_migrations,
    lasting_users,
    load_migrations,
    still_in_use,
    to_version,
)

_NEWER = "Upgrade conch and restart its servers"
_DAMAGED = "Restore a copy made by `conch db backup`"


class Schema:
    def __init__(
        self,
        find_path: Callable[[], str],
        named: str,
        dialect: Dialect,
        statements: dict[str, str],
        migrations: Sequence[Migration] | None,
        busy_timeout_ms: int,
    ) -> None:
        """`find_path` returns the path of the store, which changes with the links to it.

        `named` is the setting that gave the path. Without `migrations` it uses those of this conch.
        """
        self._find_path = find_path
        self._named = named
        self._dialect = dialect
        self._statements = statements
        self._migrations = migrations
        self._busy_timeout_ms = busy_timeout_ms
        self.version = count_migrations(dialect) if migrations is None else len(migrations)

    @property
    def path(self) -> str:
        return self._find_path()

    def prepare(self, connection: sqlite3.Connection, force: bool) -> None:
        """Begin a new file, and migrate an older one. `force` does so even if other processes use it."""
        self._begin_file(connection)
        self._migrate(connection, force)

    def is_current(self, connection: sqlite3.Connection) -> bool:
        version = self.stored_version(connection)
        self.check_version(version)
        return version == self.version and _journal_mode(connection) == "wal"

    def _begin_file(self, connection: sqlite3.Connection) -> None:
        try:
            if self.stored_version(connection) == 0:  # before WAL mode, so that it is in the file itself
                with transaction(connection, "BEGIN IMMEDIATE"):
                    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {first_mark(connection)}")
            self._use_wal(connection)
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_BUSY:  # a failed commit has no code
                raise
            message = (
                f"The file {self.path} is empty or new, and other processes keep it locked: {list_users(self.path)}. "
                "If it was emptied or overwritten, they let go of it at their next call, or when they end. Try again "
                "after that."
            )
            raise StoreBusy(message, path=self.path) from error

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Switch to WAL. SQLite does not wait here for other processes that read the file, so we do."""
        deadline = time.monotonic() + self._busy_timeout_ms / 1_000
        while True:
            try:
                mode = _journal_mode(connection, " = WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
        if mode != "wal":
            message = f"SQLite cannot use WAL mode for {self.path}. Check that it is on a local disk."
            raise StoreUnavailable(message, path=self.path)

    def stored_version(self, connection: sqlite3.Connection) -> int:
        """The schema of the file; 0 if it is empty. ForeignStore if it is not a conch store."""
        try:
            row = connection.execute(self._statements["schema_version"]).fetchone()
        except sqlite3.OperationalError as error:
            if "no such column" in str(error):
                return self.known_version(None)
            if "no such table" not in str(error):
                raise
            tables = {row["name"] for row in connection.execute("SELECT name FROM sqlite_master")}
            if "meta" in tables:  # another process has created the store since the first query
                return self.stored_version(connection)
            if not tables:
                return 0
            if connection.execute("PRAGMA application_id").fetchone()["application_id"] != APPLICATION_ID:
                raise foreign(self.path, self._named) from None
            return self.known_version(None)
        return self.known_version(None if row is None else to_version(row["value"]))

    def known_version(self, version: int | None) -> int:
        if version is None:
            raise self._mismatch("its schema version is missing or damaged", _DAMAGED)
        return version

    def check_version(self, version: int) -> None:
        if version > self.version:
            raise self._mismatch(f"it has schema {version}, made by a newer version of conch", _NEWER)

    def _mismatch(self, why: str, advice: str) -> SchemaMismatch:
        message = (
            f"This version of conch (schema {self.version}) cannot use the store at {self.path}: {why}. "
            f"{advice}, choose another place with {self._named}, or start with an empty store: "
            "`conch db wipe` moves this one aside."
        )
        return SchemaMismatch(message, path=self.path, expected=self.version)

    def _require_alone(self, version: int) -> None:
        """SchemaMismatch if other processes have the file open, because they may run the older version."""
        from conch.host.processes import other_users_of

        users = lasting_users(lambda: other_users_of(self.path))
        if users == []:
            return
        named = ", ".join(map(str, users or ()))
        why = f"other processes still use it: {named}" if users else "this system cannot list the processes that use it"
        found = [{"pid": user.pid, "command": user.command} for user in users or ()]
        raise still_in_use(self.path, version, self.version, why, path=self.path, processes=found)

    def load_migrations(self) -> Sequence[Migration]:
        return load_migrations(self._dialect) if self._migrations is None else self._migrations

    def _migrate(self, connection: sqlite3.Connection, force: bool) -> None:
        from conch.storage.steps import run_step  # rarely needed

        version, kept = self.stored_version(connection), None
        self.check_version(version)
        if 0 < version < self.version:
            if not force:
                self._require_alone(version)
            copy(connection, kept := unused(f"{self.path}.v{version}-{stamp()}.backup"))
        with transaction(connection, "BEGIN IMMEDIATE"):
            # Read the version again: another process may have migrated the store meanwhile.
            version = self.stored_version(connection)
            try:
                for migration in self.load_migrations()[version:]:
                    for statement in split(migration.script):
                        connection.execute(statement)
                    run_step(migration.version, lambda sql, given: connection.execute(sql, given).fetchall())
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                    raise
                if kept is not None:
                    remove(kept)  # every later call would make another one
                raise self._mismatch(f"its tables are not those of schema {version} ({error})", _DAMAGED) from error
            version_row = {"version": str(self.version)}
            connection.execute(self._statements["set_schema_version"], version_row)
            connection.execute(self._statements["ensure_epoch"], {"epoch": new_epoch()})
            connection.execute(self._statements["ensure_mark"])
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _journal_mode(connection: sqlite3.Connection, change: str = "") -> str:
    row: Row = connection.execute(f"PRAGMA journal_mode{change}").fetchone()
    return str(row["journal_mode"])
