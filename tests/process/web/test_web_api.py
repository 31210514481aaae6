"""What the pages read, and what a person can do there. No request makes the server fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from tests.process.web.conftest import Console

HANDOFF = ("--status", "Half of it is done", "--next", "Do the rest", "--artifact", "src/a.py=review")


@pytest.fixture
def environ(environ: dict[str, str], every_engine: dict[str, str]) -> dict[str, str]:
    return {**environ, **every_engine}


@pytest.fixture
def console(environ: dict[str, str], consoles: Callable[..., Console]) -> Console:
    console = consoles(environ)
    console.conch("join")
    console.conch("join", agent="bob:2")
    return console


@pytest.fixture
def room_id(console: Console) -> str:
    return str(console.get("/api/rooms")["rooms"][0]["room_id"])


def test_a_room_shows_who_works_asks_and_reserves(console: Console, room_id: str) -> None:
    console.conch("wait")
    console.conch("reserve", "src", "--bead", "bd-1")
    console.conch("ask", "Which branch?", "--wait", "0", agent="bob:2")

    room = console.get(f"/api/rooms/{room_id}")["room"]

    assert room["sentence"] == f"{room['members'][0]['label']} has the stick."
    assert [member["doing"] for member in room["members"]] == ["holding", "here"]
    assert [member["liveness"] for member in room["members"]] == ["active", "active"]
    assert [question["question_text"] for question in room["questions"]] == ["Which branch?"]
    assert [(each["spelled"], each["bead_id"]) for each in room["reservations"]] == [("src", "bd-1")]


def test_a_page_after_a_cursor_cannot_be_of_one_source(console: Console, room_id: str) -> None:
    refused = console.request("GET", f"/api/rooms/{room_id}/timeline?source=log&after=1.0.0")

    assert (refused.status, refused.data["field"]) == (400, "source")


def test_the_timeline_goes_both_ways_without_a_gap(console: Console, room_id: str) -> None:
    for number in range(4):
        console.conch("note", f"note {number}")
        console.conch("send", f"message {number}")
    everything = console.get(f"/api/rooms/{room_id}/timeline?limit=200")

    keys: list[str] = []
    page = console.get(f"/api/rooms/{room_id}/timeline?limit=3")
    while True:
        keys = [entry["key"] for entry in page["entries"]] + keys
        if not page["has_older"]:
            break
        page = console.get(f"/api/rooms/{room_id}/timeline?limit=3&before={page['start']}")
    forward = console.get(f"/api/rooms/{room_id}/timeline?limit=200&after={page['end']}")

    assert keys == [entry["key"] for entry in everything["entries"]]
    assert [entry["key"] for entry in forward["entries"]] == keys[len(page["entries"]) :]


def test_turns_are_intervals_and_an_event_can_be_read_in_full(console: Console, room_id: str) -> None:
    console.conch("wait")
    console.conch("pass", "bob:2", *HANDOFF)
    console.conch("wait", agent="bob:2")

    first, second = console.get(f"/api/rooms/{room_id}/turns")["turns"]
    entry = console.get(f"/api/rooms/{room_id}/events/{first['end_event_seq']}")["entry"]

    assert (first["started_by"], first["ended_by"], first["to"]) == ("claim", "passed", entry["created_at"])
    assert first["handoff_to"]["agent_id"] == second["agent"]["agent_id"] == "bob:2"
    assert (second["ended_by"], second["to"]) == (None, None)
    assert entry["handoff"]["artifacts"] == [{"path": "src/a.py", "role": "review"}]
    assert entry["label"] == "Passed to"


def test_a_work_item_has_its_reservations_notices_and_agents(console: Console, room_id: str) -> None:
    console.conch("reserve", "src", "--bead", "bd/1 x")
    console.conch("agent", "send", "bob:2", "--subject", "s", "--summary", "s", "--next", "n", "--bead", "bd/1 x")

    [item] = console.get("/api/items")["items"]
    whole = console.get(f"/api/rooms/{room_id}/items/{quote('bd/1 x', safe='')}")

    assert (item["bead_id"], item["reservations"], item["notices"], item["is_active"]) == ("bd/1 x", 1, 1, True)
    assert [agent["agent_id"] for agent in item["agents"]] == ["ada:1"]
    assert [entry["kind"] for entry in whole["entries"]] == ["reservation", "protocol"]
    assert [len(whole[name]) for name in ("reservations", "notices")] == [1, 1]


def test_messages_are_read_in_pages_and_found_by_their_words(console: Console) -> None:
    console.conch("topics", "create", "plans")
    for number in range(5):
        console.conch("send", f"The parser needs step {number} <b>now</b>", "--topic", "plans")
    [topic, *_] = console.get("/api/topics")["topics"]
    address = f"/api/topics/{topic['topic_id']}/messages"

    latest = console.get(f"{address}?limit=2")
    before = console.get(f"{address}?limit=2&before=4")
    found = console.get("/api/search?q=parser%20step&limit=3")
    markdown = console.request("GET", f"/api/topics/{topic['topic_id']}/export?format=markdown")
    lines = console.request("GET", f"/api/topics/{topic['topic_id']}/export?format=jsonl")

    assert (topic["name"], topic["last_seq"]) == ("plans", 5)
    assert [message["seq"] for message in latest["messages"]] == [4, 5]
    assert [message["seq"] for message in before["messages"]] == [2, 3]
    assert (before["has_older"], before["has_newer"]) == (True, True)
    assert [part["text"] for part in found["hits"][0]["snippet"] if part["hit"]] == ["parser", "step"]
    assert (b"# plans" in markdown.body, b"<b>" in markdown.body) == (True, False)
    assert [json.loads(line)["kind"] for line in lines.body.splitlines()] == ["topic", *["message"] * 5]
    assert "attachment" in lines.headers["Content-Disposition"]


def test_health_names_the_engine_and_the_processes(console: Console, environ: dict[str, str]) -> None:
    health = console.get("/api/health")

    assert health["engine"].startswith("PostgreSQL" if "CONCH_STORE" in environ else "SQLite")
    assert {"ada:1", "bob:2"} <= {process["agent_id"] for process in health["processes"]}
    assert health["size_bytes"] > 0
    assert health["bell"]["is_reliable"]


# -- acting


def test_what_a_person_says_is_in_the_log_under_their_name(console: Console, room_id: str) -> None:
    me = console.get("/api/me")["me"]
    question = console.conch("ask", "Which branch?", "--wait", "0", agent="bob:2")["question_id"]

    sent = console.act("send", room_id=room_id, content_markdown="Good morning", to=["bob:2"])
    answered = console.act("answer", room_id=room_id, question_id=question, answer_markdown="main")
    asked = console.act("ask", room_id=room_id, question="Are you done?")
    noted = console.act("note", room_id=room_id, note="I was here")

    assert [answer.status for answer in (sent, answered, asked, noted)] == [200, 200, 200, 200], sent.body
    assert me["agent_id"].startswith("human:")
    entries = console.get(f"/api/rooms/{room_id}/timeline")["entries"]
    mine = [entry for entry in entries if entry.get("from", {}).get("agent_id") == me["agent_id"]]
    assert [entry["event_type"] for entry in mine if entry["event_type"] != "join"] == ["message"] * 3 + ["note"]
    open_ones = console.get(f"/api/rooms/{room_id}")["room"]["questions"]
    assert [(each["question_text"], each["answers"]) for each in open_ones] == [
        ("Which branch?", 1),
        ("Are you done?", 0),
    ]


def test_a_person_takes_the_stick_and_hands_it_on(console: Console, room_id: str) -> None:
    console.conch("wait")

    asked = console.act("force_take", room_id=room_id, reason="It is stuck")
    taken = console.act("force_take", room_id=room_id, reason="It is stuck", confirm=True)
    handoff = {"status": "I looked", "next_action": "Go on"}
    handed = console.act("hand_over", room_id=room_id, to="bob:2", handoff=handoff)

    assert (asked.status, asked.data["error"]) == (409, "CONFIRM")
    assert (taken.status, taken.data["revoked"]) == (200, "ada:1")
    assert handed.status == 200, handed.body
    assert console.get(f"/api/rooms/{room_id}")["room"]["reserved_for"] == "bob:2"
    assert [turn["ended_by"] for turn in console.get(f"/api/rooms/{room_id}/turns")["turns"]] == [
        "taken_over",
        "passed",
    ]


def test_a_person_nudges_passes_on_unreserves_and_kicks(console: Console, room_id: str) -> None:
    console.conch("wait")
    console.conch("reserve", "src")
    about = {"room_id": room_id, "agent_id": "ada:1"}

    nudged = console.act("nudge", **about)
    freed = console.act("unreserve", **about, scope="src", reason="I need it", confirm=True)
    passed = console.act("pass_for", **about, to="bob:2", reason="Lunch", confirm=True)
    kicked = console.act("kick", **about, reason="Wrong room", confirm=True)

    assert [answer.status for answer in (nudged, freed, passed, kicked)] == [200, 200, 200, 200], kicked.body
    room = console.get(f"/api/rooms/{room_id}")["room"]
    assert room["reserved_for"] == "bob:2"
    assert room["reservations"] == []
    assert "ada:1" not in [member["agent_id"] for member in room["members"]]


def test_a_person_changes_the_order_and_the_rules_of_a_room(console: Console, room_id: str) -> None:
    refused = console.act("reorder", room_id=room_id, order=["bob:2", "bob:2"])
    ordered = console.act("reorder", room_id=room_id, order=["bob:2", "ada:1"])
    wrong = console.act("set_policy", room_id=room_id, policy={"guard": "sometimes"})
    ruled = console.act("set_policy", room_id=room_id, policy={"owner_lease_ttl_ms": 600_000, "guard": "enforce"})

    assert (refused.status, refused.data["field"]) == (400, "order")
    assert (ordered.status, ordered.data["order"][:2]) == (200, ["bob:2", "ada:1"])
    assert (wrong.status, wrong.data["field"]) == (400, "policy.guard")
    assert ruled.status == 200, ruled.body
    policy = {each["name"]: each for each in console.get(f"/api/rooms/{room_id}/policy")["policy"]}
    assert (policy["owner_lease_ttl_ms"]["value"], policy["owner_lease_ttl_ms"]["default"]) == (600_000, 2_700_000)
    assert policy["guard"]["value"] in policy["guard"]["choices"]
    entries = console.get(f"/api/rooms/{room_id}/timeline")["entries"]
    by = {entry["event_type"]: entry["from"]["agent_id"] for entry in entries if entry["kind"] == "room"}
    assert by["reorder"] == by["policy"] == console.get("/api/me")["me"]["agent_id"]


def test_a_person_gives_an_agent_work(console: Console, room_id: str) -> None:
    payload = {"subject": "Parser", "summary": "It parses", "next_action": "Review it", "requires_ack": True}

    given = console.act("notify", room_id=room_id, agent_id="bob:2", event_type="HANDOFF", payload=payload)
    empty = console.act("notify", room_id=room_id, agent_id="bob:2", event_type="BLOCKED", payload={})

    assert given.status == 200, given.body
    assert empty.status == 400
    [notice] = console.conch("agent", "inbox", agent="bob:2")["events"]
    assert (notice["payload"]["next_action"], notice["id"]) == ("Review it", given.data["notice"]["id"])


def test_a_person_ends_only_their_own_questions(console: Console, room_id: str) -> None:
    theirs = console.conch("ask", "Which branch?", "--wait", "0", agent="bob:2")["question_id"]
    mine = [console.act("ask", room_id=room_id, question=text).data["question_id"] for text in ("Why?", "When?")]

    refused = console.act("cancel_question", room_id=room_id, question_id=theirs)
    cancelled = console.act("cancel_question", room_id=room_id, question_id=mine[0], reason="I know it now")
    answered = console.act("mark_answered", room_id=room_id, question_id=mine[1])

    assert refused.data["error"] == "FORBIDDEN_NOT_ASKER"
    assert (cancelled.data["was_open"], answered.data["was_open"]) == (True, True)
    left = console.get(f"/api/rooms/{room_id}")["room"]["questions"]
    assert [each["question_id"] for each in left] == [theirs]
    said = console.get(f"/api/rooms/{room_id}/timeline")["entries"][-2:]
    assert [(each["from"]["agent_id"][:6], each["content_markdown"], each["reply_to"]) for each in said] == [
        ("human:", "I cancelled this question: I know it now", mine[0]),
        ("human:", "I marked this question as answered.", mine[1]),
    ]


def test_what_a_person_does_to_a_topic_is_said_on_it(console: Console) -> None:
    topic_id = console.act("create_topic", name="plans").data["topic"]["topic_id"]
    home = console.get("/api/topics")["topics"][-1]["topic_id"]

    renamed = console.act("rename_topic", topic_id=topic_id, name="release plans")
    refused = console.act("rename_topic", topic_id=home, name="home")
    closed = console.act("close_topic", topic_id=topic_id, reason="Released", confirm=True)

    assert (renamed.status, refused.status, closed.status) == (200, 400, 200), renamed.body
    assert console.get(f"/api/topics/{topic_id}")["topic"]["name"] == "release plans"
    said = console.get(f"/api/topics/{topic_id}/messages")["messages"]
    assert [(each["agent_id"], each["content_markdown"]) for each in said] == [
        (console.get("/api/me")["me"]["agent_id"], text)
        for text in ("I created this topic.", "I renamed this topic: it was plans.", "I closed this topic: Released")
    ]


def test_a_person_takes_a_secret_out_of_the_store(console: Console, room_id: str) -> None:
    message_id = console.conch("send", "the password is hunter2-horse")["message"]["message_id"]
    console.conch("note", "never write hunter2-horse")
    given = {"message_id": message_id, "reason": "hunter2-horse was pasted", "secret": "hunter2-horse"}

    asked = console.act("redact", **given)
    redacted = console.act("redact", **given, confirm=True)

    assert asked.data["error"] == "CONFIRM"
    assert (redacted.status, redacted.data["repeats"], redacted.data["copies"]) == (200, 1, []), redacted.body
    entries = console.get(f"/api/rooms/{room_id}/timeline")["entries"]
    assert "hunter2" not in json.dumps(entries)
    assert entries[-1]["message_type"] == "redaction"


def test_a_person_closes_a_room_whose_stick_is_free(console: Console, room_id: str) -> None:
    closed = console.act("close_room", room_id=room_id, reason="done", confirm=True)

    assert (closed.status, closed.data.get("state")) == (200, "closed"), closed.body
    assert console.get("/api/rooms")["rooms"] == []
    assert console.get("/api/rooms?all=1")["rooms"][0]["sentence"] == "This room is closed."


def test_a_refusal_has_the_same_code_as_at_every_other_door(console: Console, room_id: str) -> None:
    console.conch("wait")

    missing = console.act("note", room_id="room_0", note="hello?")
    held = console.act("close_room", room_id=room_id, confirm=True)
    unknown = console.act("accept", event_id="proto_0")
    empty = console.act("send", room_id=room_id, content_markdown="")
    misspelled = console.act("send", room_id=room_id, content="hello")

    assert (missing.status, missing.data["error"]) == (404, "unknown_room")
    assert (held.status, held.data["error"]) == (409, "stick_held")
    assert (unknown.status, unknown.data["error"]) == (404, "EVENT_NOT_FOUND")
    assert (empty.status, empty.data["field"]) == (400, "content_markdown")
    assert (misspelled.status, misspelled.data["field"]) == (400, "content")
