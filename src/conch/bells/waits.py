"""The wait loop: listen, look, sleep until something may have changed, and look again.

Everything in conch that waits uses this loop. A caller gives a `look` and the channels to listen to. The loop adds the
ear, the sleep, progress reports, presence, cancellation, and retries while the store does not answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from conch.bells.base import LINGER_SECONDS, Bell, Ear
from conch.calls import Call
from conch.errors import StoreBusy, StoreError, StoreInterrupted, StoreUnavailable, StoreUncertain
from conch.host.processes import Process
from conch.lean import TypeVar

Found = TypeVar("Found")

FOREVER = float("inf")
RETRY_SECONDS = 0.5  # first pause before a store that did not answer is asked again; a ring ends it early
_LONGEST_RETRY_SECONDS = 8.0  # the pause doubles up to this
TEMPORARY: tuple[type[StoreError], ...] = (StoreBusy, StoreUnavailable, StoreUncertain)


class Pause:
    """Why the loop looks now, and how it sleeps before the next look. `look` may change how it sleeps."""

    def __init__(self, linger: float) -> None:
        self.called = False
        """The announced channel was rung, so the ring was for this waiter alone."""
        self.rung = False
        """A bell rang, or a watched process ended, since the last look that succeeded."""
        self.ended = False
        """A watched process ended since the last look that succeeded."""
        self.is_last = False
        """The time is up: this look is the last one."""
        self.seconds = 0.0
        """How long to sleep if no bell rings."""
        self.linger = linger
        """How long to wait after a ring of a shared channel before looking."""
        self.processes: tuple[Process | None, ...] = ()
        """Processes whose end also wakes the wait. Each look replaces them."""
        self.progress = ""
        """The progress to report while waiting."""


def wait_for(
    bell: Bell,
    channels: Sequence[str],
    look: Callable[[Pause], Found | None],
    seconds: float,
    call: Call,
    *,
    announce: str | None = None,
    linger: float = LINGER_SECONDS,
    polls: tuple[float, float] = (1.0, 1.0),
    renewal: float = FOREVER,
    temporary: tuple[type[StoreError], ...] = TEMPORARY,
    has_answered: bool = True,
) -> Found | None:
    """Call `look` until it returns something, and return that. When the time is up, return what the last look returns.

    It looks when a bell rings. If bells cannot be heard, it looks at intervals that grow from the first of `polls` to
    the second. Every `renewal` seconds it renews the caller's presence. After `temporary` errors it looks again until
    the time is up, then raises them. Without `has_answered`, it raises them at once until a look has succeeded, unless
    the store was only busy or interrupted the look.
    """
    deadline = time.monotonic() + seconds
    poll, longest_poll = polls
    renew_at = FOREVER if renewal == FOREVER else 0.0
    pause, retry = Pause(linger), RETRY_SECONDS
    ear = bell.listen(*channels, announce=announce)
    try:
        call.wake_with(ear.wake)
        rest = _Rest(ear, call)
        while True:
            call.check()
            now = time.monotonic()
            pause.called, pause.is_last, pause.seconds = ear.called, now >= deadline, bell.recheck_seconds(poll)
            pause.ended, pause.processes, ear.ended = pause.ended or ear.ended, (), False
            try:
                if now >= renew_at:
                    call.renew()
                    renew_at = now + renewal
                found = look(pause)
                has_answered, retry = True, RETRY_SECONDS
                pause.rung = pause.ended = False
            except temporary as trouble:
                if pause.is_last or not (has_answered or isinstance(trouble, (StoreBusy, StoreInterrupted))):
                    raise
                found, pause.seconds = None, retry
                # A busy store is free again soon, and a lease may depend on it. Only a dead server is asked less often.
                retry = RETRY_SECONDS if isinstance(trouble, StoreBusy) else min(2 * retry, _LONGEST_RETRY_SECONDS)
            if found is not None or pause.is_last:
                return found
            pause.rung = rest.take(min(deadline - time.monotonic(), pause.seconds, renewal), pause) or pause.rung
            poll = min(2 * poll, longest_poll)
    finally:
        call.wake_with(None)
        ear.leave()  # at once: an offer of the stick depends on it
        call.tidy(ear.close)


class _Rest:
    """The sleep between two looks. It reports progress without asking the store."""

    def __init__(self, ear: Ear, call: Call) -> None:
        self._ear = ear
        self._call = call
        self._report_at: float | None = None

    def take(self, seconds: float, pause: Pause) -> bool:
        """Sleep until a bell rings, a watched process ends or the time is up. Returns False if the time is up."""
        self._ear.watch(*pause.processes)
        now = time.monotonic()
        end = now + seconds
        if self._report_at is None:  # the first report comes at once only if there is progress to report
            self._report_at = now + (0.0 if pause.progress else self._call.report_every)
        while not self._ear.wait(min(end, self._report_at) - time.monotonic()):
            now = time.monotonic()
            if now >= self._report_at:
                self._call.report(pause.progress or "Still waiting.")
                self._report_at = now + self._call.report_every
            if now >= end:
                return False
        # A report that falls due does not cut the linger short, because a crowd would then look more often.
        self._ear.linger(min(pause.linger, end - time.monotonic()))
        return True
