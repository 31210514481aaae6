"""Warnings: a call succeeded, but left something out or did something differently."""

from __future__ import annotations

from conch.lean import Any

Warning = dict[str, Any]
Warnings = list[Warning]
_LONGEST_TEXT = 4_096


def warning(code: str, message: str, **context: Any) -> Warning:
    """A code for programs, a sentence for people, and the details it is about, if any.

    A caller's own text can be of any length, so it is cut at the length of the longest path.
    """
    context = {name: value[:_LONGEST_TEXT] if isinstance(value, str) else value for name, value in context.items()}
    return {"code": code, "message": message, **({"context": context} if context else {})}
