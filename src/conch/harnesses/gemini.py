"""Gemini CLI."""

from __future__ import annotations

import os

from conch.harnesses.alarms import ring_by_resuming
from conch.harnesses.base import HOOK_SECONDS, Change, Harness, Place, instructions, server, skill
from conch.harnesses.edits import Edit, Item

_EVENTS = {
    "BeforeTool": "write_file|replace|edit|run_shell_command",
    "AfterTool": "*",
    "BeforeAgent": "*",
    "AfterAgent": "*",
    "SessionStart": "*",
    "SessionEnd": "*",
}


def _folder(place: Place) -> str:
    return os.path.join(place.folder("GEMINI_CLI_HOME"), ".gemini")


def _changes(place: Place) -> list[Change]:
    folder = _folder(place) if place.project is None else os.path.join(place.project, ".gemini")
    settings = server(os.path.join(folder, "settings.json"), place)
    return [
        settings._replace(edits=(*settings.edits, *_hooks(place))),
        skill(place, ".agents"),
        *instructions(place, "GEMINI.md", os.path.join(folder, "GEMINI.md")),
    ]


def _hooks(place: Place) -> tuple[Edit, ...]:
    return tuple(_hook(place, event, tools) for event, tools in _EVENTS.items())


def _hook(place: Place, event: str, tools: str) -> Item:
    command = place.hook(event, "gemini")
    hook = {"name": "conch", "type": "command", "command": command, "timeout": HOOK_SECONDS * 1_000}
    return Item(("hooks", event), {"matcher": tools, "hooks": [hook]}, f" hook {event} --harness gemini")


HARNESS = Harness(
    "gemini",
    "Gemini CLI",
    ("gemini",),
    _folder,
    _changes,
    ("Trust the folder when `gemini` asks. In a folder that is not trusted, it starts no server.",),
    "gemini mcp list",
    ring_by_resuming("gemini", "--resume", "SESSION", "--allowed-tools", "mcp_conch_*", "--prompt", "TEXT"),
    "Waking runs `gemini --resume ID` in the background. It may use the tools of conch there, and what your settings "
    "allow. It needs a folder that you trust, and a login or a key that it finds in `~/.gemini`.",
)
