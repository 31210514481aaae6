"""Notices that another program has changed `-wal` or `-shm`, and finds what SQLite can still read.

SQLite verifies the checksums in `-wal` only when it makes `-shm`, its index of `-wal`. Until then a process reads
whatever the index points to. So every writer notes in `.users`, after its commit, when `-wal` was changed last, while
no other writer of conch is at work. A process that finds a different time lets SQLite recover a copy. If the copy has
every change, all is well: for example, a writer was killed before it made its note, or another program used SQLite.

SQLite takes no locks on `-wal`, so it may be opened and closed. A descriptor of `-shm` stays open like the store's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager

from conch.lean import NamedTuple, Protocol
from conch.storage.sqlite import DRIVER_ERRORS, sqlite3
from conch.storage.sqlite.headers import Header, is_ahead
from conch.storage.sqlite.queue import Queue

_HOW = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_FIRST_PAGE_BYTES = 65_536  # SQLite has no larger pages

_fstat = os.fstat
_lseek = os.lseek


class Notes(Protocol):
    """What writers have noted about their changes, as `places.Users` keeps it."""

    @property
    def can_note(self) -> bool: ...

    def note(self, mark: int, changed_at: int) -> None: ...

    def has_noted(self, changed_at: int) -> bool: ...

    def noted(self) -> tuple[int | None, int] | None: ...


class Log:
    """The `-wal` and `-shm` that a connection has open. Closed after the last connection."""

    def __init__(self, path: str, store: Header) -> None:
        self.path = path
        self._store = store
        self._wal = os.open(f"{path}-wal", _HOW)
        try:
            self._shm = Header(f"{path}-shm")
        except BaseException:
            os.close(self._wal)
            raise
        self._index_bytes = _lseek(self._shm.descriptor, 0, os.SEEK_END)
        self.trusted: int | None = None
        """When `-wal` was changed last while it was known to be whole."""

    def changed_at(self) -> int:
        """When `-wal` was written last. Its ctime also changes when root opens it: SQLite then sets its owner."""
        return _fstat(self._wal).st_mtime_ns

    def is_whole(self, stored: int, users: Notes, queue: Queue | None) -> bool:
        """Whether SQLite could recover every change in `-wal`. Also true while that is not known.

        `stored` is the mark that SQLite reads now. A writer needs no `queue`: nobody else writes meanwhile.
        Every transaction asks, so the usual answers come first: nothing has changed, or the change is noted.
        """
        changed_at = _fstat(self._wal).st_mtime_ns
        if changed_at == self.trusted or self._is_noted(users, changed_at) or not users.can_note:
            return True
        file = None if queue is None else queue.enter_at_once()
        if queue is not None and file is None:  # a writer has not noted its change yet
            return True
        try:
            return self._is_noted(users, self.changed_at()) or self._is_recoverable(stored, users)
        finally:
            if queue is not None:
                queue.leave(file)

    def _is_noted(self, users: Notes, changed_at: int) -> bool:
        if not users.has_noted(changed_at):
            noted = users.noted()
            if noted is None or noted[1] != changed_at:
                return False
        self.trusted = changed_at
        return True

    def _is_recoverable(self, stored: int, users: Notes) -> bool:
        changed_at, noted, mark = self.changed_at(), users.noted(), self.recoverable_mark()
        if mark is None:
            return True
        known = stored if noted is None or noted[0] is None else noted[0]
        if not is_ahead(mark, stored) or not is_ahead(mark, known):
            return False
        users.note(mark, changed_at)
        self.trusted = changed_at
        return True

    def is_index_cut(self) -> bool:
        """Whether `-shm` is shorter than before. The system ends a process that looks at the missing part."""
        size = _lseek(self._shm.descriptor, 0, os.SEEK_END)
        if size >= self._index_bytes:
            self._index_bytes = size
            return False
        return True

    def fill_index(self) -> None:
        """Give a truncated `-shm` its length again, so that it can be looked at. Its contents are wrong."""
        os.truncate(f"{self.path}-shm", self._index_bytes)  # by its name: closing a descriptor would drop locks

    def recoverable_mark(self) -> int | None:
        """The mark that SQLite reads after it has recovered `-wal`. None if `-wal` changes, or cannot be copied."""
        before = self.changed_at()
        try:
            with _scratch_folder(self.path) as folder:
                copy = os.path.join(folder, "copy")
                self._store.copy(copy, _FIRST_PAGE_BYTES)  # which has the mark, if `-wal` does not
                os.truncate(copy, _fstat(self._store.descriptor).st_size)
                self._copy_wal(copy)
                mark = _read_mark(copy)
        except (OSError, *DRIVER_ERRORS):
            return None
        return mark if self.changed_at() == before else None

    @contextmanager
    def recovered(self) -> Iterator[Recovered | None]:
        """A copy of all that SQLite can read in the store's file and `-wal`, beside the store. None if they change."""
        with _scratch_folder(self.path) as folder:
            before, in_file, path = self.changed_at(), self._store.mark() or 0, os.path.join(folder, "copy")
            self._store.copy(path)
            self._copy_wal(path)
            found = _look_into(path, in_file)
            if not is_ahead(found.mark, in_file):  # the damage is in a part that is in the file already
                self._store.copy(path)
                found = _look_into(path, in_file)
            yield found if self.changed_at() == before and self._store.mark() == in_file else None

    def _copy_wal(self, path: str) -> None:
        with open(f"{path}-wal", "wb") as copy:
            while chunk := os.pread(self._wal, 1 << 20, copy.tell()):
                copy.write(chunk)

    def close(self) -> None:
        os.close(self._wal)
        self._shm.close()


class Recovered(NamedTuple):
    path: str
    mark: int
    start: int
    """The mark that the file had when `-wal` began."""
    is_empty: bool = False
    """Whether there is not even a table: everything was in `-wal`."""
    is_damaged: bool = False


def _scratch_folder(path: str) -> AbstractContextManager[str]:
    from conch.storage.sqlite.scratch import scratch_folder  # only a damaged `-wal` needs it

    return scratch_folder(path)


def _look_into(path: str, in_file: int) -> Recovered:
    """Let SQLite recover a copy. All of it is in its file afterwards."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        try:
            mark = connection.execute("PRAGMA user_version").fetchone()[0]
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                return Recovered(path, mark, mark, is_empty=True)
            start = connection.execute("SELECT value FROM meta WHERE key = 'mark'").fetchone()
            is_damaged = connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok"
        except DRIVER_ERRORS:
            return Recovered(path, in_file, in_file, is_damaged=True)
    return Recovered(path, mark, int(start[0]) if start and start[0].isdecimal() else in_file, is_damaged=is_damaged)


def _read_mark(path: str) -> int:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
