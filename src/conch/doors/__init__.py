"""The ways in. Doors hold no rules and never import each other."""

from __future__ import annotations
