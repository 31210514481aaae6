"""Visual Studio Code."""

from __future__ import annotations

import os
import sys

from conch.harnesses.base import Change, Harness, Place, instructions, stdio_entry
from conch.harnesses.edits import Member


def _folder(place: Place) -> str:
    if sys.platform == "darwin":
        return os.path.join(place.home, "Library", "Application Support", "Code", "User")
    return place.config("Code", "User")


def _changes(place: Place) -> list[Change]:
    folder = _folder(place) if place.project is None else os.path.join(place.project, ".vscode")
    entry = {"type": "stdio", **stdio_entry(place)}
    return [
        Change(os.path.join(folder, "mcp.json"), (Member(("servers", "conch"), entry),)),
        *instructions(place, "AGENTS.md"),
    ]


HARNESS = Harness(
    "vscode",
    "VS Code",
    ("code",),
    _folder,
    _changes,
    ("Open the command palette, run `MCP: List Servers`, and start `conch`; VS Code asks whether you trust it.",),
)
