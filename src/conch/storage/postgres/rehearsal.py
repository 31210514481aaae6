"""Finds out what a change will ask, so that it holds its locks for two round trips only.

The first round trip of a write takes the locks and reads; the second one writes and commits. A change that has to read
a second time is rehearsed: it lets go of its locks and goes on without them, only to show which queries it needs. Then
it is made from its beginning, and the first round trip takes the locks and runs all these queries. Nothing that a
rehearsal has read decides the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from conch.lean import Any
from conch.storage.base import NOW, Query

_MOST_REHEARSALS = 2
_MOST_READS = 100  # of one rehearsal; a change that reads more is going in circles
_DRAWN = re.compile(r"\bnextval\(.*\) AS (\w+)")
_CHANGED = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+(\w+)", re.IGNORECASE)


class Rehearsed(BaseException):
    """A change was tried without its locks. Not an Exception, so that no domain takes it for trouble."""


class Plan:
    """What a change will ask, as far as its rehearsals have shown."""

    def __init__(self, statements: Mapping[str, str]) -> None:
        self._statements = statements
        self._rehearsals = 0
        self.locks: list[str] = []
        self.reads: list[Query] = []
        self._new_locks: list[str] = []
        self._new_reads: list[Query] = []
        self._changed: set[str] = set()

    def begin(self) -> None:
        """The change is made from its beginning."""
        self._new_locks, self._new_reads, self._changed = [], [], set()

    def learn(self) -> None:
        """A rehearsal has ended."""
        self._rehearsals += 1
        self.locks, self.reads = self._new_locks, self._new_reads

    def note_lock(self, name: str) -> None:
        self._new_locks.append(name)

    def note_read(self, statement: str, parameters: dict[str, Any], now: int) -> None:
        """Note a read, unless its answer depends on what was changed before it: then only the change itself may ask."""
        if not self.depends(statement):
            self._new_reads.append((statement, normalise(parameters, now)))

    def note_change(self, statement: str) -> None:
        self._changed.update(_CHANGED.findall(self._statements[statement]))

    def is_read(self, statement: str) -> bool:
        return is_read(self._statements[statement])

    def can_rehearse(self, statement: str) -> bool:
        """Whether to let go of the locks for this question. If its answer depends on a change, that would not help."""
        is_long = len(self._new_reads) > _MOST_READS
        helps = self.is_read(statement) and not self.depends(statement)
        return self._rehearsals < _MOST_REHEARSALS and not is_long and helps

    def depends(self, statement: str) -> bool:
        """Whether the answer to a question depends on what was changed before it."""
        text = self._statements[statement]
        return any(re.search(rf"\b{table}\b", text) for table in self._changed)


@cache
def is_read(text: str) -> bool:
    """Whether this SQL only reads, so that it can be asked at any time."""
    return _CHANGED.search(text) is None and "pg_advisory" not in text


@cache
def drawn_number(text: str) -> str | None:
    """The column of a number that this SQL draws from a sequence; None if it draws none."""
    found = _DRAWN.search(text)
    return found and found[1]


def normalise(parameters: dict[str, Any], now: int) -> dict[str, Any]:
    """The parameters of a query. Its own time is not known before the locks are taken."""
    if now and parameters.get("now") == now:
        return {**parameters, "now": NOW}
    return parameters
