"""One transaction on PostgreSQL, and how the shared statements are spelled for its driver."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from itertools import chain, count

import psycopg
from psycopg import sql

from conch.bells.base import notification
from conch.ids import lock_number
from conch.lean import Any
from conch.storage.base import DERIVED, Phrase, Row
from conch.storage.postgres.address import SCHEMA, Connection
from conch.storage.statements import expand_lists, referred_first

_RING = """
SELECT pg_notify(bell, '') FROM unnest(%(bells)s::text[], %(keys)s::bigint[]) AS rung (bell, key)
WHERE NOT pg_try_advisory_xact_lock(key)
"""
# The catalogue and not information_schema, which hides what the role has no rights on.
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY tablename"
_REFERENCES = """
SELECT own.relname AS from_table, other.relname AS to_table
FROM pg_constraint JOIN pg_class own ON own.oid = conrelid JOIN pg_class other ON other.oid = confrelid
WHERE contype = 'f' AND connamespace = %s::regnamespace
"""
_IDENTITIES = """
SELECT attname FROM pg_attribute
WHERE attrelid = format('%%I.%%I', %s::text, %s::text)::regclass AND attidentity <> '' AND NOT attisdropped
"""
# Moving a whole table takes longer between statements than a transaction may otherwise stand still.
_UNHURRIED = "SET LOCAL idle_in_transaction_session_timeout = 0"
_ROWS_AT_ONCE = 500

_PARAMETER = re.compile(r"(?<!:):(\w+)")


@cache
def spell(statement: str) -> str:
    """`:name` as the driver wants it."""
    return _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%"))


def number_parameters(statement: str) -> str:
    """`:name` as the server itself wants it, and a list of one where a list is meant."""
    names = list(dict.fromkeys(_PARAMETER.findall(statement)))
    listed = re.sub(r"\bIN (:\w+)", r"IN (\1)", statement)
    return _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", listed)


class PostgresTransaction:
    def __init__(
        self,
        connection: Connection,
        statements: Mapping[str, str],
        now: int,
        translated: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`translated` raises the driver's errors as those of this store."""
        self.connection = connection
        self._statements = statements
        self._rings: list[str] = []
        self._dumps = count(1)
        self._translated = translated
        self.now = now

    def one(self, statement: str, **parameters: Any) -> Row | None:
        return self._execute(statement, parameters).fetchone()

    def all(self, statement: str, **parameters: Any) -> list[Row]:
        return self._execute(statement, parameters).fetchall()

    def run(self, statement: str, **parameters: Any) -> int:
        return self._execute(statement, parameters).rowcount

    def match(self, phrases: Sequence[Phrase], any_of: Sequence[Phrase] = ()) -> str:
        one = [f"({' | '.join(map(_spell_phrase, any_of))})"] if any_of else []
        return " & ".join([*map(_spell_phrase, phrases), *one])

    def ring(self, *channels: str) -> None:
        self._rings.extend(channels)

    def send_rings(self) -> None:
        """Notify where a listener may be. Every commit with a notification waits for all others that have one.

        A listener holds a shared lock on its bell. Where there is none, this transaction keeps the lock to its end:
        a new listener waits for it, and then sees what it has changed.
        """
        if self._rings:
            bells = [notification(channel) for channel in self._rings]
            keys = [lock_number("bell", channel) for channel in self._rings]
            self.connection.execute(_RING, {"bells": bells, "keys": keys})

    def tables(self) -> list[str]:
        with self._translated():
            names = [name for name in self.all_tables() if not name.startswith(DERIVED)]
            references: dict[str, set[str]] = {name: set() for name in names}
            for row in self.connection.execute(_REFERENCES, [SCHEMA]):
                references[row["from_table"]].add(row["to_table"])
            return referred_first(references)

    def all_tables(self) -> list[str]:
        return [row["tablename"] for row in self.connection.execute(TABLES, [SCHEMA])]

    def dump(self, table: str) -> Iterator[Row]:
        """Through a cursor of the server's, some rows at a time: between them, and when nobody wants the rest, the
        connection is free for other words, above all for a ROLLBACK."""
        cursor = sql.Identifier(f"dump_{next(self._dumps)}")
        rows = sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))
        fetching = sql.SQL("FETCH {} FROM {}").format(_ROWS_AT_ONCE, cursor)
        with self._translated():
            self.connection.execute(_UNHURRIED)
            self.connection.execute(sql.SQL("DECLARE {} NO SCROLL CURSOR FOR {}").format(cursor, rows), prepare=False)
            while page := self.connection.execute(fetching, prepare=False).fetchall():
                yield from page
            self.connection.execute(sql.SQL("CLOSE {}").format(cursor), prepare=False)

    def load(self, table: str, rows: Iterable[Row]) -> None:
        name, remaining = sql.Identifier(table), iter(rows)
        with self._translated():
            self.connection.execute(_UNHURRIED)
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

    def _execute(self, statement: str, parameters: dict[str, Any]) -> psycopg.Cursor[Row]:
        expanded, flat = expand_lists(self._statements[statement], parameters)
        return self.connection.execute(spell(expanded), flat)


def _spell_phrase(phrase: Phrase) -> str:
    """One word after the other, or just all of them where the index has lost count of a word's places."""
    words = [f"'{word}'" for word in phrase.words]
    words[-1] += ":*" if phrase.is_prefix else ""
    if len(words) == 1:
        return words[0]
    return f"(({' <-> '.join(words)}) | ({' & '.join(words)} & 'has-repeats'))"
