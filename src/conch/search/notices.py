"""Warnings: what an answer lacks, for programs and for readers."""

from __future__ import annotations

from typing import Any

Notice = dict[str, Any]


def notice(code: str, message: str, **context: Any) -> Notice:
    return {"code": code, "message": message, **({"context": context} if context else {})}
