"""One gate into a room: an agent whose process is gone changes nothing in it, whatever tool it calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from conch.app import App
from conch.tools.catalogue import TOOLS

HANDOFF = {"status": "wrote it", "next_action": "review it"}
NOTICE = {"subject": "Parser", "summary": "it parses", "next_action": "review it"}

# What each tool is called with, beside its room, its lease or its event.
CHANGES: dict[str, dict[str, Any]] = {
    "wait_for_turn": {"max_wait_ms": 0},
    "heartbeat": {},
    "release_stick": {"handoff": HANDOFF},
    "pass_stick": {"to_agent_id": "bob:2", "handoff": HANDOFF},
    "takeover_stick": {"expected_turn_id": 1, "reason": "it does not answer"},
    "append_note": {"note": "still here"},
    "leave_path": {},
    "close_room": {"reason": "done"},
    "reorder_members": {"order": ["bob:2", "ghost:1"]},
    "set_room_policy": {"policy": {"claim_ttl_ms": 1_000}},
    "agent_register": {"name": "red-hen"},
    "agent_adopt": {"name": "bob:2", "scope": "."},
    "agent_heartbeat": {},
    "scope_reserve": {"scope": "src/"},
    "scope_release": {"scope": "docs/"},
    "event_send": {"event_type": "HANDOFF", "to_agent": "bob:2", "payload": NOTICE},
    "event_mark": {"mark": "accepted"},
}
AS_OWNER = ("heartbeat", "release_stick", "pass_stick", "close_room")
STALE = (
    "stale_lease",
    "The process that holds this lease is gone, so other members may take over. Call join_path to join again.",
)
JOIN_AGAIN = ("unknown_member", "The process that you joined with is gone. Call join_path to join again.")
# The way back in: it looks up the caller's process again.
WAYS_IN = {"join_path"}
# The others change topics and questions, which have rules of their own. `listen` may claim the stick, see below.
ROOM_GROUPS = ("turns", "admin", "scopes")


def test_the_table_has_every_tool_that_changes_a_room() -> None:
    changing = {name for name, tool in TOOLS.items() if not tool.annotations.get("readOnlyHint")}

    in_a_room = {name for name in changing if "room_id" in TOOLS[name].input_schema["properties"]}
    assert in_a_room <= CHANGES.keys()
    assert {name for name in changing if TOOLS[name].group in ROOM_GROUPS} - WAYS_IN == CHANGES.keys()


class Haunted(NamedTuple):
    """A room in which an agent holds the stick, a reservation and a notice, and whose process then ended."""

    ghost: Any
    lease: dict[str, Any]
    notice: dict[str, Any]

    def arguments(self, tool: str) -> dict[str, Any]:
        own = {"event_mark": {"event_id": self.notice["id"]}, **dict.fromkeys(AS_OWNER, self.lease)}
        return CHANGES[tool] | own.get(tool, {})


@pytest.fixture
def haunted(enter: Any, child: Callable[[], Any]) -> Haunted:
    process = child()
    ghost, bob = enter("ghost:1", process.process), enter("bob:2")
    turn = ghost.data("wait_for_turn", max_wait_ms=0)
    ghost.reserve("docs/")
    notice = bob.data("event_send", event_type="HANDOFF", to_agent="ghost:1", payload=NOTICE)["event"]
    process.kill()
    return Haunted(ghost, lease_of(turn), notice)


def lease_of(turn: dict[str, Any]) -> dict[str, Any]:
    return {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}


def dump(app: App) -> dict[str, list[str]]:
    with app.store.read() as tx:
        return {table: sorted(map(repr, tx.dump(table))) for table in tx.tables()}


@pytest.mark.parametrize("tool", CHANGES)
def test_an_agent_whose_process_is_gone_changes_nothing(app: App, haunted: Haunted, clock: Any, tool: str) -> None:
    clock.advance(minutes=10)  # long enough that any presence write is due
    before = dump(app)

    refusal = haunted.ghost.refused(tool, **haunted.arguments(tool))

    assert (refusal["error"], refusal["message"]) == (STALE if tool in AS_OWNER else JOIN_AGAIN)
    assert dump(app) == before


def test_listening_claims_nothing_for_an_agent_whose_process_is_gone(
    app: App, enter: Any, child: Callable[[], Any]
) -> None:
    process = child()
    bob, ghost = enter("bob:2"), enter("ghost:1", process.process)
    turn = bob.data("wait_for_turn", max_wait_ms=0)
    bob.data("pass_stick", to_agent_id="ghost:1", handoff=HANDOFF, **lease_of(turn))
    process.kill()
    before = dump(app)

    refusal = ghost.refused("listen", wait_seconds=0)

    assert (refusal["error"], refusal["message"]) == JOIN_AGAIN
    assert dump(app) == before


def test_a_process_that_is_gone_leaves_no_sign_of_life(app: App, haunted: Haunted, clock: Any) -> None:
    clock.advance(minutes=10)
    before = dump(app)
    afresh = App(app.store, app.bell, app.settings)

    afresh.rooms.get_state(haunted.ghost.session.caller(), haunted.ghost.room_id)
    afresh.rooms.stay_active(haunted.ghost.session.caller())

    assert dump(app) == before
