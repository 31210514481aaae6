"""One module per harness: what an installer writes for it, and how its hooks talk."""

from __future__ import annotations
