"""Every tool: the one list that all doors share, and the groups that a client can choose."""

from __future__ import annotations

from collections.abc import Sequence

from conch.errors import InvalidArgument
from conch.tools import (
    admin,
    bus,
    facts,  # noqa: F401 - loaded now, because a process without a free descriptor cannot import
    history,
    listening,
    mail_view,  # noqa: F401
    patience,  # noqa: F401
    questions,
    scopes,
    search,
    turns,
)
from conch.tools.registry import Tool

_ALL = (
    *turns.TOOLS,
    *history.TOOLS,
    *bus.TOOLS,
    *listening.TOOLS,
    *search.TOOLS,
    *questions.TOOLS,
    *scopes.TOOLS,
    *admin.TOOLS,
)
TOOLS: dict[str, Tool] = {tool.name: tool for tool in _ALL}
GROUPS = tuple(dict.fromkeys(tool.group for tool in TOOLS.values()))
# The tools of other groups without which a group cannot be used.
_NEEDED = {
    "questions": ("topic_create", "topic_list", "topic_join"),
    "scopes": ("join_path",),
    "admin": ("join_path", "wait_for_turn", "release_stick", "get_room_state"),
}
_EVERYDAY = (
    *("join_path", "wait_for_turn", "heartbeat", "release_stick", "pass_stick", "takeover_stick"),
    *("get_room_state", "get_room_events", "listen", "sync", "ask", "answer"),
    *("scope_reserve", "scope_release", "event_inbox", "event_mark"),
)
_CHOICES = {
    **{group: (*(name for name in TOOLS if TOOLS[name].group == group), *_NEEDED.get(group, ())) for group in GROUPS},
    "everyday": _EVERYDAY,
}


def select_tools(groups: Sequence[str]) -> dict[str, Tool]:
    """The tools of some groups, with the tools that they need, in the registry's order."""
    unknown = [group for group in groups if group not in _CHOICES]
    if unknown:
        raise InvalidArgument(
            f"There is no tool group {unknown[0]!r}. The groups are {', '.join(_CHOICES)}.", field="tools"
        )
    chosen = {name for group in groups for name in _CHOICES[group]}
    return {name: tool for name, tool in TOOLS.items() if name in chosen}
