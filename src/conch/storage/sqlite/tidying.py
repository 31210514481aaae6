"""Empties a store, and gives space back to the disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from conch.storage.sqlite import sqlite3
from conch.storage.sqlite.files import forget_loss
from conch.storage.sqlite.fulltext import OWN_TABLES, empty_index
from conch.storage.sqlite.lending import Turn


def delete_rows(connection: sqlite3.Connection) -> None:
    """Delete all rows, except those of `meta`."""
    connection.execute("PRAGMA defer_foreign_keys = ON")  # so that the tables can be emptied in any order
    for statement in list(_deletions(connection)):
        connection.execute(statement)
    empty_index(connection)
    forget_loss(connection)


def _deletions(connection: sqlite3.Connection) -> Iterator[str]:
    """The statements that delete all rows, except those of `meta` and of the tables that hold the full-text index."""
    for row in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
        name, is_own = row["name"], not row["sql"].startswith("CREATE VIRTUAL")
        if is_own and name != "meta" and not name.startswith(OWN_TABLES):
            yield f'DELETE FROM "{name}"'


def cut_off_wal(connection: sqlite3.Connection, queued: Callable[[], Turn], busy_timeout_ms: int) -> bool:
    """Move all of `-wal` into the store's file. Returns whether that was possible.

    Readers that began before must finish first. Most do so in a moment. Most of the work is done while others
    write. They wait only for the rest, and never for a reader.
    """
    deadline = time.monotonic() + busy_timeout_ms / 1_000
    while True:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        with queued():
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()["busy"]
            finally:
                connection.execute(f"PRAGMA busy_timeout = {busy_timeout_ms}")
        if not is_busy or time.monotonic() > deadline:
            return not is_busy
        time.sleep(0.02)
