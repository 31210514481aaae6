"""A settings file that cannot be changed safely."""

from __future__ import annotations


class Unreadable(Exception):
    """Says what is wrong with a settings file, and where. Such a file is left alone."""

    def __init__(self, why: str, line: int = 0, column: int = 0) -> None:
        place = f"line {line}, column {column}: " if line else ""
        super().__init__(f"{place}{why}")
