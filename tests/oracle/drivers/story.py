"""What two agents do with every tool, told once for every client that can play them.

Runs inside the environment of an SDK, so it knows nothing of conch but its tools.
"""

from __future__ import annotations

from typing import Any, Protocol

Object = dict[str, Any]
HANDOFF = {"status": "What I did: half of it.", "next_action": "Do the other half."}
NOWHERE = "room_that_is_not_there"
NO_TOPIC = "topic_that_is_not_there"


class Seat(Protocol):
    """One agent's connection. Each method says what must come of the call."""

    async def ok(self, tool: str, **arguments: Any) -> Object: ...

    async def refused(self, tool: str, code: str, **arguments: Any) -> None: ...


async def tell(ada: Seat, bob: Seat, workspace: str, bob_id: str) -> None:
    """Call every tool, once or more so that it succeeds and once so that it is refused."""
    room_id = await arrive(ada, bob, workspace, bob_id)
    await talk(ada, bob)
    await reserve(ada, bob, room_id)
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
    await ada.refused("reorder_members", "invalid_argument", room_id=room_id, order=[bob_id, bob_id])
    order = await ada.ok("reorder_members", room_id=room_id, order=[joined["agent_id"], bob_id])
    assert [member["agent_id"] for member in order["members"]] == [joined["agent_id"], bob_id]
    return room_id


async def talk(ada: Seat, bob: Seat) -> None:
    await ada.refused("ping", "INVALID_ARGUMENT", loudly=True)
    assert (await ada.ok("ping"))["spec_version"] == "v6.3"
    topic_id = await make_topic(ada, bob)
    await exchange_messages(ada, bob, topic_id)
    await ask_and_answer(ada, bob, topic_id)
    await ada.refused("topic_close", "TOPIC_NOT_FOUND", topic_id=NO_TOPIC)
    assert (await ada.ok("topic_close", topic_id=topic_id, reason="said all"))["status"] == "closed"
    await bob.refused("sync", "TOPIC_CLOSED", topic_id=topic_id, outbox=[{"content_markdown": "wait!"}])


async def make_topic(ada: Seat, bob: Seat) -> str:
    await ada.refused("topic_create", "INVALID_ARGUMENT", name=" ")
    topic_id = (await ada.ok("topic_create", name="pink", metadata={"colour": "pink"}))["topic_id"]
    await bob.refused("topic_resolve", "TOPIC_NOT_FOUND", name="blue")
    assert (await bob.ok("topic_resolve", name="pink"))["topic_id"] == topic_id
    await bob.refused("topic_list", "INVALID_ARGUMENT", status="ajar")
    assert topic_id in [topic["topic_id"] for topic in (await bob.ok("topic_list"))["topics"]]
    token = (await ada.ok("topic_join", topic_id=topic_id, agent_name="ada"))["reclaim_token"]
    await bob.refused("topic_join", "AGENT_NAME_IN_USE", topic_id=topic_id, agent_name="ada")
    await bob.ok("topic_join", name="pink", agent_name="bob")
    again = await ada.ok("topic_join", topic_id=topic_id, agent_name="ada", reclaim_token=token)
    assert again["reclaim_token"] == token
    return topic_id


async def exchange_messages(ada: Seat, bob: Seat, topic_id: str) -> None:
    await ada.refused("sync", "INVALID_ARGUMENT", topic_id=topic_id, outbox=[{"content": "hello"}])
    outbox = [{"content_markdown": "héllo 🐚", "metadata": {"to": "bob"}, "client_message_id": "1"}]
    sent = (await ada.ok("sync", topic_id=topic_id, outbox=outbox, wait_seconds=0))["sent"]
    received = (await bob.ok("sync", topic_id=topic_id))["received"]
    assert received == [{**sent[0]["message"], "addressed": True}]
    assert (await bob.ok("sync", topic_id=topic_id, wait_seconds=0))["status"] == "empty"
    await bob.refused("cursor_reset", "INVALID_ARGUMENT", topic_id=topic_id, last_seq=99)
    assert (await bob.ok("cursor_reset", topic_id=topic_id))["cursor"] == 0
    assert len((await bob.ok("sync", topic_id=topic_id, wait_seconds=0))["received"]) == 1
    await bob.refused("messages_search", "INVALID_ARGUMENT", query=" ")
    assert (await bob.ok("messages_search", query="hello", mode="fts"))["results"][0]["seq"] == 1
    await bob.refused("topic_presence", "TOPIC_NOT_FOUND", topic_id=NO_TOPIC)
    peers = (await bob.ok("topic_presence", topic_id=topic_id))["peers"]
    assert {peer["agent_name"] for peer in peers} == {"ada", "bob"}


async def ask_and_answer(ada: Seat, bob: Seat, topic_id: str) -> None:
    await ada.refused("ask", "INVALID_ARGUMENT", topic_id=topic_id, question="")
    asked = await ada.ok("ask", topic_id=topic_id, question="why?", wait_seconds=0)
    assert asked["status"] == "queued"
    question_id = asked["question_id"]
    await bob.refused("pending_list", "TOPIC_NOT_FOUND", topic_id=NO_TOPIC)
    pending = (await bob.ok("pending_list", topic_id=topic_id))["questions"]
    assert [question["question_id"] for question in pending] == [question_id]
    response = {"question_id": question_id, "answer_markdown": "because", "suggested_followups": ["really?"]}
    await ada.refused("answer", "FORBIDDEN_SELF_ANSWER", topic_id=topic_id, responses=[response])
    assert (await bob.ok("answer", topic_id=topic_id, responses=[response]))["saved"] == 1
    await ada.refused("ask_poll", "QUESTION_NOT_FOUND", topic_id=topic_id, question_id="msg_0")
    polled = await ada.ok("ask_poll", topic_id=topic_id, question_id=question_id)
    assert (polled["status"], polled["answers"][0]["answered_by"]) == ("answered", "bob")
    mine = {"topic_id": topic_id, "question_id": question_id}
    await bob.refused("question_mark_answered", "FORBIDDEN_NOT_ASKER", **mine)
    assert (await ada.ok("question_mark_answered", **mine))["status"] == "answered"
    await ada.refused("ask_cancel", "INVALID_ARGUMENT", **mine)
    other = (await ada.ok("ask", topic_id=topic_id, question="and how?", wait_seconds=0))["question_id"]
    assert (await ada.ok("ask_cancel", topic_id=topic_id, question_id=other))["status"] == "cancelled"


async def reserve(ada: Seat, bob: Seat, room_id: str) -> None:
    room = {"room_id": room_id}
    await ada.refused("agent_register", "INVALID_AGENT_ID", **room, name="A")
    assert (await ada.ok("agent_register", **room, name="ada-fox", role="parser"))["name"] == "ada-fox"
    await ada.refused("agent_heartbeat", "unknown_room", room_id=NOWHERE)
    assert (await ada.ok("agent_heartbeat", **room))["liveness"] == "active"
    await bob.refused("agent_list", "unknown_room", room_id=NOWHERE)
    assert len((await bob.ok("agent_list", **room))["agents"]) == 2
    await bob.refused("agent_adopt", "ADOPTION_REJECTED", **room, name="ada-fox", scope="src")
    assert (await ada.ok("scope_reserve", **room, scope="src/*"))["reservation"]["scope"] == "src/*"
    await bob.refused("scope_reserve", "RESERVATION_CONFLICT", **room, scope="src/parser.py")
    await bob.refused("scope_check", "INVALID_ARGS", **room, path="/")
    assert (await bob.ok("scope_check", **room, path="src/parser.py"))["overlaps"][0]["owner"] == "ada-fox"
    await bob.refused("scope_list", "unknown_room", room_id=NOWHERE)
    assert len((await bob.ok("scope_list", **room))["reservations"]) == 1
    await bob.refused("scope_release", "RELEASE_FORBIDDEN", **room, scope="src")
    assert (await ada.ok("scope_release", **room, scope="src"))["reservation"]["state"] == "released"
    await notify(ada, bob, room)


async def notify(ada: Seat, bob: Seat, room: Object) -> None:
    notice = {"event_type": "BLOCKED", "to_agent": "ada-fox"}
    payload = {"subject": "CI", "blocker": "no token", "requested_action": "add one", "urgency": "high"}
    await bob.refused("event_send", "INVALID_ARGS", **room, **notice, payload={**payload, "urgency": "very"})
    sent = (await bob.ok("event_send", **room, **notice, payload=payload))["event"]
    await ada.refused("listen", "INVALID_ARGUMENT", wait_seconds=-1)
    assert sent["id"] in [event["id"] for event in (await ada.ok("listen", wait_seconds=0))["notices"]]
    await ada.refused("event_inbox", "INVALID_ARGS", **room, state="lost")
    assert sent["id"] in [event["id"] for event in (await ada.ok("event_inbox", **room))["events"]]
    await bob.refused("event_mark", "MARK_FORBIDDEN", event_id=sent["id"], mark="seen")
    assert (await ada.ok("event_mark", event_id=sent["id"], mark="accepted"))["event"]["state"] == "accepted"


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
