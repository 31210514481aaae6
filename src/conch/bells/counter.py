"""Anywhere, and where the kernel has no watches left: keep asking the store whether it has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from conch.bells.watcher import Stop, Wake
from conch.host.processes import Process

_SHORTEST_PAUSE = 0.010
_LONGEST_PAUSE = 0.025
_GROWTH = 1.1


class CounterWatcher:
    """Wakes every ear at every change of `counter`, which is called from this watcher's thread only."""

    def __init__(self, counter: Callable[[], int]) -> None:
        self._counter = counter
        self._wakes: list[Wake] = []
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="conch-bell", daemon=True)
        self._thread.start()

    def watch_channel(self, channel: str, wake: Wake) -> Stop:
        with self._changed:
            self._wakes.append(wake)
            self._changed.notify()
        return partial(self._stop, wake)

    def watch_process(self, process: Process, wake: Wake) -> Stop | None:
        return None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _stop(self, wake: Wake) -> None:
        with self._changed:
            self._wakes.remove(wake)

    def _run(self) -> None:
        # The first count always differs from none, and a count from before a silence is kept: an ear that has
        # begun to listen since may be woken for nothing, but cannot miss a change.
        last: int | None = None
        pause = _SHORTEST_PAUSE
        while self._somebody_listens():
            count = self._count(last)
            if count != last:
                last, pause = count, _SHORTEST_PAUSE
                self._wake_all()
            time.sleep(pause)
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)

    def _somebody_listens(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._wakes or self._closed)
            return not self._closed

    def _count(self, last: int | None) -> int | None:
        try:
            return self._counter()
        except Exception:  # a store in trouble is for its callers to report; the bell only falls silent
            return last

    def _wake_all(self) -> None:
        with self._changed:
            wakes = dict.fromkeys(self._wakes)  # an ear is here once for each of its channels
        for wake in wakes:
            wake()
