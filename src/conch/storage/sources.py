"""Reads the database file of another program without changing it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from conch.errors import InvalidArgument, StoreBusy, StoreCorrupt
from conch.storage.base import Row
from conch.storage.sqlite import DRIVER_ERRORS, sqlite3

_SIDES = ("", "-wal", "-journal")  # a log beside the file may hold its newest changes
_TRIES = 3
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"


class Source:
    """The tables of another program. A missing table has no rows, and every text is valid UTF-8."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self.path = path
        self.tables = {str(row["name"]) for row in connection.execute(_TABLES)}

    def rows(self, table: str, order: str = "", **where: object) -> Iterator[Row]:
        """The rows with these values. `table`, `order` and the names of the values are ours, not the file's."""
        if table not in self.tables:
            return
        wanted = " AND ".join(f'"{column}" = :{column}' for column in where) or "1"
        query = f'SELECT * FROM "{table}" WHERE {wanted}' + (f" ORDER BY {order}" if order else "")
        yield from self._connection.execute(query, where)


def require_file(path: str) -> None:
    """InvalidArgument unless it is a regular file that this user can read. SQLite would wait for a pipe."""
    try:
        kind = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidArgument(f"There is no file {path}.", field="file") from None
    except OSError as error:  # such as a folder on the way that this user cannot enter
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}.", field="file") from None
    if not stat.S_ISREG(kind):
        raise InvalidArgument(f"{path} is not a regular file.", field="file")
    if not os.access(path, os.R_OK):
        raise InvalidArgument(f"{path} cannot be read by this user. Make it readable.", field="file")


@contextmanager
def open_source(path: str) -> Iterator[Source]:
    """Open a copy of the file, with the log beside it. StoreCorrupt if it is damaged or is not a database.

    SQLite keeps the log beside the file that a link leads to.
    """
    import tempfile  # slow to import, and only needed here

    require_file(path)
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="conch-import-"))
            copy = os.path.join(folder, "copy")
            _copy(os.path.realpath(path), copy)
        except OSError as error:
            message = f"{path} could not be copied to a temporary folder, where conch reads it: {error.strerror}."
            raise InvalidArgument(message, field="file") from error
        try:
            with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
                _prepare(connection, path)
                yield Source(connection, path)
        except DRIVER_ERRORS as error:
            raise _damaged(path, str(error)) from error


def _copy(path: str, copy: str) -> None:
    """Copy the file and its log as they were at one moment."""
    import shutil

    for _ in range(_TRIES):
        before = _stamps(path)
        for side in _SIDES:
            if before[side] is not None:
                require_file(path + side)
                shutil.copyfile(path + side, copy + side)
        if _stamps(path) == before:
            return
        for side in _SIDES[1:]:
            if os.path.exists(copy + side):
                os.remove(copy + side)
    raise StoreBusy(f"Another program keeps changing {path}. Stop it, and try again.", path=path)


def _stamps(path: str) -> dict[str, tuple[int, int, int] | None]:
    """The identity, size and time of each file, to see whether one has changed."""
    found: dict[str, tuple[int, int, int] | None] = {}
    for side in _SIDES:
        try:
            facts = os.stat(path + side)
            found[side] = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
        except FileNotFoundError:
            found[side] = None
    return found


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    connection.row_factory = _as_row
    connection.text_factory = _as_text
    connection.execute("PRAGMA trusted_schema = OFF")  # the schema is the other program's
    problem = str(next(iter(connection.execute("PRAGMA quick_check(1)")))["quick_check"])
    if problem != "ok":
        raise _damaged(path, problem)
    connection.execute("PRAGMA query_only = ON")


def _as_row(cursor: sqlite3.Cursor, row: tuple[object, ...]) -> Row:
    return {str(column[0]): value for column, value in zip(cursor.description, row, strict=True)}


def _as_text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _damaged(path: str, problem: str) -> StoreCorrupt:
    message = f"{path} is damaged or is not a database of this kind ({problem}). The import ended there."
    return StoreCorrupt(message, path=path, field="file")
