"""Cursor."""

from __future__ import annotations

import os

from conch.harnesses.base import HOOK_SECONDS, Change, Harness, Place, hook_item, instructions, server, skill
from conch.harnesses.edits import Edit, Member

_EVENTS = ("preToolUse", "postToolUse", "beforeSubmitPrompt", "stop", "sessionStart", "sessionEnd")


def _folder(place: Place) -> str:
    return os.path.join(place.home, ".cursor")


def _changes(place: Place) -> list[Change]:
    folder = _folder(place) if place.project is None else os.path.join(place.project, ".cursor")
    hooks: list[Edit] = [Member(("version",), 1)]
    hooks += [hook_item(place, "cursor", event, {"timeout": HOOK_SECONDS}) for event in _EVENTS]
    return [
        server(os.path.join(folder, "mcp.json"), place),
        Change(os.path.join(folder, "hooks.json"), tuple(hooks)),
        skill(place, ".cursor"),
        *instructions(place, "AGENTS.md"),
    ]


HARNESS = Harness(
    "cursor",
    "Cursor",
    ("cursor", "cursor-agent"),
    _folder,
    _changes,
    ("Open Cursor's settings, then MCP, and switch the server `conch` on.",),
    "cursor-agent mcp list",
)
