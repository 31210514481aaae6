"""What people read before they know the commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conch import __version__
from conch.doors.cli.catalogue import COMMANDS

Conch = Callable[..., Any]


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)], ids=["alone", "--help", "-h"])
def test_conch_alone_or_asked_for_help_shows_what_there_is(conch: Conch, words: tuple[str, ...]) -> None:
    answer = conch(*words)

    assert answer.status == (0 if words else 2)
    assert answer.err == ""
    assert "Start with `conch join`" in answer.out
    assert all(f"\n  {name.split()[0]} " in answer.out for name in COMMANDS)
    assert all(len(line) <= 80 for line in answer.out.splitlines())


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "mcp"])
def test_the_help_of_every_command_fits_80_columns_and_shows_its_usage(conch: Conch, name: str) -> None:
    answer = conch(*name.split(), "--help")

    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith(f"usage: conch {name} ")
    assert " ".join(COMMANDS[name].about.split()) in " ".join(answer.out.split())
    assert all(len(line) <= 80 for line in answer.out.splitlines())


def test_help_is_given_wherever_it_is_asked_for_and_nothing_else_happens(new_conch: Conch) -> None:
    assert new_conch("db", "wipe", "--yes", "--help").out.startswith("usage: conch db wipe ")
    assert new_conch("--help", "wait").out.startswith("usage: conch wait ")
    assert new_conch("db", "--help").out.startswith("usage: conch db ACTION")
    assert not new_conch.database.parent.exists()  # type: ignore[attr-defined]


def test_a_text_that_looks_like_an_option_can_be_written_after_two_dashes(conch: Conch) -> None:
    conch("join")

    noted = conch("note", "--json", "--", "--help")

    assert noted.data["event_seq"] == 2
    assert "noted: --help" in conch("events").out


@pytest.mark.parametrize(("family", "action"), [("db", "verify"), ("topics", "export"), ("names", "free")])
def test_the_first_word_of_two_alone_lists_its_actions(conch: Conch, family: str, action: str) -> None:
    answer = conch(family)

    assert answer.status == 2
    assert answer.out.startswith(f"usage: conch {family} ACTION")
    assert f"\n  {action} " in answer.out


def test_the_version_is_told(conch: Conch) -> None:
    assert conch("--version").out == f"conch {__version__}\n"


def test_options_of_every_command_may_stand_before_it(conch: Conch) -> None:
    assert conch("--json", "rooms").data == {"rooms": [], "has_more": False}
    assert conch("--store", "x.sqlite", "db", "--json", "path").data["path"].endswith("/x.sqlite")
