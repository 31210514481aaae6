"""Protocol events: a stable envelope, checked payloads, and marks that only their recipient sets."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from conch.app import App, open_app
from conch.notices.timeline import Entry, Place, read_timeline
from conch.tools import timeline_view

HANDOFF = {"subject": "Parser", "summary": "It parses.", "next_action": "Review it."}
BLOCKED = {"subject": "CI", "blocker": "no token", "requested_action": "add one", "urgency": "high"}
WRITTEN = {"status": "Parser done\nTwo tests fail.", "next_action": "Fix test_cli"}


def send(sender: Any, recipient: Any, event_type: str = "HANDOFF", **more: Any) -> dict[str, Any]:
    payload = HANDOFF if event_type == "HANDOFF" else BLOCKED
    given = {"event_type": event_type, "to_agent": recipient.name, "payload": payload, **more}
    event: dict[str, Any] = sender.data("event_send", **given)["event"]
    return event


def claim(client: Any) -> dict[str, Any]:
    turn = client.data("wait_for_turn", max_wait_ms=0)
    assert turn["status"] == "your_turn"
    return {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}


# -- the envelope


def test_a_sent_event_has_the_whole_envelope(ada: Any, bob: Any, workspace: str) -> None:
    sent = send(ada, bob, bead_id="bd-3", scope="src/*")

    (event,) = bob.inbox()
    assert event == {
        "id": sent["id"],
        "version": "v1",
        "event_type": "HANDOFF",
        "project_root": workspace,
        "bead_id": "bd-3",
        "from_agent": ada.name,
        "to_agent": bob.name,
        "scope": "src/*",
        "created_at": "2027-01-15T08:00:00.000Z",
        "payload": {**HANDOFF, "requires_ack": True},
        "state": "unread",
    }
    assert sent == {name: value for name, value in event.items() if name != "payload"}
    assert ada.inbox() == []


def test_a_recipient_is_known_by_its_agent_id_too(ada: Any, bob: Any) -> None:
    assert send(ada, bob, "BLOCKED", to_agent="bob:2")["to_agent"] == bob.name


def test_a_handoff_need_not_be_accepted_if_its_sender_says_so(ada: Any, bob: Any) -> None:
    send(ada, bob, payload={**HANDOFF, "requires_ack": False})

    (event,) = bob.inbox()
    assert event["payload"]["requires_ack"] is False


def test_an_unknown_type_is_answered_with_what_an_agent_can_send(ada: Any, bob: Any) -> None:
    refused = ada.refused("event_send", event_type="FOO", to_agent="bob:2", payload=HANDOFF)

    assert (refused["error"], refused["field"]) == ("INVALID_ARGS", "event_type")
    assert refused["message"] == "event_type must be one of HANDOFF, BLOCKED."


@pytest.mark.parametrize("event_type", ["INCURSION", "RESUME"])
def test_only_the_system_sends_incursions_and_resumptions(ada: Any, bob: Any, event_type: str) -> None:
    refusal = ada.refused("event_send", event_type=event_type, to_agent=bob.name, payload=HANDOFF)

    assert (refusal["error"], refusal["field"], refusal["reason"]) == ("INVALID_ARGS", "event_type", "system_only")
    assert "records it when" in refusal["message"]


@pytest.mark.parametrize(
    ("event_type", "payload", "field"),
    [
        *[("HANDOFF", {k: v for k, v in HANDOFF.items() if k != name}, f"payload.{name}") for name in HANDOFF],
        *[("BLOCKED", {k: v for k, v in BLOCKED.items() if k != name}, f"payload.{name}") for name in BLOCKED],
        ("HANDOFF", {**HANDOFF, "subject": " "}, "payload.subject"),
        ("HANDOFF", {**HANDOFF, "summary": 7}, "payload.summary"),
        ("HANDOFF", {**HANDOFF, "urgency": "high"}, "payload.urgency"),
        ("HANDOFF", {**HANDOFF, "requires_ack": "yes"}, "payload.requires_ack"),
        ("BLOCKED", {**BLOCKED, "urgency": "soon"}, "payload.urgency"),
        ("BLOCKED", {**BLOCKED, "requires_ack": False}, "payload.requires_ack"),
        ("BLOCKED", {}, "payload.subject"),
        ("NOTE", HANDOFF, "event_type"),
        ("HANDOFF", {**HANDOFF, "summary": "x" * 300_000}, "payload"),
    ],
)
def test_a_payload_that_does_not_fit_its_type_is_refused(
    ada: Any, bob: Any, event_type: str, payload: Any, field: str
) -> None:
    refusal = ada.refused("event_send", event_type=event_type, to_agent=bob.name, payload=payload)

    assert (refusal["error"], refusal["field"]) == ("INVALID_ARGS", field)
    assert bob.inbox() == []


def test_an_agent_outside_the_room_cannot_be_a_recipient(ada: Any, bob: Any) -> None:
    bob.data("leave_path")

    for stranger in ("bob:2", bob.name, "nobody"):
        refusal = ada.refused("event_send", event_type="HANDOFF", to_agent=stranger, payload=HANDOFF)
        assert refusal["error"] == "UNKNOWN_RECIPIENT"


# -- the inbox and the marks


def test_seen_and_accepted_are_told_with_their_time(ada: Any, bob: Any, clock: Any) -> None:
    event_id = send(ada, bob)["id"]
    clock.advance(minutes=1)
    seen = bob.data("event_mark", event_id=event_id, mark="seen")["event"]
    clock.advance(minutes=1)
    accepted = bob.data("event_mark", event_id=event_id, mark="accepted")["event"]

    assert (seen["state"], seen["seen_at"]) == ("seen", "2027-01-15T08:01:00.000Z")
    assert "accepted_at" not in seen
    assert (accepted["state"], accepted["seen_at"]) == ("accepted", seen["seen_at"])
    assert accepted["accepted_at"] == "2027-01-15T08:02:00.000Z"


def test_accepted_stays_accepted_whatever_comes_later(ada: Any, bob: Any, clock: Any) -> None:
    event_id = send(ada, bob)["id"]
    accepted = bob.data("event_mark", event_id=event_id, mark="accepted")
    clock.advance(minutes=1)

    assert bob.data("event_mark", event_id=event_id, mark="seen") == accepted
    assert bob.data("event_mark", event_id=event_id, mark="accepted") == accepted


def test_only_its_recipient_marks_an_event(ada: Any, bob: Any) -> None:
    event_id = send(ada, bob)["id"]

    assert ada.refused("event_mark", event_id=event_id, mark="accepted")["error"] == "MARK_FORBIDDEN"
    assert ada.refused("event_mark", event_id="proto_0", mark="seen")["error"] == "EVENT_NOT_FOUND"
    assert bob.inbox()[0]["state"] == "unread"


def test_the_inbox_shows_what_is_asked_for(ada: Any, bob: Any) -> None:
    ids = [send(ada, bob, scope=f"{number}.py")["id"] for number in range(3)]
    bob.data("event_mark", event_id=ids[0], mark="seen")
    bob.data("event_mark", event_id=ids[1], mark="accepted")

    def shown(**options: Any) -> list[str]:
        return [event["id"] for event in bob.inbox(**options)]

    assert shown() == [ids[0], ids[2]]
    assert shown(state="unread") == [ids[2]]
    assert shown(state="seen") == [ids[0]]
    assert shown(state="accepted") == [ids[1]]
    assert shown(state="all") == ids
    assert shown(state="all", limit=2) == ids[:2]
    assert bob.data("event_inbox", state="all", limit=2)["has_more"]


def test_a_concurrent_seen_never_undoes_an_accepted(environ: dict[str, str], ada: Any, bob: Any) -> None:
    ids = [send(ada, bob, scope=f"{number}.py")["id"] for number in range(20)]
    start = threading.Barrier(2)

    def mark_all(mark: str) -> None:
        app = open_app(environ)
        caller = bob.session.caller()
        for event_id in ids:
            start.wait()
            app.notices.mark(caller, event_id, mark)
        app.close()

    threads = [threading.Thread(target=mark_all, args=(mark,)) for mark in ("seen", "accepted")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [event["state"] for event in bob.inbox(state="all")] == ["accepted"] * 20


# -- the stick


def test_a_released_stick_leaves_a_handoff_and_claiming_it_accepts_it(ada: Any, bob: Any) -> None:
    ada.data("release_stick", **claim(ada), handoff=WRITTEN)

    (event,) = bob.inbox()
    claim(bob)

    assert (event["event_type"], event["from_agent"], event["to_agent"]) == ("HANDOFF", ada.name, bob.name)
    assert event["payload"] == {
        "subject": "Parser done",
        "summary": WRITTEN["status"],
        "next_action": "Fix test_cli",
        "requires_ack": True,
    }
    assert event["state"] == "unread"
    assert bob.inbox() == []
    assert bob.inbox(state="accepted")[0]["id"] == event["id"]


def test_followers_of_the_room_see_that_a_handoff_was_accepted(app: App, ada: Any, bob: Any) -> None:
    ada.data("release_stick", **claim(ada), handoff=WRITTEN)
    (event,) = bob.inbox()
    before = read_timeline(app.store, ada.room_id, None, 50).place

    claim(bob)

    page = timeline_view.page(read_timeline(app.store, ada.room_id, before, 50))
    assert [(each["event_type"], each["label"]) for each in page["events"]] == [
        ("claim", "Claimed"),
        ("accepted", "Accepted"),
    ]
    assert page["events"][1]["protocol_event"]["id"] == event["id"]
    assert page["events"][1]["name"] == bob.name


def test_a_stick_is_passed_by_name_too(ada: Any, bob: Any) -> None:
    held = claim(ada)

    itself = ada.refused("pass_stick", **held, to_agent_id=ada.name, handoff=WRITTEN)
    nobody = ada.refused("pass_stick", **held, to_agent_id="nobody-here", handoff=WRITTEN)
    passed = ada.data("pass_stick", **held, to_agent_id=bob.name, handoff=WRITTEN)

    assert (itself["error"], nobody["error"]) == ("invalid_argument", "unknown_member")
    assert passed["reserved_for"] == "bob:2"


def test_a_stick_is_passed_by_a_former_name_too(ada: Any, bob: Any) -> None:
    former = bob.name
    bob.data("agent_register", name="red-hen")

    passed = ada.data("pass_stick", **claim(ada), to_agent_id=former, handoff=WRITTEN)

    assert passed["reserved_for"] == "bob:2"


def test_a_passed_stick_leaves_a_handoff_for_its_recipient(ada: Any, bob: Any, enter: Any) -> None:
    cleo = enter("cleo:3")

    ada.data("pass_stick", **claim(ada), to_agent_id="cleo:3", handoff=WRITTEN)

    assert bob.inbox() == []
    assert [event["event_type"] for event in cleo.inbox()] == ["HANDOFF"]


def test_a_handoff_without_a_recipient_is_accepted_by_the_next_claim(ada: Any, enter: Any) -> None:
    ada.data("release_stick", **claim(ada), handoff=WRITTEN)
    bob = enter("bob:2")

    claim(bob)

    (event,) = bob.inbox(state="accepted")
    assert (event["from_agent"], event["to_agent"]) == (ada.name, bob.name)


def test_a_takeover_accepts_the_handoff(ada: Any, bob: Any, enter: Any, clock: Any) -> None:
    cleo = enter("cleo:3")
    ada.data("release_stick", **claim(ada), handoff=WRITTEN)
    clock.advance(minutes=21)

    cleo.data("takeover_stick", expected_turn_id=1, reason="bob does not answer")

    assert bob.inbox(state="all") == []
    assert [event["event_type"] for event in cleo.inbox(state="accepted")] == ["HANDOFF"]


def test_an_undelivered_claim_accepts_nothing(ada: Any, bob: Any) -> None:
    ada.data("release_stick", **claim(ada), handoff=WRITTEN)

    bob.call("wait_for_turn", arrives=False, max_wait_ms=0)

    (event,) = bob.inbox()
    assert (event["state"], event["to_agent"]) == ("unread", bob.name)
    claim(bob)
    assert bob.inbox() == []


# -- the timeline


def say(app: App, room_id: str, seq: int, text: str) -> None:
    """A message on the room's home topic."""
    with app.store.write(room_id) as tx:
        room = tx.one("find_room", room_id=room_id)
        assert room is not None
        if not any(row["topic_id"] == room["topic_id"] for row in tx.dump("topics")):
            topic = {"topic_id": room["topic_id"], "name": "home", "created_at": tx.now, "mode": "home"}
            tx.load("topics", [topic])
        known = {"topic_id": room["topic_id"], "name": "ada", "agent_id": None, "is_own": 0}
        peer = tx.one("insert_peer", reclaim_token_hash=None, now=tx.now, **known)
        assert peer is not None
        message = {
            "message_id": f"m{seq}", "topic_id": room["topic_id"], "seq": seq, "sender_id": peer["peer_id"],
            "message_type": "message", "content_markdown": text, "created_at": tx.now,
        }  # fmt: skip
        tx.load("messages", [message])


def story(app: App, ada: Any, bob: Any, clock: Any) -> None:
    """Something of every kind, a minute apart."""
    steps = [
        lambda: ada.data("agent_register", name="amber-otter", role="parser"),
        lambda: ada.data("release_stick", **claim(ada), handoff=WRITTEN),
        lambda: say(app, ada.room_id, 1, "hello\nworld"),
        lambda: claim(bob),
        lambda: ada.reserve("src"),
        lambda: bob.refused("scope_reserve", scope="src/lib"),
        lambda: bob.data("append_note", note="wait for ada"),
        lambda: send(ada, bob, "BLOCKED"),
        lambda: bob.data("event_mark", event_id=bob.inbox()[0]["id"], mark="seen"),
        lambda: bob.data("event_mark", event_id=bob.inbox()[0]["id"], mark="accepted"),
        lambda: ada.data("scope_release", scope="src"),
    ]
    for step in steps:
        clock.advance(minutes=1)
        step()


EXPECTED = [
    ("room", "join", "Joined"),
    ("room", "join", "Joined"),
    ("agent", "registered", "Registered"),
    ("turn", "claim", "Claimed"),
    ("turn", "release", "Passed to"),
    ("message", "message", "Said"),
    ("turn", "claim", "Claimed"),
    ("mark", "accepted", "Accepted"),
    ("reservation", "reserved", "Reserved"),
    ("protocol", "INCURSION", "Ran into"),
    ("note", "note", "Noted"),
    ("protocol", "BLOCKED", "Needs input"),
    ("mark", "seen", "Seen"),
    ("mark", "accepted", "Accepted"),
    ("reservation", "released", "Released"),
]


def test_the_timeline_merges_everything_in_one_order(app: App, ada: Any, bob: Any, clock: Any) -> None:
    story(app, ada, bob, clock)

    page = timeline_view.page(read_timeline(app.store, ada.room_id, None, 50))

    assert [(each["kind"], each["event_type"], each["label"]) for each in page["events"]] == EXPECTED
    released = page["events"][4]
    assert released["protocol_event"]["state"] == "accepted"
    assert released["protocol_event"]["to_agent"] == bob.name
    assert [number for number, each in enumerate(page["events"]) if "protocol_event" in each] == [4, 7, 9, 11, 12, 13]
    times = [each["created_at"] for each in page["events"]]
    assert times == sorted(times)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 50])
def test_paging_through_the_timeline_misses_and_repeats_nothing(
    app: App, ada: Any, bob: Any, clock: Any, limit: int
) -> None:
    story(app, ada, bob, clock)
    whole = read_timeline(app.store, ada.room_id, None, 50)
    found, place = [], Place()

    for _ in range(len(whole.entries)):
        page = read_timeline(app.store, ada.room_id, place, limit)
        found += page.entries
        place = page.place
        assert page.has_more == (len(found) < len(whole.entries))

    assert [(each.created_at, each.kind) for each in found] == [(each.created_at, each.kind) for each in whole.entries]
    assert place == whole.place
    assert read_timeline(app.store, ada.room_id, place, limit).entries == []


def test_the_latest_of_the_timeline_go_on_where_they_end(app: App, ada: Any, bob: Any, clock: Any) -> None:
    story(app, ada, bob, clock)

    latest = read_timeline(app.store, ada.room_id, None, 2)
    bob.data("append_note", note="more")

    assert [each.kind for each in latest.entries] == ["mark", "reservation"]
    assert [each.kind for each in read_timeline(app.store, ada.room_id, latest.place, 9).entries] == ["note"]


def test_every_entry_reads_as_a_sentence(app: App, ada: Any, bob: Any, clock: Any) -> None:
    generated = ada.name
    story(app, ada, bob, clock)

    lines = [timeline_view.sentence(entry) for entry in read_timeline(app.store, ada.room_id, None, 50).entries]

    assert lines[0] == f"ada·{generated} joined (agent_id_override)"
    assert lines[1] == f"bob·{bob.name} joined (agent_id_override)"
    assert lines[2] == f"ada·{generated} registered as ada·amber-otter, parser"
    assert lines[3] == "ada·amber-otter claimed turn 1 (open_claim)"
    assert lines[4] == f"ada·amber-otter released the stick to bob·{bob.name}"
    assert lines[5] == "ada said (message): hello\nworld"
    assert lines[7].startswith(f"bob·{bob.name} Accepted: Parser done (proto_")
    assert lines[8] == "ada·amber-otter reserved src"
    assert lines[9].startswith(
        f"bob·{bob.name} Ran into a reservation of ada·amber-otter (active, partial) at src/lib."
    )
    assert lines[10] == f"bob·{bob.name} noted: wait for ada"
    assert lines[11].startswith(f"ada·amber-otter Needs input from bob·{bob.name}: CI (proto_")
    assert lines[12].startswith(f"bob·{bob.name} Seen: CI (proto_")
    assert lines[13].startswith(f"bob·{bob.name} Accepted: CI (proto_")


def test_a_mark_of_a_notice_without_a_subject_names_it_once(app: App, ada: Any, bob: Any) -> None:
    ada.reserve("src")
    bob.refused("scope_reserve", scope="src")
    (notice,) = ada.inbox()
    ada.data("event_mark", event_id=notice["id"], mark="seen")

    lines = [timeline_view.sentence(entry) for entry in read_timeline(app.store, ada.room_id, None, 50).entries]

    assert lines[-1] == f"ada·{ada.name} Seen: Ran into ({notice['id']})"


def told(entry: Entry) -> tuple[str, int]:
    return entry.kind, entry.created_at


def test_after_an_event_of_the_log_comes_only_what_happened_after_it(app: App, ada: Any, bob: Any, clock: Any) -> None:
    story(app, ada, bob, clock)
    whole = read_timeline(app.store, ada.room_id, None, 50).entries

    for number, entry in enumerate(whole):
        if entry.event is not None:
            rest = read_timeline(app.store, ada.room_id, entry.event.event_seq, 50)
            assert [told(each) for each in rest.entries] == [told(each) for each in whole[number + 1 :]]


def test_an_event_that_is_older_than_the_room_leaves_nothing_out(app: App, ada: Any, bob: Any, clock: Any) -> None:
    story(app, ada, bob, clock)

    assert len(read_timeline(app.store, ada.room_id, 0, 50).entries) == len(EXPECTED)


def test_the_timeline_calls_everybody_by_the_name_of_that_day(app: App, ada: Any, bob: Any, clock: Any) -> None:
    first, name = ada.name, bob.name
    steps = [
        lambda: ada.data("append_note", note="one"),
        lambda: ada.data("agent_register", name="blue-fox"),
        lambda: ada.data("append_note", note="two"),
        lambda: ada.data("agent_register", name="red-hen"),
        lambda: ada.data("reorder_members", order=["ada:1", "bob:2"]),
        lambda: ada.data("leave_path"),
    ]
    for step in steps:
        clock.advance(minutes=1)
        step()

    lines = [timeline_view.sentence(entry) for entry in read_timeline(app.store, bob.room_id, None, 50).entries]

    assert lines[2:] == [
        f"ada·{first} noted: one",
        f"ada·{first} registered as ada·blue-fox",
        "ada·blue-fox noted: two",
        "ada·blue-fox registered as ada·red-hen",
        f"ada·red-hen reordered the members: ada·red-hen, bob·{name}",
        "ada·red-hen left",
    ]


def lines(app: App, room_id: str) -> list[str]:
    return [timeline_view.sentence(entry) for entry in read_timeline(app.store, room_id, None, 50).entries]


def test_a_mark_is_by_the_name_of_its_day(app: App, ada: Any, bob: Any) -> None:
    event = send(ada, bob, "BLOCKED")
    bob.data("agent_register", name="red-hen")

    bob.data("event_mark", event_id=event["id"], mark="seen")

    assert lines(app, ada.room_id)[-1].startswith("bob·red-hen Seen: ")


def test_old_entries_keep_the_name_of_an_agent_that_left(app: App, ada: Any, bob: Any, clock: Any) -> None:
    steps = [
        lambda: ada.data("agent_register", name="red-hen"),
        lambda: ada.data("append_note", note="one"),
        lambda: ada.data("leave_path"),
        lambda: app.messages.free_name(ada.home, "red-hen", "somebody"),
    ]
    for step in steps:
        clock.advance(minutes=1)
        step()
    told = ["ada·red-hen noted: one", "ada·red-hen left"]
    assert lines(app, bob.room_id)[-3:-1] == told

    bob.data("agent_register", name="red-hen")
    clock.advance(minutes=1)
    name = ada.data("join_path", context_path=ada.joined["canonical_path"])["name"]
    clock.advance(minutes=1)
    ada.data("append_note", note="two")

    assert name != "red-hen"
    found = [line for line in lines(app, bob.room_id) if "noted" in line or "left" in line]
    assert found == [*told, f"ada·{name} noted: two"]


def test_registering_the_current_name_names_the_agent_once(app: App, ada: Any) -> None:
    ada.data("agent_register", role="parser")

    assert lines(app, ada.room_id)[-1] == f"ada·{ada.name} registered, parser"


def test_what_was_accepted_stays_so_when_a_claim_is_taken_back(enter: Any, clock: Any) -> None:
    ada, bob = enter("ada:1"), enter("bob:2")
    turn = ada.data("wait_for_turn", max_wait_ms=0)
    handoff = {"status": "done", "next_action": "go on"}
    held = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    ada.data("pass_stick", **held, to_agent_id="bob:2", handoff=handoff)
    notice = bob.inbox()[0]
    bob.data("event_mark", event_id=notice["id"], mark="accepted")
    clock.advance(milliseconds=1)

    bob.call("wait_for_turn", arrives=False, max_wait_ms=0)

    assert bob.inbox(state="accepted")[0]["id"] == notice["id"]
