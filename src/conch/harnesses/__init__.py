"""What conch knows about each harness."""

from __future__ import annotations
