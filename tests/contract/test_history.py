"""What agents can read about the past: the whole timeline of a room, and the history of one work item."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conch.app import App
from conch.notices.timeline import read_timeline
from conch.tools import timeline_view

HANDOFF = {"status": "Parser done", "next_action": "Fix test_cli"}
NOTICE = {"subject": "s", "summary": "s", "next_action": "n"}


def claim(client: Any) -> Any:
    turn = client.data("wait_for_turn", max_wait_ms=0)
    return {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}


def send(client: Any, to: Any, **options: Any) -> Any:
    sent = client.data("event_send", event_type="HANDOFF", to_agent=to.agent_id, payload=NOTICE, **options)
    return sent["event"]["id"]


def history(client: Any, **options: Any) -> list[tuple[str, str]]:
    found = client.data("get_room_events", **options)["events"]
    return [(each["event_type"], each["label"]) for each in found]


@pytest.fixture
def busy(ada: Any, bob: Any, clock: Any) -> None:
    """A room where something of every kind has happened, a minute apart."""
    steps = [
        lambda: ada.data("agent_register", name="amber-otter"),
        lambda: ada.reserve("src/*", bead_id="bd-7"),
        lambda: bob.refused("scope_reserve", scope="src/lib"),
        lambda: ada.data("release_stick", **claim(ada), handoff=HANDOFF),
        lambda: bob.send(bob.home, "thanks"),
        lambda: claim(bob),
        lambda: bob.data("append_note", note="on it"),
        lambda: ada.data("scope_release", scope="src"),
    ]
    for step in steps:
        clock.advance(minutes=1)
        step()


def test_the_whole_timeline_has_everything_with_plain_labels(busy: None, ada: Any) -> None:
    assert history(ada, all=True) == [
        ("join", "Joined"),
        ("join", "Joined"),
        ("registered", "Registered"),
        ("reserved", "Reserved"),
        ("INCURSION", "Ran into"),
        ("claim", "Claimed"),
        ("release", "Passed to"),
        ("message", "Said"),
        ("claim", "Claimed"),
        ("accepted", "Accepted"),
        ("note", "Noted"),
        ("released", "Released"),
    ]


def test_a_detail_that_there_is_not_is_left_out(busy: None, ada: Any) -> None:
    registered = next(each for each in ada.data("get_room_events", all=True)["events"] if each["kind"] == "agent")

    assert registered["details"].keys() == {"former_name"}  # no role was given


def test_the_words_of_a_handoff_and_of_a_notice_come_once(busy: None, ada: Any, bob: Any) -> None:
    bob.data("event_mark", event_id=send(ada, bob), mark="seen")

    events = ada.data("get_room_events", all=True)["events"]

    released, marked = (next(each for each in events if each["event_type"] == kind) for kind in ("release", "seen"))
    assert json.dumps(events).count("Fix test_cli") == 1
    assert (released["protocol_event"]["state"], released["protocol_event"]["bead_id"]) == ("accepted", "bd-7")
    assert marked["protocol_event"]["payload"] == {"subject": "s"}


def test_every_entry_of_the_timeline_is_in_the_text_too(busy: None, ada: Any, bob: Any) -> None:
    text = ada.call("get_room_events", all=True).text

    for fact in (
        "Ran into",
        "Passed to",
        "Parser done",
        "Fix test_cli",
        "thanks",
        "on it",
        "amber-otter reserved src/*",
    ):
        assert fact in text


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_timeline_is_read_in_pages_that_miss_and_repeat_nothing(busy: None, ada: Any, limit: int) -> None:
    whole = ada.data("get_room_events", all=True)
    found, cursor, has_more = [], "0", True
    while has_more:
        page = ada.data("get_room_events", all=True, after=cursor, limit=limit)
        found += page["events"]
        cursor, has_more = page["cursor"], page["has_more"]

    assert found == whole["events"]
    assert cursor == whole["cursor"]


def test_a_timeline_that_does_not_fit_comes_in_pages(ada: Any, bob: Any) -> None:
    for number in range(20):
        ada.data("append_note", note=f"{number} {'x' * 3_000}")
        ada.reserve(f"src/{number}")
    latest = ada.data("get_room_events", all=True)
    found, cursor, has_more = [], 0, True
    while has_more:
        page = ada.data("get_room_events", all=True, after=cursor)
        found += page["events"]
        cursor, has_more = page["cursor"], page["has_more"]

    assert len(found) == 2 + 40
    assert latest["events"] == found[-len(latest["events"]) :]
    assert 1 < len(latest["events"]) < 42
    assert cursor == latest["cursor"]
    assert (latest["has_older"], latest["has_more"]) == (True, False)


@pytest.mark.parametrize("everything", [True, False])
def test_the_latest_events_say_whether_there_are_older_ones(busy: None, ada: Any, everything: bool) -> None:
    whole = ada.data("get_room_events", all=everything, after=0)
    size = len(whole["events"])

    latest = [ada.data("get_room_events", all=everything, limit=limit) for limit in (size - 1, size)]

    assert whole == latest[1]
    assert latest[0]["events"] == whole["events"][1:]
    assert latest[0]["has_older"] and latest[0]["next"].endswith("call again with after=0.")


@pytest.mark.parametrize("after", ["1.2", "x", "1.2.3.4", "9" * 17, "-1"])
def test_a_cursor_that_no_reply_had_is_refused(ada: Any, after: str) -> None:
    assert ada.refused("get_room_events", all=True, after=after)["field"] == "after"


# -- one work item


def test_a_handoff_of_the_stick_carries_the_work_item_of_its_holder(ada: Any, bob: Any) -> None:
    bob.reserve("docs", bead_id="bd-9")
    ada.reserve("src", bead_id="bd-7")

    ada.data("release_stick", **claim(ada), handoff=HANDOFF)

    assert [event["bead_id"] for event in bob.inbox()] == ["bd-7"]


@pytest.mark.parametrize("ending", ["released", "lapsed", "none"])
def test_a_holder_without_a_reservation_for_a_work_item_hands_over_none(
    ada: Any, bob: Any, clock: Any, ending: str
) -> None:
    ada.reserve("src", ttl_minutes=5, bead_id=None if ending == "none" else "bd-7")
    if ending == "released":
        ada.data("scope_release", scope="src")
    held = claim(ada)
    if ending == "lapsed":
        clock.advance(minutes=6)
        bob.data("agent_heartbeat")

    ada.data("release_stick", **held, handoff=HANDOFF)

    assert [event["bead_id"] for event in bob.inbox()] == [None]
    assert bob.inbox(bead_id="bd-7") == []


def test_a_handoff_is_about_every_work_item_of_its_holder(ada: Any, bob: Any) -> None:
    ada.reserve("src", bead_id="bd-7")
    ada.reserve("docs", bead_id="bd-8")
    ada.data("release_stick", **claim(ada), handoff=HANDOFF)

    for bead_id in ("bd-7", "bd-8"):
        assert [event["payload"]["subject"] for event in bob.inbox(bead_id=bead_id)] == ["Parser done"]
        assert ("release", "Passed to") in history(bob, bead_id=bead_id)
    assert bob.inbox(bead_id="bd-9") == history(bob, bead_id="bd-9") == []


def test_the_inbox_shows_only_the_notices_about_a_work_item(ada: Any, bob: Any) -> None:
    sent = [send(ada, bob, bead_id=bead_id) for bead_id in ("bd-1", "bd-2", None)]

    assert [event["id"] for event in bob.inbox(bead_id="bd-2")] == [sent[1]]
    assert [event["id"] for event in bob.inbox()] == sent


def test_the_history_of_a_work_item_has_its_reservations_notices_and_handoffs(busy: None, ada: Any, bob: Any) -> None:
    bob.reserve("tests", bead_id="bd-8")
    send(ada, bob, bead_id="bd-8")

    assert history(ada, bead_id="bd-7") == [
        ("reserved", "Reserved"),
        ("INCURSION", "Ran into"),
        ("release", "Passed to"),
        ("accepted", "Accepted"),
        ("released", "Released"),
    ]
    assert history(ada, bead_id="bd-8") == [("reserved", "Reserved"), ("HANDOFF", "Passed to")]


def test_the_history_of_a_work_item_is_read_in_pages(busy: None, ada: Any) -> None:
    whole = ada.data("get_room_events", bead_id="bd-7")["events"]
    first = ada.data("get_room_events", bead_id="bd-7", after=0, limit=2)
    rest = ada.data("get_room_events", bead_id="bd-7", after=first["cursor"])

    assert first["has_more"] and not rest["has_more"]
    assert first["events"] + rest["events"] == whole


def test_the_labels_of_the_timeline_are_plain_words(busy: None, app: App, ada: Any) -> None:
    page = read_timeline(app.store, ada.room_id, None, 50)

    labels = {timeline_view.label(entry) for entry in page.entries}
    assert all(label[0].isupper() and not label.isupper() for label in labels)
