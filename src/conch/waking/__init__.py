"""Waking an agent that has stopped, when something comes for it."""

from __future__ import annotations
