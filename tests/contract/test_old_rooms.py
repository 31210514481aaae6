"""A room in which every session was a new agent for a year answers like a new one, whatever is asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.arguments import HANDOFF, NOTICE, VALID
from tests.contract.conftest import Child, MovableClock
from tests.contract.stores import Original
from tests.contract.test_large_rooms import Measured

from conch.agents.records import process_columns
from conch.app import open_app
from conch.clock import DAY
from conch.doors.cli import run
from conch.doors.cli.catalogue import COMMANDS
from conch.doors.cli.parser import parse_options, split_words
from conch.host.processes import Process
from conch.rooms.room import MOST_COUNTED
from conch.storage.base import NO_LIMIT
from conch.tools.catalogue import TOOLS

MANY = 2_000
FEW = 700  # rows: more than the largest page of a reply, and far fewer than there are members
GONE = "gone:7"
# It gives every member a new place, those that are gone too, and the log says so.
ALL_PLACES = {"reorder_members"}

# What each command that works in a room is called with. The caller holds the stick.
COMMAND_LINES = {
    "rooms": [""],
    "rooms --all": [""],
    "join": [""],
    "state": [""],
    "whoami": [""],
    "status": ["", "--all"],
    "events": [""],
    "note": ["here"],
    "policy": [""],
    "reserve": ["src"],
    "reservations": ["", "--all", "src"],
    "unreserve": ["src"],
    "send": ["hello", "hello --to bob-2"],
    "read": [""],
    "answer": ["q_1 because"],
    "questions": ["", "--all"],
    "nudge": ["bob"],
    "kick": ["bob --reason late"],
    "redact": ["msg_1 --reason secret"],
    "take": ["--reason late", "--reason late --force"],
    "init": ["--non-interactive", f"--adopt {GONE} --non-interactive"],
    "topics show": [""],
    "topics rename": ["here there"],
    "topics export": [""],
    "names free": [GONE],
    "agent register": ["", "red-hen"],
    "agent adopt": [GONE],
    "agent heartbeat": [""],
    "agent show": ["", GONE],
    "agent send": ["bob --subject Parser --summary done --next review", "nobody --subject x --summary y --next z"],
    "agent inbox": [""],
    "agent seen": ["proto_1"],
    "agent accept": ["proto_1"],
    "agent reserve": ["docs"],
    "agent release": ["docs"],
    "agent status": ["", "src"],
    "release": ["--status done --next review"],
    "pass": ["bob --status done --next review"],
    "leave": [""],
    "close": ["--yes"],
    "topics close": ["nothing --reason done"],
}
LISTING = {"agent list", "who", "reorder", "db wipe"}  # they are about every member
WAITING = {"ask", "listen", "wait", "watch"}  # these take over the signals of a process


def grow_old(measured: Measured, process: Process | None, many: int = MANY) -> None:
    """Add members that joined, spoke and are gone. Without a process, nobody can know that they are."""
    client = measured.client
    with client.app.store.write(client.room_id) as tx:
        agents = [{"agent_id": f"gone:{n}", "name": f"gone-{n}", **process_columns(process)} for n in range(many)]
        kind, now = {"session_kind": "mcp_harness"}, tx.now - 200 * DAY
        tx.load("agents", [{**each, **kind, "harness": "x", "created_at": now, "last_seen_at": now} for each in agents])
        seat = {"is_gone": int(process is not None), "waiting_since": now}
        seats = [{**each, **seat, "ordinal": n + 1} for n, each in enumerate(agents)]
        tx.load("room_members", [{**each, **kind, "room_id": client.room_id, "joined_at": now} for each in seats])
        topic, at = {"topic_id": client.home}, {"created_at": now, "last_claimed_at": now}
        peers = [{"peer_id": 1_000 + n, "name": each["name"], **topic} for n, each in enumerate(agents)]
        tx.load("peers", [{**p, **at, "agent_id": f"gone:{n}", "is_own": 1} for n, p in enumerate(peers)])
        tx.load("cursors", [{**topic, "peer_id": p["peer_id"], "updated_at": now} for p in peers])
        names = [{**topic, "agent_name": p["name"], "peer_id": p["peer_id"]} for p in peers]
        tx.load("agent_name_reservations", names)


def fill(environ: dict[str, str], workspace: Path) -> None:
    """Ada and bob are in the old room, and ada has spoken."""
    app, dead = open_app(environ, MovableClock()), Child()
    ada = Measured(app, workspace)
    grow_old(ada, dead.process)
    dead.kill()
    Measured(app, workspace, "bob:2")
    ada.client.send(ada.client.home, "hello")
    app.close()


@pytest.fixture
def old(original: Original, clock: MovableClock, request: pytest.FixtureRequest) -> Iterator[Measured]:
    """Ada, who holds the stick."""
    app = original.copy(f"copy_{abs(hash(request.node.name))}", clock)
    ada = Measured(app, original.workspace)
    ada.client.data("wait_for_turn", max_wait_ms=0)
    (gone,) = app.store.glance("count_members", room_id=ada.client.room_id, is_gone=1, most=NO_LIMIT)
    assert gone["total"] == MANY
    yield ada
    original.end(app)


def arguments(old: Measured, tool: str) -> dict[str, Any]:
    """Valid arguments that fit the room, as far as they can."""
    client = old.client
    given: dict[str, Any] = {
        "topic_id": client.home,
        "to_agent_id": GONE,
        "to_agent": "nobody",
        "name": GONE,
        "order": ["ada:1", "bob:2"],
        "handoff": HANDOFF,
        "payload": NOTICE,
        "responses": [{"question_id": "q_1", "answer_markdown": "yes"}],
    }
    fence = {"lease_id", "expected_turn_id"}  # the connection knows them
    kept = {name: value for name, value in VALID[tool].items() if name not in {"room_id", *fence}}
    waits = {"wait_seconds": 0, "max_wait_ms": 0, "timeout_seconds": 0} if tool != "listen" else {"wait_seconds": 1}
    known = TOOLS[tool].input_schema["properties"]
    return {
        **kept,
        **{name: value for name, value in {**given, **waits}.items() if name in known and name in kept | waits},
    }


@pytest.mark.parametrize("tool", sorted(TOOLS.keys() - ALL_PLACES - {"listen"}))
def test_a_tool_does_not_read_the_members_of_an_old_room(old: Measured, tool: str) -> None:
    given = arguments(old, tool)

    assert old.rows(lambda: old.client.call(tool, **given)) < FEW


@pytest.fixture
def here(old: Measured, monkeypatch: pytest.MonkeyPatch) -> Measured:
    monkeypatch.chdir(old.client.joined["canonical_path"])
    monkeypatch.setenv("CONCH_AGENT_ID", "ada:1")
    return old


def test_the_table_has_every_command_that_works_in_a_room() -> None:
    in_a_room = {name for name, each in COMMANDS.items() if any(option.name == "--room" for option in each.options)}

    assert in_a_room - LISTING - WAITING <= {line.removesuffix(" --all") for line in COMMAND_LINES}


@pytest.mark.parametrize("line", [f"{name} {more}" for name, each in COMMAND_LINES.items() for more in each])
def test_a_command_does_not_read_the_members_of_an_old_room(here: Measured, line: str) -> None:
    words = split_words(line.split())
    options = parse_options(words)

    assert here.rows(lambda: run._report(words.command, here.client.app, options)) < FEW


def test_more_members_than_a_thousand_that_are_gone_are_not_counted(old: Measured) -> None:
    state = old.client.call("get_room_state")

    assert state.data["members_gone"] == MOST_COUNTED
    assert "members_gone=1000 or more: not listed" in state.text
