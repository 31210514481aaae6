"""One transaction on SQLite: how it begins and ends, and what runs inside."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from conch.calls import note_change
from conch.lean import Any
from conch.storage.base import DERIVED, NOW, Check, Phrase, Row
from conch.storage.sqlite import sqlite3
from conch.storage.sqlite.errors import CommitFailed
from conch.storage.statements import expand_lists, referred_first

_MOST_ENDINGS = 200  # words with the same prefix that a search lists one by one
_LAST_CHARACTER = "\U0010ffff"


class transaction:  # noqa: N801 - used like a function
    """The only place that begins, commits and rolls back. KeyboardInterrupt rolls back too.

    Every call comes here, so it is a class: a generator would take four times as long.
    """

    __slots__ = ("_begin", "_connection", "_execute")

    def __init__(self, connection: sqlite3.Connection, begin: str, cursor: sqlite3.Cursor | None = None) -> None:
        """With a `cursor`, no new one is made. The end of the transaction also ends a read that the cursor has open."""
        self._connection = connection
        self._begin = begin
        self._execute = (cursor or connection).execute

    def __enter__(self) -> None:
        try:
            self._execute(self._begin)
        except BaseException:  # an interrupt may come right after it
            self._roll_back()
            raise

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is not None:
                return
            if self._begin != "BEGIN":
                self._commit_change()
            elif self._connection.in_transaction:
                self._execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._roll_back()

    def _roll_back(self) -> None:
        """Roll back, unless it was committed."""
        if self._connection.in_transaction:
            self._execute("ROLLBACK")

    def _commit_change(self) -> None:
        try:
            self._execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_IOERR:
                raise CommitFailed(str(error)) from error
            raise
        note_change()


def as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> Row:
    return dict(zip(_names(cursor), row, strict=True))


def _names(cursor: sqlite3.Cursor) -> tuple[str, ...]:
    """The names of the columns: the first item of each description, and the only one that the driver fills in."""
    return next(zip(*cursor.description, strict=True))


class SqliteTransaction:
    __slots__ = ("_columns", "_cursor", "_statements", "_translated", "called", "has_ended", "heard", "now", "rings")

    def __init__(
        self,
        cursor: sqlite3.Cursor,
        statements: dict[str, str],
        now: int,
        translated: Callable[[], AbstractContextManager[None]],
        columns: dict[str, tuple[str, ...]],
    ) -> None:
        """`cursor` serves one statement after the other, because a new one costs more than most statements.

        `translated` turns the driver's errors into this store's errors.
        `columns` collects the names of the columns of each statement. They change only with the schema.
        """
        self._cursor = cursor
        self._statements = statements
        self.now = now
        self._translated = translated
        self._columns = columns
        self.rings: list[str] = []
        self.called: str | None = None
        self.heard = False
        self.has_ended = False

    def one(self, statement: str, **parameters: Any) -> Row | None:
        cursor = self._execute(statement, parameters)
        row = cursor.fetchone()
        return None if row is None else dict(zip(self._names(statement, cursor), row, strict=True))

    def all(self, statement: str, **parameters: Any) -> list[Row]:
        cursor = self._execute(statement, parameters)
        rows = cursor.fetchall()
        if not rows:
            return []
        names = self._names(statement, cursor)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _names(self, statement: str, cursor: sqlite3.Cursor) -> tuple[str, ...]:
        names = self._columns.get(statement)
        if names is None:
            names = self._columns[statement] = _names(cursor)
        return names

    def ahead(self, statement: str, **parameters: Any) -> bool:
        """Does nothing: here no query is far away."""
        return False

    def expect_hearing(self) -> bool:
        """Does nothing: finding out takes time, and no other process could write meanwhile."""
        return False

    def hears(self, channel: str) -> bool | None:
        return None

    def run(self, statement: str, **parameters: Any) -> None:
        self._execute(statement, parameters)

    def count(self, statement: str, **parameters: Any) -> int:
        return self._execute(statement, parameters).rowcount

    def last(self, statement: str, **parameters: Any) -> Callable[[], list[Row]]:
        rows = self.all(statement, **parameters)
        return lambda: rows

    def match(self, phrases: Sequence[Phrase], any_of: Sequence[Phrase] = ()) -> str:
        one = [f"({' OR '.join(map(self._spell, any_of))})"] if any_of else []
        return " AND ".join([*map(self._spell, phrases), *one])

    def _spell(self, phrase: Phrase) -> str:
        """A phrase for FTS5. Listing a few words with the prefix is faster than a prefix query."""
        *before, last = phrase.words
        if not phrase.is_prefix:
            return _quoted(phrase.words)
        rows = self.all("words_that_begin", start=last, end=last + _LAST_CHARACTER, most=_MOST_ENDINGS + 1)
        if not rows or len(rows) > _MOST_ENDINGS:
            return _quoted(phrase.words) + " *"
        return f"({' OR '.join(_quoted([*before, row['term']]) for row in rows)})"

    def ring(self, *channels: str) -> None:
        self.rings.extend(channels)

    def call(self, channel: str) -> None:
        self.called = channel
        self.rings.insert(0, channel)

    def lock(self, name: str) -> None:
        """Does nothing: SQLite has one writer at a time."""

    def take_time(self) -> None:
        """Does nothing: SQLite limits only the wait for its lock."""

    def tables(self) -> list[str]:
        with self._translated():
            names = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            tables = [row["name"] for row in names if not row["name"].startswith(("sqlite_", DERIVED))]
            foreign_keys = {name: self._connection.execute(f"PRAGMA foreign_key_list('{name}')") for name in tables}
            return referred_first({name: {row["table"] for row in keys} for name, keys in foreign_keys.items()})

    def dump(self, table: str) -> Iterator[Row]:
        with self._translated():
            yield from self._connection.execute(f'SELECT * FROM "{table}"')

    def load(self, table: str, rows: Iterable[Row]) -> None:
        with self._translated():
            for row in rows:
                columns, places = ", ".join(f'"{name}"' for name in row), ", ".join(f":{name}" for name in row)
                self._connection.execute(f'INSERT INTO "{table}" ({columns}) VALUES ({places})', row)

    def scan(self, check: Check, **parameters: Any) -> Generator[Row, None, None]:
        with self._translated():
            yield from self._connection.execute(check.query, parameters)

    def _execute(self, statement: str, parameters: dict[str, Any]) -> sqlite3.Cursor:
        if self.has_ended:
            raise RuntimeError(f"{statement} was asked for after its transaction.")
        if parameters.get("now") is NOW:
            parameters["now"] = self.now
        sql, flat = expand_lists(self._statements[statement], parameters)
        return self._cursor.execute(sql, flat)

    @property
    def _connection(self) -> sqlite3.Connection:
        """For statements that are not named: these read their rows some at a time, so they need their own cursors."""
        return self._cursor.connection


def _quoted(words: Sequence[str]) -> str:
    return f'"{" ".join(words)}"'
