"""For people who oversee agents: what they see of a room at a glance, and how they step in."""

from __future__ import annotations
