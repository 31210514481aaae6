"""Protocol events, and the history that people read."""

from __future__ import annotations
