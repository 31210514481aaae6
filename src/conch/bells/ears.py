"""One waiter's end of a bell; it works with every watcher."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from types import TracebackType

from conch.bells.base import LINGER_SECONDS, Stop, Wake, Watcher
from conch.host.processes import Process, check
from conch.lean import Self

_SECONDS_BETWEEN_CHECKS = 1.0  # of a process that the watcher cannot watch


class DeafWatcher:
    """Watches nothing. It serves a process that has no thread or descriptor left; its waiters look at intervals."""

    def watch_channel(self, channel: str, wake: Wake) -> Stop:
        return _nothing

    def watch_process(self, process: Process, wake: Wake) -> Stop | None:
        return None

    def close(self) -> None:
        pass


def _nothing() -> None:
    pass


class WatchingEar:
    """Listens as soon as it is created. OSError if the watcher cannot watch all channels."""

    def __init__(self, watcher: Watcher, channels: Iterable[str], own: str | None = None) -> None:
        """`own` is the channel of this waiter alone. Without one, any ring may be meant for it."""
        self._watcher = watcher
        self._longest_linger = LINGER_SECONDS if own is None else float("inf")
        self._woken = threading.Event()
        self._hurried = threading.Event()  # ends the linger early
        self._own_rang = False
        self.called = False
        self._stops: list[Stop] = []
        self._process: Process | None = None
        self._stop_process: Stop | None = None
        self._must_ask = False  # the watcher cannot watch the process, so `wait` checks it now and then
        try:
            for channel in channels:
                self._stops.append(watcher.watch_channel(channel, self._call if channel == own else self._woken.set))
        except BaseException:
            self._close()
            raise

    def when_closed(self, stop: Stop) -> None:
        """Also call `stop` when the ear closes."""
        self._stops.append(stop)

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        self.called = False
        while not self._woken.wait(self._next_pause(deadline)):
            if self._must_ask and check(self._process) == "gone":
                self._must_ask = False
                self.wake()
            elif time.monotonic() >= deadline:
                return False
        self._woken.clear()
        return True

    def linger(self, seconds: float) -> None:
        self._hurried.wait(min(seconds, self._longest_linger))
        self._woken.clear()
        self._hurried.clear()
        self.called, self._own_rang = self._own_rang, False

    def watch(self, process: Process | None) -> None:
        """Watch a process. Watching the same one again changes nothing, so its end wakes only once."""
        if process == self._process:
            return
        self._unwatch()
        self._process = process
        if process is None:
            return
        self._stop_process = self._watcher.watch_process(process, self.wake)
        if self._stop_process is None:
            self._must_ask = check(process) != "gone"
            if not self._must_ask:
                self.wake()

    def wake(self) -> None:
        self._hurried.set()
        self._woken.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _call(self) -> None:
        self._own_rang = True
        self.wake()

    def _next_pause(self, deadline: float) -> float:
        rest = max(0.0, deadline - time.monotonic())
        return min(rest, _SECONDS_BETWEEN_CHECKS) if self._must_ask else rest

    def _unwatch(self) -> None:
        self._must_ask = False
        if self._stop_process is not None:
            self._stop_process()
            self._stop_process = None

    def _close(self) -> None:
        self._unwatch()
        while self._stops:
            self._stops.pop()()
