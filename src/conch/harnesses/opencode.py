"""OpenCode, and what Kilo shares with it."""

from __future__ import annotations

import os

from conch.harnesses.alarms import ring_by_resuming
from conch.harnesses.base import Change, Harness, Place, existing, instructions, skill
from conch.harnesses.edits import Member, Whole
from conch.harnesses.texts import plugin_text


def _settings(folder: str, place: Place) -> Change:
    """Our server in `opencode.json`, or in `opencode.jsonc` if only that is there."""
    entry = {"type": "local", "command": [place.program, *place.server_words], "enabled": True}
    path = existing(os.path.join(folder, "opencode.json"), os.path.join(folder, "opencode.jsonc"))
    return Change(path, (Member(("mcp", "conch"), entry),))


def changes_below(folder: str, own: str, place: Place, harness: str) -> list[Change]:
    """The changes for OpenCode, or for a program that is built on it. `own` is the name of its folder in a project."""
    return [
        _settings(place.project or folder, place),
        _plugin(os.path.join(place.project, own) if place.project is not None else folder, place, harness),
        skill(place, ".agents"),
        *instructions(place, "AGENTS.md", os.path.join(folder, "AGENTS.md")),
    ]


def _plugin(folder: str, place: Place, harness: str) -> Change:
    """The plugin that stands in for hooks."""
    return Change(os.path.join(folder, "plugins", "conch.js"), (Whole(plugin_text(place.program, harness)),))


def _folder(place: Place) -> str:
    return place.environ.get("OPENCODE_CONFIG_DIR") or place.config("opencode")


def _changes(place: Place) -> list[Change]:
    return changes_below(_folder(place), ".opencode", place, "opencode")


HARNESS = Harness(
    "opencode",
    "OpenCode",
    ("opencode",),
    _folder,
    _changes,
    check="opencode mcp list",
    ring=ring_by_resuming("opencode", "run", "--session", "SESSION", "TEXT"),
    wake_step="Waking runs `opencode run --session ID` in the background, with the permissions in your settings.",
)
