"""The SQLite engine: one file in WAL mode, shared by every process of this host."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from conch.bells.base import change_channel
from conch.calls import note_change
from conch.clock import Clock, system_clock
from conch.errors import (
    SchemaMismatch,
    StoreBusy,
    StoreCorrupt,
    StoreInterrupted,
    StoreUnavailable,
    StoreUncertain,
)
from conch.lean import TYPE_CHECKING, Any
from conch.storage.base import Aside, Check, Made, Problem, Query, Replacement, Restoration, Row, ignore_rows
from conch.storage.replacement import Replacements, new_epoch
from conch.storage.sqlite import sqlite3
from conch.storage.sqlite.connections import Connections
from conch.storage.sqlite.errors import list_users, translate, translated
from conch.storage.sqlite.files import (
    copy,
    emptying,
    first_mark,
    forget_loss,
    is_copy,
    make_folder,
    move_on,
    split,
    stamp,
    unused,
)
from conch.storage.sqlite.lending import Facts, FilesTaken, Lent, to_number
from conch.storage.sqlite.queue import Queue
from conch.storage.sqlite.recognition import APPLICATION_ID, foreign
from conch.storage.sqlite.transaction import SqliteTransaction, as_dict, transaction
from conch.storage.statements import (
    Dialect,
    Migration,
    count_migrations,
    lasting_users,
    load_checks,
    load_migrations,
    load_statements,
    still_in_use,
)

if TYPE_CHECKING:
    from conch.storage.sqlite.rescuing import Rescue

DIALECT = Dialect(
    "sqlite",
    serial_key="INTEGER PRIMARY KEY AUTOINCREMENT",
    bytes="BLOB",
    json_list="json_group_array",
    json_row="json_array",
)
_SYNCHRONOUS = ("off", "normal", "full", "extra")  # as SQLite numbers them
_MOST_WAL_BYTES = 16 * 1024 * 1024
_NEWER = "Upgrade conch and restart its servers"
_DAMAGED = "Restore a copy made by `conch db backup`"

Ring = Callable[[Iterable[str]], None]
Hears = Callable[[str], bool]


class SqliteStore:
    """Opens at the first use: finds or creates the file, and migrates an older one."""

    is_server = False

    def __init__(
        self,
        path: str,
        *,
        ring: Ring,
        hears: Hears = lambda channel: False,
        moved: Callable[[str], None] = lambda path: None,
        given: str = "",
        named: str = "CONCH_DATA_DIR",
        clock: Clock = system_clock,
        busy_timeout_ms: int = 5_000,
        synchronous: str = "normal",
        migrations: Sequence[Migration] | None = None,
    ) -> None:
        """`given` is the path before links were followed, and `named` the setting or option that gave it.

        If a link is changed, `moved` gets the new path.
        """
        self._given = given or path
        self._named = named
        self._ring = ring
        self._hears = hears
        self._clock = clock
        self._busy_timeout_ms = busy_timeout_ms
        self._synchronous = synchronous
        self._migrations = migrations
        self._schema = count_migrations(DIALECT) if migrations is None else len(migrations)
        self._statements = load_statements(DIALECT)
        self._columns: dict[str, tuple[str, ...]] = {}
        self._replacements = Replacements(path)
        self._connections = Connections(
            path,
            self._given,
            named,
            busy_timeout_ms / 1_000,
            self._replacements,
            self._connect,
            self._connect_first,
            moved,
            self._save,
        )
        self._rescue: Rescue | None = None
        self._queue = Queue(f"{path}.queue")
        self._counter: Lent | None = None

    @property
    def path(self) -> str:
        """Where the file is, with all links followed."""
        return self._connections.path

    @property
    def replacements(self) -> list[Replacement]:
        return self._replacements.found

    @contextmanager
    def read(self) -> Iterator[SqliteTransaction]:
        with self._connections.borrowed() as lent, transaction(lent.connection, "BEGIN"):
            self._check(lent)
            tx = SqliteTransaction(lent.connection, self._statements, self._clock(), self._translated, self._columns)
            try:
                yield tx
            finally:
                tx.has_ended = True

    def look(self) -> AbstractContextManager[SqliteTransaction]:
        return self.read()

    def glance(self, statement: str, **parameters: Any) -> list[Row]:
        with self._connections.borrowed() as lent:
            looking = SqliteTransaction(lent.connection, self._statements, 0, self._translated, self._columns)
            return looking.all(statement, **parameters)

    def aside(self, query: Callable[[], Query]) -> AbstractContextManager[Aside]:
        """Asks nothing: here a query of its own costs no more."""
        return nullcontext(lambda: None)

    def beforehand(
        self, statement: str, then: Callable[[list[Row]], None] = ignore_rows, **parameters: Any
    ) -> AbstractContextManager[None]:
        """Changes nothing: here a transaction of its own costs no more."""
        return nullcontext()

    def write_at_once(
        self,
        locks: Sequence[str],
        queries: Sequence[Query],
        rings: Sequence[str] = (),
        afterwards: Sequence[Query] = (),
    ) -> list[list[Row]] | None:
        """Changes nothing: here a read before a change costs little."""
        return None

    @contextmanager
    def write(self, *locks: str) -> Iterator[SqliteTransaction]:
        """SQLite allows one writer at a time, so it has no use for the names in `locks`."""
        with self._connections.borrowed() as lent:
            with self._queued(lent.connection):
                with transaction(lent.connection, "BEGIN IMMEDIATE"):
                    tx = SqliteTransaction(
                        lent.connection, self._statements, self._clock(), self._translated, self._columns
                    )
                    in_file, facts = self._check(lent, is_writer=True)
                    mark = move_on(lent.connection, in_file, facts.mark)
                    lent.facts = None
                    try:
                        yield tx
                    finally:
                        tx.has_ended = True
                lent.note(mark)
            if in_file != facts.mark:  # otherwise `move_on` has changed more than the mark
                facts.mark, lent.facts = mark, facts
            self._confirm(lent, mark)
        # Ask after the commit, so that no other writer waits for the answer. Ask before the ring, because the ring
        # wakes the listener, which then stops listening.
        tx.heard = tx.called is not None and self._hears(tx.called)
        self._ring([*tx.rings, change_channel(locks)])

    def briefly(self, work: Callable[[], Made]) -> Made:
        return work()

    def ring(self, *channels: str) -> None:
        self._ring([*channels, change_channel(())])

    def _check(self, lent: Lent, is_writer: bool = False) -> tuple[int, Facts]:
        """Make sure inside the transaction that it is on the same store as earlier calls.

        Returns the mark in the file, and what SQLite reads. A writer that passes has the write lock of these files. A
        process that mends them waits for that lock.
        """
        facts = lent.read_facts(self._statements)
        in_file = lent.check()  # not before: from now on SQLite keeps the file as it is
        lent.check_marks(in_file, facts.mark, in_file if facts.start is None else facts.start)
        lent.check_log(facts.mark, None if is_writer else self._queue)
        # A newer conch may have migrated the store since this process opened it.
        if facts.schema is None or facts.schema > self._schema:
            self._check_version(self._known_version(facts.schema))
        self._replacements.check(facts.epoch)
        return in_file, facts

    def _confirm(self, lent: Lent, mark: int) -> None:
        """Make sure after the commit that it is in the store at the path, before it is reported as done."""
        try:
            lent.check()
            lent.generation.files.stored = mark
        except FilesTaken:
            trouble = self._connections.notice(lent)
            if type(trouble) is not StoreInterrupted:  # otherwise the commit is in the store at the path now
                message = (
                    f"{trouble.message} This call's change was committed, but the store that is there now may lack it."
                )
                raise StoreUncertain(message, **trouble.details) from None

    def migrate(self, force: bool = False) -> tuple[int, int]:
        """Make a backup and migrate now. Without `force` this is what the first use of the store does anyway."""
        with self._untouched() as connection:
            before = self._stored_version(connection)
        if force:
            with self._translated(), self._connections.alone(lambda: self._prepare(force)):
                pass
        with self.read():
            return before, self._schema

    def change_counter(self) -> int:
        with self._translated():
            # It has its own connection, because data_version ignores commits of the connection that asks.
            lent = self._counter = self._counter or self._connections.take()
            if not lent.is_surely_taken():
                row: Row = lent.connection.execute("PRAGMA data_version").fetchone()
                return int(row["data_version"])
            trouble, self._counter = self._connections.notice(lent), None
            self._connections.give_back(lent, broken=True)
            raise trouble

    def version(self) -> object:
        return self._connections.find_version()

    def integrity_problems(self) -> list[Problem]:
        from conch.storage.sqlite.integrity import find_problems  # rarely needed

        with self._connections.borrowed() as lent, transaction(lent.connection, "BEGIN"):
            lent.check()
            problems = find_problems(lent.connection, tuple(self._load_migrations()))
            lent.connection.execute("ROLLBACK")  # after reading a damaged full-text index, SQLite refuses to commit
            return problems

    def checks(self) -> list[Check]:
        from conch.storage.comparing import range_checks  # rarely needed
        from conch.storage.sqlite.integrity import expected_facts

        return load_checks(DIALECT) + range_checks(expected_facts(tuple(self._load_migrations())))

    def backup(self, target: str | None) -> str:
        target = os.path.abspath(target or unused(f"{self.path}.{stamp()}.backup"))
        with self._untouched() as connection:
            copy(connection, target)
        return target

    @contextmanager
    def restoring(self, file: str) -> Iterator[Restoration]:
        from conch.storage.sqlite.restoring import scratch_copy  # rarely needed

        with suppress(StoreCorrupt):  # a store that cannot be read is replaced
            self._connections.require_own()
        make_folder(self.path, self._named)
        with scratch_copy(file, self.path, self._schema, self._named) as scratch:
            candidate = SqliteStore(scratch, ring=self._ring, named="FILE", migrations=self._migrations)
            try:
                with candidate.read():  # migrates an older one
                    pass
                yield Restoration(candidate, self._users, lambda: self._restore(candidate))
            finally:
                candidate.close()

    def _users(self) -> list[str]:
        from conch.host.processes import other_users_of  # rarely needed

        users = other_users_of(self.path) if os.path.exists(self.path) else []
        if users is None:
            return ["unknown, because this system cannot list them"]
        return [str(user) for user in users]

    def _restore(self, candidate: SqliteStore) -> str | None:
        from conch.storage.sqlite.restoring import replace_contents, replace_file  # rarely needed

        # With the pid, because two commands may restore in the same second.
        scratch, kept = candidate.path, unused(f"{self.path}.before-restore-{stamp()}-{os.getpid()}")
        candidate.close()
        self._connections.close()
        try:
            with self._untouched() as live, self._queued(live):
                kept_in = replace_contents(live, scratch, kept, self._busy_timeout_ms / 1_000)
        except (SchemaMismatch, StoreCorrupt):
            try:
                kept_in = replace_file(self.path, scratch, kept)
            except OSError as error:
                raise translate(error, self.path, self._named) from error
        note_change()
        self._replacements.forget_epoch()
        return kept_in

    def wipe(self) -> None:
        from conch.storage.sqlite.fulltext import empty_index

        epoch = new_epoch()
        with self._connections.borrowed() as lent, self._queued(lent.connection):
            connection = lent.connection
            with transaction(connection, "BEGIN IMMEDIATE"):
                in_file, facts = self._check(lent, is_writer=True)
                move_on(connection, in_file, facts.mark)
                lent.facts = None
                connection.execute("PRAGMA defer_foreign_keys = ON")  # so that the tables can be emptied in any order
                for statement in list(emptying(connection)):
                    connection.execute(statement)
                empty_index(connection)
                forget_loss(connection)
                connection.execute(self._statements["set_epoch"], {"epoch": epoch})
            self._replacements.expect(epoch)
            with suppress(sqlite3.Error):  # the rows are deleted already, so this must not fail the call
                connection.execute("VACUUM")  # gives the space back to the disk, but needs some of it
        self._connections.close()  # they may have used the index

    def tidy(self, compact: bool) -> bool:
        with self._connections.borrowed() as lent:
            with self._queued(lent.connection):
                lent.check()
                if compact:
                    lent.connection.execute("VACUUM")
            return self._cut_off_wal(lent.connection)

    def _cut_off_wal(self, connection: sqlite3.Connection) -> bool:
        """Readers that began before must finish first. Most do so in a moment.

        Most of the work is done while others write. They wait only for the rest, and never for a reader.
        """
        deadline = time.monotonic() + self._busy_timeout_ms / 1_000
        while True:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            with self._queued(connection):
                connection.execute("PRAGMA busy_timeout = 0")
                try:
                    is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()["busy"]
                finally:
                    connection.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")
            if not is_busy or time.monotonic() > deadline:
                return not is_busy
            time.sleep(0.02)

    def durability(self) -> str:
        with self._connections.borrowed() as lent:
            return _SYNCHRONOUS[lent.connection.execute("PRAGMA synchronous").fetchone()["synchronous"]]

    def copies(self) -> list[str]:
        folder = os.path.dirname(self.path)
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if is_copy(name)]

    def empty_indexes(self) -> None:
        from conch.storage.sqlite.fulltext import empty_index

        with self.read():  # migrates an older store
            pass
        with self._untouched() as connection, self._queued(connection), transaction(connection, "BEGIN IMMEDIATE"):
            for statement in ("forget_progress", "forget_vectors"):
                connection.execute(self._statements[statement])
            empty_index(connection)

    def set_aside(self) -> str:
        aside = unused(f"{self.path}.set-aside-{stamp()}")
        try:
            for suffix in ("-wal", "-shm", ""):
                if os.path.exists(self.path + suffix):
                    os.rename(self.path + suffix, aside + suffix)
                    note_change()
        except OSError as error:
            raise translate(error, self.path, self._named) from error
        return aside

    def describe(self) -> str:
        return self.path

    def close(self) -> None:
        if self._counter is not None:
            self._connections.give_back(self._counter)
        self._connections.close()
        self._queue.close()
        self._counter = None

    # -- connections

    def _save(self, lent: Lent, target: str, error: sqlite3.Error | None) -> StoreInterrupted:
        """Save what can be saved after the files of a connection were taken, see `Connections`."""
        from conch.storage.sqlite.rescuing import Rescue  # rarely needed

        if self._rescue is None:
            self._rescue = Rescue(lambda: self.path, self._given, self._named, self._replacements)
        return self._rescue.save(lent, target, error)

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self.path, self._named)

    @contextmanager
    def _untouched(self) -> Iterator[sqlite3.Connection]:
        """A connection to a store of any schema version. It does not migrate the store."""
        with self._translated(), self._connections.alone(self._connect_untouched) as connection:
            yield connection

    def _connect_untouched(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            self._stored_version(connection)  # refuse a file that is not a store before anything is done with it
        except BaseException:
            connection.close()
            raise
        return connection

    def _queued(self, connection: sqlite3.Connection) -> _Turn:
        """Wait in the queue for half of the busy timeout. If that fails, SQLite's own wait gets the rest."""
        return _Turn(self._queue, connection, self._busy_timeout_ms)

    def _connect_first(self) -> sqlite3.Connection:
        self._queue.close()  # its file may have been deleted together with the store
        self._queue = Queue(f"{self.path}.queue")
        connection = self._connect()
        try:
            is_ready = self._is_current(connection)
        except BaseException:
            connection.close()
            raise
        if not is_ready:
            connection.close()  # otherwise a migrating process would count this one as a user of the old schema
            connection = self._prepare()
        if self._replacements.is_to_be_told:
            with transaction(connection, "BEGIN"):  # not a change that a caller asked for
                connection.execute(self._statements["set_epoch"], {"epoch": new_epoch()})
            self._replacements.is_to_be_told = False
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=self._busy_timeout_ms / 1_000,
            isolation_level=None,  # `transaction` begins and commits, not the driver
            check_same_thread=False,  # a connection is used by one thread at a time, but not always the same one
            cached_statements=128,
        )
        try:
            self._set_up(connection)
        except BaseException:
            connection.close()  # otherwise it would keep its locks as long as the error lives
            raise
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        connection.row_factory = as_dict
        connection.execute("PRAGMA foreign_keys = ON")
        # Otherwise each temporary table gets a page cache as for a file, which costs more than most of our queries.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        # A long reader lets the file beside the store grow. Afterwards the next checkpoint cuts it off here again.
        connection.execute(f"PRAGMA journal_size_limit = {_MOST_WAL_BYTES}")

    # -- first use

    def _is_current(self, connection: sqlite3.Connection) -> bool:
        version = self._stored_version(connection)
        self._check_version(version)
        return version == self._schema and self._journal_mode(connection) == "wal"

    def _prepare(self, force: bool = False) -> sqlite3.Connection:
        """Wait in the queue, migrate if needed, and return a connection."""
        file = self._queue.enter(self._busy_timeout_ms / 2_000)
        try:
            connection = self._connect()
            try:
                self._connections.require_newest(connection)
                self._begin_file(connection)
                self._migrate(connection, force)
            except BaseException:
                connection.close()
                raise
            return connection
        finally:
            self._queue.leave(file)

    def _begin_file(self, connection: sqlite3.Connection) -> None:
        try:
            if self._stored_version(connection) == 0:  # before WAL mode, so that it is in the file itself
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

    def _journal_mode(self, connection: sqlite3.Connection, change: str = "") -> str:
        row: Row = connection.execute(f"PRAGMA journal_mode{change}").fetchone()
        return str(row["journal_mode"])

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Switch to WAL. SQLite does not wait here for other processes that read the file, so we do."""
        deadline = time.monotonic() + self._busy_timeout_ms / 1_000
        while True:
            try:
                mode = self._journal_mode(connection, " = WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
        if mode != "wal":
            message = f"SQLite cannot use WAL mode for {self.path}. Check that it is on a local disk."
            raise StoreUnavailable(message, path=self.path)

    def _stored_version(self, connection: sqlite3.Connection) -> int:
        """The schema of the file; 0 if it is empty. ForeignStore if it is not a conch store."""
        try:
            row = connection.execute(self._statements["schema_version"]).fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            tables = {row["name"] for row in connection.execute("SELECT name FROM sqlite_master")}
            if "meta" in tables:  # another process has created the store since the first query
                return self._stored_version(connection)
            if tables:
                raise foreign(self.path, self._named) from None
            return 0
        return self._known_version(None if row is None else to_number(row["value"]))

    def _known_version(self, version: int | None) -> int:
        if version is None:
            raise self._mismatch("its schema version is missing or damaged", _DAMAGED)
        return version

    def _check_version(self, version: int) -> None:
        if version > self._schema:
            raise self._mismatch(f"it has schema {version}, made by a newer version of conch", _NEWER)

    def _mismatch(self, why: str, advice: str) -> SchemaMismatch:
        message = (
            f"This version of conch (schema {self._schema}) cannot use the store at {self.path}: {why}. "
            f"{advice}, choose another place with {self._named}, or start with an empty store: "
            "`conch db wipe` moves this one aside."
        )
        return SchemaMismatch(message, path=self.path, expected=self._schema)

    def _require_alone(self, version: int) -> None:
        """SchemaMismatch if other processes have the file open, because they may run the older version."""
        from conch.host.processes import other_users_of

        users = lasting_users(lambda: other_users_of(self.path))
        if users == []:
            return
        named = ", ".join(map(str, users or ()))
        why = f"other processes still use it: {named}" if users else "this system cannot list the processes that use it"
        found = [{"pid": user.pid, "command": user.command} for user in users or ()]
        raise still_in_use(self.path, version, self._schema, why, path=self.path, processes=found)

    def _load_migrations(self) -> Sequence[Migration]:
        return load_migrations(DIALECT) if self._migrations is None else self._migrations

    def _migrate(self, connection: sqlite3.Connection, force: bool) -> None:
        from conch.storage.steps import run_step  # rarely needed

        version = self._stored_version(connection)
        self._check_version(version)
        if 0 < version < self._schema:
            if not force:
                self._require_alone(version)
            copy(connection, f"{self.path}.v{version}-{stamp()}.backup")
        with transaction(connection, "BEGIN IMMEDIATE"):
            # Read the version again: another process may have migrated the store meanwhile.
            version = self._stored_version(connection)
            for migration in self._load_migrations()[version:]:
                for statement in split(migration.script):
                    connection.execute(statement)
                run_step(migration.version, lambda sql, given: connection.execute(sql, given).fetchall())
            version_row = {"version": str(self._schema)}
            connection.execute(self._statements["set_schema_version"], version_row)
            connection.execute(self._statements["ensure_epoch"], {"epoch": new_epoch()})
            connection.execute(self._statements["ensure_mark"])
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


class _Turn:
    """Every write needs one, so this is no generator, which is slower."""

    def __init__(self, queue: Queue, connection: sqlite3.Connection, busy_timeout_ms: int) -> None:
        self._queue = queue
        self._connection = connection
        self._busy_timeout_ms = busy_timeout_ms

    def __enter__(self) -> None:
        began = time.monotonic()
        self._file = self._queue.enter(self._busy_timeout_ms / 2_000)
        if self._file is None:
            waited_ms = min(int(1_000 * (time.monotonic() - began)), self._busy_timeout_ms // 2)
            self._set_timeout(self._busy_timeout_ms - waited_ms)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._queue.leave(self._file)
        if self._file is None:
            self._set_timeout(self._busy_timeout_ms)

    def _set_timeout(self, milliseconds: int) -> None:
        self._connection.execute(f"PRAGMA busy_timeout = {milliseconds}")
