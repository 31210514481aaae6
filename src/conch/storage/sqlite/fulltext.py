"""The full-text index of a SQLite store as a whole: checking it, and emptying it even if it is damaged.

FTS5 keeps an index in tables of its own. It cannot work with them once they contradict each other, but plain statements
can read and write them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import zip_longest

from conch.storage.base import DERIVED
from conch.storage.sqlite import sqlite3

_INDEX = f"{DERIVED}words"
OWN_TABLES = f"{_INDEX}_"
"""The prefix of the tables that hold the index."""
_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, :length) = :start"
# A leaf is a page of words. Its id is the number of its segment, then 37 bits of which the lower 31 are its place.
_LEAVES = f"""
SELECT id >> 37 AS segment, id & 0x7fffffff AS place, length(block) AS length, substr(block, 3, 2) AS words_end
FROM {_INDEX}_data WHERE id >> 37 > 0 AND (id >> 31) & 0x3f = 0 ORDER BY id
"""
_DIRECTORY = f"SELECT segid AS segment, pgno >> 1 AS place FROM {_INDEX}_idx ORDER BY segid, term"
_DEFINITION = "SELECT sql FROM sqlite_master WHERE name = :name"


def find_contradiction(connection: sqlite3.Connection) -> str | None:
    """What is wrong with the tables of the index; None if they are sound."""
    return _compare_directory(connection) or _ask_fts5(connection)


def _compare_directory(connection: sqlite3.Connection) -> str | None:
    """Whether the directory lists exactly the leaves on which a word begins. FTS5 looks only at what is listed."""
    leaves = (
        (leaf["segment"], leaf["place"])
        for leaf in connection.execute(_LEAVES)
        if leaf["length"] > int.from_bytes(leaf["words_end"], "big")  # a list of where words begin follows, if any does
    )
    listed = ((entry["segment"], entry["place"]) for entry in connection.execute(_DIRECTORY))
    differs = any(leaf != entry for leaf, entry in zip_longest(leaves, listed))
    return "the directory does not list exactly the pages that exist" if differs else None


def _ask_fts5(connection: sqlite3.Connection) -> str | None:
    """Run the check of FTS5 in a copy, because it counts as a change. A large copy lies on the disk."""
    with _new_index(connection) as copy:
        for table in _own_tables(copy):
            _refill(copy, table, connection)
        try:
            copy.execute(f"INSERT INTO {_INDEX} ({_INDEX}) VALUES ('integrity-check')")
        except sqlite3.DatabaseError as error:
            return str(error)
    return None


def empty_index(connection: sqlite3.Connection) -> None:
    """Give the index the rows of a new one. If the connection has used the index before, it must not use it again."""
    with _new_index(connection) as new:
        for table in _own_tables(new):
            _refill(connection, table, new)


@contextmanager
def _new_index(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """An empty index of the same kind, in a database that exists only as long as its connection."""
    with closing(sqlite3.connect("", isolation_level=None)) as scratch:
        scratch.execute(connection.execute(_DEFINITION, {"name": _INDEX}).fetchone()["sql"])
        yield scratch


def _own_tables(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute(_NAMES, {"length": len(OWN_TABLES), "start": OWN_TABLES})]


def _refill(target: sqlite3.Connection, table: str, source: sqlite3.Connection) -> None:
    target.execute(f"DELETE FROM {table}")
    rows = source.cursor()
    rows.row_factory = None
    rows.execute(f"SELECT * FROM {table}")
    places = ", ".join("?" * len(rows.description))
    target.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
