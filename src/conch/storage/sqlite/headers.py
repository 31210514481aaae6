"""Reads the header of a store's file without SQLite, and asks the system for SQLite's locks on it."""

from __future__ import annotations

import os
import sys

from conch.lean import Lock

try:
    import fcntl
except ImportError:  # Windows has no flock, and does not let any process delete an open file
    fcntl = None  # type: ignore[assignment]

RAW_MARK = 4, 60  # where `PRAGMA user_version` is in the file's header: the number of bytes, and the first one
# The ranges of bytes that SQLite locks. Every user of a store locks the first range shared, and the last one to close
# it exclusively. Every user of `-shm` locks the second one.
_SHARED_LOCK = (0x4000_0002, 510)
_SHM_LOCK = (128, 1)
_CHUNK = 1 << 20
_HIGHEST_MARK = 2**31 - 1
_HOW = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # without waiting: a pipe may have been put in place of the file

FileId = tuple[int, int]


def file_id(path: str) -> FileId | None:
    try:
        facts = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return facts.st_dev, facts.st_ino


def to_mark(raw: bytes) -> int | None:
    return int.from_bytes(raw, "big") if len(raw) == RAW_MARK[0] else None


def next_mark(mark: int) -> int:
    return mark % _HIGHEST_MARK + 1


def count_steps(start: int, mark: int) -> int:
    """How many times a mark must move on to become another one."""
    return (mark - start) % _HIGHEST_MARK


def is_ahead(mark: int, known: int) -> bool:
    """Whether a mark is the known one, or one that it can have moved on to."""
    return count_steps(known, mark) < _HIGHEST_MARK // 2


class Header:
    """A descriptor of the store's file, to read it without SQLite.

    Closing any descriptor of a file drops all locks that this process has on it, those of SQLite too. So all users of
    a file in this process share one descriptor, and the last one closes it, after its last connection.
    """

    _lock = Lock()
    _shared: dict[FileId, list[int]] = {}  # the number of users, and the descriptors

    def __init__(self, path: str) -> None:
        with self._lock:
            known = file_id(path)
            if known is None or known not in self._shared:
                descriptor = os.open(path, _HOW)
                facts = os.fstat(descriptor)
                known = facts.st_dev, facts.st_ino
                self._shared.setdefault(known, [0]).append(descriptor)
            self._shared[known][0] += 1
            self.file = known
            self.descriptor = self._shared[known][-1]

    def mark(self) -> int | None:
        """None if the file is too short for a mark: empty, or about to be overwritten."""
        return to_mark(self.read(*RAW_MARK))

    def read(self, most: int, start: int = 0) -> bytes:
        return os.pread(self.descriptor, most, start)

    def copy(self, target: str, most: int | None = None) -> None:
        """Copy the file, or this many bytes of it."""
        with open(target, "wb") as copy:
            while chunk := self.read(_CHUNK if most is None else most - copy.tell(), copy.tell()):
                copy.write(chunk)

    def close(self) -> None:
        with self._lock:
            shared = self._shared[self.file]
            shared[0] -= 1
            if shared[0] == 0:
                for descriptor in self._shared.pop(self.file)[1:]:
                    os.close(descriptor)  # this also ends `keep_others_out`

    def keep_others_out(self) -> bool:
        """Keep SQLite, in this process too, from closing as the last user until `close`. False if that is impossible.

        The last user writes `-wal` into the store and deletes `-wal` by its name, which by now is another store's.
        """
        if not hasattr(fcntl, "F_OFD_SETLK"):
            return False
        try:
            fcntl.fcntl(self.descriptor, fcntl.F_OFD_SETLK, _lock(fcntl.F_RDLCK, _SHARED_LOCK))
        except OSError:
            return False
        return True

    def is_used_elsewhere(self, path: str) -> bool:
        """Whether other processes use this file, but under another name: with a `-shm` that is not beside it.

        False where the system cannot tell, and if this process has a store open: closing `-shm` here could drop
        its locks. `_lock` keeps other threads from opening one meanwhile.
        """
        with self._lock:
            is_first = len(self._shared) == self._shared[self.file][0] == 1
            if sys.platform != "linux" or not is_first:
                return False
            return _has_other_users(self.descriptor, _SHARED_LOCK) and not _is_shm_used(f"{os.path.realpath(path)}-shm")


def _is_shm_used(path: str) -> bool:
    try:
        descriptor = os.open(path, _HOW)
    except FileNotFoundError:
        return False
    try:
        return _has_other_users(descriptor, _SHM_LOCK)
    finally:
        os.close(descriptor)


def _has_other_users(descriptor: int, place: tuple[int, int]) -> bool:
    found = fcntl.fcntl(descriptor, fcntl.F_GETLK, _lock(fcntl.F_WRLCK, place))
    return not found.startswith(fcntl.F_UNLCK.to_bytes(2, sys.byteorder))


def _lock(kind: int, place: tuple[int, int]) -> bytes:
    """A `struct flock` on Linux, from the start of the file. Not with `struct`, which is slow to import."""
    start, length = (number.to_bytes(8, sys.byteorder) for number in place)
    return kind.to_bytes(2, sys.byteorder) + bytes(6) + start + length + bytes(8)


def is_used_elsewhere(path: str) -> bool:
    try:
        header = Header(path)
    except FileNotFoundError:
        return False
    try:
        return header.is_used_elsewhere(path)
    finally:
        header.close()
