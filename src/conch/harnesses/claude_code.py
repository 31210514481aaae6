"""Claude Code."""

from __future__ import annotations

import os

from conch.harnesses.alarms import ring_claude
from conch.harnesses.base import Change, Harness, Place, claude_hooks, instructions, server, skill

_EDITS = "Edit|MultiEdit|Write|NotebookEdit|Bash"


def _folder(place: Place) -> str:
    return place.folder("CLAUDE_CONFIG_DIR", ".claude")


def _changes(place: Place) -> list[Change]:
    hooks = claude_hooks(place, "claude-code", _EDITS)
    # Claude Code shows a model only the names of tools, unless an entry says that they are always loaded.
    if place.project is not None:
        return [
            server(os.path.join(place.project, ".mcp.json"), place, alwaysLoad=True),
            Change(os.path.join(place.project, ".claude", "settings.json"), hooks),
            skill(place, ".claude"),
            *instructions(place, "CLAUDE.md"),
        ]
    folder = _folder(place)
    own = "CLAUDE_CONFIG_DIR" in place.environ and place.environ["CLAUDE_CONFIG_DIR"]
    settings = os.path.join(folder if own else place.home, ".claude.json")
    return [
        server(settings, place, alwaysLoad=True),
        Change(os.path.join(folder, "settings.json"), hooks),
        skill(place._replace(home=os.path.dirname(folder)), os.path.basename(folder)),
        *instructions(place, "CLAUDE.md", os.path.join(folder, "CLAUDE.md")),
    ]


HARNESS = Harness(
    "claude-code",
    "Claude Code",
    ("claude",),
    _folder,
    _changes,
    ("With `--project`: start `claude` in the project once, and approve the server `conch` of `.mcp.json`.",),
    "claude mcp list",
    ring_claude,
    "Waking types a prompt into your open session.",
)
