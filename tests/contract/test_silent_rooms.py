"""A room of members without a process, whose end nobody can find out, costs what it cost when they were few.

Such members are scripts, clients over HTTP, and agents on other hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.conftest import MovableClock
from tests.contract.stores import Original
from tests.contract.test_large_rooms import Measured
from tests.contract.test_old_rooms import ALL_PLACES, COMMAND_LINES, arguments, grow_old

from conch.app import open_app
from conch.doors.cli import run
from conch.doors.cli.parser import parse_options, split_words
from conch.tools.catalogue import TOOLS

MANY = 6_000
BOUNDED = COMMAND_LINES.keys() - {"join", "init"}  # a join from the shell returns every member, and `init` joins
FEW = 3_000  # rows: more than the largest page of a command with what it reads beside it


def fill(environ: dict[str, str], workspace: Path) -> None:
    """Ada and bob are in a room with members that were silent for long."""
    app = open_app(environ, MovableClock())
    ada = Measured(app, workspace)
    grow_old(ada, None, MANY)
    Measured(app, workspace, "bob:2")
    ada.client.send(ada.client.home, "hello")
    app.close()


@pytest.fixture
def silent(original: Original, clock: MovableClock, request: pytest.FixtureRequest) -> Iterator[Measured]:
    """Ada, who holds the stick."""
    app = original.copy(f"copy_{abs(hash(request.node.name))}", clock)
    ada = Measured(app, original.workspace)
    ada.client.data("wait_for_turn", max_wait_ms=0)
    yield ada
    original.end(app)


@pytest.mark.parametrize("tool", sorted(TOOLS.keys() - ALL_PLACES - {"listen"}))
def test_a_tool_reads_at_most_a_page_of_the_silent_members(silent: Measured, tool: str) -> None:
    given = arguments(silent, tool)
    if "context_path" in TOOLS[tool].input_schema["properties"]:
        given["context_path"] = silent.client.joined["canonical_path"]

    assert silent.rows(lambda: silent.client.call(tool, **given)) < FEW


@pytest.mark.parametrize("line", [f"{name} {more}" for name in sorted(BOUNDED) for more in COMMAND_LINES[name]])
def test_a_command_reads_at_most_a_page_of_the_silent_members(
    silent: Measured, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(silent.client.joined["canonical_path"])
    monkeypatch.setenv("CONCH_AGENT_ID", "ada:1")
    words = split_words(line.split())
    options = parse_options(words)

    assert silent.rows(lambda: run._report(words.command, silent.client.app, options)) < FEW
