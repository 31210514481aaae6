"""The SQLite engine: one file in WAL mode, shared by every process of this host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from conch.bells.base import change_channel
from conch.calls import note_change
from conch.clock import Clock, system_clock
from conch.errors import (
    SchemaMismatch,
    StoreCorrupt,
    StoreInterrupted,
    StoreUncertain,
)
from conch.lean import TYPE_CHECKING, Any
from conch.storage.base import Aside, Check, Made, Problem, Query, Replacement, Restoration, Row, ignore_rows
from conch.storage.replacement import Replacements, new_epoch
from conch.storage.sqlite import sqlite3
from conch.storage.sqlite.connections import Connections
from conch.storage.sqlite.errors import translate, translated
from conch.storage.sqlite.files import (
    copy,
    copy_beside,
    is_copy,
    make_folder,
    move_on,
    stamp,
    unused,
)
from conch.storage.sqlite.lending import Facts, FilesTaken, Lent, Turn
from conch.storage.sqlite.queue import Queue
from conch.storage.sqlite.schema import Schema
from conch.storage.sqlite.transaction import SqliteTransaction, as_dict, transaction
from conch.storage.statements import (
    Dialect,
    Migration,
    Statements,
    load_checks,
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
# So many pages of `-wal` move into the file at once, which waits for the disk. They fit into the bytes above, and into
# one table of `-shm`, so that a page is found in one step.
_CHECKPOINT_PAGES = 4_000

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
        self._statements = Statements(DIALECT)
        self._schema = Schema(lambda: self.path, named, DIALECT, self._statements, migrations, busy_timeout_ms)
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
        with self._connections.borrowed() as lent, transaction(lent.connection, "BEGIN", lent.cursor):
            self._check(lent)
            tx = SqliteTransaction(lent.cursor, self._statements, self._clock(), self._translated, self._columns)
            try:
                yield tx
            finally:
                tx.has_ended = True

    def look(self) -> AbstractContextManager[SqliteTransaction]:
        return self.read()

    def glance(self, statement: str, **parameters: Any) -> list[Row]:
        with self._connections.borrowed() as lent:
            looking = SqliteTransaction(lent.cursor, self._statements, 0, self._translated, self._columns)
            return looking.all(statement, **parameters)

    def aside(self, query: Callable[[], Query | None]) -> AbstractContextManager[Aside]:
        """Asks nothing: in a file, a separate query costs the same."""
        return nullcontext(lambda: None)

    def beforehand(
        self, statement: str, then: Callable[[list[Row]], None] = ignore_rows, **parameters: Any
    ) -> AbstractContextManager[None]:
        """Changes nothing: in a file, a separate transaction costs the same."""
        return nullcontext()

    def write_at_once(
        self,
        locks: Sequence[str],
        queries: Sequence[Query],
        rings: Sequence[str] = (),
        afterwards: Sequence[Query] = (),
    ) -> list[list[Row]] | None:
        """Changes nothing: in a file, it costs little to read before a change."""
        return None

    @contextmanager
    def write(self, *locks: str) -> Iterator[SqliteTransaction]:
        """SQLite allows one writer at a time, so it has no use for the names in `locks`."""
        with self._connections.borrowed() as lent:
            with self._queued(lent.connection):
                with transaction(lent.connection, "BEGIN IMMEDIATE", lent.cursor):
                    tx = SqliteTransaction(
                        lent.cursor, self._statements, self._clock(), self._translated, self._columns
                    )
                    in_file, facts = self._check(lent, is_writer=True)
                    mark = move_on(lent.cursor, in_file, facts.mark)
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
        if facts.schema is None or facts.schema > self._schema.version:
            self._schema.check_version(self._schema.known_version(facts.schema))
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
            before = self._schema.stored_version(connection)
        if force:
            with self._translated(), self._connections.alone(lambda: self._prepare(force)):
                pass
        with self.read():
            return before, self._schema.version

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
            problems = find_problems(lent.connection, tuple(self._schema.load_migrations()))
            lent.connection.execute("ROLLBACK")  # after reading a damaged full-text index, SQLite refuses to commit
            return problems

    def checks(self) -> list[Check]:
        from conch.storage.comparing import range_checks  # rarely needed
        from conch.storage.sqlite.integrity import expected_facts

        return load_checks(DIALECT) + range_checks(expected_facts(tuple(self._schema.load_migrations())))

    def backup(self, target: str | None) -> str:
        with self._untouched() as connection:
            if target is not None:
                target = os.path.abspath(target)
                copy(connection, target)
                return target
            return copy_beside(connection, f"{self.path}.{stamp()}.backup")

    @contextmanager
    def restoring(self, file: str) -> Iterator[Restoration]:
        from conch.storage.sqlite.restoring import scratch_copy  # rarely needed

        with suppress(StoreCorrupt):  # a store that cannot be read is replaced
            self._connections.require_own()
        make_folder(self.path, self._named)
        with scratch_copy(file, self.path, self._schema.version, self._named) as scratch:
            candidate = SqliteStore(scratch, ring=self._ring, named="FILE", migrations=self._migrations)
            try:
                try:
                    with candidate.read():  # migrates an older one
                        pass
                except SchemaMismatch as error:
                    raise StoreCorrupt(f"{file} is damaged: its tables do not match its schema version.") from error
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
        except StoreUncertain as trouble:
            if os.path.exists(kept):
                trouble.add_cause(f"What was there before is in {kept}.", kept=kept)
            raise
        except (SchemaMismatch, StoreCorrupt):
            try:
                kept_in = replace_file(self.path, scratch, kept)
            except OSError as error:
                raise translate(error, self.path, self._named) from error
        note_change()
        self._replacements.forget_epoch()
        return kept_in

    def wipe(self) -> None:
        from conch.storage.sqlite.tidying import delete_rows  # rarely needed

        epoch = new_epoch()
        with self._connections.borrowed() as lent, self._queued(lent.connection):
            connection = lent.connection
            with transaction(connection, "BEGIN IMMEDIATE"):
                in_file, facts = self._check(lent, is_writer=True)
                move_on(lent.cursor, in_file, facts.mark)
                lent.facts = None
                delete_rows(connection)
                connection.execute(self._statements["set_epoch"], {"epoch": epoch})
            self._replacements.expect(epoch)
            with suppress(sqlite3.Error):  # the rows are deleted already, so this must not fail the call
                connection.execute("VACUUM")  # gives the space back to the disk, but needs some of it
        self._connections.close()  # they may have used the index

    def tidy(self, compact: bool) -> bool:
        from conch.storage.sqlite.tidying import cut_off_wal  # rarely needed

        with self._connections.borrowed() as lent:
            with self._queued(lent.connection):
                lent.check()
                if compact:
                    lent.connection.execute("VACUUM")
            return cut_off_wal(lent.connection, lambda: self._queued(lent.connection), self._busy_timeout_ms)

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

    def load(self) -> None:
        from conch.storage.sqlite import scratch  # noqa: F401

        self._statements.load()

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
            self._schema.stored_version(connection)  # refuse a file that is not a store before anything is done with it
        except BaseException:
            connection.close()
            raise
        return connection

    def _queued(self, connection: sqlite3.Connection) -> Turn:
        """Wait in the queue for half of the busy timeout. If that fails, SQLite's own wait gets the rest."""
        return Turn(self._queue, connection, self._busy_timeout_ms)

    def _connect_first(self) -> sqlite3.Connection:
        self._queue.close()  # its file may have been deleted together with the store
        self._queue = Queue(f"{self.path}.queue")
        connection = self._connect()
        try:
            is_ready = self._schema.is_current(connection)
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
        # `-wal` grows while a long read is open. The next checkpoint after it cuts `-wal` back to this size.
        connection.execute(f"PRAGMA journal_size_limit = {_MOST_WAL_BYTES}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")

    # -- first use

    def _prepare(self, force: bool = False) -> sqlite3.Connection:
        """Wait in the queue, migrate if needed, and return a connection."""
        file = self._queue.enter(self._busy_timeout_ms / 2_000)
        try:
            connection = self._connect()
            try:
                self._connections.require_newest(connection)
                self._schema.prepare(connection, force)
            except BaseException:
                connection.close()
                raise
            return connection
        finally:
            self._queue.leave(file)
