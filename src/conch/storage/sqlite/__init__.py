"""The SQLite engine."""

from __future__ import annotations

from conch.lean import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
else:
    import _sqlite3 as sqlite3  # the driver alone: what `sqlite3` adds to it is for dates, and takes longer to import

__all__ = ["sqlite3"]
