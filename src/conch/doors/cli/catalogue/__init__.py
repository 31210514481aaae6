"""Every command: its help, its options, and the function that runs it, in one module for each area.

A new command is one entry in its area and one function. If its first word is new, it also goes into `AREAS`. A command
imports only its own area, because agents pay for its start many times a day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from conch.doors.cli.command import Command, Group
from conch.lean import import_module

# The headings of the overview, and the first words of the commands that have two.
TURNS = Group("taking turns")
SCOPES = Group("working side by side", "INVALID_ARGS")
ROOMS = Group("the room")
PEOPLE = Group("stepping in, for people at a terminal")
TALK = Group("talking", "INVALID_ARGUMENT")
OTHERS = Group("everything else")
AGENT = Group("agent", "INVALID_ARGS", ROOMS.name, "the agents here, their reservations and notices")
TOPICS = Group("topics", TALK.invalid, TALK.name, "create, list, show, close, rename or export topics")
NAMES = Group("names", TALK.invalid, TALK.name, "free a name on a topic")
DB = Group("db", heading=OTHERS.name, summary="the store: path, verify, backup, restore, migrate, copy ...")
GUARD = Group("guard", heading=SCOPES.name, summary="refuse commits of files that another agent has reserved")
INSTRUCTIONS = Group(
    "instructions", heading=OTHERS.name, summary="the instructions for agents, and your working agreement"
)
FAMILIES = {group.name: group for group in (GUARD, AGENT, TOPICS, NAMES, INSTRUCTIONS, DB)}

# The areas, and the first words of their commands.
AREAS = {
    "turns": ("join", "wait", "listen", "release", "pass", "take"),
    "scopes": ("reserve", "unreserve", "reservations", "guard"),
    "people": ("nudge", "kick", "redact"),
    "rooms": ("status", "watch", "state", "who", "rooms", "events", "note", "leave", "close", "reorder", "policy"),
    "talk": ("send", "read", "ask", "answer", "questions", "search"),
    "topics": ("topics", "names"),
    "others": (
        *("help", "version", "completion", "whoami", "import", "mcp", "doctor", "hook", "install", "uninstall"),
        *("serve", "demo", "init", "instructions"),
    ),
    "store": ("db",),
    "agents": ("agent",),
}


class _Catalogue(Mapping[str, Command]):
    """The commands by name. An area is imported when one of its commands is asked for."""

    def __getitem__(self, name: str) -> Command:
        first = name.partition(" ")[0]
        for area, words in AREAS.items():
            if first in words:
                return _load(area)[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        for area in AREAS:
            yield from _load(area)

    def __len__(self) -> int:
        return sum(len(_load(area)) for area in AREAS)


def _load(area: str) -> dict[str, Command]:
    commands: dict[str, Command] = import_module(f"conch.doors.cli.catalogue.{area}").COMMANDS
    return commands


COMMANDS = _Catalogue()
