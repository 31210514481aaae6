"""Copilot CLI."""

from __future__ import annotations

import os

from conch.harnesses.alarms import ring_by_resuming
from conch.harnesses.base import HOOK_SECONDS, Change, Harness, Place, hook_item, instructions, server, skill
from conch.harnesses.edits import Edit, Member

_EVENTS = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SessionStart", "SessionEnd")


def _folder(place: Place) -> str:
    return place.folder("COPILOT_HOME", ".copilot")


def _changes(place: Place) -> list[Change]:
    hooks: list[Edit] = [Member(("version",), 1)]
    command = {"type": "command", "timeoutSec": HOOK_SECONDS}
    hooks += [hook_item(place, "copilot", event, command, "bash") for event in _EVENTS]
    if place.project is not None:
        return [
            server(os.path.join(place.project, ".mcp.json"), place, alwaysLoad=True),  # the same as for Claude Code
            Change(os.path.join(place.project, ".github", "hooks", "conch.json"), tuple(hooks)),
            skill(place, ".agents"),
            *instructions(place, "AGENTS.md"),
        ]
    folder = _folder(place)
    return [
        server(os.path.join(folder, "mcp-config.json"), place, type="local", tools=["*"]),
        Change(os.path.join(folder, "hooks", "conch.json"), tuple(hooks)),
        skill(place, ".agents"),
        *instructions(place, "AGENTS.md", os.path.join(folder, "copilot-instructions.md")),
    ]


HARNESS = Harness(
    "copilot",
    "Copilot CLI",
    ("copilot",),
    _folder,
    _changes,
    ("Trust the folder when `copilot` asks.",),
    "copilot mcp list",
    ring_by_resuming("copilot", "--resume", "SESSION", "--allow-tool", "conch", "--prompt", "TEXT"),
    "Waking runs `copilot --resume ID` in the background. It may use the tools of conch there, and nothing "
    "else that asks for a permission. Log in with `copilot login`, or export `GH_TOKEN`: Copilot passes no other "
    "variable for a login or a model on to conch.",
)
