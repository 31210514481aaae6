"""The SQLite engine."""

from __future__ import annotations
