"""Who waits right now: a shared lock on a channel's file, which the kernel drops when the process dies."""

from __future__ import annotations

import os
import sys
import time

if sys.platform == "win32":

    def announce(path: str) -> int | None:
        return None

    def withdraw(announcement: int) -> None:
        os.close(announcement)

    def is_announced(path: str) -> bool:
        return False

else:
    import fcntl

    PATIENCE = 20  # tries: others hold a lock for microseconds, unless they were stopped in the middle
    PAUSE_SECONDS = 0.0005

    def announce(path: str) -> int | None:
        """The open, locked file; None where it cannot be locked."""
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            _lock(descriptor, fcntl.LOCK_SH)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def withdraw(announcement: int) -> None:
        """Closing alone would leave the lock with a child that another thread has just forked."""
        fcntl.flock(announcement, fcntl.LOCK_UN)
        os.close(announcement)

    def is_announced(path: str) -> bool:
        """Probe the lock by taking it for a moment.

        Probers take turns, one at a time in the whole directory: so whoever else holds the lock is a listener.
        """
        try:
            turn = os.open(os.path.dirname(path), os.O_RDONLY)
        except OSError:
            return False
        try:
            _lock(turn, fcntl.LOCK_EX)
            return _is_locked(path)
        except OSError:
            return False
        finally:
            withdraw(turn)

    def _lock(descriptor: int, kind: int) -> None:
        """Wait a moment, but never for somebody who does not move on: OSError then."""
        for _ in range(PATIENCE):
            try:
                return fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(PAUSE_SECONDS)
        raise BlockingIOError

    def _is_locked(path: str) -> bool:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            withdraw(descriptor)
        return False
