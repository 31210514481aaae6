"""Qwen Code."""

from __future__ import annotations

import os

from conch.harnesses.alarms import ring_by_resuming
from conch.harnesses.base import Change, Harness, Place, claude_hooks, instructions, server, skill

_EDITS = "write_file|edit|replace|run_shell_command"


def _folder(place: Place) -> str:
    return place.folder("QWEN_HOME", ".qwen")


def _changes(place: Place) -> list[Change]:
    folder = _folder(place) if place.project is None else os.path.join(place.project, ".qwen")
    settings = server(os.path.join(folder, "settings.json"), place)
    # It counts the time-out of a hook in milliseconds.
    return [
        settings._replace(edits=(*settings.edits, *claude_hooks(place, "qwen", _EDITS, 5_000))),
        skill(place, ".agents"),
        *instructions(place, "AGENTS.md", os.path.join(folder, "AGENTS.md")),
    ]


HARNESS = Harness(
    "qwen",
    "Qwen Code",
    ("qwen",),
    _folder,
    _changes,
    ("Run `qwen mcp approve conch`.",),
    "qwen mcp list",
    ring_by_resuming("qwen", "--resume", "SESSION", "--allowed-tools", "mcp__conch", "--prompt", "TEXT"),
    "Waking runs `qwen --resume ID` in the background. It may use the tools of conch there, and what your settings "
    "allow. It needs a login or a key that it finds in `~/.qwen`.",
)
