"""Who is calling: the signals a process can see, and the agent they identify."""

from __future__ import annotations
