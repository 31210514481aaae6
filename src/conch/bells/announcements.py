"""Who waits right now: a shared lock on a channel's file, which the kernel drops when the process dies."""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":

    def announce(path: str) -> int | None:
        return None

    def withdraw(announcement: int) -> None:
        os.close(announcement)

    def is_announced(path: str) -> bool:
        return False

else:
    import fcntl

    def announce(path: str) -> int | None:
        """The open, locked file; None where it cannot be locked. Waits for a prober, which is quick."""
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
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
            fcntl.flock(turn, fcntl.LOCK_EX)
            return _is_locked(path)
        except OSError:
            return False
        finally:
            withdraw(turn)

    def _is_locked(path: str) -> bool:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            withdraw(descriptor)
        return False
