"""One catalogue of commands: each entry leads to a function, and says what the domains say."""

from __future__ import annotations

from importlib import import_module

import pytest

from conch.doors.cli.catalogue import AREAS, COMMANDS
from conch.doors.cli.command import Option
from conch.notices import events
from conch.rooms.handoffs import ROLES
from conch.scopes.reservations import LONGEST_TTL, SHORTEST_TTL, TTL_MINUTES
from conch.tools.catalogue import GROUPS

ELSEWHERE = {"mcp", "serve", "hook"}  # other doors run them


def option(command: str, name: str) -> Option:
    return next(option for option in COMMANDS[command].options if option.name == name)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ELSEWHERE])
def test_every_command_has_its_function(name: str) -> None:
    module, _, function = COMMANDS[name].handler.partition(".")

    assert callable(getattr(import_module(f"conch.doors.cli.{module}"), function))


def test_every_first_word_of_an_area_has_a_command() -> None:
    assert {word for words in AREAS.values() for word in words} == {name.partition(" ")[0] for name in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_two_options_of_a_command_share_a_name(name: str) -> None:
    keys = [option.key for option in COMMANDS[name].options]

    assert len(keys) == len(set(keys))


def test_choices_and_limits_are_those_of_the_domains() -> None:
    assert option("agent send", "--type").choices == tuple(events.SENDABLE)
    assert option("agent send", "--urgency").choices == events.URGENCIES
    assert option("agent inbox", "--state").choices == (*events.STATES, "all")
    limits = f"from {SHORTEST_TTL}m to {LONGEST_TTL // 60}h; a number: minutes (default: {TTL_MINUTES // 60}h)"
    assert option("agent reserve", "--ttl").help.endswith(limits)
    assert f"ROLE: {', '.join(ROLES)} (default: {ROLES[0]})" in option("release", "--artifact").help
    assert option("mcp", "--tools").help.endswith(f": {', '.join([*GROUPS, 'everyday'])}")
