"""The queue of SQLite's writers.

SQLite retries a busy lock at random moments, so under load some writers lose again and again: with 32 processes a few
wait for seconds. `flock` wakes its waiters in the order they came. The queue is only for fairness. SQLite's own lock
keeps writers apart, so a holder that hangs delays the others but never lets two in at once.
"""

from __future__ import annotations

import os

from conch.lean import Lock, threading

try:
    import fcntl
except ImportError:  # Windows has no flock, so writers there rely on SQLite's own waiting
    fcntl = None  # type: ignore[assignment]


class Queue:
    """A place in the queue. Every writing connection has its own."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = _open(path)

    def enter(self, seconds: float) -> bool:
        """Wait for our turn, up to `seconds`; returns whether it came. The kernel frees the place of a dead process."""
        if fcntl is None:
            return True
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._wait(seconds)
        return True

    def leave(self) -> None:
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _wait(self, seconds: float) -> bool:
        # A blocking flock has no timeout and cannot be interrupted from another thread, so it runs in its own thread.
        # A caller that gives up or is interrupted leaves the descriptor to that thread, which closes it.
        place = _Place(self._file)
        try:
            place.begin()
            if place.entered.wait(seconds):
                return True
        finally:
            if not place.keep():
                self._file = _open(self._path)
        return False

    def close(self) -> None:
        os.close(self._file)


class _Place:
    """A thread that waits in the queue for us until it is our turn or we give up."""

    def __init__(self, file: int) -> None:
        self.entered = threading.Event()
        self._file = file
        self._lock = Lock()
        self._given_up = False

    def begin(self) -> None:
        threading.Thread(target=self._stand, daemon=True, name="conch-queue").start()

    def keep(self) -> bool:
        """Whether it is our turn. If not, we give up, and the thread owns the file from now on."""
        with self._lock:
            self._given_up = not self.entered.is_set()
            return not self._given_up

    def _stand(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with self._lock:
            if not self._given_up:
                self.entered.set()
                return
        os.close(self._file)


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
