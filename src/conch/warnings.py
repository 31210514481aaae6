"""Warnings: what a call did not do, or did differently, although it succeeded."""

from __future__ import annotations

from conch.lean import Any

Warning = dict[str, Any]
Warnings = list[Warning]


def warning(code: str, message: str, **context: Any) -> Warning:
    """A code for programs, a sentence for readers, and what it is about, if that can be named."""
    return {"code": code, "message": message, **({"context": context} if context else {})}
