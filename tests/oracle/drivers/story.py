"""What two agents do with every tool, told once for every client that can play them.

Runs inside the environment of an SDK, so it knows nothing of conch but its tools.
"""

from __future__ import annotations

from typing import Any, Protocol

Object = dict[str, Any]
HANDOFF = {"status": "What I did: half of it.", "next_action": "Do the other half."}
NOWHERE = "room_that_is_not_there"


class Seat(Protocol):
    """One agent's connection. Each method says what must come of the call."""

    async def ok(self, tool: str, **arguments: Any) -> Object: ...

    async def refused(self, tool: str, code: str, **arguments: Any) -> None: ...


async def tell(ada: Seat, bob: Seat, workspace: str, bob_id: str) -> None:
    """Call every tool, once or more so that it succeeds and once so that it is refused."""
    room_id = await arrive(ada, bob, workspace, bob_id)
    await work_in_turns(ada, bob, room_id, bob_id)
    await look_around(ada, room_id)
    await take_over(ada, bob, room_id)
    await leave(ada, bob, room_id)


async def arrive(ada: Seat, bob: Seat, workspace: str, bob_id: str) -> str:
    await ada.refused("list_rooms", "invalid_argument", context_path=5)
    assert (await ada.ok("list_rooms", context_path=workspace))["rooms"] == []
    await ada.refused("join_path", "invalid_argument", context_path=workspace, force_new="perhaps")
    joined = await ada.ok("join_path", context_path=workspace)
    assert joined["canonical_path"] == workspace
    room_id = joined["room_id"]
    assert (await bob.ok("join_path", context_path=workspace))["room_id"] == room_id
    assert (await bob.ok("list_rooms", context_path=workspace))["rooms"][0]["room_id"] == room_id
    await ada.refused("reorder_members", "invalid_argument", room_id=room_id, order=[bob_id])
    order = await ada.ok("reorder_members", room_id=room_id, order=[joined["agent_id"], bob_id])
    assert [member["agent_id"] for member in order["members"]] == [joined["agent_id"], bob_id]
    return room_id


async def work_in_turns(ada: Seat, bob: Seat, room_id: str, bob_id: str) -> None:
    await ada.refused("wait_for_turn", "unknown_room", room_id=NOWHERE)
    mine = fence(await ada.ok("wait_for_turn", room_id=room_id))
    assert (await bob.ok("wait_for_turn", room_id=room_id, max_wait_ms=0))["status"] == "not_yet"
    await ada.refused("heartbeat", "turn_mismatch", **{**mine, "expected_turn_id": 99})
    assert (await ada.ok("heartbeat", **mine))["lease_id"] == mine["lease_id"]
    await ada.refused("release_stick", "stale_lease", **{**mine, "lease_id": "lease_0"}, handoff=HANDOFF)
    await ada.refused("release_stick", "invalid_handoff", **mine, handoff={"status": "done"})
    assert (await ada.ok("release_stick", **mine, handoff=HANDOFF))["reserved_for"] == bob_id

    given = await bob.ok("wait_for_turn", room_id=room_id)
    assert (given["status"], given["handoff"]) == ("your_turn", HANDOFF)
    await bob.refused("pass_stick", "unknown_member", **fence(given), to_agent_id="codex:nobody", handoff=HANDOFF)
    ada_id = given["from_agent_id"]
    assert (await bob.ok("pass_stick", **fence(given), to_agent_id=ada_id, handoff=HANDOFF))["reserved_for"] == ada_id


async def look_around(ada: Seat, room_id: str) -> None:
    await ada.refused("get_room_state", "unknown_room", room_id=NOWHERE)
    assert (await ada.ok("get_room_state", room_id=room_id))["room"]["room_id"] == room_id
    await ada.refused("append_note", "unknown_room", room_id=NOWHERE, note="hello?")
    noted = await ada.ok("append_note", room_id=room_id, note="über den 🐚")
    await ada.refused("get_room_events", "unknown_room", room_id=NOWHERE)
    events = (await ada.ok("get_room_events", room_id=room_id))["events"]
    assert events[-1]["event_id"] == noted["event_id"]


async def take_over(ada: Seat, bob: Seat, room_id: str) -> None:
    mine = fence(await ada.ok("wait_for_turn", room_id=room_id))
    taking = {"room_id": room_id, "expected_turn_id": mine["expected_turn_id"], "reason": "ada is silent"}
    await bob.refused("takeover_stick", "takeover_not_available", **taking)
    await ada.refused("set_room_policy", "invalid_argument", room_id=room_id, policy={"owner_lease_ttl_ms": -1})
    policy = {"owner_lease_ttl_ms": 20, "heartbeat_interval_ms": 10}
    assert (await ada.ok("set_room_policy", room_id=room_id, policy=policy))["policy"]["owner_lease_ttl_ms"] == 20
    await ada.ok("heartbeat", **mine)
    assert (await bob.ok("wait_for_turn", room_id=room_id))["status"] == "takeover_available"
    taken = await bob.ok("takeover_stick", **taking)
    await ada.refused("heartbeat", "turn_mismatch", **mine)
    await bob.refused("close_room", "stale_lease", **{**fence(taken), "lease_id": "lease_0"})
    await bob.refused("leave_path", "stick_held", room_id=room_id)


async def leave(ada: Seat, bob: Seat, room_id: str) -> None:
    await ada.ok("leave_path", room_id=room_id)
    mine = fence(await bob.ok("wait_for_turn", room_id=room_id))
    assert (await bob.ok("close_room", **mine, reason="done"))["state"] == "closed"


def fence(turn: Object) -> Object:
    return {"room_id": turn["room_id"], "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}


class Ledger:
    """Which tools were seen to succeed and to refuse, and that each result says the same to models and programs."""

    def __init__(self) -> None:
        self.succeeded: set[str] = set()
        self.refused: set[str] = set()

    def enter(self, tool: str, code: str | None, is_error: bool | None, data: Any, text: str) -> Object:
        assert isinstance(data, dict) and text, (tool, data, text)
        assert bool(is_error) == (code is not None), (tool, data)
        if code is None:
            self.succeeded.add(tool)
        else:
            assert data["error"] == code and text.startswith(code), (tool, code, data, text)
            self.refused.add(tool)
        return data
