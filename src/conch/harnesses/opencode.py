"""OpenCode, and what Kilo shares with it."""

from __future__ import annotations

import os

from conch.harnesses.base import Change, Harness, Place, existing, instructions, skill
from conch.harnesses.edits import Member, Whole
from conch.harnesses.texts import plugin_text


def settings(folder: str, place: Place) -> Change:
    """Our server in `opencode.json`, or in `opencode.jsonc` if only that is there."""
    entry = {"type": "local", "command": [place.program, "mcp"], "enabled": True}
    path = existing(os.path.join(folder, "opencode.json"), os.path.join(folder, "opencode.jsonc"))
    return Change(path, (Member(("mcp", "conch"), entry),))


def plugin(folder: str, place: Place, harness: str) -> Change:
    """The plugin that stands in for hooks."""
    return Change(os.path.join(folder, "plugins", "conch.js"), (Whole(plugin_text(place.program, harness)),))


def _folder(place: Place) -> str:
    return place.environ.get("OPENCODE_CONFIG_DIR") or place.config("opencode")


def _changes(place: Place) -> list[Change]:
    folder = _folder(place)
    return [
        settings(place.project or folder, place),
        plugin(os.path.join(place.project, ".opencode") if place.project is not None else folder, place, "opencode"),
        skill(place, ".agents"),
        *instructions(place, "AGENTS.md", os.path.join(folder, "AGENTS.md")),
    ]


HARNESS = Harness("opencode", "OpenCode", ("opencode",), _folder, _changes, check="opencode mcp list")
