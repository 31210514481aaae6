"""Many real processes reserve and mark at once: the store decides, and no two ever share a reservation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conch.app import App
from conch.host.paths import classify

PROCESSES = 8
TRIES = 40


@pytest.fixture
def environ(environ: dict[str, str], every_engine: dict[str, str]) -> dict[str, str]:
    return {**environ, **every_engine}


def start_together(players: list[Any], gate: Any) -> None:
    for each in players:
        assert each.heard() == ["ready"]
    gate.open()


def replay(app: App) -> int:
    """Replay the record of reservations; returns how many there were. Those of two owners must not overlap."""
    with app.store.read() as tx:
        keys = {row["reservation_id"]: row["scope_key"] for row in tx.dump("reservations")}
        record = sorted(tx.dump("room_activity"), key=lambda row: row["number"])
    held: dict[str, str] = {}
    for row in record:
        if row["kind"] == "reserved":
            key = keys[row["subject_id"]]
            others = [keys[other] for other, owner in held.items() if owner != row["agent_id"]]
            assert all(classify(key, other) == "disjoint" for other in others), row
            held[row["subject_id"]] = row["agent_id"]
        elif row["kind"] in ("released", "expired"):
            del held[row["subject_id"]]
    assert held == {}
    return len(keys)


def test_eight_processes_never_own_overlapping_paths_at_once(
    player: Callable[..., Any], gates: Callable[[int], list[Any]], workspace: str, tmp_path: Path, app: App
) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    [gate] = gates(1)
    arguments = {"workspace": workspace, "tries": TRIES, "gate": gate.path, "locks": str(locks)}
    players = [
        player("reserve_at_random", agent_id=f"codex:{number}", seed=number, **arguments) for number in range(PROCESSES)
    ]

    start_together(players, gate)
    story = [line for each in players for line in each.heard_until("done")]

    granted = [line for line in story if line[0] == "granted"]
    refused = [line for line in story if line[0] == "refused"]
    assert len(granted) + len(refused) == PROCESSES * TRIES
    assert {code for _, code in refused} <= {"RESERVATION_CONFLICT"}
    assert refused, "they never met"
    assert replay(app) == len(granted)
    with app.store.read() as tx:
        incursions = [row for row in tx.dump("protocol_events") if row["event_type"] == "INCURSION"]
    assert len(incursions) >= len(refused)


def test_processes_that_mark_at_once_never_undo_an_accepted(
    player: Callable[..., Any],
    gates: Callable[[int], list[Any]],
    workspace: str,
    app: App,
    agent: Callable[..., Any],
) -> None:
    ada, bob = agent("ada:1"), agent("bob:2")
    app.membership.join_path(bob, workspace)
    room_id = app.membership.join_path(ada, workspace).snapshot.room.room_id
    # Equal notices would be merged into one event.
    notices = [{"subject": f"s {number}", "summary": "s", "next_action": "n"} for number in range(20)]
    ids = [app.notices.send(ada, room_id, "HANDOFF", "bob:2", notice).event.event_id for notice in notices]
    assert len(set(ids)) == 20
    [gate] = gates(1)
    marks = ("seen", "accepted", "seen")
    arguments = {"agent_id": "bob:2", "workspace": workspace, "event_ids": ids, "gate": gate.path}
    players = [player("mark_events", mark=mark, **arguments) for mark in marks]

    start_together(players, gate)
    told = [each.heard_until("done")[:-1] for each in players]

    assert {line[1] for line in told[1]} == {"accepted"}
    events = app.notices.inbox(bob, room_id, ["unread", "seen", "accepted"], 50)
    assert [event.state for event in events] == ["accepted"] * 20
