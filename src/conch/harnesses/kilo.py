"""Kilo, which is built on OpenCode."""

from __future__ import annotations

from conch.harnesses.alarms import ring_by_resuming
from conch.harnesses.base import Change, Harness, Place
from conch.harnesses.opencode import changes_below


def _folder(place: Place) -> str:
    return place.environ.get("KILO_CONFIG_DIR") or place.config("kilo")


def _changes(place: Place) -> list[Change]:
    return changes_below(_folder(place), ".kilo", place, "kilo")


HARNESS = Harness(
    "kilo",
    "Kilo",
    ("kilo", "kilocode"),
    _folder,
    _changes,
    check="kilo mcp list",
    ring=ring_by_resuming("kilo", "run", "--session", "SESSION", "TEXT"),
    wake_step="Waking runs `kilo run --session ID` in the background, with the permissions in your settings.",
)
