"""The seam to the operating system: the raw facts that `processes` turns into answers.

Each system is one module with the functions of `linux`. They raise OSError where the system does not tell.
"""

from __future__ import annotations

from typing import NamedTuple


class Facts(NamedTuple):
    """What the system says of a pid. `started_at` is in the system's own unit: only ever compare it."""

    started_at: int
    parent: int
    terminal: int
    name: str
    ended: bool
