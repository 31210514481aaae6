"""Kilo, which is built on OpenCode."""

from __future__ import annotations

import os

from conch.harnesses.base import Change, Harness, Place, instructions, skill
from conch.harnesses.opencode import plugin, settings


def _folder(place: Place) -> str:
    return place.environ.get("KILO_CONFIG_DIR") or place.config("kilo")


def _changes(place: Place) -> list[Change]:
    folder = _folder(place)
    return [
        settings(place.project or folder, place),
        plugin(os.path.join(place.project, ".kilo") if place.project is not None else folder, place, "kilo"),
        skill(place, ".agents"),
        *instructions(place, "AGENTS.md", os.path.join(folder, "AGENTS.md")),
    ]


HARNESS = Harness("kilo", "Kilo", ("kilo", "kilocode"), _folder, _changes, check="kilo mcp list")
