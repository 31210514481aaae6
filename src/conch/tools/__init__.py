"""The tools: one registry that every door shares, one file per group."""

from __future__ import annotations

from collections.abc import Sequence

from conch.errors import InvalidArgument
from conch.tools import admin, scopes, turns
from conch.tools.registry import Tool

TOOLS: dict[str, Tool] = {tool.name: tool for tool in (*turns.TOOLS, *admin.TOOLS, *scopes.TOOLS)}
GROUPS = tuple(dict.fromkeys(tool.group for tool in TOOLS.values()))


def select_tools(groups: Sequence[str]) -> dict[str, Tool]:
    """The tools of some groups, in the registry's order."""
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise InvalidArgument(f"There is no tool group {unknown[0]!r}; there are {', '.join(GROUPS)}.", field="tools")
    return {name: tool for name, tool in TOOLS.items() if tool.group in groups}
