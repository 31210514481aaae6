"""The texts that an installer writes: the skill, a paragraph for files such as AGENTS.md, and a plugin."""

from __future__ import annotations

import json
import os

PARAGRAPH = """\
## Other agents work here too

This checkout is shared through conch. Before you change files, call `join_path` and then `wait_for_turn` of the MCP
server `conch`, or reserve the files with `scope_reserve`. Hand over with `release_stick` before you stop. The skill
`conch` has the details; without the tools, use `conch help` in a shell.
"""


def skill_text() -> str:
    return _read("SKILL.md")


def plugin_text(program: str, harness: str) -> str:
    """The plugin that stands in for hooks in OpenCode and Kilo: it calls `conch hook` as other harnesses do."""
    text = _read("opencode_plugin.js")
    return text.replace('"@PROGRAM@"', json.dumps(program)).replace('"@HARNESS@"', json.dumps(harness))


def _read(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()
