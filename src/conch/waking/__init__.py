"""Waking an agent that has stopped, when something came that is for it."""

from __future__ import annotations
