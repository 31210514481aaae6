"""The queue that SQLite's writers stand in.

SQLite retries a busy lock at random moments, so under load some writer always loses: of 32 processes a few
wait for seconds. `flock` wakes its waiters in the order they came. The queue is a courtesy, not a lock: SQLite's
own lock is what keeps writers apart, so a holder that hangs delays the others but can never let two in.
"""

from __future__ import annotations

import os

from conch.lean import Lock, threading

try:
    import fcntl
except ImportError:  # Windows: SQLite's own waiting has to do
    fcntl = None  # type: ignore[assignment]


class Queue:
    """One place in the queue; every connection has its own."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = _open(path)

    def enter(self, seconds: float) -> bool:
        """Wait for our turn, but no longer than this; the kernel lets go when the process dies."""
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
        # A blocking flock has no timeout and cannot be interrupted from another thread, so it gets a thread of its
        # own. A caller that gives up, or is interrupted, leaves the descriptor to that thread, which closes it.
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
    """A thread that stands in the queue for us, until it is our turn or we give up."""

    def __init__(self, file: int) -> None:
        self.entered = threading.Event()
        self._file = file
        self._lock = Lock()
        self._given_up = False

    def begin(self) -> None:
        threading.Thread(target=self._stand, daemon=True, name="conch-queue").start()

    def keep(self) -> bool:
        """Whether it is our turn; if not, it will never be, and the file is not ours any more."""
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
