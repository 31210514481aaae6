"""Threads that run calls. Idle ones are reused; if none is idle, a new one starts."""

from __future__ import annotations

import sys
import threading
import time
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from conch.errors import ConchError, StoreError
from conch.lean import NamedTuple

Task = Callable[[], None]

_IDLE_KEPT = 4
_BEGIN_SECONDS = 2.0
_MEMORY_SECONDS = 0.05
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 5.0  # seconds before a task is tried again: a room may wait for it
_MOST_POSTPONED = 256


class Workers:
    """Keeps a few idle threads, because starting a thread costs more than a short call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._is_draining = False
        self._idle: list[_Worker] = []
        self._beginning: set[_Worker] = set()
        self._held: list[tuple[_Worker, Task]] = []
        self._busy = 0

    def submit(self, task: Task) -> None:
        """Run the task on a worker at once; it never queues behind another.

        RuntimeError or MemoryError if no thread can start.
        """
        worker = self._find(task)
        if worker is not None:
            worker.take(task)

    def hold(self, task: Task, give_up: Task) -> None:
        """Like `submit`, but an idle worker gets its task at the next `let_go`. Only one thread may call both.

        A worker that wakes while that thread still works would only fight with it for the interpreter. If a new thread
        never begins, `restart` calls `give_up` instead of the task; after MemoryError, it calls it again.
        """
        worker = self._find(task, give_up)
        if worker is not None:
            try:
                self._held.append((worker, task))
            except MemoryError:
                worker.take(task)

    def let_go(self) -> None:
        while self._held:  # without a new list, for which there may be no memory
            worker, task = self._held.pop(0)
            worker.take(task)

    def _find(self, task: Task, give_up: Task | None = None) -> _Worker | None:
        """An idle worker, or None if a new one has started with the task."""
        with self._lock:
            worker = self._idle.pop() if self._idle else None
            if worker is None:
                # Not `threading.Thread`: its `start` waits forever if the new thread finds no memory to begin with.
                new = _Worker(self, task, give_up)
                self._beginning.add(new)
                try:
                    start_new_thread(new.work, ())
                except BaseException:
                    self._beginning.discard(new)
                    raise
            self._busy += 1
        return worker

    def restart(self) -> None:
        """Start again every thread that did not begin: a new thread that finds no memory ends silently.

        A task is given up if that fails too.
        """
        if not self._beginning:
            return
        with self._lock:
            now = time.monotonic()
            for worker in self._beginning:
                if now - worker.since > _BEGIN_SECONDS:
                    worker.since = now
                    self._start_again(worker)
            lost = [worker for worker in self._beginning if worker.is_lost]
        for worker in lost:
            if worker.give_up is not None:
                worker.give_up()
            with self._lock:
                self._beginning.discard(worker)
                self._note_end()

    def _start_again(self, worker: _Worker) -> None:
        """Call under the lock."""
        if worker.is_second and worker.give_up is not None:
            worker.is_lost = True
            return
        worker.is_second = True
        with suppress(RuntimeError, MemoryError):
            start_new_thread(worker.work, ())

    def begins(self, worker: _Worker) -> bool:
        """Whether this thread is the first one to begin for its worker, and the task is not given up."""
        with self._lock:
            if worker.is_lost or worker not in self._beginning:
                return False
            self._beginning.discard(worker)
            return True

    def drain(self, seconds: float) -> bool:
        """Wait until no task runs. False if some still run after this time."""
        with self._lock:
            self._is_draining = True
            return self._changed.wait_for(lambda: not self._busy, seconds)

    def finished(self, worker: _Worker) -> bool:
        """Note that a task ended. True if its worker should wait for another task."""
        with self._lock:
            self._note_end()
            keep = len(self._idle) < _IDLE_KEPT
            if keep:
                self._idle.append(worker)
            return keep

    def _note_end(self) -> None:
        """Call under the lock."""
        self._busy -= 1
        if self._is_draining:
            self._changed.notify_all()


class _Worker:
    def __init__(self, workers: Workers, task: Task, give_up: Task | None) -> None:
        self._workers = workers
        self._task = task
        self.give_up = give_up
        self.since = time.monotonic()  # when its thread was started
        self.is_second = False  # its thread was started again
        self.is_lost = False  # its task is given up
        self._given = threading.Lock()
        self._given.acquire()  # so that the next `acquire` waits until `take` releases it

    def take(self, task: Task) -> None:
        self._task = task
        self._given.release()

    def work(self) -> None:
        if not self._workers.begins(self):
            return
        while True:
            while not attempt(self._task):  # again when other calls have freed memory; meanwhile this one holds none
                time.sleep(_MEMORY_SECONDS)
            if not self._workers.finished(self):
                return
            self._given.acquire()


def attempt(task: Task) -> bool:
    """Run a task. Returns False if there was not enough memory for it."""
    try:
        task()
    except MemoryError:
        return False
    except Exception as error:
        _log(error)  # other calls continue
    return True


class _Postponed(NamedTuple):
    due: float
    task: Task


class FollowUps:
    """Runs small tasks one after another on a worker. However many there are, they need only one thread.

    They take back what a reply brought. If the store is in trouble, a task is tried again until it works: otherwise a
    claim that no agent knows of would block a room. So a task must be safe to repeat.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._tasks: deque[Task] = deque()
        self._is_running = False
        self._unfinished = 0  # tasks that were begun, and may have to be tried again
        self._postponed: deque[_Postponed] = deque(maxlen=_MOST_POSTPONED)

    @property
    def is_busy(self) -> bool:
        """Whether `retry` may soon have something to do."""
        return bool(self._is_running or self._unfinished or self._postponed)

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

    def run(self, task: Callable[[], object], pause: float = _FIRST_PAUSE) -> None:
        """Run a task on this thread. If that fails for now, `retry` runs it after `pause` seconds, then less often."""
        with self._lock:
            self._unfinished += 1
        try:
            task()
        except (StoreError, MemoryError, OSError) as trouble:
            if pause == _FIRST_PAUSE:
                _log(trouble)
            again = partial(self.run, task, min(2 * pause, _LONGEST_PAUSE))
            self._postponed.append(_Postponed(time.monotonic() + pause, again))
        except Exception as error:
            _log(error)
        finally:
            with self._lock:
                self._unfinished -= 1

    def retry(self, at_once: bool = False) -> None:
        """Start the tasks that are due, or all of them. Call it now and then."""
        for _ in range(len(self._postponed)):
            postponed = self._postponed.popleft()
            if at_once or postponed.due <= time.monotonic():
                self.add(postponed.task)
            else:
                self._postponed.append(postponed)

    def _run(self) -> None:
        while True:
            with self._lock:
                self._is_running = bool(self._tasks)
                if not self._tasks:
                    return
                task = self._tasks.popleft()
            self.run(task)


def run_quietly(task: Task) -> None:
    """Run what follows a call. A failure goes to the log, because the call has ended already."""
    try:
        task()
    except Exception as error:
        _log(error)


def _log(error: Exception) -> None:
    if isinstance(error, (ConchError, MemoryError, OSError)):
        print(f"conch mcp: {error or 'There is not enough memory.'}", file=sys.stderr)
    else:
        sys.excepthook(type(error), error, error.__traceback__)
