"""What characters look like: the invisible ones, and names that could pass for another name."""

from __future__ import annotations
