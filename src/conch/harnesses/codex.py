"""Codex."""

from __future__ import annotations

import os

from conch.harnesses.alarms import ring_by_command
from conch.harnesses.base import Change, Harness, Place, claude_hooks, instructions, skill, stdio_entry
from conch.harnesses.edits import Edit, Entry, Table

_VARIABLES = ("CONCH_AGENT_ID", "CONCH_DATA_DIR", "CONCH_STORE", "XDG_DATA_HOME")


def _folder(place: Place) -> str:
    return place.folder("CODEX_HOME", ".codex")


def _changes(place: Place) -> list[Change]:
    folder = _folder(place) if place.project is None else os.path.join(place.project, ".codex")
    # Codex passes no other variables on, so the server would silently use another store than a shell command.
    exported = sorted({*_VARIABLES, *(name for name in place.environ if name.startswith("CONCH_"))})
    # Without `omit_tools_from`, the code mode of Codex hides the tools. `patience.py` counts on the 300 s.
    entry = stdio_entry(place, env_vars=exported, omit_tools_from=["deferred"], tool_timeout_sec=300)
    edits: list[Table | Entry] = [Table(("mcp_servers", "conch"), entry)]
    if place.project is None:  # commands in its sandbox write to the store
        edits.append(Entry(("sandbox_workspace_write", "writable_roots"), place.data_dir))
    return [
        Change(os.path.join(folder, "config.toml"), tuple(edits)),
        Change(os.path.join(folder, "hooks.json"), _hooks(place)),
        skill(place, ".agents"),
        *instructions(place, "AGENTS.md", os.path.join(folder, "AGENTS.md")),
    ]


def _hooks(place: Place) -> tuple[Edit, ...]:
    # At the end of a session, Codex waits at most 3 s for a hook, and warns about a longer timeout.
    return claude_hooks(place, "codex", "Bash|apply_patch|Edit|Write", end_timeout=3)


HARNESS = Harness(
    "codex",
    "Codex",
    ("codex",),
    _folder,
    _changes,
    ("Start `codex`, type `/hooks` and trust the hooks of conch. Codex skips untrusted hooks silently.",),
    "codex mcp get conch",
    ring_by_command("codex", "queue", "--thread", "SESSION", "--message", "TEXT"),
    "Waking queues a prompt for your open session with `codex queue`.",
)
