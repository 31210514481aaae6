"""A room: its row, its members, its log, and everything derived from them."""

from __future__ import annotations
