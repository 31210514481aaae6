"""The tools, one file per group, with their schemas and views. `catalogue` lists them all."""

from __future__ import annotations
