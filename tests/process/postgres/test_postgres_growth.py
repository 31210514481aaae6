"""What a call reads of a room that has grown since the connection planned its statements."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.process.postgres.counted import Caller

from conch.app import App
from conch.rooms.room import MOST_SILENT

MEMBERS = 1_000
ROWS_READ = """SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint AS rows
FROM pg_stat_user_tables WHERE relname IN ('agents', 'room_members')
"""


@pytest.fixture
def database(new_database: str) -> str:
    """Without the traces of other tests: what the planner knows of the tables decides what it reads."""
    return new_database


def add_members(app: App, room_id: str, number: int, is_gone: int = 0) -> None:
    """A crowd that has just joined, and that no statistics tell of yet, or one that has gone since."""
    with app.store.write(room_id) as tx:
        who = [{"agent_id": f"crowd:{n}", "name": f"crowd-{n}", "session_kind": "mcp_harness"} for n in range(number)]
        agent = {"harness": "crowd", "created_at": tx.now, "last_seen_at": tx.now}
        member = {"room_id": room_id, "joined_at": tx.now, "is_gone": is_gone}
        tx.load("agents", [{**each, **agent} for each in who])
        tx.load("room_members", [{**each, **member, "ordinal": n + 9} for n, each in enumerate(who)])


def rows_read(app: App) -> int:
    """How many members and agents the server has read so far for the only connection."""
    with app.store.read() as tx:
        tx.connection.execute("SELECT pg_stat_force_next_flush()")  # type: ignore[attr-defined]
    with app.store.read() as tx:
        return int(tx.connection.execute(ROWS_READ).fetchone()["rows"])  # type: ignore[attr-defined]


def gather_statistics(app: App) -> None:
    with app.store.write("statistics") as tx:
        tx.connection.execute("ANALYZE agents, room_members, path_rooms")  # type: ignore[attr-defined]


def take_a_turn(agent: Caller) -> None:
    agent.join()
    agent.claim()
    agent.call("heartbeat")
    agent.sync("hello")
    agent.release()


def test_plans_for_a_small_room_do_not_outlive_it(app: App, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").touch()
    ada, bob = (Caller(app, agent_id, os.path.realpath(tmp_path)) for agent_id in ("codex:ada", "claude:bob"))
    for _ in range(10):
        take_a_turn(ada)
        take_a_turn(bob)
    add_members(app, ada.joined["room_id"], MEMBERS)
    for _ in range(300):  # more calls than before, so the plans were renewed
        ada.sync()

    before = rows_read(app)
    take_a_turn(ada)

    assert rows_read(app) - before < MEMBERS / 2


def test_a_page_of_agents_reads_no_more_than_itself(app: App, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").touch()
    ada = Caller(app, "codex:ada", os.path.realpath(tmp_path))
    add_members(app, ada.joined["room_id"], 5 * MEMBERS, is_gone=1)
    page = ada.call("agent_list")

    before = rows_read(app)
    more = ada.call("agent_list", after=page["cursor"])

    assert more["agents"][0]["name"] == f"crowd-{len(page['agents']) - 1}"
    assert rows_read(app) - before < 2 * MEMBERS


@pytest.mark.parametrize("is_known", [False, True])
def test_the_first_members_of_a_room_are_found_without_reading_the_others(
    app: App, tmp_path: Path, is_known: bool
) -> None:
    (tmp_path / "AGENTS.md").touch()
    ada = Caller(app, "codex:ada", os.path.realpath(tmp_path))
    add_members(app, ada.joined["room_id"], 5 * MEMBERS)
    given = {"room_ids": [ada.joined["room_id"]], "most": MOST_SILENT}
    if is_known:
        gather_statistics(app)

    before = rows_read(app)
    found = app.store.glance("members_of_rooms", **given)

    assert len(found) == MOST_SILENT
    assert rows_read(app) - before < MEMBERS
