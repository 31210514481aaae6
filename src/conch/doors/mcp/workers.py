"""Threads that work on calls: reused when idle, added when none is."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

Task = Callable[[], None]

_IDLE_KEPT = 4


class Workers:
    """Starting a thread costs more than a short call, so a worker waits for the next task instead of ending."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._idle: list[_Worker] = []
        self._busy = 0

    def submit(self, task: Task) -> None:
        """Run the task on a worker at once, never after another task. RuntimeError: there are no threads left."""
        with self._changed:
            worker = self._idle.pop() if self._idle else None
            if worker is None:
                threading.Thread(target=_Worker(self, task).work, name="conch-call", daemon=True).start()
            self._busy += 1
        if worker is not None:
            worker.take(task)

    def drain(self, seconds: float) -> bool:
        """Wait until no task runs; False when some still do after this long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, seconds)

    def finished(self, worker: _Worker) -> bool:
        """A task ended. True when its worker shall wait for another one."""
        with self._changed:
            self._busy -= 1
            if not self._busy:
                self._changed.notify_all()
            keep = len(self._idle) < _IDLE_KEPT
            if keep:
                self._idle.append(worker)
            return keep


class _Worker:
    def __init__(self, workers: Workers, task: Task) -> None:
        self._workers = workers
        self._task = task
        self._given = threading.Lock()
        self._given.acquire()

    def take(self, task: Task) -> None:
        self._task = task
        self._given.release()

    def work(self) -> None:
        while True:
            try:
                self._task()
            except Exception:
                sys.excepthook(*sys.exc_info())  # a defect of ours, for the log; other calls go on
            if not self._workers.finished(self):
                return
            self._given.acquire()
