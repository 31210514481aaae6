"""The PostgreSQL engine."""

from __future__ import annotations
