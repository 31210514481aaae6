"""Identifiers: random ones that are never used twice, and short digests."""

from __future__ import annotations

import hashlib
import os


def new_id(kind: str, size: int = 8) -> str:
    """A fresh identifier such as `room_3f9c2a51b07de644`."""
    return f"{kind}_{os.urandom(size).hex()}"


def new_lease() -> str:
    """A fencing token. 128 random bits: no lease is ever issued twice."""
    return new_id("lease", 16)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
