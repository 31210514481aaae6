"""What keeps the replies to the pages small, whatever agents write."""

from __future__ import annotations

import json
from collections.abc import Iterable

from conch.lean import Any
from conch.tools.replies import Object

_MOST_BYTES = 1024 * 1024
_EXCERPT = 300
_WHOLE = 256 * 1024  # characters of one reply


class Texts:
    """Texts of agents that a page only mentions: whole while there is room for them, then only the beginning of each.

    The timeline and the topic have the whole texts.
    """

    def __init__(self, whole: int = _WHOLE) -> None:
        self._left = whole

    def cut(self, value: Any) -> Any:
        """The same text, or its beginning; of an object or a list, each text in it."""
        if isinstance(value, dict):
            return {name: self.cut(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.cut(each) for each in value]
        if not isinstance(value, str) or len(value) <= _EXCERPT:
            return value
        self._left -= len(value)
        return value if self._left >= 0 else value[: _EXCERPT - 1] + "…"


def count_fitting(objects: Iterable[Object]) -> int:
    """How many of these fit into one reply: the leading ones, and at least one."""
    left, number = _MOST_BYTES, 0
    for each in objects:
        left -= _size(each) + 1
        if left < 0 and number:
            return number
        number += 1
    return number


def fits(each: Object) -> bool:
    return _size(each) <= _MOST_BYTES


def _size(each: Object) -> int:
    return len(json.dumps(each, separators=(",", ":")))
