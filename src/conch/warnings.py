"""Warnings: a call succeeded, but left something out or did something differently."""

from __future__ import annotations

from conch.lean import Any

Warning = dict[str, Any]
Warnings = list[Warning]


def warning(code: str, message: str, **context: Any) -> Warning:
    """A code for programs, a sentence for people, and the details it is about, if any."""
    return {"code": code, "message": message, **({"context": context} if context else {})}
