"""Waiting for something that a topic's bell tells of."""

from __future__ import annotations

import time
from collections.abc import Callable

from conch.bells.base import Bell, Ear
from conch.calls import Call
from conch.config import LONGEST_WAIT_MS, Settings
from conch.errors import StoreUnavailable, StoreUncertain
from conch.rooms.presence import renewal_ms
from conch.typed import TypeVar

Found = TypeVar("Found")

REPORT_EVERY_SECONDS = 4.0
RETRY_SECONDS = 4.0  # until a store that did not answer is asked again, if nobody rings before


def wait_for(
    bell: Bell,
    channel: str,
    look: Callable[[], Found | None],
    wait_seconds: float,
    call: Call,
    settings: Settings,
) -> Found | None:
    """What `look` finds, as soon as it finds something; None when the time is over.

    It looks when the bell rings, and seldom otherwise. The wait is cut so that the reply comes before common clients
    give up. Whoever waits stays active.
    """
    renewal = renewal_ms(settings) / 1_000
    deadline = time.monotonic() + min(wait_seconds, LONGEST_WAIT_MS / 1_000)
    pause, longest = settings.poll_initial_ms / 1_000, settings.poll_max_ms / 1_000
    renewed = -renewal

    def look_alive() -> Found | None:
        nonlocal renewed
        if time.monotonic() - renewed >= renewal:
            call.renew()
            renewed = time.monotonic()
        return look()

    with bell.listen(channel) as ear:
        call.wake_with(ear.wake)
        rest = Rest(ear, call)
        try:
            while True:
                found, answered = _try_to(look_alive, call, deadline)
                if found is not None or (left := deadline - time.monotonic()) <= 0:
                    return found
                rest.take(min(left, bell.recheck_seconds(pause) if answered else RETRY_SECONDS, renewal))
                pause = min(2 * pause, longest)
        finally:
            call.wake_with(None)


class Rest:
    """The sleep between two looks. It says now and then that the wait goes on, and looks at nothing for that."""

    def __init__(self, ear: Ear, call: Call) -> None:
        self._ear = ear
        self._call = call
        self._report_at = time.monotonic() + REPORT_EVERY_SECONDS

    def take(self, seconds: float) -> None:
        """Until somebody rings or the time is over."""
        end = time.monotonic() + seconds
        while not self._ear.wait(min(end, self._report_at) - time.monotonic(), linger=0.0):
            now = time.monotonic()
            if now >= self._report_at:
                self._call.report("Still waiting.")
                self._report_at = now + REPORT_EVERY_SECONDS
            if now >= end:
                return


def _try_to(look: Callable[[], Found | None], call: Call, deadline: float) -> tuple[Found | None, bool]:
    """What was found, and whether the store answered: one that restarts is waited for, like everything else."""
    call.check()
    try:
        return look(), True
    except (StoreUnavailable, StoreUncertain):
        if time.monotonic() >= deadline:
            raise
        return None, False
