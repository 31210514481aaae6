"""What a person sees of a room at one glance."""

from __future__ import annotations
