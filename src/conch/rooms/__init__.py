"""A room: its row, its members, its log, and what follows from them."""

from __future__ import annotations
