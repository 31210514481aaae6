"""Tells a conch store from a file of another program, before anything is changed: the file, its mode, its folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from conch.errors import ForeignStore, StoreCorrupt
from conch.storage.sqlite import DRIVER_ERRORS, sqlite3
from conch.storage.sqlite.headers import Header
from conch.storage.statements import are_ours

APPLICATION_ID = int.from_bytes(b"conc", "big")
_ID = slice(68, 72)  # where the header of the file has the number of `PRAGMA application_id`
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"


def require_own_file(path: str, named: str) -> None:
    """ForeignStore if the file at a path is another program's, StoreCorrupt if it seems to be a damaged store.

    `named` is the setting or option that gave the path. A missing or an empty file is nobody's yet.
    """
    try:
        file = Header(path)
    except FileNotFoundError:
        return
    try:
        _require_conch(file, path, named)
    finally:
        file.close()


def _require_conch(file: Header, path: str, named: str) -> None:
    header = file.read(_HEADER_BYTES)
    if not header or header[_ID] == APPLICATION_ID.to_bytes(4, "big"):
        return
    if not header.startswith(_MAGIC):
        # Every store that was ever opened has this file beside it.
        raise _damaged(path, named) if os.path.exists(f"{path}.users") else _no_database(path, named)
    if any(header[_ID]):
        raise foreign(path, named)
    try:
        with _looked_at(file, path) as connection:
            found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            marks = [connection.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")]
    except DRIVER_ERRORS:
        raise _damaged(path, named) from None
    # conch writes both marks at once, with its id, so other marks are another program's.
    if (found or any(marks)) and not are_ours(found):
        raise foreign(path, named)


def _no_database(path: str, named: str) -> ForeignStore:
    message = (
        f"The file {path} is not a database, so it is not a conch store. conch did not change it. Choose another "
        f"place with {named}, or move the file away yourself."
    )
    return ForeignStore(message, path=path)


def _damaged(path: str, named: str) -> StoreCorrupt:
    message = (
        f"The file {path} is damaged or is not a conch store. conch did not change it. Restore a copy made by "
        f"`conch db backup`, move the file aside with `conch db wipe`, or choose another place with {named}."
    )
    return StoreCorrupt(message, path=path)


def foreign(path: str, named: str) -> ForeignStore:
    message = (
        f"The file {path} belongs to another program: it is not a conch store. conch did not change it. Choose "
        f"another place with {named}. `conch import` reads the files of some other programs."
    )
    return ForeignStore(message, path=path)


@contextmanager
def _looked_at(file: Header, path: str) -> Iterator[sqlite3.Connection]:
    """A connection that reads the file with its `-wal`, and leaves no trace.

    SQLite can read a file alone without a trace. If there is a `-wal`, it reads copies of both.
    """
    wal = f"{path}-wal"
    if not os.path.exists(wal) or os.path.getsize(wal) == 0:
        from urllib.parse import quote  # slow to import, and rarely needed

        with closing(sqlite3.connect(f"file:{quote(os.fsencode(path))}?immutable=1", uri=True)) as connection:
            yield connection
        return
    import shutil  # slow to import, and rarely needed
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy")
        file.copy(copy)
        shutil.copyfile(wal, f"{copy}-wal")
        with closing(sqlite3.connect(copy)) as connection:
            yield connection
