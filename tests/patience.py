"""Looks at something that changes by itself: often at first, then less and less."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
FIRST, LONGEST, GROWTH = 0.001, 0.1, 1.5


def look_until(look: Callable[[], T], seconds: float, what: str = "what the test waits for did not happen") -> T:
    """What it found. The awaited process needs the processor, and a look can be a call of a server."""
    deadline, pause = time.monotonic() + seconds, FIRST
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(pause)
        pause = min(pause * GROWTH, LONGEST)
    return found
