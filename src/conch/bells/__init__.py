"""Bells: how one process wakes another."""

from __future__ import annotations
