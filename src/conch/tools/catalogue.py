"""Every tool: the one list that all doors share."""

from __future__ import annotations

from collections.abc import Sequence

from conch.errors import InvalidArgument
from conch.tools import (
    admin,
    bus,
    facts,  # noqa: F401 - loaded now, because a process without a free descriptor cannot import
    history,
    mail_view,  # noqa: F401
    patience,  # noqa: F401
    questions,
    scopes,
    search,
    turns,
)
from conch.tools.registry import Tool

_ALL = (*turns.TOOLS, *history.TOOLS, *bus.TOOLS, *search.TOOLS, *questions.TOOLS, *scopes.TOOLS, *admin.TOOLS)
TOOLS: dict[str, Tool] = {tool.name: tool for tool in _ALL}
GROUPS = tuple(dict.fromkeys(tool.group for tool in TOOLS.values()))


def select_tools(groups: Sequence[str]) -> dict[str, Tool]:
    """The tools of some groups, in the registry's order."""
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise InvalidArgument(
            f"There is no tool group {unknown[0]!r}. The groups are {', '.join(GROUPS)}.", field="tools"
        )
    return {name: tool for name, tool in TOOLS.items() if tool.group in groups}
