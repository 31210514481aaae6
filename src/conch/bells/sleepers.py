"""Which thread reads the events of a watcher: the waiter that sleeps alone, otherwise the watcher's own thread.

Waking a thread costs more than anything else that a ring needs. A waiter that sleeps alone, as in most servers, hears
its own ring. The thread works for several waiters, and it never wakes beside a waiter that reads for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from conch.lean import Lock

_Task = Callable[[], None]


class Sleeper:
    """A waiter's thread. Any thread may wake it, also before it sleeps."""

    __slots__ = ("_bed", "interrupt")

    def __init__(self) -> None:
        self._bed = Lock()
        self._bed.acquire()  # so that the next `acquire` waits until `wake` releases it
        self.interrupt: _Task | None = None
        """Ends the reading of events, while the waiter does that instead of sleeping here."""

    def wake(self) -> None:
        try:
            self._bed.release()
        except RuntimeError:  # it was woken already
            pass
        interrupt = self.interrupt
        if interrupt is not None:
            interrupt()

    def sleep(self, seconds: float) -> bool:
        """Returns whether it was woken since the last sleep."""
        return self._bed.acquire(timeout=max(0.0, seconds))


class Watch:
    """Decides who reads. At first, and whenever several sleep, it is the thread."""

    def __init__(
        self, rouse: Callable[[bool], None], read: Callable[[float], Iterable[_Task]], interrupt: _Task
    ) -> None:
        """`rouse` tells the thread whether to wake for events.

        `read` waits for events and returns what to call for them. `interrupt` ends that at once, or the next one.
        """
        self._rouse = rouse
        self._read = read
        self._interrupt = interrupt
        self._lock = Lock()  # guards what follows
        self._sleeping = 0
        self.is_roused = True
        self._is_over = False
        self._reading = Lock()  # held by the waiter that reads

    def sleep(self, sleeper: Sleeper, seconds: float) -> None:
        """Sleep until `sleeper` is woken or the time is up, or for a shorter time."""
        with self._lock:
            self._sleeping += 1
            reads = self._sleeping == 1 and not self._is_over
            if reads:
                self._set_roused(False)
        try:
            if not reads:
                sleeper.sleep(seconds)
                return
            with self._reading:
                sleeper.interrupt = self._interrupt
                # Only now, because an earlier `wake` has not interrupted anything.
                wakes = () if self._is_over or sleeper.sleep(0) else self._read(max(0.0, seconds))
                sleeper.interrupt = None
            for wake in wakes:
                wake()
        finally:
            sleeper.interrupt = None
            with self._lock:
                self._sleeping -= 1
                if reads and self._sleeping:
                    self._set_roused(True)

    def end(self) -> None:
        """From now on no waiter reads."""
        with self._lock:
            self._is_over = True
        self._interrupt()
        with self._reading:
            pass

    def _set_roused(self, is_roused: bool) -> None:
        """Call under the lock."""
        if is_roused != self.is_roused and not self._is_over:
            self.is_roused = is_roused
            self._rouse(is_roused)
