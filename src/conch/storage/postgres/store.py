"""The PostgreSQL engine: one server, shared by the processes of several hosts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial

import psycopg
from psycopg import sql
from psycopg.errors import DataError, DivisionByZero, UndefinedColumn, UndefinedTable, UniqueViolation

from conch.bells.base import change_channel
from conch.calls import note_change
from conch.clock import Clock
from conch.errors import OtherToolNeeded, SchemaMismatch, StoreError, StoreUnavailable
from conch.lean import Any
from conch.storage.base import (
    INDEX_LOCK,
    Answered,
    Aside,
    Check,
    Made,
    Problem,
    Query,
    Replacement,
    Restoration,
    Row,
    ignore_rows,
)
from conch.storage.postgres.address import Address
from conch.storage.postgres.connection import SCHEMA, Connection, Question
from conch.storage.postgres.errors import translate, translate_commit, translate_refusal, translated
from conch.storage.postgres.rehearsal import Plan, Rehearsed
from conch.storage.postgres.schema import DIALECT, Schema
from conch.storage.postgres.transaction import PostgresTransaction, ask, lock, lock_if, ring
from conch.storage.replacement import Replacements, new_epoch
from conch.storage.statements import Migration, Statements, load_checks, load_migrations

_MOST_CONNECTIONS = 8  # per process, however many agents it serves
_KEPT_CONNECTIONS = 2  # idle connections that stay open
IDLE_SECONDS = 10.0
_ANSWER_SECONDS = 1.0  # for the server's answer, after the longest wait for a lock
_LEAST_PATIENCE = 3.0
_SUSPECT_SECONDS = 30.0  # after a silence, a new connection must come sooner, so that the whole call ends in time
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# A restored dump has the epoch of the store it was made from, but its tables are new.
_FACTS = """SELECT
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
  (SELECT value FROM meta WHERE key = 'schema_version') AS version,
  (SELECT value FROM meta WHERE key = 'application') AS application,
  concat((SELECT value FROM meta WHERE key = 'epoch'), ' ', 'meta'::regclass::oid) AS epoch
"""
_DURABILITY = """SELECT CASE current_setting('fsync')
  WHEN 'off' THEN 'fsync=off' ELSE current_setting('synchronous_commit') END AS durability"""
# The same facts as an assertion: on another store or schema, the transaction fails before it has changed anything.
_UNCHANGED = """1 / (concat_ws(' ',
  (SELECT value FROM meta WHERE key = 'schema_version'), (SELECT value FROM meta WHERE key = 'application'),
  (SELECT value FROM meta WHERE key = 'epoch'), 'meta'::regclass::oid) = $1)::int"""


class _Aside:
    """A query that is asked again and again, beside others. Its latest answer counts."""

    def __init__(self, statements: dict[str, str], find_query: Callable[[], Query | None]) -> None:
        self._statements = statements
        self._find_query = find_query
        self._query = find_query()
        self._latest: Question | None = None

    def renew(self) -> list[Question]:
        self._query = self._query or self._find_query()
        if self._query is None:
            return []
        self._latest = ask(self._statements, *self._query)
        return [self._latest]

    def answer(self) -> Answered | None:
        return (self._query, self._latest.rows) if self._query and self._latest and self._latest.is_answered else None


class _Note:
    """A small change of a thread that travels ahead of its next transaction, and the function that gets its rows."""

    def __init__(self, question: Question, then: Callable[[list[Row]], None]) -> None:
        self.question = question
        self.then = then


class PostgresStore:
    """Opens at the first use. A connection that the server dropped is replaced silently."""

    is_server = True

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
        self._statements = Statements(DIALECT)
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
        begin = Question(_READ, is_prepared=False)
        with self._slot():
            with self._transaction(partial(self._begin, [begin])) as transaction:
                yield transaction
            if transaction.begun is not None:
                self._give_back(transaction.begun, self._ending())  # it only read, so a failure here loses nothing

    @contextmanager
    def look(self) -> Iterator[PostgresTransaction]:
        with self._slot(), self._transaction(self._look) as transaction:
            yield transaction

    def _look(self, transaction: PostgresTransaction, waiting: list[Question]) -> None:
        facts = Question(_FACTS)
        flight = [facts, *waiting]
        if len(waiting) > 1:
            flight = [Question(_READ, is_prepared=False), *flight, Question("COMMIT", is_prepared=False)]
        connection = self._launch([*flight, *self._besides()], facts)
        try:
            self._admit(transaction, connection, facts)
        finally:
            self._give_back(connection)

    def glance(self, statement: str, **parameters: Any) -> list[Row]:
        question = ask(self._statements, statement, parameters)
        try:
            with self._slot():
                self._give_back(self._launch([question]))
        except StoreError as trouble:
            if not isinstance(trouble.__cause__, UndefinedTable):
                raise
            with self.read() as transaction:  # it was dropped: a whole transaction notices, and creates it again
                return transaction.all(statement, **parameters)
        return question.rows

    @contextmanager
    def aside(self, query: Callable[[], Query | None]) -> Iterator[Aside]:
        aside = _Aside(self._statements, query)
        outer, self._thread.aside = self._aside, aside
        try:
            yield aside.answer
        finally:
            self._thread.aside = outer

    @contextmanager
    def beforehand(
        self, statement: str, then: Callable[[list[Row]], None] = ignore_rows, **parameters: Any
    ) -> Iterator[None]:
        now = self._clock() if self._clock else None
        note = _Note(ask(self._statements, statement, {**parameters, "now": now}), then)
        outer, self._thread.notes = self._notes, [*self._notes, note]
        try:
            yield
        finally:
            self._thread.notes = [each for each in self._notes if each in outer]  # without those that were sent

    @property
    def _notes(self) -> list[_Note]:
        """What travels ahead of the next transaction of this thread."""
        return getattr(self._thread, "notes", [])

    @property
    def _aside(self) -> _Aside | None:
        """What rides along with the end of every transaction of this thread."""
        return getattr(self._thread, "aside", None)

    def _ending(self) -> list[Question]:
        return [Question("COMMIT", is_prepared=False), *self._besides()]

    def _besides(self) -> list[Question]:
        return self._aside.renew() if self._aside else []

    def _ask_all(self, queries: Sequence[Query]) -> list[Question]:
        return [ask(self._statements, statement, given) for statement, given in queries]

    @contextmanager
    def write(self, *locks: str) -> Iterator[PostgresTransaction]:
        # The locks come before `now`, so that writers that waited have increasing times.
        beginning = [Question("BEGIN", is_prepared=False), *map(lock, locks)]
        plan = self._plan
        if plan is not None:
            plan.begin()
        with self._slot():
            with self._transaction(partial(self._begin, beginning), plan) as transaction:
                yield transaction
                if transaction.is_rehearsal:
                    raise Rehearsed
            if transaction.begun is not None:
                self._commit(transaction, transaction.begun, change_channel(locks))

    def briefly(self, work: Callable[[], Made]) -> Made:
        plan, outer = Plan(self._statements), self._plan
        try:
            while True:
                self._thread.plan = plan
                try:
                    return work()
                except Rehearsed:
                    plan.learn()
        finally:
            self._thread.plan = outer

    @property
    def _plan(self) -> Plan | None:
        """What is known of the change that this thread makes."""
        return getattr(self._thread, "plan", None)

    def ring(self, *channels: str) -> None:
        with self._slot():
            self._give_back(self._launch([ring([*channels, change_channel(())])]))

    def write_at_once(
        self,
        locks: Sequence[str],
        queries: Sequence[Query],
        rings: Sequence[str] = (),
        afterwards: Sequence[Query] = (),
    ) -> list[list[Row]] | None:
        epoch = self._replacements.expected
        if epoch is None:  # nothing is known about this store yet
            return None
        now = self._clock() if self._clock else None
        locking = lock_if(_UNCHANGED, f"{self._schema.version} conch {epoch}", locks)
        changes = self._ask_all([(statement, {**given, "now": now}) for statement, given in queries])
        after, (commit, *besides) = self._ask_all(afterwards), self._ending()
        # Last, because the previous holder of a lock may not yet have released its bells, which would look listened to.
        bells = ring([*rings, change_channel(tuple(locks))])
        change = [Question("BEGIN", is_prepared=False), locking, *changes, bells]
        try:
            with self._slot():
                self._give_back(self._launch([*change, commit, *after, *besides]))
        except StoreError as trouble:
            if not commit.is_answered:
                self._explain(trouble, change)
                if not isinstance(trouble.__cause__, UniqueViolation):
                    return None
                note_change()  # an earlier attempt may have made it
                return [[] for _ in changes]
        note_change()
        return [question.rows for question in (*changes, *after)]

    def _explain(self, trouble: StoreError, change: list[Question]) -> None:
        """Raise the error of a change whose commit was not answered, if it is not a reason to look again.

        It is one if this is another store or schema, or if the change was made before.
        """
        cause = trouble.__cause__
        if isinstance(cause, DivisionByZero | UndefinedTable | UndefinedColumn | UniqueViolation):
            return
        answered = not change[0].is_sent or any(each.error for each in change)
        if isinstance(cause, psycopg.Error) and not answered:
            raise translate_commit(cause, self.describe(), answered) from cause
        raise trouble

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """The right to use one of this process's connections. A thread inside a transaction need not wait again."""
        if getattr(self._thread, "is_inside", False):
            yield
            return
        if not self._slots.acquire(timeout=self._patience):
            message = (
                f"All {_MOST_CONNECTIONS} connections of this process to {self.describe()} were in use for "
                f"{self._patience:g} seconds. Check that the server answers, and try again."
            )
            raise StoreUnavailable(message, store=self.describe())
        self._thread.is_inside = True
        try:
            yield
        finally:
            self._thread.is_inside = False
            self._slots.release()

    @contextmanager
    def _transaction(
        self, begin: Callable[[PostgresTransaction, list[Question]], None], plan: Plan | None = None
    ) -> Iterator[PostgresTransaction]:
        """Roll back if anything is raised. The caller commits."""
        transaction = PostgresTransaction(self._statements, begin, self._translated, self._clock, plan)
        try:
            with self._translated():
                yield transaction
                if not transaction.time:  # nothing was asked, but the store must be checked all the same
                    transaction.fly()
        except BaseException as trouble:
            if transaction.begun is not None:
                rollback = [Question("ROLLBACK", is_prepared=False)]
                letting_go = [] if transaction.is_rehearsal else [*rollback, *self._besides()]
                self._give_back(transaction.begun, letting_go)
                if transaction.is_rehearsal and isinstance(trouble, Exception) and not transaction.begun.closed:
                    raise Rehearsed from None  # a refusal is decided under the locks
            raise
        finally:
            transaction.has_ended = True

    def _begin(self, beginning: list[Question], transaction: PostgresTransaction, waiting: list[Question]) -> None:
        """The first flight of a transaction: it begins, takes its locks, and already asks what the caller wants."""
        facts, plan = Question(_FACTS), transaction.plan
        expected = [] if plan is None else transaction.expect(plan)
        connection = self._launch([*beginning, facts, *waiting, *expected], facts)
        transaction.begun = connection
        self._admit(transaction, connection, facts)

    def _admit(self, transaction: PostgresTransaction, connection: Connection, facts: Question) -> None:
        """Make sure that the transaction is on a store of this schema, and on the same store as earlier calls."""
        found = self._check_schema(connection, facts)
        self._replacements.check(found["epoch"])
        transaction.time = self._clock() if self._clock else found["now"]

    def _check_schema(self, connection: Connection, facts: Question) -> Row:
        (found,) = facts.rows
        try:
            self._schema.check(connection, found["version"], found["application"])
        except SchemaMismatch:
            connection.close()  # otherwise a migrating process would count this one as a user of the old schema
            raise
        return found

    def _commit(self, transaction: PostgresTransaction, connection: Connection, channel: str) -> None:
        """Send what is left with the commit, in one flight."""
        before, (commit, *after) = transaction.last_words(channel), self._ending()
        try:
            connection.fly([*before, commit, *after])
        except psycopg.Error as error:
            if not commit.is_answered:
                # The server's error before the commit is an answer too: it then skips the commit.
                answered = not connection.closed or any(each.error and each.error.sqlstate for each in before)
                connection.close()
                self._give_back(connection)
                raise translate_commit(error, self.describe(), answered) from error
        note_change()
        self._give_back(connection)

    def change_counter(self) -> int:
        # The next transaction id, which every write increases.
        return int(
            self._ask("SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS next_transaction")["next_transaction"]
        )

    def version(self) -> None:
        """Not known, because finding it out would take a round trip."""

    def is_locked(self, key: int) -> bool:
        """Whether any session holds an advisory lock on this key; False if the server does not answer."""
        try:
            return bool(self._ask("SELECT NOT pg_try_advisory_xact_lock($1::bigint) AS locked", key)["locked"])
        except StoreError:
            return False

    def _ask(self, text: str, *values: Any) -> Row:
        """The row of a query of this store's own, which needs no schema."""
        question = Question(text, values)
        self._give_back(self._launch([question]))
        return question.rows[0]

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self.describe())

    # -- connections

    def _launch(self, flight: list[Question], facts: Question | None = None) -> Connection:
        """Send the first flight on a connection, and return the connection.

        Nothing is changed by it, so a lost connection is replaced. If the schema is missing, it is created.
        """
        connection, fresh = self._borrow()
        connection.patience = self._patience
        try:
            try:
                self._depart(connection, flight)
            except (UndefinedTable, UndefinedColumn, DataError):  # a new database, or tables of another program
                if facts is None or facts.is_answered:
                    raise
            if facts is not None and (not facts.is_answered or facts.rows[0]["version"] is None):
                # The version is None while another process commits the new tables.
                connection.execute("ROLLBACK")
                self._schema.prepare(connection)
                connection.fly(flight)
            return connection
        except psycopg.Error as error:
            lost = connection.closed
            with closing(connection):
                if facts is not None and facts.is_answered and not lost:
                    connection.execute("ROLLBACK")
                    self._check_schema(connection, facts)  # another schema may explain it
            if fresh or not lost:
                raise translate(error, self.describe()) from error
        except BaseException:
            connection.close()
            raise
        self.close()  # the other idle connections are probably lost too
        return self._launch(flight, facts)

    def _depart(self, connection: Connection, flight: list[Question]) -> None:
        """Send the first flight, and the notes of this thread ahead of it.

        A note is a transaction of its own. If it fails, nothing else has happened, and the flight leaves without it.
        """
        notes, self._thread.notes = self._notes, []
        if not self._send_notes(connection, notes, flight):
            connection.fly(flight)
        else:
            for note in notes:
                note.then(note.question.rows)

    def _send_notes(self, connection: Connection, notes: list[_Note], flight: list[Question]) -> bool:
        """Whether the notes have been made, and the flight with them. Otherwise, neither has happened."""
        if not notes:
            return False
        begin, commit = Question("BEGIN", is_prepared=False), Question("COMMIT", is_prepared=False)
        questions = [note.question for note in notes]
        bells = ring([change_channel(tuple(each.text for each in questions))])
        try:
            connection.fly([begin, *questions, bells, commit, *flight])
        except psycopg.Error:
            if connection.closed or commit.is_answered:
                raise
            connection.execute("ROLLBACK")
            return False
        return True

    def _borrow(self) -> tuple[Connection, bool]:
        with self._idle_lock:
            kept = self._idle.pop()[1] if self._idle else None
        return (self._open(), True) if kept is None else (kept, False)

    def _give_back(self, connection: Connection, last_words: Sequence[Question] = ()) -> None:
        try:
            if last_words and not connection.closed:
                connection.fly(last_words)
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
        """Raise an error with the commands to run, as `backup` does.

        Every transaction of an agent reads `meta` first. So a restore that locks `meta` first cannot deadlock with
        agents at work: they finish, or wait before they hold any other lock.
        """
        import shlex

        if _is_sqlite(file):  # `conch db wipe` keeps what was there in such a file
            kept, address = shlex.quote(f"CONCH_STORE={file}"), self._address.for_programs()
            command = f"{kept} {shlex.join(['conch', 'db', 'copy', '--to', address])}"
            message = (
                "Nothing was restored. The file is an SQLite store, and this store is on PostgreSQL. As the owner of "
                "its tables, empty it with `conch db wipe` if it has been used since. Then copy the file into it:\n\n"
                f"    {command}"
            )
            raise OtherToolNeeded(message, store=self.describe(), command=command)
        with self._connected() as connection:
            owner = self._schema.other_owner(connection)
            is_there = connection.execute("SELECT 1 WHERE to_regclass(%s) IS NOT NULL", [f"{SCHEMA}.meta"]).fetchone()
        script, address = f"{file}.sql", self._address.for_programs(owner)
        lock_first = [f"--command=LOCK TABLE {SCHEMA}.meta"] if is_there else []
        once = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction"]
        writing = shlex.join(["pg_restore", "--clean", "--if-exists", f"--file={script}", file])
        command = f"{writing} && {shlex.join(['psql', *once, *lock_first, f'--file={script}', address])}"
        message = (
            "Nothing was restored. Restore a PostgreSQL store with PostgreSQL's own tools, as the owner of its tables. "
            f"They replace everything in one transaction, and running servers go on from there:\n\n    {command}"
            "\n\nThey ask for a password unless PGPASSFILE has it. `conch db verify` then checks the store."
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
            row = connection.execute(_DURABILITY).fetchone()
            return str(row["durability"]) if row else ""

    def copies(self) -> list[str]:
        """conch knows of none: the user chooses where `pg_dump` writes."""
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

    def load(self) -> None:
        self._statements.load()

    def close(self) -> None:
        with self._idle_lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()


def _is_sqlite(file: str) -> bool:
    try:
        with open(file, "rb") as opened:
            return opened.read(16) == b"SQLite format 3\0"
    except OSError:
        return False  # `pg_restore` says why it cannot be read
