"""Every reply is bounded, and its pages are complete: with a store filled to the limits, while other agents write."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import pytest
from tests.arguments import HANDOFF, VALID
from tests.contract.conftest import Child, Client, Enter

from conch.agents.records import Caller, process_columns
from conch.app import App
from conch.bus.drafts import Draft
from conch.bus.peers import Peer, enter_as_itself
from conch.bus.stream import append_messages
from conch.bus.topics import make_home
from conch.doors.mcp.protocol import result_reply
from conch.host.processes import Process
from conch.notices.events import insert_event
from conch.rooms.log import append_event
from conch.rooms.room import load_room, save_room
from conch.storage.base import Transaction
from conch.tools.catalogue import TOOLS
from conch.tools.replies import Reply

BUDGET = 32 * 1024
MEMBERS, GONE, TOPICS, RESERVATIONS, QUESTIONS, ANSWERS, NESTED, NOTICES = 300, 60, 1_200, 400, 60, 30, 100, 50
# Text that is longer as JSON, and longer still when its invisible characters are shown.
BULKY = 'needle "\u200b\u202e\t日本\n' * 250
WORST = "\U000e0001" * 120  # four bytes in the object, and eleven in the text
Object = dict[str, Any]


def size(reply: Reply) -> int:
    """The bytes of the line that a client reads."""
    text = {"type": "text", "text": reply.text}
    result = {"content": [text], "structuredContent": reply.data, "isError": reply.is_error}
    return len(result_reply(1, result))


class Filled(NamedTuple):
    """A room that is full, and two of its members."""

    ada: Client
    bob: Client
    deep: str
    question_id: str
    others: list[Caller]


@pytest.fixture
def filled(app: App, ada: Client, bob: Client, workspace: str, child: Callable[[], Child]) -> Filled:
    deep = os.path.join(workspace, *["d"] * NESTED)
    os.makedirs(deep)
    dead = child()
    dead.kill()
    ada.data("wait_for_turn")  # then she is asked to hand over, and learns of each reservation
    bob.send(bob.home, WORST, metadata={"to": "ada:1"})
    with app.store.write(ada.room_id) as tx:
        for n in range(GONE):
            add_member(tx, ada, f"gone:{n}", f"gone-{n}", 100 + n, dead.process)
        others = [add_member(tx, ada, f"other:{n}", f"other-{n}", 1_000 + n) for n in range(MEMBERS)]
        add_topics_and_rooms(tx, others, deep)
        for n in range(RESERVATIONS):
            add_reservation(tx, ada.room_id, others[n % MEMBERS].agent_id, n)
        peers = [enter_as_itself(tx, ada.home, other) for other in others]
        question_id = add_talk(tx, peers)
        room = load_room(tx, ada.room_id)
        for n in range(NOTICES):
            wanted = {"requested_action": WORST, "urgency": "low"}
            payload = {"subject": WORST, "blocker": BULKY[:1_000], **wanted}
            insert_event(tx, room, "BLOCKED", payload, bob.session.caller(), ada.session.caller(), None, f"src/{n}")
            _, room = append_event(tx, room, "note", by="ada:1", details={"note": BULKY[:1_000]})
        save_room(tx, room)
    return Filled(ada, bob, deep, question_id, others)


def add_member(
    tx: Transaction, ada: Client, agent_id: str, name: str, ordinal: int, process: Process | None = None
) -> Caller:
    shared = {"agent_id": agent_id, "name": name, "session_kind": "mcp_harness", **process_columns(process)}
    row = tx.one("find_agent", agent_id=agent_id)
    if row is None:
        tx.run("insert_agent", harness="test", now=tx.now, **shared)
    tx.run(
        "insert_member", room_id=ada.room_id, ordinal=ordinal, now=tx.now, display_name=None, takes_turns=1, **shared
    )
    return Caller(agent_id, name, process, "mcp_harness", None)


def add_topics_and_rooms(tx: Transaction, others: list[Caller], deep: str) -> None:
    for n in range(TOPICS):
        topic = {"topic_id": f"topic_{n}", "name": f"topic {n}", "metadata_json": None, "mode": "reuse"}
        tx.run("insert_topic", now=tx.now - n // 3, **topic)
        tx.run("insert_topic_seq", topic_id=f"topic_{n}", now=tx.now)
    path = deep
    for n in range(NESTED):
        tx.run("insert_room", room_id=f"room_{n}", canonical_path=path, topic_id=f"home_{n}", now=tx.now)
        make_home(tx, f"home_{n}", path)
        for place, other in enumerate(others[:20]):
            member = {"agent_id": other.agent_id, "name": other.name, "ordinal": place, "session_kind": "mcp_harness"}
            columns = process_columns(None)
            tx.run(
                "insert_member", room_id=f"room_{n}", now=tx.now, display_name=None, takes_turns=1, **member, **columns
            )
        path = os.path.dirname(path)


def add_reservation(tx: Transaction, room_id: str, agent_id: str, number: int) -> None:
    scope = {"given": None, "scope": f"src/{number}", "scope_key": f"/src/{number}/", "bead_id": None}
    times = {"created_at": tx.now, "expires_at": tx.now + 10**12}
    given = {"reservation_id": f"res_{number}", "room_id": room_id, "agent_id": agent_id}
    tx.run("insert_reservation", **given, **scope, **times)


def add_talk(tx: Transaction, peers: list[Peer]) -> str:
    """Questions, answers to the first of them, and long messages, of which one alone is more than a reply."""
    questions = [Draft(f"needle {n}? {WORST}{BULKY[:200]}", "question") for n in range(QUESTIONS)]
    question_id = append_messages(tx, peers[0], questions)[0].message.message_id
    extras = json.dumps({"repo_pointers": ["src/a.py"], "suggested_followups": ["why?"]})
    for peer in peers[1 : ANSWERS + 1]:
        append_messages(tx, peer, [Draft(BULKY[:1_000], "answer", question_id, extras)])
    append_messages(tx, peers[0], [Draft(BULKY * 2)] * 5 + [Draft("x" * 60_000)] + [Draft("x" * 20_000)] * 10)
    return question_id


class List(NamedTuple):
    """A tool that returns a list: what the list is called, what identifies an item, and how many there are."""

    tool: str
    name: str
    key: str
    length: int
    given: Object = {}


def lists(room: Filled) -> list[List]:
    topic = {"topic_id": room.ada.home}
    asked = {**topic, "question_id": room.question_id}
    found, whole = {"query": "needle", "mode": "fts"}, {"include_content": True, "limit": 8}
    return [
        List("list_rooms", "rooms", "room_id", NESTED + 1, {"context_path": room.deep}),
        List("get_room_state", "members", "agent_id", MEMBERS + 2),
        List("get_room_events", "events", "event_seq", NOTICES + 2, {"after": "0", "limit": 100}),
        List("agent_list", "agents", "agent_id", MEMBERS + GONE + 2),
        List("scope_list", "reservations", "reservation_id", RESERVATIONS),
        List("scope_list", "reservations", "reservation_id", RESERVATIONS, {"include_ended": True}),
        List("scope_check", "overlaps", "reservation_id", RESERVATIONS, {"path": "src"}),
        List("event_inbox", "events", "id", NOTICES, {"limit": 500}),
        List("topic_list", "topics", "topic_id", TOPICS + NESTED + 1, {"status": "all"}),
        List("topic_presence", "peers", "agent_name", MEMBERS + 2, {**topic, "limit": 1_000}),
        List("pending_list", "questions", "question_id", QUESTIONS, {**topic, "limit": 200}),
        List("ask_poll", "answers", "answer_id", ANSWERS, asked),
        List("messages_search", "results", "message_id", QUESTIONS, {**found, "message_type": "question", "limit": 40}),
        List("messages_search", "results", "message_id", ANSWERS, {**found, "message_type": "answer", **whole}),
    ]


def read_all(client: Client, wanted: List, meanwhile: Callable[[], None]) -> list[Any]:
    """Every page of a list. Each is bounded, and other agents write before the next one is read."""
    found: list[Any] = []
    given = dict(wanted.given)
    while True:
        reply = client.call(wanted.tool, **given)
        assert not reply.is_error, reply.text
        page = [item[wanted.key] for item in reply.data[wanted.name]]
        assert size(reply) <= BUDGET or len(page) == 1, (wanted.tool, size(reply))
        found += page
        if not reply.data["has_more"]:
            return found
        assert page and reply.data["cursor"] in reply.text
        given["after"] = reply.data["cursor"]
        meanwhile()


def test_every_list_comes_complete_in_bounded_pages_while_others_write(app: App, filled: Filled) -> None:
    numbers, written = count(10_000), []

    def write() -> None:
        n = next(numbers)
        written.append(n)
        with app.store.write(filled.ada.room_id) as tx:
            add_member(tx, filled.ada, f"late:{n}", f"late-{n}", n)
            add_reservation(tx, filled.ada.room_id, filled.others[1].agent_id, n)
            append_messages(tx, enter_as_itself(tx, filled.ada.home, filled.others[n % MEMBERS]), [Draft("needle!")])
            tx.run("touch_cursor", peer_id=1, now=tx.now)
        filled.bob.data("topic_create", name=f"late {n}")

    for wanted in lists(filled):
        before = read_all(filled.ada, wanted, lambda: None)
        written.clear()
        found = read_all(filled.ada, wanted, write)

        assert written, f"{wanted.tool} needed only one page"
        assert len(before) >= wanted.length, wanted
        assert [item for item, times in Counter(found).items() if times > 1] == [], wanted
        assert set(before) - set(found) == set(), wanted
    paged = {name for name, tool in TOOLS.items() if "after" in tool.input_schema["properties"]}
    assert paged == {wanted.tool for wanted in lists(filled)}


def test_a_room_in_a_list_is_bounded_however_many_members_it_has(app: App, ada: Client) -> None:
    with app.store.write(ada.room_id) as tx:
        for n in range(MEMBERS):
            add_member(tx, ada, f"other:{n:0>120}", f"other-{n}", n + 10)

    reply = ada.call("list_rooms", context_path=ada.joined["canonical_path"])

    (room,) = reply.data["rooms"]
    assert size(reply) <= BUDGET
    assert len(room["members"]) + room["members_more"] == MEMBERS + 1


def test_sync_delivers_every_message_once_in_bounded_replies(filled: Filled) -> None:
    seqs: list[int] = []
    while True:
        reply = filled.bob.call("sync", topic_id=filled.bob.home, wait_seconds=0, max_items=1_000)
        received = reply.data["received"]
        assert size(reply) <= BUDGET or len(received) == 1
        assert reply.data["cursor"] == received[-1]["seq"]
        assert all(message["message_id"] in reply.text for message in received)
        seqs += [message["seq"] for message in received]
        if not reply.data["has_more"]:
            break

    assert seqs == [*range(2, QUESTIONS + ANSWERS + 18)]  # the first is his own


def test_the_other_replies_are_bounded(filled: Filled) -> None:
    ada, topic = filled.ada, {"topic_id": filled.ada.home}
    living = [member.agent_id for member in filled.others]
    mail = ada.call("get_room_state").data["mail"]
    outbox = [
        {"content_markdown": "x" * 60_000, "metadata": {"to": [f"nobody-{n}-{m}" for n in range(60)]}}
        for m in range(50)
    ]
    replies = {
        "join_path": ada.call("join_path", context_path=ada.joined["canonical_path"]),
        "get_room_events": ada.call("get_room_events", limit=500),
        "reorder_members": ada.call("reorder_members", order=[*living[::-1], "bob:2", "ada:1"]),
        "an order of strangers": ada.call("reorder_members", order=[f"stranger:{n}" for n in range(1_000)]),
        "scope_reserve": ada.call("scope_reserve", scope="."),
        "a stale scope": ada.call("scope_reserve", scope=".", takeover_stale=True),
        "scope_release": ada.call("scope_release", scope="src"),
        "event_send": ada.call(
            "event_send", **{**VALID["event_send"], "room_id": ada.room_id, "to_agent": "nobody-here"}
        ),
        "sync": ada.call("sync", **topic, outbox=outbox, wait_seconds=0, max_items=1),
        "answer": ada.call("answer", **topic, responses=[{**answer_to("q" * 60_000)} for _ in range(50)]),
        "ask": ada.call("ask", **topic, question="x" * 8_000, wait_seconds=0),
    }

    sizes = {name: size(reply) for name, reply in replies.items()}
    one_message = replies["sync"].data["received"][0]
    sizes["sync"] -= 3 * len(json.dumps(one_message))  # a message that is not sent by the caller comes whole
    assert {name: found for name, found in sizes.items() if found > BUDGET} == {}
    assert {"asked_to_hand_over", "to_you", "questions", "reserved"} <= mail.keys()
    assert len(replies["sync"].data["sent"]) == 50
    assert replies["join_path"].data["members_gone"] == GONE


def answer_to(question_id: str) -> Object:
    return {"question_id": question_id, "answer_markdown": "a", "suggested_followups": ["why?"]}


# -- one item is always whole


def test_a_handoff_is_never_cut(ada: Client, bob: Client) -> None:
    handoff = {**HANDOFF, "status": "x" * 200_000}
    turn = ada.data("wait_for_turn")
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    ada.data("release_stick", **lease, handoff=handoff)

    reply = bob.call("wait_for_turn")

    assert reply.data["handoff"] == handoff
    assert handoff["status"] in reply.text


@pytest.mark.parametrize(("handoff_length", "note_length"), [(200_000, 10), (10, 16_000), (30_000, 16_000)])
def test_the_notes_of_a_takeover_fit_beside_the_handoff_or_come_later(
    ada: Client, enter: Enter, child: Callable[[], Child], handoff_length: int, note_length: int
) -> None:
    handoff = {**HANDOFF, "status": "x" * handoff_length}
    turn = ada.data("wait_for_turn")
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    ada.data("release_stick", **lease, handoff=handoff)
    process = child()
    lost = enter("lost:1", process.process)
    turn = lost.data("wait_for_turn")
    noted = [lost.data("append_note", note="y" * note_length)["event_seq"] for _ in range(5)]
    process.kill()

    taken = ada.call("takeover_stick", expected_turn_id=turn["turn_id"], reason="it is gone")

    assert taken.data["last_handoff"]["handoff"] == handoff
    assert size(taken) <= BUDGET + 2 * handoff_length
    assert taken.data["has_more"] and f'after="{taken.data["cursor"]}"' in taken.text
    later = List("get_room_events", "events", "event_seq", 0, {"after": taken.data["cursor"]})
    assert {*noted} <= {*read_all(ada, later, lambda: None)}


def test_a_long_message_is_whole_in_the_text_too(ada: Client, bob: Client) -> None:
    ada.send(ada.home, "short", "x" * 60_000, "short")

    pages = [bob.call("sync", topic_id=bob.home, wait_seconds=0) for _ in range(3)]

    assert [[len(m["content_markdown"]) for m in page.data["received"]] for page in pages] == [[5], [60_000], [5]]
    assert "x" * 60_000 in pages[1].text
    assert [page.data["has_more"] for page in pages] == [True, True, False]


def test_a_reply_that_was_not_sent_leaves_its_messages_unread(ada: Client, bob: Client) -> None:
    ada.send(ada.home, *["x" * 12_000] * 3)

    lost = bob.call("sync", topic_id=bob.home, wait_seconds=0, arrives=False)
    again = bob.call("sync", topic_id=bob.home, wait_seconds=0)

    assert (lost.data["cursor"], again.data["cursor"]) == (1, 1)


# -- members that are gone


def test_a_member_that_is_gone_and_holds_nothing_is_counted_at_once(
    enter: Enter, ada: Client, child: Callable[[], Child]
) -> None:
    idle, working, holding = child(), child(), child()
    enter("idle:1", idle.process)
    enter("working:1", working.process).reserve("src")
    owner = enter("holding:1", holding.process)
    owner.data("wait_for_turn")
    for process in (idle, working, holding):
        process.kill()

    for reply in (ada.call("get_room_state"), ada.call("join_path", context_path=ada.joined["canonical_path"])):
        assert [member["agent_id"] for member in reply.data["members"]] == ["ada:1", "working:1", "holding:1"]
        assert reply.data["members_gone"] == 1
        assert "members_gone=1" in reply.text
    assert "idle:1" in [agent["agent_id"] for agent in ada.data("agent_list")["agents"]]


def test_a_new_order_need_not_name_members_that_no_page_can_list(filled: Filled) -> None:
    everyone = List("agent_list", "agents", "agent_id", MEMBERS + GONE + 2)
    before = read_all(filled.ada, everyone, lambda: None)

    filled.ada.data("reorder_members", order=["other:299", "bob:2"])

    first = ["other:299", "bob:2"]
    assert read_all(filled.ada, everyone, lambda: None) == [*first, *(each for each in before if each not in first)]


# -- what a cursor may be


@pytest.mark.parametrize("after", ["", "x", "-1", "9" * 5_000, "1.x", "٣"])
def test_a_cursor_that_no_reply_gave_is_refused(ada: Client, after: str) -> None:
    asked = ada.data("ask", topic_id=ada.home, question="?", wait_seconds=0)["question_id"]
    given = {"topic_id": ada.home, "question_id": asked, "path": "src", "query": "q", "wait_seconds": 0}
    for name, tool in TOOLS.items():
        properties = tool.input_schema["properties"]
        if "after" in properties:
            refusal = ada.refused(name, **{key: given[key] for key in given if key in properties}, after=after)
            assert (refusal.get("field"), name) == ("after", name)


@pytest.mark.parametrize("notices", [1, 8])
def test_notices_and_messages_together_fit_into_one_reply(ada: Client, bob: Client, notices: int) -> None:
    """The client can read neither half if the other one has filled the reply."""
    for n in range(notices):
        payload = {"subject": f"s{n}", "blocker": "b" * 3_000, "requested_action": "r" * 500, "urgency": "low"}
        bob.data("event_send", event_type="BLOCKED", to_agent="ada:1", payload=payload)
    for n in range(4):
        bob.send(bob.home, f"{n} " + "m" * 8_000, metadata={"to": "ada:1"})
    heard: list[str] = []
    while True:
        reply = ada.call("listen", wait_seconds=0)
        if reply.data["status"] != "news":
            break
        assert size(reply) <= BUDGET
        heard += [each["payload"]["subject"] for each in reply.data.get("notices", ())]
        heard += [each["content_markdown"][:1] for each in reply.data.get("messages", ())]

    assert sorted(heard) == sorted([*(f"s{n}" for n in range(notices)), "0", "1", "2", "3"])
