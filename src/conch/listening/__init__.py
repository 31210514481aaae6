"""What is new for an agent: found, shown once, and waited for."""

from __future__ import annotations
