"""A room of members without a process, whose end nobody can find out, costs what it cost when they were few.

Such members are scripts, clients over HTTP, and agents on other hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.arguments import HANDOFF
from tests.callers import named
from tests.contract.conftest import MovableClock, plan
from tests.contract.stores import Original
from tests.contract.test_large_rooms import Measured
from tests.contract.test_old_rooms import ALL_PLACES, COMMAND_LINES, arguments, grow_old

from conch.app import open_app
from conch.doors.cli import run
from conch.doors.cli.parser import parse_options, split_words
from conch.rooms.room import MOST_COUNTED, MOST_SILENT
from conch.storage.base import Transaction
from conch.tools.catalogue import TOOLS

MANY = 6_000
FEW = 4_500  # rows: a page, which a join on PostgreSQL reads up to three times, and what `init` reads beside it


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


@pytest.mark.parametrize("line", [f"{name} {more}" for name in sorted(COMMAND_LINES) for more in COMMAND_LINES[name]])
def test_a_command_reads_at_most_a_page_of_the_silent_members(
    silent: Measured, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(silent.client.joined["canonical_path"])
    monkeypatch.setenv("CONCH_AGENT_ID", "ada:1")
    words = split_words(line.split())
    options = parse_options(words)

    assert silent.rows(lambda: run._report(words.command, silent.client.app, options)) < FEW


def test_the_first_members_of_a_room_are_found_by_their_places(silent: Measured) -> None:
    if silent.client.app.store.is_server:
        pytest.skip("a server counts the rows that it reads: see test_postgres_growth.py")

    found = plan(silent.client.app, "members_of_rooms", room_ids=[silent.client.room_id], most=MOST_SILENT)

    assert "room_members_sequence_idx (room_id=? AND is_gone=? AND ordinal<?)" in found


def add_reservation(tx: Transaction, room_id: str, agent_id: str) -> None:
    scope = {"given": None, "scope": "src", "scope_key": "/src/", "bead_id": None}
    times = {"created_at": tx.now, "expires_at": tx.now + 10**12}
    tx.run("insert_reservation", reservation_id="res_1", room_id=room_id, agent_id=agent_id, **scope, **times)


def test_a_large_room_lists_its_first_members_and_those_that_may_be_there(silent: Measured) -> None:
    client = silent.client
    with client.app.store.write(client.room_id) as tx:
        tx.run("touch_agent", agent_id=f"gone:{MANY - 1}", now=tx.now)
        add_reservation(tx, client.room_id, "gone:5000")

    snapshot = client.app.rooms.get_state(None, client.room_id)

    listed = [member.agent_id for member in snapshot.members]
    assert len(listed) == MOST_SILENT + 3
    assert listed[MOST_SILENT:] == ["gone:5000", f"gone:{MANY - 1}", "bob:2"]
    assert snapshot.left_out == MOST_COUNTED


def test_a_large_room_in_which_all_are_silent_is_dormant(silent: Measured, clock: MovableClock) -> None:
    client = silent.client
    client.data("release_stick", handoff=HANDOFF)
    clock.advance(minutes=200 * 24 * 60)
    rooms, states = client.app.rooms, []

    rows = silent.rows(
        lambda: states.append(rooms.get_shown(named(client.app.store, "eve:3"), client.room_id, limit=50)[0].state)
    )

    assert states == ["dormant"]
    assert rows < 100
