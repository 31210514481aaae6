"""One request in flight, as the domains see it.

It can be cancelled, it can say how it is getting on, and while it waits it can show that its caller is still there.
A request that was interrupted before it changed anything runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from conch.errors import Cancelled, StoreInterrupted
from conch.lean import Lock, TypeVar

Answer = TypeVar("Answer")

_MOST_TRIES = 3
_REPORT_EVERY_SECONDS = 4.0


def retry_interrupted(request: Callable[[], Answer]) -> Answer:
    """Run a whole request of a door, and run it again if the store interrupted it.

    This is the only retry of work that is not a wait. A request makes its one change in its last transaction, or only
    repeats harmlessly what comes before, so an interruption means that nothing was changed. What may have been
    committed is never repeated: that is StoreUncertain, which the caller gets to see.
    """
    for _ in range(_MOST_TRIES - 1):
        try:
            return request()
        except StoreInterrupted:
            pass
    return request()


class Call:
    """Shared by the thread that works on a request and the one that hears of its cancellation."""

    def __init__(self, report: Callable[[str], None] | None = None, every: float = _REPORT_EVERY_SECONDS) -> None:
        """`report` gets to hear how a wait is getting on, `every` so many seconds."""
        self._lock = Lock()
        self._wake: Callable[[], None] | None = None
        self._cancelled = False
        self._report = report
        self.report_every = float("inf") if report is None else every
        self._renew: Callable[[], None] | None = None

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            wake = self._wake
        if wake is not None:
            wake()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Meanwhile something sleeps, and a cancellation wakes it."""
        self.wake_with(wake)
        try:
            yield
        finally:
            self.wake_with(None)

    def wake_with(self, wake: Callable[[], None] | None) -> None:
        """Name what a cancellation must wake; None when nothing sleeps any more."""
        with self._lock:
            self._wake = wake
            cancelled = self._cancelled
        if cancelled and wake is not None:
            wake()

    def check(self) -> None:
        if self._cancelled:
            raise Cancelled("The call was cancelled; nothing was changed.")

    def renew_with(self, renew: Callable[[], None]) -> None:
        """Name what renews the caller's sign of life."""
        self._renew = renew

    def renew(self) -> None:
        if self._renew is not None:
            self._renew()

    def report(self, text: str) -> None:
        if self._report is not None:
            self._report(text)
