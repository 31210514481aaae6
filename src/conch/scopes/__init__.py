"""Reservations of paths, and what overlaps."""

from __future__ import annotations
