"""The queue that SQLite's writers stand in.

SQLite retries a busy lock at random moments, so under load some writer always loses: of 32 processes a few
wait for seconds. `flock` wakes its waiters in the order they came. The queue is a courtesy, not a lock: SQLite's
own lock is what keeps writers apart, so a holder that hangs delays the others but can never let two in.
"""

from __future__ import annotations

import os
import threading

try:
    import fcntl
except ImportError:  # Windows: SQLite's own waiting has to do
    fcntl = None  # type: ignore[assignment]


class Queue:
    """One place in the queue; every connection has its own."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = _open(path)

    def enter(self, seconds: float) -> None:
        """Wait for our turn, but no longer than this; the kernel lets go when the process dies."""
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait(seconds)

    def leave(self) -> None:
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _wait(self, seconds: float) -> None:
        # A blocking flock has no timeout and cannot be interrupted from another thread, so it gets a thread of
        # its own. If it takes too long the descriptor is left to that thread, which lets go when it gets through.
        entered = threading.Event()
        file = self._file

        def stand() -> None:
            fcntl.flock(file, fcntl.LOCK_EX)
            entered.set()

        threading.Thread(target=stand, daemon=True, name="conch-queue").start()
        if not entered.wait(seconds):
            self._file = _open(self._path)
            threading.Thread(target=_let_go, args=(entered, file), daemon=True, name="conch-queue").start()

    def close(self) -> None:
        os.close(self._file)


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _let_go(entered: threading.Event, file: int) -> None:
    entered.wait()
    os.close(file)
