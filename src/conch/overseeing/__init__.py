"""For people who oversee agents: what they see of a room at one glance, and how they step in."""

from __future__ import annotations
