"""Which way of watching this system has."""

from __future__ import annotations

import errno
import select
import sys

from conch.bells.watcher import Watcher


def open_watcher() -> Watcher:
    """The kernel's own way of this system. OSError if there is none, or it has none left to give."""
    if sys.platform == "linux":
        from conch.bells.inotify import InotifyWatcher

        return InotifyWatcher()
    if sys.platform != "linux" and sys.platform != "win32" and hasattr(select, "kqueue"):
        from conch.bells.kqueue import KqueueWatcher

        return KqueueWatcher()
    raise OSError(errno.ENOSYS, "This system cannot tell about touched files.")
