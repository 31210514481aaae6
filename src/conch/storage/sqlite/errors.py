"""SQLite's and the filesystem's errors, translated once into ours, each with what to do next."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from conch.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from conch.storage.sqlite import sqlite3

_BUSY = (
    StoreBusy,
    "The store at {path} is busy: another process has held its write lock too long. Try again.",
)
_FULL = (StoreFull, "The disk that holds {path} is full; nothing was changed. Free some space and try again.")
_READ_ONLY = (StoreReadOnly, "The store at {path} cannot be written; nothing was changed. Make the file and its folder "
              "writable for this user, or name another place with {named}.")  # fmt: skip
_CORRUPT = (StoreCorrupt, "The file {path} is damaged or is not a conch store; it was left as it is. Restore a copy "
            "made by `conch db backup`, or move it aside with `conch db wipe`.")  # fmt: skip
_UNAVAILABLE = (StoreUnavailable, "The store at {path} cannot be used: {reason}. Check the path and its folder, or "
                "name another place with {named}.")  # fmt: skip

_SHARED_MEMORY_BYTES = 32_768  # the smallest file that WAL mode needs

_BY_SQLITE_CODE = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_CORRUPT: _CORRUPT,
    sqlite3.SQLITE_NOTADB: _CORRUPT,
}
_BY_ERRNO = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.EROFS: _READ_ONLY,
}


def translate(error: sqlite3.Error | OSError, path: str, named: str) -> StoreError:
    """`named` is the setting or the option that says where the file is."""
    if isinstance(error, sqlite3.Error):
        primary_code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        kind, text = _BY_SQLITE_CODE.get(primary_code) or _look_around(path, primary_code)
    else:
        kind, text = _BY_ERRNO.get(error.errno or 0, _UNAVAILABLE)
    return kind(text.format(path=path, reason=error, named=named), path=path)


def _look_around(path: str, code: int) -> tuple[type[StoreError], str]:
    """SQLite says only that it could not open or write a file beside the store; the folder shows why."""
    folder = os.path.dirname(path)
    if code not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR) or not os.path.isdir(folder):
        return _UNAVAILABLE
    if not os.access(folder, os.W_OK):
        return _READ_ONLY
    disk = os.statvfs(folder)
    return _FULL if disk.f_bavail * disk.f_frsize < _SHARED_MEMORY_BYTES else _UNAVAILABLE


@contextmanager
def translated(path: str, named: str) -> Iterator[None]:
    """Raise our own errors instead of the driver's."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path, named) from error
