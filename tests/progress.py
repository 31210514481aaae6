"""Tells on standard error how far a long run is, every ten seconds."""

from __future__ import annotations

import sys
import time

SECONDS = 10


class Progress:
    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._began = self._told = time.monotonic()

    def tell(self, done: int, found: int) -> None:
        """`found` is the number of problems so far."""
        now = time.monotonic()
        if now - self._told < SECONDS:
            return
        self._told = now
        text = f"{self._what}: {done} of {self._total} after {now - self._began:.0f} s, {found} problems"
        print(text, file=sys.stderr, flush=True)
