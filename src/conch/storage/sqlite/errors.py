"""Translates the errors of SQLite and of the filesystem into ours, each with what to do next."""

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
    StoreUncertain,
)
from conch.storage.sqlite import DRIVER_ERRORS, sqlite3

_BUSY = (
    StoreBusy,
    "The store at {path} is busy: another writer held its lock for too long. Try again.",
)
_FULL = (StoreFull, "The disk that holds {path} is full. Free some space and try again.")
# Another store would hide the agent from the others, so this does not say how to choose one.
_READ_ONLY = (
    StoreReadOnly,
    "The store at {path} is not writable{because}. In a sandbox, call the tools of the MCP server conch instead, or "
    "let the sandbox write to the folder of the store (for Codex, `conch install codex` does that). Otherwise make the "
    "file and its folder writable for this user.",
)
_CORRUPT = (StoreCorrupt, "The file {path} is damaged or is not a conch store. Restore a copy "
            "made by `conch db backup`, or move the file aside with `conch db wipe`.")  # fmt: skip
_CUT_OFF = (StoreCorrupt, "The file {path}-wal was emptied, truncated or overwritten, so the store's latest changes "
            "cannot be read. These processes use the store: {users}. `conch db restore FILE` brings back a backup. "
            "Without a restore, conch goes on with what is left as soon as one of these processes notices the damage, "
            "at its next call or when it ends.")  # fmt: skip
_CORRUPT_INDEX = (StoreCorrupt, "The search index in {path} is damaged ({reason}). Run `conch db reindex`. The next "
                  "search then builds it again from the messages.")  # fmt: skip
_UNAVAILABLE = (StoreUnavailable, "The store at {path} cannot be used: {reason}. Check the path and its folder, or "
                "choose another place with {named}.")  # fmt: skip

_CROWDED = (StoreUnavailable, "The store at {path} cannot be used now, because too many files are open. Close some, or "
            "raise the limit (`ulimit -n`), and try again.")  # fmt: skip
_UNCERTAIN = (StoreUncertain, "The store at {path} failed during a commit: {reason}. The change may or may not "
              "have been made. Check the disk, and check what was stored before you try again.")  # fmt: skip

# Damage that has no code of its own: text that is not UTF-8, and a schema that is not ours.
_DAMAGES = ("Could not decode to UTF-8", "no such table: ", "no such column: ", " has no column named ")
_OTHER_FORMAT = "invalid fts5 file format"  # the search index is damaged too, but this error has no code of its own
_SHARED_MEMORY_BYTES = 32_768  # the smallest -shm file; WAL mode cannot start with less free space

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
    errno.EMFILE: _CROWDED,
    errno.ENFILE: _CROWDED,
}


class CommitFailed(sqlite3.OperationalError):
    """The disk failed during a commit. The change may be in the log, and appear when the log is read again."""


def translate(error: sqlite3.Error | UnicodeDecodeError | OSError, path: str, named: str) -> StoreError:
    """Our error for an error of the driver or the system. `named` is the setting or option that gave the path."""
    kind, text = _kind_of(error, path)
    users = list_users(path) if "{users}" in text else ""
    because = _name_unwritable(path) if "{because}" in text else ""
    return kind(text.format(path=path, reason=error, named=named, users=users, because=because), path=path)


def _name_unwritable(path: str) -> str:
    """Which file beside the store cannot be written. If it is the store itself, its path says so."""
    for each in (path, f"{path}-wal", f"{path}-shm"):
        if os.path.exists(each) and not os.access(each, os.W_OK):
            return "" if each == path else f", because this user cannot write {each}"
    return ""


def damaged(path: str) -> StoreCorrupt:
    """The error for a store that SQLite cannot read whole."""
    kind, text = _CORRUPT
    return kind(text.format(path=path), path=path)


def describe_loss(path: str, kept: str = "") -> str:
    where = f" The damaged file is {kept}-wal." if kept else ""
    return (
        f"Changes are missing in the store at {path}: the file {path}-wal was emptied, deleted or "
        f"damaged after they were made, or the machine lost power.{where} `conch db restore FILE` brings back a "
        "backup."
    )


def list_users(path: str) -> str:
    """The other processes that have a store open, for a sentence."""
    from conch.host.processes import other_users_of  # rarely needed

    users = other_users_of(f"{path}.users")
    return ", ".join(map(str, users or [])) or "unknown"


def _kind_of(error: sqlite3.Error | UnicodeDecodeError | OSError, path: str) -> tuple[type[StoreError], str]:
    if isinstance(error, OSError):
        return _BY_ERRNO.get(error.errno or 0, _UNAVAILABLE)
    if isinstance(error, UnicodeDecodeError) or any(each in str(error) for each in _DAMAGES):
        return _CORRUPT
    if isinstance(error, CommitFailed):
        return _UNCERTAIN
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code == sqlite3.SQLITE_IOERR_SHORT_READ:
        return _CUT_OFF
    if code == sqlite3.SQLITE_CORRUPT_VTAB or _OTHER_FORMAT in str(error):
        return _CORRUPT_INDEX
    primary_code = code & 0xFF  # the other bytes only refine it
    return _BY_SQLITE_CODE.get(primary_code) or _look_around(path, primary_code)


_FILES_OF_A_STORE = 5  # SQLite opens up to three at once, and conch two beside it


def _look_around(path: str, code: int) -> tuple[type[StoreError], str]:
    """Find the reason in the folder, because SQLite only says that it could not open or write a file there."""
    folder = os.path.dirname(path)
    if code not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR) or not os.path.isdir(folder):
        return _UNAVAILABLE
    opened: list[int] = []
    try:
        for _ in range(_FILES_OF_A_STORE):
            opened.append(os.open(folder, os.O_RDONLY))
    except OSError as error:
        return _BY_ERRNO.get(error.errno or 0, _UNAVAILABLE)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    if not os.access(folder, os.W_OK):
        return _READ_ONLY
    disk = os.statvfs(folder)
    return _FULL if disk.f_bavail * disk.f_frsize < _SHARED_MEMORY_BYTES else _UNAVAILABLE


@contextmanager
def translated(path: str, named: str) -> Iterator[None]:
    """Raise our own errors instead of the driver's."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error, path, named) from error
