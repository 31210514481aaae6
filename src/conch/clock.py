"""Time as the store keeps it: whole microseconds since the epoch, UTC.

Waiting never uses this clock (a wall clock jumps); durations come from `time.monotonic`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND


def system_clock() -> int:
    return time.time_ns() // 1_000


def to_seconds(moment: int | None) -> float | None:
    """Unix seconds, as in the replies of the bus and question tools."""
    return None if moment is None else moment / SECOND


def to_iso(moment: int | None) -> str | None:
    """ISO-8601 in UTC with milliseconds, as in the replies of all other tools."""
    if moment is None:
        return None
    seconds, micros = divmod(moment, SECOND)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{micros // 1_000:03d}Z"
