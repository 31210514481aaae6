"""Joining, leaving, names and resumed identities."""

from __future__ import annotations
