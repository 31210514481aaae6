"""What wakes the ears of a process: a thread that watches channels and processes for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from conch.host.processes import Process

Wake = Callable[[], None]
Stop = Callable[[], None]


class Watcher(Protocol):
    """One per process. Its thread only calls `wake`s, which never block."""

    def watch_channel(self, channel: str, wake: Wake) -> Stop:
        """Wake at every ring from now on; a channel is a file's path where files are rung, else its name.

        OSError if that cannot be promised.
        """

    def watch_process(self, process: Process, wake: Wake) -> Stop | None:
        """Wake once when this process ends; None if that cannot be promised, or it has ended already."""

    def close(self) -> None:
        """End the thread and close every descriptor. A `Stop` called later does nothing."""
