"""What is done with a whole SQLite file: copying and emptying it, and running a migration."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator

from conch.errors import StoreError
from conch.storage.sqlite.errors import translate


def emptying(connection: sqlite3.Connection) -> Iterator[str]:
    """What forgets every row but those of `meta`. A full-text index empties itself, and the tables beneath it."""
    tables = {row["name"]: row["sql"] for row in connection.execute("SELECT * FROM sqlite_master WHERE type = 'table'")}
    indexes = [name for name, sql in tables.items() if "USING fts5 " in sql]
    views = [name for name, sql in tables.items() if "USING fts5vocab " in sql]
    for name in [name for name in tables if name not in views]:
        if name in indexes:
            yield f"INSERT INTO {name} ({name}) VALUES ('delete-all')"
        elif name != "meta" and not any(name.startswith(f"{index}_") for index in indexes):
            yield f'DELETE FROM "{name}"'


def copy(connection: sqlite3.Connection, target: str) -> None:
    """SQLite's own online backup, into a private file that did not exist before."""
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise _no_copy(error, target) from error
    copy = sqlite3.connect(target)
    try:
        connection.backup(copy)
    except sqlite3.Error as error:
        os.unlink(target)  # half a copy is worse than none
        raise _no_copy(error, target) from error
    finally:
        copy.close()


def _no_copy(error: sqlite3.Error | OSError, target: str) -> StoreError:
    """What is said of the copy must not be mistaken for something wrong with the store."""
    refusal = translate(error, target, "FILE")
    return type(refusal)(f"No copy was made. {refusal.message}", **refusal.details, field="file")


def stamp() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def split(script: str) -> Iterator[str]:
    """Single statements: `executescript` would commit the transaction it finds."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
