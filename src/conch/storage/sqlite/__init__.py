"""The SQLite engine."""

from __future__ import annotations

from conch.lean import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
else:
    import _sqlite3 as sqlite3  # only the driver: `sqlite3` adds date handling, which is slow to import

__all__ = ["DRIVER_ERRORS", "sqlite3"]

DRIVER_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What the driver raises. It raises UnicodeDecodeError if the text of a damaged schema is not UTF-8."""
