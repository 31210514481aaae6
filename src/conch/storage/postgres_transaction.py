"""One transaction on PostgreSQL, and how the shared statements are spelled for its driver."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import psycopg
from psycopg import sql

from conch.bells.postgres import advisory_key, notification
from conch.storage.base import DERIVED, Phrase, Row
from conch.storage.postgres_address import SCHEMA, Connection
from conch.storage.statements import expand_lists, referred_first

RING = """
SELECT pg_notify(bell, '') FROM unnest(%(bells)s::text[], %(keys)s::bigint[]) AS rung (bell, key)
WHERE NOT pg_try_advisory_xact_lock(key)
"""
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY table_name"
REFERENCES = """
SELECT own.relname AS from_table, other.relname AS to_table
FROM pg_constraint JOIN pg_class own ON own.oid = conrelid JOIN pg_class other ON other.oid = confrelid
WHERE contype = 'f' AND connamespace = %s::regnamespace
"""
IDENTITIES = """
SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s AND is_identity = 'YES'
"""


@cache
def spell(statement: str) -> str:
    """`:name` as the driver wants it."""
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", statement.replace("%", "%%"))


class PostgresTransaction:
    def __init__(self, connection: Connection, statements: Mapping[str, str], now: int) -> None:
        self.connection = connection
        self._statements = statements
        self._rings: list[str] = []
        self.now = now

    def one(self, statement: str, **parameters: Any) -> Row | None:
        return self._execute(statement, parameters).fetchone()

    def all(self, statement: str, **parameters: Any) -> list[Row]:
        return self._execute(statement, parameters).fetchall()

    def run(self, statement: str, **parameters: Any) -> int:
        return self._execute(statement, parameters).rowcount

    def match(self, phrases: Sequence[Phrase]) -> str:
        return " & ".join(map(_spell_phrase, phrases))

    def ring(self, *channels: str) -> None:
        self._rings.extend(channels)

    def send_rings(self) -> None:
        """Notify where somebody may listen. Every commit with a notification waits for all others that have one.

        A listener holds a shared lock on its bell. Where there is none, this transaction keeps the lock to its end:
        whoever begins to listen meanwhile waits for it, and then sees what it has changed.
        """
        if self._rings:
            bells = [notification(channel) for channel in self._rings]
            keys = [advisory_key("bell", channel) for channel in self._rings]
            self.connection.execute(RING, {"bells": bells, "keys": keys})

    def tables(self) -> list[str]:
        names = [name for name in self.all_tables() if not name.startswith(DERIVED)]
        references: dict[str, set[str]] = {name: set() for name in names}
        for row in self.connection.execute(REFERENCES, [SCHEMA]):
            references[row["from_table"]].add(row["to_table"])
        return referred_first(references)

    def all_tables(self) -> list[str]:
        return [row["table_name"] for row in self.connection.execute(TABLES, [SCHEMA])]

    def dump(self, table: str) -> Iterator[Row]:
        with self.connection.cursor() as cursor:
            yield from cursor.stream(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))

    def load(self, table: str, rows: Iterable[Row]) -> None:
        name = sql.Identifier(table)
        for row in rows:
            columns = sql.SQL(", ").join(map(sql.Identifier, row))
            places = sql.SQL(", ").join(map(sql.Placeholder, row))
            self.connection.execute(sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(name, columns, places), row)
        for column in self.connection.execute(IDENTITIES, [SCHEMA, table]).fetchall():
            number = sql.Identifier(column["column_name"])
            last = sql.SQL("SELECT setval(pg_get_serial_sequence({}, {}), max({})) FROM {}")
            self.connection.execute(last.format(f"{SCHEMA}.{table}", column["column_name"], number, name))

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
