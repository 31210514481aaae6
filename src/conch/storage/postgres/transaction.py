"""One transaction on PostgreSQL, and the translation of shared statements for its driver."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, lru_cache
from itertools import chain, count

from psycopg import sql

from conch.bells.base import notification
from conch.clock import Clock
from conch.ids import lock_number
from conch.lean import Any, NamedTuple
from conch.storage.base import DERIVED, NOW, Check, Phrase, Row
from conch.storage.postgres.connection import SCHEMA, Connection, Question
from conch.storage.postgres.rehearsal import Plan, Rehearsed, drawn_number, is_read, normalise
from conch.storage.statements import expand_lists, referred_first

_RING = """SELECT bell, pg_notify(bell, '') FROM (VALUES {}) AS rung (bell, key)
WHERE NOT pg_try_advisory_xact_lock(key)
"""
_SERVER_TIME = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
# Not information_schema, which hides tables that the role has no rights on.
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY tablename"
_REFERENCES = """
SELECT own.relname AS from_table, other.relname AS to_table
FROM pg_constraint JOIN pg_class own ON own.oid = conrelid JOIN pg_class other ON other.oid = confrelid
WHERE contype = 'f' AND connamespace = %s::regnamespace
"""
_IDENTITIES = """
SELECT attname FROM pg_attribute
WHERE attrelid = format('%%I.%%I', %s::text, %s::text)::regclass AND attidentity <> '' AND NOT attisdropped
"""
# While a whole table is read, a transaction can be idle, and a query can run, for longer than is otherwise allowed.
_UNHURRIED = "SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0"
_ROWS_AT_ONCE = 500
_MOST_WAITING = 200  # statements in a flight; a long import must not fill the memory

_PARAMETER = re.compile(r"(?<!:):(\w+)")


@cache
def spell(statement: str) -> str:
    """A statement with `:name` parameters in the driver's form, `%(name)s`."""
    return _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%"))


class _Spelled(NamedTuple):
    text: str
    names: tuple[str, ...]


@cache
def _number(statement: str) -> _Spelled:
    """A statement with `:name` parameters in the server's form, `$1`, and the names in the order of the numbers."""
    names = list(dict.fromkeys(_PARAMETER.findall(statement)))
    return _Spelled(_PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement), tuple(names))


@cache
def _at_server_time(statement: str) -> str:
    return re.sub(r":now\b", _SERVER_TIME, statement)


def ask(statements: Mapping[str, str], statement: str, parameters: Mapping[str, Any]) -> Question:
    """The named statement with its parameters, for a flight. If `now` is None, the server's clock is used."""
    text = statements[statement]
    if parameters.get("now", 0) is None:
        text = _at_server_time(text)
    expanded, flat = expand_lists(text, dict(parameters))
    text, names = _number(expanded)
    return Question(text, [flat[name] for name in names])


def _key(statement: str, parameters: dict[str, Any]) -> str:
    return f"{statement} {sorted(parameters.items())}"


# A process uses the same few names again and again.
_number_lock = lru_cache(maxsize=1_000)(lock_number)
_name_bell = lru_cache(maxsize=1_000)(notification)


def lock(name: str) -> Question:
    return Question("SELECT pg_advisory_xact_lock($1::bigint)", [_number_lock("write", name)])


def lock_if(unchanged: str, facts: str, names: Sequence[str]) -> Question:
    """Take these locks if the store is `unchanged`, all in one statement.

    `unchanged` is the number 1 if the parameter $1 has the right `facts`, else an error.
    """
    return Question(_locking(unchanged, len(names)), [facts, *(_number_lock("write", name) for name in names)])


@cache
def _locking(unchanged: str, count: int) -> str:
    """CASE keeps the order: the server evaluates a branch only once it needs it."""
    then = "1"
    for number in range(count + 1, 1, -1):
        then = f"CASE WHEN pg_advisory_xact_lock(${number}::bigint) IS NOT NULL THEN {then} END"
    return f"SELECT CASE WHEN {unchanged} = 1 THEN {then} END"


def ring(channels: Sequence[str]) -> Question:
    """Notify only channels that may have a listener, because commits with notifications wait for each other.

    A listener holds a shared lock on its channel. If there is none, this transaction holds the lock until it ends.
    A new listener waits for that, and then sees the change.
    """
    pairs = [(_name_bell(channel), _number_lock("bell", channel)) for channel in channels]
    return Question(_ringing(len(pairs)), [*chain.from_iterable(pairs)])


@cache
def _ringing(count: int) -> str:
    """The query that rings this many channels. An array would take longer to unpack than all the rest."""
    pairs = (f"(${2 * number + 1}::text, ${2 * number + 2}::bigint)" for number in range(count))
    return _RING.format(", ".join(pairs))


def _is_asked(question: Question) -> bool:
    """Whether a rehearsal sends this. It uses a stand-in for a number from a sequence, so that no number is lost."""
    column = drawn_number(question.text)
    if column is not None:
        question.rows, question.is_answered = [{column: 0}], True
    return column is None


class PostgresTransaction:
    """It begins with its first flight. Changes, and rows to fetch ahead, wait for the next read or the end."""

    def __init__(
        self,
        statements: Mapping[str, str],
        begin: Callable[[PostgresTransaction, list[Question]], None],
        translated: Callable[[], AbstractContextManager[None]],
        clock: Clock | None = None,
        plan: Plan | None = None,
    ) -> None:
        """`begin` sends the first flight and sets `time`. If more flights can follow, it also sets `begun`.

        `translated` turns the driver's errors into this store's errors. `clock` tells the time instead of the server.
        """
        self._statements = statements
        self._begin = begin
        self.begun: Connection | None = None
        self.time = 0
        self._waiting: list[Question] = []
        self._ahead: dict[str, Question] = {}
        self._expected: dict[str, list[Question]] = {}
        """What the plan has fetched: one answer for each time that the rehearsal asked."""
        self._clock = clock
        self.plan = plan
        self.is_rehearsal = False
        """It has let go of its locks, and will not be committed."""
        self._expects_hearing = False
        self._listened: set[int] | None = None
        self._rings: list[str] = []
        self._called: str | None = None
        self._ringing: Question | None = None
        self._dumps = count(1)
        self._has_time = False
        self._translated = translated
        self.has_ended = False

    @property
    def now(self) -> int:
        if not self.time:
            self.fly()
        return self.time

    @property
    def connection(self) -> Connection:
        """For statements that travel alone, after all that has been asked before."""
        if self.begun is None or self._waiting:
            self.fly()
        assert self.begun is not None
        return self.begun

    def one(self, statement: str, **parameters: Any) -> Row | None:
        return next(iter(self.all(statement, **parameters)), None)

    def all(self, statement: str, **parameters: Any) -> list[Row]:
        question = self._find_fetched(statement, parameters)
        if self.plan is not None:
            self._note(self.plan, statement, parameters)
        if question is None:
            question = self._await(statement, parameters)
        if not question.is_answered:
            self._fly_for(statement)
        return question.rows

    def _find_fetched(self, statement: str, parameters: dict[str, Any]) -> Question | None:
        if not self._ahead and self.plan is None:
            return None
        key = _key(statement, normalise(parameters, self.time))
        question = self._ahead.pop(key, None)
        if question is None and self.plan is not None and not self.plan.depends(statement):
            expected = self._expected.get(key)
            question = expected.pop() if expected else None
        return question

    def ahead(self, statement: str, **parameters: Any) -> bool:
        key = _key(statement, normalise(parameters, self.time))
        if key not in self._ahead and not self._expected.get(key):
            self._ahead[key] = self._await(statement, parameters)
        return True

    def run(self, statement: str, **parameters: Any) -> None:
        if self.plan is not None and self.begun is not None:
            self.plan.note_change(statement)
        self._await(statement, parameters)
        if len(self._waiting) >= _MOST_WAITING and not self.is_rehearsal:
            self.fly()

    def count(self, statement: str, **parameters: Any) -> int:
        question = self._await(statement, parameters)
        self._fly_for(statement)
        return question.count

    def last(self, statement: str, **parameters: Any) -> Callable[[], list[Row]]:
        question = self._await(statement, parameters)
        return lambda: question.rows

    def _note(self, plan: Plan, statement: str, parameters: dict[str, Any]) -> None:
        if plan.is_read(statement):
            plan.note_read(statement, parameters, self.time)
        else:
            plan.note_change(statement)

    def _await(self, statement: str, parameters: dict[str, Any]) -> Question:
        if self.has_ended:
            raise RuntimeError(f"{statement} was asked for after its transaction.")
        if parameters.get("now") is NOW:
            parameters = {**parameters, "now": self.time or (self._clock() if self._clock else None)}
        question = ask(self._statements, statement, parameters)
        self._waiting.append(question)
        return question

    def expect(self, plan: Plan) -> list[Question]:
        """What the rehearsals have shown: the locks, and then what they protect."""
        known = set() if plan.locks else set(self._ahead)  # what is fetched already comes before these locks
        for statement, parameters in plan.reads:
            key = _key(statement, parameters)
            if key in known:
                known.remove(key)
            else:
                self._expected.setdefault(key, []).append(self._await(statement, parameters))
        reads, self._waiting = self._waiting, []
        return [*map(lock, plan.locks), *reads]

    def _fly_for(self, statement: str) -> None:
        """Send all that waits, because the answer to this statement is needed."""
        plan = self.plan
        if plan is None or self.begun is None or not (self.is_rehearsal or plan.can_rehearse(statement)):
            self.fly()
            return
        if not plan.is_read(statement):  # only making a change shows what it answers
            raise Rehearsed
        waiting, self._waiting = self._waiting, []
        reads = [question for question in waiting if is_read(question.text)]
        letting_go = [] if self.is_rehearsal else [Question("ROLLBACK", is_prepared=False)]
        self.is_rehearsal = True
        self.begun.fly([*letting_go, *filter(_is_asked, reads)])

    def fly(self) -> None:
        """Send all that waits."""
        if self.has_ended:
            raise RuntimeError("Rows were read after their transaction.")
        waiting, self._waiting = self._waiting, []
        if self.begun is None:
            self._begin(self, waiting)
        else:
            self.begun.fly(waiting)

    def last_words(self, channel: str) -> list[Question]:
        """What still has to be sent, with the commit. `channel` is rung after all others."""
        waiting, self._waiting = self._waiting, []
        self._ringing = ring([*self._rings, channel])
        return [*waiting, self._ringing]

    def match(self, phrases: Sequence[Phrase], any_of: Sequence[Phrase] = ()) -> str:
        one = [f"({' | '.join(map(_spell_phrase, any_of))})"] if any_of else []
        return " & ".join([*map(_spell_phrase, phrases), *one])

    def ring(self, *channels: str) -> None:
        self._rings.extend(channels)

    def call(self, channel: str) -> None:
        self._called = channel
        self._rings.insert(0, channel)

    @property
    def heard(self) -> bool:
        rung = self._ringing.rows if self._ringing else []
        return self._called is not None and notification(self._called) in {row["bell"] for row in rung}

    def expect_hearing(self) -> bool:
        self._expects_hearing = self.ahead("listened_bells")
        return True

    def hears(self, channel: str) -> bool | None:
        if not self._expects_hearing:
            return None
        if self._listened is None:
            self._listened = {row["bell"] for row in self.all("listened_bells")}
        return _number_lock("bell", channel) in self._listened

    def lock(self, name: str) -> None:
        if self.plan is not None:
            self.plan.note_lock(name)
        if not self.is_rehearsal:
            self._waiting.append(lock(name))

    def take_time(self) -> None:
        if not self._has_time:
            self.connection.take_time()
            self.connection.execute(_UNHURRIED)
            self._has_time = True

    def tables(self) -> list[str]:
        with self._translated():
            names = [name for name in self.all_tables() if not name.startswith(DERIVED)]
            references: dict[str, set[str]] = {name: set() for name in names}
            for row in self.connection.execute(_REFERENCES, [SCHEMA]):
                references[row["from_table"]].add(row["to_table"])
            return referred_first(references)

    def all_tables(self) -> list[str]:
        return [row["tablename"] for row in self.connection.execute(_TABLES, [SCHEMA])]

    def dump(self, table: str) -> Iterator[Row]:
        with self._translated():
            self.take_time()
            yield from self._fetch(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)), {})

    def scan(self, check: Check, **parameters: Any) -> Generator[Row, None, None]:
        with self._translated():
            self.take_time()  # a savepoint that is rolled back would take it away again
            with self.connection.transaction():  # an error would otherwise end the whole transaction
                yield from self._fetch(sql.SQL(spell(check.query)), parameters)

    def _fetch(self, query: sql.Composable, parameters: Mapping[str, Any]) -> Iterator[Row]:
        """Read with a server-side cursor, some rows at a time.

        The connection stays free for other statements in between, above all for a ROLLBACK.
        """
        cursor = sql.Identifier(f"dump_{next(self._dumps)}")
        declaring = sql.SQL("DECLARE {} NO SCROLL CURSOR FOR {}").format(cursor, query)
        fetching = sql.SQL("FETCH {} FROM {}").format(_ROWS_AT_ONCE, cursor)
        self.connection.execute(declaring, parameters or None, prepare=False)
        is_full = True
        while is_full:
            page = self.connection.execute(fetching, prepare=False).fetchall()
            is_full = len(page) == _ROWS_AT_ONCE
            yield from page
        self.connection.execute(sql.SQL("CLOSE {}").format(cursor), prepare=False)

    def load(self, table: str, rows: Iterable[Row]) -> None:
        name, remaining = sql.Identifier(table), iter(rows)
        with self._translated():
            self.take_time()
            if first := next(remaining, None):
                columns = sql.SQL(", ").join(map(sql.Identifier, first))
                copying = sql.SQL("COPY {} ({}) FROM STDIN").format(name, columns)
                with self.connection.cursor() as cursor, cursor.copy(copying) as copy:
                    for row in chain([first], remaining):
                        copy.write_row([row[column] for column in first])
            for column in self.connection.execute(_IDENTITIES, [SCHEMA, table]).fetchall():
                number = sql.Identifier(column["attname"])
                last = sql.SQL("SELECT setval(pg_get_serial_sequence({}, {}), max({})) FROM {}")
                self.connection.execute(last.format(f"{SCHEMA}.{table}", column["attname"], number, name))

    def truncate(self, tables: list[str]) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, tables))
        self.connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(names))


def _spell_phrase(phrase: Phrase) -> str:
    """The words in sequence. A text marked `has-repeats` lacks some positions, so there any order will do."""
    words = [f"'{word}'" for word in phrase.words]
    words[-1] += ":*" if phrase.is_prefix else ""
    if len(words) == 1:
        return words[0]
    return f"(({' <-> '.join(words)}) | ({' & '.join(words)} & 'has-repeats'))"
