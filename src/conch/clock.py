"""Time as the store keeps it: whole microseconds since the epoch, UTC.

Waiting never uses this clock (a wall clock jumps); durations come from `time.monotonic`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

Clock = Callable[[], int]

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE


def system_clock() -> int:
    return time.time_ns() // 1_000


def to_seconds(moment: int | None) -> float | None:
    """Unix seconds, as in the replies of the bus and question tools."""
    return None if moment is None else moment / SECOND


@lru_cache(maxsize=256)  # messages that were sent together have one moment, and a float is slow to spell
def spell_seconds(moment: int) -> str:
    """The same as text."""
    return str(moment / SECOND)


def parse_iso(text: str) -> float | None:
    """Unix seconds from the form of `to_iso`; None if the text has another form."""
    if len(text) != 24 or text[4] + text[7] + text[10] + text[13] + text[16] + text[19] + text[23] != "--T::.Z":
        return None
    parts = [text[0:4], text[5:7], text[8:10], text[11:13], text[14:16], text[17:19], text[20:23]]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    year, month, day, hour, minute, second, millisecond = map(int, parts)
    year -= month <= 2  # count years from March, so that a leap day is the last day
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day - 1 - 719_468
    return days * 86_400 + hour * 3_600 + minute * 60 + second + millisecond / 1_000


def to_local(moment: int) -> str:
    """A moment for people, in their own time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment / SECOND))


@lru_cache(maxsize=256)  # a reply shows the same moment in its object and in its text
def to_iso(moment: int | None) -> str | None:
    """ISO-8601 in UTC with milliseconds, as in the replies of all other tools."""
    if moment is None:
        return None
    seconds, micros = divmod(moment, SECOND)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{micros // 1_000:03d}Z"
