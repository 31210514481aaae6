"""Tells on standard error what a long run finds, at once, and how far it is, every ten seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection

SECONDS = 10


class Progress:
    def __init__(self, what: str, total: int, found: Collection[str] = ()) -> None:
        """`found` are the problems of earlier runs."""
        self._what, self._total = what, total
        self._shown = len(found)
        self._began = self._told = time.monotonic()

    def tell(self, done: int, found: Collection[str]) -> None:
        """`found` are all problems so far. A run may be stopped before its end, so each is shown as it comes."""
        for problem in list(found)[self._shown :]:
            print(f"{self._what} {done}: {problem}", file=sys.stderr, flush=True)
        self._shown = len(found)
        now = time.monotonic()
        if now - self._told < SECONDS:
            return
        self._told = now
        text = f"{self._what}: {done} of {self._total} after {now - self._began:.0f} s, {len(found)} problems"
        print(text, file=sys.stderr, flush=True)
