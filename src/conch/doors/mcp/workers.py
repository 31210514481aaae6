"""Threads that run calls. Idle ones are reused; if none is idle, a new one starts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

Task = Callable[[], None]

_IDLE_KEPT = 4


class Workers:
    """Keeps a few idle threads, because starting a thread costs more than a short call."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._idle: list[_Worker] = []
        self._busy = 0

    def submit(self, task: Task) -> None:
        """Run the task on a worker at once; it never queues behind another. RuntimeError if no thread can start."""
        with self._changed:
            worker = self._idle.pop() if self._idle else None
            if worker is None:
                threading.Thread(target=_Worker(self, task).work, name="conch-call", daemon=True).start()
            self._busy += 1
        if worker is not None:
            worker.take(task)

    def drain(self, seconds: float) -> bool:
        """Wait until no task runs. False if some still run after this time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, seconds)

    def finished(self, worker: _Worker) -> bool:
        """Note that a task ended. True if its worker should wait for another task."""
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
        self._given.acquire()  # so that the next `acquire` waits until `take` releases it

    def take(self, task: Task) -> None:
        self._task = task
        self._given.release()

    def work(self) -> None:
        while True:
            try:
                self._task()
            except Exception:
                sys.excepthook(*sys.exc_info())  # a defect of ours goes to the log; other calls continue
            if not self._workers.finished(self):
                return
            self._given.acquire()
