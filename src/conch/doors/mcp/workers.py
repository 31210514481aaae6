"""Threads that run calls. Idle ones are reused; if none is idle, a new one starts."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable

from conch.errors import ConchError

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


class FollowUps:
    """Runs small tasks one after another on a worker. However many there are, they need only one thread."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._tasks: deque[Task] = deque()
        self._is_running = False

    def add(self, task: Task) -> None:
        with self._lock:
            self._tasks.append(task)
            if self._is_running:
                return
            self._is_running = True
        try:
            self._workers.submit(self._run)
        except RuntimeError:  # no thread left: do it here, although that delays the connection
            self._run()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._is_running = bool(self._tasks)
                if not self._tasks:
                    return
                task = self._tasks.popleft()
            run_quietly(task)


def run_quietly(task: Task) -> None:
    """Run what follows a call. A failure goes to the log, because the call has ended already."""
    try:
        task()
    except ConchError as trouble:
        print(f"conch mcp: {trouble.message}", file=sys.stderr)
    except Exception:
        sys.excepthook(*sys.exc_info())
