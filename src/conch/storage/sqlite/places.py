"""Which files are at the path of a store, and who uses them.

A process that has the store open goes on with its files after they were deleted or replaced, and SQLite does not
notice. So a process remembers the files it opened, and compares them with the files at the path before it trusts them.

Every process also holds a shared lock on the file `.users` while it has the store open. The first one writes down there
which files they are. So a process that comes later knows whether the files belong together: with `-wal` deleted, or a
backup copied over the store, SQLite would show it a store that never existed.

If an older copy of the file is put over it with plain tools, it is still the same file, and the same store. So the
header of the file has a mark, and every write moves it on by one. SQLite changes the file only when it moves `-wal`
into it, so the mark in the file may lag behind, but never behind the one that the file had when `-wal` began. The first
write to a new `-wal` stores that one. A mark outside this range, or one that goes back, shows that the file is a copy.

`-wal` can be emptied or damaged too. SQLite then shows the store as it was before, and nothing in it looks wrong. So
every write notes its mark in `.users`, after its commit. A process that opens the store and reads an older mark knows
that changes are lost.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable

from conch.errors import StoreBusy
from conch.lean import NamedTuple
from conch.storage.sqlite.headers import RAW_MARK, FileId, Header, count_steps, file_id, is_ahead, to_mark

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

SIDES = ("-wal", "-shm")
_ENTRY_SECONDS = 5.0
_QUIET_NS = 3_000_000_000  # no filesystem has coarser times
_FINE_QUIET_NS = 100_000_000  # no kernel's clock has longer ticks
_RECORD_BYTES = 200
_NOTE_BYTES = 32
_HEAD_BYTES = 48  # of `-shm`
_COPY_SECONDS = 1.0
_STILL_NS = 50_000_000

_stat, _pread = os.stat, os.pread


def _follows(known: str, mark: str) -> bool:
    return known == mark or (len(known) == len(mark) == 8 and is_ahead(int(mark, 16), int(known, 16)))


class Files(NamedTuple):
    """The files at a path, and the mark in the header of the store's file."""

    store: FileId | None
    wal: FileId | None
    shm: FileId | None
    mark: str

    def same_store(self, now: Files) -> bool:
        return self.store == now.store and _follows(self.mark, now.mark)

    def fit(self, now: Files) -> bool:
        """Whether all of these files, as far as there were any, are still there."""
        are_there = all(mine in (None, theirs) for mine, theirs in zip(self[:3], now[:3], strict=True))
        return are_there and (not self.mark or _follows(self.mark, now.mark))


def are_superseded(recorded: Files | None, old: Files) -> bool:
    """Whether another process has put newer files beside the store since these were opened, and uses those."""
    pairs = zip(recorded[:3], old[:3], strict=True) if recorded else ()
    return any(theirs not in (None, mine) for theirs, mine in pairs)


class OpenFiles:
    """The files that this process has open. Made before the first connection, and closed after the last one."""

    def __init__(self, path: str, given: str) -> None:
        """`given` is the path before links were followed. A link can be changed."""
        self.path = path
        self._link = None if given == path else os.fsencode(given)
        self._paths = [os.fsencode(path + suffix) for suffix in ("", *SIDES)]
        is_same = os.path.realpath(os.path.dirname(given)) == os.path.dirname(path)
        self._folder = os.fsencode(os.path.dirname(given if is_same else path))
        self._is_linked = not is_same
        """The path is a link to the file. It can be changed without a change in the folder of the file."""
        self._quiet: tuple[int, int, int] | None = None
        """The folder at the last look at every file, if nothing had changed in it for a while."""
        self.header = Header(path)
        self._index: Header | None = None
        self._seen: tuple[bytes | None, int] = None, 0
        """The mark in the file at the last look, as it is there and as a number."""
        self._ids: tuple[int, ...] = ()
        self.stored: int | None = None
        """The mark that SQLite read in the last transaction."""
        self.is_overwritten = False
        """Whether a copy was put over the file, as this process has found."""
        self.is_doubtful = False
        """Whether `-wal` or `-shm` may be damaged."""
        self.is_log_damaged = False
        """Whether SQLite could not recover `-wal` at the last look."""
        self._files = survey(path)

    @property
    def files(self) -> Files:
        return self._files._replace(mark=f"{self._seen[1]:08x}") if self._ids else self._files

    def remember(self) -> bool:
        """Remember the files, once a connection has opened all of them. False if they were replaced meanwhile."""
        before, self._files = self._files, survey(self.path)
        (device, store), (_, wal), (_, shm) = (each or (0, 0) for each in self._files[:3])
        self._ids, found = (device, store, wal, shm), self.header.read(*RAW_MARK)
        mark = to_mark(found)
        self._seen = (None, 0) if mark is None else (found, mark)
        self._index = _open_index(self.path) if self._files.shm is not None else None
        return before.fit(self._files) and self.header.file == self._files.store

    def are_in_place(self) -> bool:
        return self.find_mark() is not None

    def find_mark(self) -> int | None:
        """The mark in the file. None if the files at the path are others, or if the mark went back.

        Every transaction asks, so it must be fast. While nothing was created, deleted or renamed in the folder, it need
        not look at the files one by one.
        """
        try:
            facts = _stat(self._folder)
            folder = facts.st_ctime_ns, facts.st_ino, facts.st_dev
            if folder != self._quiet or self._is_linked:
                if not self._are_all_there():
                    return None
                self._quiet = folder if is_past(facts.st_ctime_ns) else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        seen, known = self._seen  # before the read, because other threads ask too
        found = _pread(self.header.descriptor, *RAW_MARK)
        if found == seen:
            return known
        mark = to_mark(found)
        if mark is None or not is_ahead(mark, known):
            self.is_overwritten = True  # stays true, even if the mark of the whole copy happens to be ahead later
            return None
        self._seen = found, mark
        return mark

    def _are_all_there(self) -> bool:
        store, wal, shm = self._paths
        # A file that was moved, with a link to it at its old name, has another `-wal` for processes that open it now.
        found = _stat(store, follow_symlinks=False)
        # The inodes are enough: the files of one folder are on one device, unless the folder itself is replaced.
        if (found.st_dev, found.st_ino, _stat(wal).st_ino, _stat(shm).st_ino) != self._ids:
            return False
        return self._link is None or _stat(self._link).st_ino == found.st_ino

    def find_version(self) -> bytes | None:
        """The two copies of the head of `-shm`, which SQLite changes with every commit. None if it changes right now.

        SQLite itself compares them to learn whether its cache is still right. It never waits.
        """
        if self._index is None:
            return None
        found = self._index.read(2 * _HEAD_BYTES)
        return found if found[:_HEAD_BYTES] == found[_HEAD_BYTES:] != b"" else None

    def taken_at(self) -> float:
        """When the store's file was deleted or moved, if it was: the same moment for every process that had it open."""
        return os.fstat(self.header.descriptor).st_ctime

    def can_close_safely(self) -> bool:
        """Whether a connection to these files, which were taken, can be closed without harm to those at the path now.

        A file that was moved or deleted is left alone by SQLite itself.
        """
        return file_id(self.path) != self.header.file or self.header.keep_others_out()

    def close(self) -> None:
        self.header.close()
        if self._index is not None:
            self._index.close()


def is_past(changed_at: int) -> bool:
    """Whether another change would give the file a later time. One right after the last change might not."""
    is_fine = changed_at % 1_000 != 0  # so the filesystem keeps nanoseconds, and only the kernel's clock is coarse
    return time.time_ns() - changed_at > (_FINE_QUIET_NS if is_fine else _QUIET_NS)


def _open_index(path: str) -> Header | None:
    """None if there is none, or if a read of it may differ from SQLite's mapping on this system."""
    try:
        return Header(f"{path}-shm") if sys.platform == "linux" else None
    except OSError:
        return None


def wait_until_written(path: str) -> None:
    """Wait while another program copies a file to this path, for a moment at most."""
    deadline = time.monotonic() + _COPY_SECONDS
    while time.monotonic() < deadline:
        facts = os.stat(path)
        if facts.st_size > 0 and time.time_ns() - facts.st_mtime_ns > _STILL_NS:
            return
        time.sleep(0.01)


def survey(path: str) -> Files:
    """The files at the path now; any may be missing."""
    store, mark = file_id(path), None
    if store is not None:
        header = Header(path)
        try:
            mark = header.mark()
        finally:
            header.close()
    return Files(store, file_id(path + "-wal"), file_id(path + "-shm"), "" if mark is None else f"{mark:08x}")


class Users:
    """A place among the users of a store, until `leave`."""

    def __init__(self, path: str) -> None:
        """Waits for a process that opens or leaves the store at this moment."""
        self.path = f"{path}.users"
        self._start = ""
        self._file = self._open()
        self.is_alone = self._file is not None and self._enter(self._file)

    def _open(self) -> int | None:
        """None if this system or this user cannot lock the file, as in a sandbox that can only read."""
        if fcntl is None:
            return None
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                return None
            raise

    def _enter(self, file: int) -> bool:
        """Take the lock, exclusively if nobody else has it. Returns whether nobody has."""
        deadline = time.monotonic() + _ENTRY_SECONDS
        while True:
            for kind in (fcntl.LOCK_EX, fcntl.LOCK_SH):
                try:
                    fcntl.flock(file, kind | fcntl.LOCK_NB)
                    return kind == fcntl.LOCK_EX
                except BlockingIOError:
                    continue
            if time.monotonic() > deadline:
                os.close(file)
                raise StoreBusy("Another process has been opening the store for too long. Try again.", path=self.path)
            time.sleep(0.002)

    def recorded(self) -> Files | None:
        """The files that the users have open, as the first of them wrote down."""
        return None if self._file is None else _parse(os.pread(self._file, _RECORD_BYTES, 0))

    def record(self, files: Files) -> None:
        """Write down the files, and let others in."""
        if self._file is None:
            return
        words = [str(number) for each in files[:3] for number in (each or (0, 0))]
        record = " ".join([*words, files.mark or "-"]).ljust(_RECORD_BYTES + _NOTE_BYTES)
        os.pwrite(self._file, record.encode(), 0)
        self._start = files.mark
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def note(self, mark: int, changed_at: int) -> None:
        """Write down the mark of a write that is committed, and when it changed `-wal`.

        It counts as long as the record begins as it does now. Without this note a later loss could be missed, but the
        write itself is done, so no error may hide that.
        """
        if self._file is not None and self._start:
            try:
                os.pwrite(self._file, f"{self._start}{mark:08x}{changed_at:016x}".encode(), _RECORD_BYTES)
            except OSError:  # `suppress` is slow, and every write comes here
                pass

    def has_noted(self, changed_at: int) -> bool:
        """Whether the last note is of the change to `-wal` at this time. If it is False, ask `noted`."""
        if self._file is None or not self._start:
            return False
        note = os.pread(self._file, _NOTE_BYTES, _RECORD_BYTES)
        return note[:8] == self._start.encode() and note[16:] == f"{changed_at:016x}".encode()

    def noted(self) -> tuple[int | None, int] | None:
        """The mark of the last write, and when it changed `-wal`. None if nothing is noted.

        The mark is None if the record had another beginning when it was noted: it may be the mark of another store.
        """
        if self._file is None:
            return None
        note = os.pread(self._file, _NOTE_BYTES, _RECORD_BYTES)
        try:
            mark, changed_at = int(note[8:16], 16), int(note[16:], 16)
        except ValueError:
            return None
        if not note.startswith(self._start.encode()):  # another process may have written the record again
            recorded = self.recorded()
            self._start = recorded.mark if recorded else ""
        return mark if self._start and note.startswith(self._start.encode()) else None, changed_at

    @property
    def can_note(self) -> bool:
        return self._file is not None and bool(self._start)

    def find_loss(self) -> Callable[[Files, int], bool]:
        """A test for lost writes. Given the files and the mark that SQLite reads, it says whether writes that were
        committed before this call are missing.

        The mark must be read later: a write notes its mark after its commit.
        """
        recorded = self.recorded()
        self._start = recorded.mark if recorded else ""
        note = b"" if self._file is None else os.pread(self._file, _NOTE_BYTES, _RECORD_BYTES)
        start, noted = note[:8].decode("ascii", "replace"), note[8:16].decode("ascii", "replace")
        if recorded is None or start != self._start or not (_is_mark(start) and _is_mark(noted)):
            return lambda files, mark: False
        first, steps = int(start, 16), count_steps(int(start, 16), int(noted, 16))
        # The mark of a replaced store is random, so it is hardly ever one of these few.
        return lambda files, mark: files.store == recorded.store and count_steps(first, mark) < steps

    def leave(self) -> None:
        """Unlock and close. Closing alone would leave the lock with a child that another thread has just forked."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = None


def read_record(path: str) -> Files | None:
    """What the users of a store have written down about its files."""
    try:
        with open(f"{path}.users", "rb") as file:
            return _parse(file.read(_RECORD_BYTES))
    except FileNotFoundError:
        return None


def _is_mark(text: str) -> bool:
    return len(text) == 8 and all(letter in "0123456789abcdef" for letter in text)


def _parse(record: bytes) -> Files | None:
    words = record.decode("ascii", "replace").split()
    if (
        len(words) != 7
        or not all(word.isdecimal() for word in words[:6])
        or not (words[6] == "-" or _is_mark(words[6]))
    ):
        return None
    numbers = [int(word) for word in words[:6]]
    store, wal, shm = ((numbers[at], numbers[at + 1]) if numbers[at + 1] else None for at in (0, 2, 4))
    return Files(store, wal, shm, words[6].strip("-"))
