"""One waiter's end of a bell; it works with every watcher."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType

from conch.bells.base import LINGER_SECONDS, Stop, Wake, Watcher
from conch.bells.sleepers import Sleeper
from conch.host.processes import Process, check
from conch.lean import Self

_SECONDS_BETWEEN_CHECKS = 1.0  # of processes that the watcher cannot watch
_MOST_WATCHED = 256  # processes; each may take a descriptor, and the rest are checked now and then


class DeafWatcher:
    """Watches nothing. It serves a process that has no thread or descriptor left; its waiters look at intervals."""

    def watch_channel(self, channel: str, wake: Wake) -> Stop:
        return _nothing

    def watch_process(self, process: Process, wake: Wake) -> Stop | None:
        return None

    def sleep(self, sleeper: Sleeper, seconds: float) -> None:
        sleeper.sleep(seconds)

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
        self._sleeper = Sleeper()
        self._is_woken = False
        self._is_hurried = False  # ends the linger early
        self._is_lingering = False
        self._own_rang = False
        self._withdraw: Stop = _nothing
        self.called = False
        self.ended = False
        self._stops: list[Stop] = []
        self._processes: frozenset[Process] = frozenset()
        self._stops_by_process: dict[Process, Stop] = {}
        self._asked: set[Process] = set()  # the watcher cannot watch these, so `wait` checks them now and then
        try:
            for channel in channels:
                self._stops.append(watcher.watch_channel(channel, self._call if channel == own else self._ring))
        except BaseException:
            self.close()
            raise

    def when_closed(self, stop: Stop) -> None:
        """Also call `stop` when the ear closes, after everything else."""
        self._stops.insert(0, stop)

    def announced(self, withdraw: Stop) -> None:
        """Others know that this waiter listens, until `withdraw` is called."""
        self._withdraw = withdraw

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        self.called = False
        while not self._is_woken:
            pause = self._next_pause(deadline)
            self._watcher.sleep(self._sleeper, pause)
            if self._is_woken:
                break
            if ended := {process for process in self._asked if check(process) == "gone"}:
                self._asked -= ended
                self._end()
            elif time.monotonic() >= deadline:
                return False
        self._is_woken = False
        return True

    def linger(self, seconds: float) -> None:
        deadline = time.monotonic() + min(seconds, self._longest_linger)
        self._is_lingering = True
        while not self._is_hurried and (rest := deadline - time.monotonic()) > 0:
            self._watcher.sleep(self._sleeper, rest)
        self._is_lingering = self._is_woken = self._is_hurried = False
        self.called, self._own_rang = self._own_rang, False

    def watch(self, *processes: Process | None) -> None:
        """Watch these processes. Watching the same ones again changes nothing, so the end of each wakes only once."""
        wanted = frozenset(process for process in processes if process is not None)
        if wanted == self._processes:
            return
        before, self._processes = self._processes, wanted
        for process in before - wanted:
            self._unwatch(process)
        for process in wanted - before:
            self._watch(process)

    def wake(self) -> None:
        self._is_hurried = self._is_woken = True
        self._sleeper.wake()

    def leave(self) -> None:
        withdraw, self._withdraw = self._withdraw, _nothing
        withdraw()

    def close(self) -> None:
        self.leave()
        self.watch()
        while self._stops:
            self._stops.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ring(self) -> None:
        """A shared channel was rung."""
        self._is_woken = True
        if not self._is_lingering:
            self._sleeper.wake()

    def _call(self) -> None:
        self._own_rang = True
        self.wake()

    def _end(self) -> None:
        self.ended = True
        self.wake()

    def _next_pause(self, deadline: float) -> float:
        rest = max(0.0, deadline - time.monotonic())
        return min(rest, _SECONDS_BETWEEN_CHECKS) if self._asked else rest

    def _watch(self, process: Process) -> None:
        is_full = len(self._stops_by_process) >= _MOST_WATCHED
        stop = None if is_full else self._watcher.watch_process(process, self._end)
        if stop is not None:
            self._stops_by_process[process] = stop
        elif check(process) == "gone":
            self._end()
        else:
            self._asked.add(process)

    def _unwatch(self, process: Process) -> None:
        self._asked.discard(process)
        stop = self._stops_by_process.pop(process, None)
        if stop is not None:
            stop()
