"""Upkeep of a whole store: verifying it, and deleting it or a room of it."""

from __future__ import annotations
