"""The queue of SQLite's writers.

SQLite retries a busy lock at random moments, so under load some writers lose again and again: with 32 processes a few
wait for seconds. `flock` wakes its waiters roughly in the order they came. The queue is only for fairness. SQLite's own
lock keeps writers apart, so a problem with the queue never makes a write fail, and never lets two writers in at once.
"""

from __future__ import annotations

import os
import time
from _thread import start_new_thread

from conch.lean import Lock

try:
    import fcntl
except ImportError:  # Windows has no flock, so writers there rely on SQLite's own waiting
    fcntl = None  # type: ignore[assignment]

_MOST_FREE = 1  # open files that are kept for the next writer


class Queue:
    """One process's way into the queue, shared by all its writers.

    A blocking `flock` has no timeout, so it runs in a thread. A process has at most one such thread, however many
    writers wait and however long the queue is stuck.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._free: list[int] = []  # open files without a lock
        self._standing = Lock()  # held for the one writer or abandoned thread that waits in the queue
        self._stuck = False  # a writer has given up, and its thread still waits in the queue
        self._closed = False

    def enter(self, seconds: float) -> int | None:
        """Wait for our turn, up to `seconds`. Returns the file to `leave` with, or None without our turn.

        The kernel frees the place of a dead process, but not of a stopped one. After one writer has given up, the
        others do not wait at all until the queue moves.
        """
        file = self._free.pop() if self._free else self._take_file()
        if file is None:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._stand(file, seconds)
        except OSError:
            os.close(file)
            return None
        return file

    def enter_at_once(self) -> int | None:
        """Like `enter`, but only if nobody is in the queue."""
        file = self._take_file()
        if file is None:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._put_back(file)
            return None
        return file

    def leave(self, file: int | None) -> None:
        if file is None:
            return
        try:
            fcntl.flock(file, fcntl.LOCK_UN)
        except OSError:
            os.close(file)  # which releases the lock too
        else:
            self._put_back(file)

    def require_file(self) -> None:
        """OSError if the queue's file cannot be used."""
        os.close(self._open())

    def close(self) -> None:
        """Close the unused files. A file in use is closed when its writer leaves."""
        self._closed = True
        while self._free:
            os.close(self._free.pop())

    def _take_file(self) -> int | None:
        """An open file; None if there is none: no descriptor is left, for example, or the disk is read only."""
        if fcntl is None:
            return None
        try:
            return self._free.pop()
        except IndexError:
            pass
        try:
            return self._open()
        except OSError:
            return None

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _put_back(self, file: int) -> None:
        if self._closed or len(self._free) >= _MOST_FREE:
            os.close(file)
        else:
            self._free.append(file)

    def _stand(self, file: int, seconds: float) -> int | None:
        deadline = time.monotonic() + seconds
        if self._stuck or not self._standing.acquire(timeout=seconds):
            self._put_back(file)
            return None
        place = _Place(file)
        try:
            start_new_thread(self._hold, (place,))
        except RuntimeError:  # the system has no thread left
            place.is_over = True
            return self._outcome(place)
        try:
            place.ended.acquire(timeout=max(0.0, deadline - time.monotonic()))
        except BaseException:
            self.leave(self._outcome(place))
            raise
        return self._outcome(place)

    def _outcome(self, place: _Place) -> int | None:
        """How the wait ended, for the writer. If it is not over yet, the thread goes on waiting and cleans up later."""
        with place.lock:
            place.is_abandoned = self._stuck = not place.is_over
        if place.is_abandoned:
            return None
        self._standing.release()
        if not place.is_ours:
            self._put_back(place.file)
            return None
        return place.file

    def _hold(self, place: _Place) -> None:
        """On the thread: wait for the turn. If the writer has gone meanwhile, let the next one in."""
        try:
            fcntl.flock(place.file, fcntl.LOCK_EX)
            place.is_ours = True
        except OSError:  # the kernel has no lock left
            pass
        with place.lock:
            place.is_over = True
            place.ended.release()
        if place.is_abandoned:
            self.leave(place.file)
            self._stuck = False
            self._standing.release()


class _Place:
    """What the writer and the thread that waits for it know of each other."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.lock = Lock()  # guards `is_over` and `is_abandoned`
        self.is_over = False
        self.is_abandoned = False
        self.is_ours = False
        self.ended = Lock()
        self.ended.acquire()  # so that the next `acquire` waits until the thread releases it
