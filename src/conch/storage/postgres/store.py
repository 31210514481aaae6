"""The PostgreSQL engine: one server, shared by the processes of several hosts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import psycopg
from psycopg import sql
from psycopg.errors import UndefinedColumn, UndefinedTable

from conch.calls import note_change
from conch.clock import Clock
from conch.errors import OtherToolNeeded, SchemaMismatch, StoreError, StoreUnavailable
from conch.ids import lock_number
from conch.lean import Any
from conch.storage.base import INDEX_LOCK, Check, Problem, Replacement, Restoration, Row
from conch.storage.postgres.address import SCHEMA, Address, Connection
from conch.storage.postgres.errors import translate, translate_commit, translate_refusal, translated
from conch.storage.postgres.schema import DIALECT, Schema
from conch.storage.postgres.transaction import PostgresTransaction
from conch.storage.replacement import Replacements, new_epoch
from conch.storage.statements import Migration, load_checks, load_migrations, load_statements

_MOST_CONNECTIONS = 8  # per process, however many agents it serves
_KEPT_CONNECTIONS = 2  # idle connections that stay open
IDLE_SECONDS = 10.0
_ANSWER_SECONDS = 1.0  # for the server's answer, after the longest wait for a lock
_LEAST_PATIENCE = 3.0
_SUSPECT_SECONDS = 30.0  # after a silence, a new connection must come sooner, so that the whole call ends in time
# A restored dump has the epoch of the store it was made from, but its tables are new.
_FACTS = """SELECT
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
  (SELECT value FROM meta WHERE key = 'schema_version') AS version,
  (SELECT value FROM meta WHERE key = 'application') AS application,
  concat((SELECT value FROM meta WHERE key = 'epoch'), ' ', 'meta'::regclass::oid) AS epoch
"""


class PostgresStore:
    """Opens at the first use. A connection that the server dropped is replaced silently."""

    def __init__(
        self,
        url: str,
        *,
        named: str = "CONCH_STORE",
        clock: Clock | None = None,
        busy_timeout_ms: int = 5_000,
        migrations: Sequence[Migration] | None = None,
    ) -> None:
        """InvalidSetting if the address is wrong; `named` is the setting or option that gave it."""
        self._named = named
        self._address = Address(url, named)
        self._statements = load_statements(DIALECT)
        self._schema = Schema(
            self.describe(), self._statements, load_migrations(DIALECT) if migrations is None else migrations
        )
        self._replacements = Replacements(self.describe())
        self._clock = clock
        self._busy_timeout_ms = busy_timeout_ms
        self._patience = max(_LEAST_PATIENCE, busy_timeout_ms / 1_000 + _ANSWER_SECONDS)
        self._silent_at = float("-inf")
        self._slots = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._idle: list[tuple[float, Connection]] = []  # with the time it became idle, longest idle first
        self._idle_lock = threading.Lock()
        self._thread = threading.local()

    @property
    def replacements(self) -> list[Replacement]:
        return self._replacements.found

    # -- transactions

    @contextmanager
    def read(self) -> Iterator[PostgresTransaction]:
        with self._slot():
            with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as transaction:
                yield transaction
            self._give_back(transaction.connection, "COMMIT")  # it only read, so a failure here loses nothing

    def glance(self, statement: str, **parameters: Any) -> list[Row]:
        try:
            with self._slot():
                connection, _ = self._borrow()
                try:
                    looking = PostgresTransaction(connection, self._statements, 0, self._translated)
                    rows = looking.all(statement, **parameters)
                except BaseException:
                    connection.close()
                    raise
                self._give_back(connection)
        except UndefinedTable:  # they were dropped: a whole transaction notices, and creates them again
            with self.read() as transaction:
                return transaction.all(statement, **parameters)
        except psycopg.Error as error:
            raise translate(error, self.describe()) from error
        return rows

    @contextmanager
    def write(self, *locks: str) -> Iterator[PostgresTransaction]:
        # The locks come before `now`, so that writers that waited have increasing times.
        taking = "; ".join(f"SELECT pg_advisory_xact_lock({lock_number('write', lock)})" for lock in locks)
        with self._slot():
            with self._transaction(f"BEGIN; {taking}") as transaction:
                yield transaction
                transaction.send_rings()
            self._commit(transaction.connection)

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """The right to use one of this process's connections. A thread inside a transaction need not wait again."""
        if self._inside() is not None:
            yield
            return
        if not self._slots.acquire(timeout=self._patience):
            message = (
                f"All {_MOST_CONNECTIONS} connections of this process to {self.describe()} were in use for "
                f"{self._patience:g} seconds. Check that the server answers, and try again."
            )
            raise StoreUnavailable(message, store=self.describe())
        try:
            yield
        finally:
            self._slots.release()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[PostgresTransaction]:
        """Begin with one round trip, and roll back if anything is raised. The caller commits."""
        connection, facts = self._ask(f"{begin}; {_FACTS}")
        outer, self._thread.connection = self._inside(), connection
        now = self._clock() if self._clock else facts["now"]
        transaction = PostgresTransaction(connection, self._statements, now, self._translated)
        try:
            self._schema.check(connection, facts["version"], facts["application"])
            self._replacements.check(facts["epoch"])
            with self._translated():
                yield transaction
        except SchemaMismatch:
            connection.close()  # otherwise a migrating process would count this one as a user of the old schema
            raise
        except BaseException:
            self._give_back(connection, "ROLLBACK")
            raise
        finally:
            transaction.has_ended = True
            self._thread.connection = outer

    def _commit(self, connection: Connection) -> None:
        try:
            connection.execute("COMMIT", prepare=False)
        except psycopg.Error as error:
            answered = not connection.closed
            connection.close()
            self._give_back(connection)
            raise translate_commit(error, self.describe(), answered) from error
        except BaseException:  # interrupted: the server may still answer on this connection
            connection.close()
            raise
        note_change()
        self._give_back(connection)

    def change_counter(self) -> int:
        # The next transaction id, which every write increases.
        connection, row = self._ask("SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS next_transaction")
        self._give_back(connection)
        return int(row["next_transaction"])

    def is_locked(self, key: int) -> bool:
        """Whether any session holds an advisory lock on this key; False if the server does not answer."""
        try:
            connection, row = self._ask(f"SELECT NOT pg_try_advisory_xact_lock({key}) AS locked")
        except StoreError:
            return False
        self._give_back(connection)
        return bool(row["locked"])

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self.describe())

    def _inside(self) -> Connection | None:
        """The connection of this thread's open transaction, if there is one."""
        return getattr(self._thread, "connection", None)

    # -- connections

    def _ask(self, question: str) -> tuple[Connection, Row]:
        """Send a query; returns the connection and the row. Nothing was changed, so a lost connection is replaced."""
        connection, fresh = self._borrow()
        connection.patience = self._patience
        try:
            return connection, self._first_answer(connection, question)
        except psycopg.Error as error:
            lost = connection.closed
            connection.close()
            if fresh or not lost:
                raise translate(error, self.describe()) from error
        except BaseException:
            connection.close()
            raise
        self.close()  # the other idle connections are probably lost too
        return self._ask(question)

    def _first_answer(self, connection: Connection, question: str) -> Row:
        try:
            row = _last_row(connection.execute(question.encode(), prepare=False))
            if row.get("version", "") is not None:  # None: another process commits the new tables at this moment
                return row
        except (UndefinedTable, UndefinedColumn):  # a new database, or tables of another program
            pass
        connection.execute("ROLLBACK")
        self._schema.prepare(connection)
        return _last_row(connection.execute(question.encode(), prepare=False))

    def _borrow(self) -> tuple[Connection, bool]:
        with self._idle_lock:
            kept = self._idle.pop()[1] if self._idle else None
        return (self._open(), True) if kept is None else (kept, False)

    def _give_back(self, connection: Connection, last_word: str = "") -> None:
        try:
            if last_word:
                connection.execute(last_word.encode(), prepare=False)
        except psycopg.Error:
            connection.close()
        if connection.closed:
            self.close()  # the other idle connections are probably lost too
        now = time.monotonic()
        with self._idle_lock:
            if not connection.closed:
                self._idle.append((now, connection))
            expired = [each for since, each in self._idle[:-_KEPT_CONNECTIONS] if now - since > IDLE_SECONDS]
            del self._idle[: len(expired)]
        for each in expired:
            each.close()

    def _open(self) -> Connection:
        try:
            return self.connect()
        except psycopg.Error as error:
            raise translate_refusal(error, self.describe(), self._named) from error

    def connect(self) -> Connection:
        """A connection of the caller's own. Raises the driver's errors."""
        is_suspect = time.monotonic() - self._silent_at < _SUSPECT_SECONDS
        connection = self._address.connect(self._busy_timeout_ms, in_haste=is_suspect)
        connection.patience, connection.on_silence = self._patience, self._note_silence
        return connection

    def _note_silence(self) -> None:
        self._silent_at = time.monotonic()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A connection for an operator's command. It needs no schema."""
        with self._translated(), self._open() as connection:
            connection.take_time()
            yield connection

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """Like `_connected`, for a change that commits by itself. If the connection is lost, its fate is unknown."""
        with self._connected() as connection:
            try:
                yield connection
            except psycopg.Error as error:
                raise translate_commit(error, self.describe(), answered=not connection.closed) from error
            note_change()

    # -- operations

    def migrate(self, force: bool = False) -> tuple[int, int]:
        with self._changing() as connection:
            return self._schema.migrate(connection, force), self._schema.version

    def integrity_problems(self) -> list[Problem]:
        from conch.storage.postgres.integrity import find_problems  # rarely needed

        with self.read() as transaction:
            transaction.take_time()
            return find_problems(transaction.connection)

    def checks(self) -> list[Check]:
        from conch.storage.comparing import range_checks  # rarely needed
        from conch.storage.postgres.integrity import expected_facts

        return load_checks(DIALECT) + range_checks(expected_facts())

    def backup(self, target: str | None) -> str:
        """Raise an error with the `pg_dump` command to run: PostgreSQL has its own tool for backups."""
        import shlex

        with self._connected() as connection:
            owner = self._schema.other_owner(connection)
        to = f"--file={target or 'conch.dump'}"
        address = self._address.for_programs(owner)
        command = shlex.join(["pg_dump", f"--schema={SCHEMA}", "--format=custom", to, address])
        message = (
            "No copy was made. Back up a PostgreSQL store with PostgreSQL's own tool, as the owner of its tables. "
            f"Agents can keep working meanwhile:\n\n    {command}\n\n"
            "It asks for a password unless PGPASSFILE has it. `pg_restore` restores the dump."
        )
        raise OtherToolNeeded(message, store=self.describe(), command=command)

    def restoring(self, file: str) -> AbstractContextManager[Restoration]:
        """Raise an error with the `pg_restore` command to run, as `backup` does."""
        import shlex

        with self._connected() as connection:
            owner = self._schema.other_owner(connection)
        address = self._address.for_programs(owner)
        options = ["--clean", "--if-exists", "--single-transaction", f"--dbname={address}", file]
        command = shlex.join(["pg_restore", *options])
        message = (
            "Nothing was restored. Restore a PostgreSQL store with PostgreSQL's own tool, as the owner of its tables. "
            f"It replaces everything in one transaction, and running servers go on from there:\n\n    {command}"
            "\n\nIt asks for a password unless PGPASSFILE has it. `conch db verify` then checks the store."
        )
        raise OtherToolNeeded(message, store=self.describe(), command=command)

    def wipe(self) -> None:
        epoch = new_epoch()
        with self.write("schema") as transaction:
            transaction.take_time()
            transaction.truncate([table for table in transaction.all_tables() if table != "meta"])
            transaction.run("set_epoch", epoch=epoch)
        self._replacements.forget_epoch()

    def tidy(self, compact: bool) -> bool:
        """The server vacuums by itself. `compact` rewrites the tables, which nobody can use meanwhile."""
        if compact:
            with self.read() as transaction:
                tables = [sql.Identifier(SCHEMA, name) for name in transaction.all_tables()]
            with self._changing() as connection:
                connection.execute(sql.SQL("VACUUM (FULL) {}").format(sql.SQL(", ").join(tables)))
        return True

    def durability(self) -> str:
        with self._connected() as connection:
            row = connection.execute("SHOW synchronous_commit").fetchone()
            return str(row["synchronous_commit"]) if row else ""

    def copies(self) -> list[str]:
        """None that conch knows of: `pg_dump` writes where it is told to."""
        return []

    def empty_indexes(self) -> None:
        with self.write(INDEX_LOCK) as transaction:
            transaction.take_time()
            for statement in ("forget_progress", "forget_vectors", "forget_words"):
                transaction.run(statement)

    def set_aside(self) -> str:
        aside = f"{SCHEMA}_set_aside_{time.strftime('%Y%m%d%H%M%S', time.gmtime())}"
        with self._changing() as connection:
            connection.execute(f"ALTER SCHEMA {SCHEMA} RENAME TO {aside}".encode())
        return f"the schema {aside} of {self.describe()}"

    def describe(self) -> str:
        return self._address.place

    def close(self) -> None:
        with self._idle_lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()


def _last_row(cursor: psycopg.Cursor[Row]) -> Row:
    """The row of the last of several statements sent as one."""
    while cursor.nextset():
        pass
    row = cursor.fetchone()
    assert row is not None
    return row
