"""Waiting for something that a topic's bell tells of."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from conch import presence
from conch.bells.base import Bell
from conch.calls import Call
from conch.config import LONGEST_WAIT_MS, Settings
from conch.errors import StoreUnavailable, StoreUncertain

Found = TypeVar("Found")

REPORT_EVERY_SECONDS = 4.0


def wait_for(
    bell: Bell,
    channel: str,
    look: Callable[[], Found | None],
    wait_seconds: float,
    call: Call,
    settings: Settings,
) -> Found | None:
    """What `look` finds, as soon as it finds something; None when the time is over.

    The wait is cut so that the reply comes before common clients give up. Whoever waits stays active.
    """
    renewal = presence.renewal_ms(settings.policy, settings.stale_minutes) / 1_000
    deadline = time.monotonic() + min(wait_seconds, LONGEST_WAIT_MS / 1_000)
    pause, longest = settings.poll_initial_ms / 1_000, settings.poll_max_ms / 1_000
    reported, renewed = time.monotonic(), -renewal

    def look_alive() -> Found | None:
        nonlocal renewed
        if time.monotonic() - renewed >= renewal:
            call.renew()
            renewed = time.monotonic()
        return look()

    with bell.listen(channel) as ear:
        call.wake_with(ear.wake)
        try:
            while (found := _try_to(look_alive, call, deadline)) is None:
                now = time.monotonic()
                if now >= deadline:
                    return None
                if now - reported >= REPORT_EVERY_SECONDS:
                    call.report("Still waiting.")
                    reported = now
                ear.wait(min(deadline - now, bell.recheck_seconds(pause), REPORT_EVERY_SECONDS, renewal), linger=0.0)
                pause = min(2 * pause, longest)
            return found
        finally:
            call.wake_with(None)


def _try_to(look: Callable[[], Found | None], call: Call, deadline: float) -> Found | None:
    """A store that restarts is waited for, like everything else."""
    call.check()
    try:
        return look()
    except (StoreUnavailable, StoreUncertain):
        if time.monotonic() >= deadline:
            raise
        return None
