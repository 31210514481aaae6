"""Texts that name tools. A client may be offered only some of them, and must not read about the others.

Such a text has the names of tools in backticks, and is made of sentences that end with a full stop.
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache

from conch.lean import re
from conch.tools.replies import Object

_EITHER = "`([a-z_]+)` or `([a-z_]+)`"
_NAME = "`([a-z_]+)`"


def compose(text: str, offered: Container[str] | None = None) -> str:
    """The text for a client with these tools (None: all of them), without backticks around their names.

    A sentence that names another tool is left out. Of "`a` or `b`" one is enough.
    """
    if "`" not in text:
        return text
    if offered is None:
        return re.sub(_NAME, r"\1", text)
    sentences = (_narrow(sentence, offered) for sentence in text.removesuffix(".").split(". "))
    kept = ". ".join(each for each in sentences if all(name in offered for name in re.findall(_NAME, each)))
    return re.sub(_NAME, r"\1", kept) + "." if kept else ""


recall = lru_cache(maxsize=256)(compose)
"""Like `compose`, for a hashable `offered`. Every reply says what to do next, and often the same as before."""


def _narrow(sentence: str, offered: Container[str]) -> str:
    """The sentence with "`a`" for "`a` or `b`" if only one of the two is offered."""

    def choose(either: re.Match[str]) -> str:
        left = [name for name in either.groups() if name in offered]
        return f"`{left[0]}`" if len(left) == 1 else either[0]

    return re.sub(_EITHER, choose, sentence)


def compose_schema(schema: Object, offered: Container[str] | None) -> Object:
    """The schema with its descriptions composed."""
    return {name: _compose_value(name, value, offered) for name, value in schema.items()}


def _compose_value(name: str, value: object, offered: Container[str] | None) -> object:
    if isinstance(value, dict):
        return compose_schema(value, offered)
    return compose(value, offered) if name == "description" and isinstance(value, str) else value
