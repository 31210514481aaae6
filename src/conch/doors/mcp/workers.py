"""Threads that run calls. Idle ones are reused; if none is idle, a new one starts."""

from __future__ import annotations

import sys
import threading
import time
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from conch.errors import ConchError

Task = Callable[[], None]

_IDLE_KEPT = 4
_BEGIN_SECONDS = 2.0


class Workers:
    """Keeps a few idle threads, because starting a thread costs more than a short call."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._idle: list[_Worker] = []
        self._beginning: set[_Worker] = set()
        self._busy = 0

    def submit(self, task: Task) -> None:
        """Run the task on a worker at once; it never queues behind another.

        RuntimeError or MemoryError if no thread can start.
        """
        with self._changed:
            worker = self._idle.pop() if self._idle else None
            if worker is None:
                # Not `threading.Thread`: its `start` waits for ever if the new thread finds no memory to begin with.
                new = _Worker(self, task)
                self._beginning.add(new)
                try:
                    start_new_thread(new.work, ())
                except BaseException:
                    self._beginning.discard(new)
                    raise
            self._busy += 1
        if worker is not None:
            worker.take(task)

    def restart(self) -> None:
        """Start threads again that did not begin: a new thread that finds no memory ends without a word."""
        if not self._beginning:
            return
        with self._changed:
            now = time.monotonic()
            for worker in self._beginning:
                if now - worker.since > _BEGIN_SECONDS:
                    worker.since = now
                    with suppress(RuntimeError, MemoryError):
                        start_new_thread(worker.work, ())

    def begins(self, worker: _Worker) -> bool:
        """Whether this thread is the first one to begin for its worker."""
        with self._changed:
            is_first = worker in self._beginning
            self._beginning.discard(worker)
            return is_first

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
        self.since = time.monotonic()
        self._given = threading.Lock()
        self._given.acquire()  # so that the next `acquire` waits until `take` releases it

    def take(self, task: Task) -> None:
        self._task = task
        self._given.release()

    def work(self) -> None:
        if not self._workers.begins(self):
            return
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
        except (RuntimeError, MemoryError):  # no thread left: do it here, although that delays the connection
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
