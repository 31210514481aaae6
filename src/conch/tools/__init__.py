"""The tools, one file per group, with their schemas and their views. `catalogue` has all of them."""

from __future__ import annotations
