"""Lets the thread that reads run a call itself: a deputy reads meanwhile, if anything comes.

To hand a call to another thread and wake it takes as long as a short call. A deputy costs nothing while nothing comes:
it sleeps in the kernel, which watches the wire only while the reader is away.
"""

from __future__ import annotations

import select
import time
from _thread import start_new_thread
from collections.abc import Callable, Mapping
from contextlib import suppress

from conch.doors.mcp.workers import Task
from conch.lean import Any, Lock

_SHORT_SECONDS = 0.01


class _Relieved(Exception):
    """The reader is back, so its deputy stops."""


class Deputy:
    def __init__(self, watched: Mapping[int, int], read: Callable[[], None], wake: Task) -> None:
        """`read` reads until `check` raises an exception, and `wake` wakes it."""
        self._watched = watched
        self._read = read
        self._wake = wake
        self._lock = Lock()
        self._doorbell: Any = None  # an epoll object; what it watches is `_wire`, another one
        self._wire: Any = None
        self._wire_number = -1
        self.is_free = False
        """Whether the deputy sleeps, so that it can replace the reader."""
        self._is_away = False  # the reader
        self._returned = Lock()
        self._returned.acquire()  # so that the next `acquire` waits until the deputy has stopped reading

    def start(self) -> None:
        """Without a deputy, as on a system that has no epoll or no thread left, workers run all calls."""
        if not hasattr(select, "epoll"):
            return
        with suppress(OSError, RuntimeError, MemoryError):  # a file as input cannot be watched
            self._wire, self._doorbell = select.epoll(), select.epoll()
            for descriptor, events in self._watched.items():
                self._wire.register(descriptor, events)
            self._wire_number = self._wire.fileno()
            self._doorbell.register(self._wire_number, 0)
            start_new_thread(self._work, ())

    def cover(self, task: Task) -> None:
        """Run a task on the thread that reads. Meanwhile the deputy, which must be free, reads what comes."""
        self._is_away = True
        self._ring_for(select.EPOLLIN | select.EPOLLONESHOT)
        try:
            task()
        finally:
            self.dismiss()

    def dismiss(self) -> None:
        """The deputy stops: what is left of the task does not take long. Call it on the thread that runs the task."""
        if not self._is_away:
            return
        with self._lock:
            self._is_away = False
            is_replaced = not self.is_free
        self._ring_for(0)
        if is_replaced:
            self._wake()
            self._returned.acquire()

    def _ring_for(self, events: int) -> None:
        try:
            self._doorbell.modify(self._wire_number, events)
        except (OSError, MemoryError):  # it wakes for nothing, or what comes waits for the end of the task
            pass

    def check(self) -> None:
        """Raise an exception that ends `read` if the reader is back. Call it before each wait for input."""
        if not self._is_away:
            raise _Relieved

    def is_relieved(self, seconds: float) -> bool:
        """Wait until the reader is back. False if it is still away after this time."""
        deadline = time.monotonic() + seconds
        while self._is_away and time.monotonic() < deadline:
            time.sleep(_SHORT_SECONDS)
        return not self._is_away

    def _work(self) -> None:
        self.is_free = True
        while True:
            with suppress(MemoryError):
                self._doorbell.poll()
            with self._lock:
                self.is_free = not self._is_away
            if self.is_free:
                continue
            try:
                with suppress(_Relieved):
                    self._read()
                self.is_free = True
            finally:
                self._returned.release()
