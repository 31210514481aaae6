"""No agent can flood another's inbox: repeated notices are merged, urgent ones come first, and there is a limit."""

from __future__ import annotations

from typing import Any

import pytest

from conch.app import App
from conch.notices.events import MOST_PER_MINUTE

HANDOFF = {"summary": "It parses.", "next_action": "Review it."}
BLOCKED = {"subject": "CI", "blocker": "no token", "requested_action": "add one"}


def hand_over(sender: Any, recipient: Any, subject: str) -> dict[str, Any]:
    payload = {"subject": subject, **HANDOFF}
    event: dict[str, Any] = sender.data("event_send", event_type="HANDOFF", to_agent=recipient.name, payload=payload)[
        "event"
    ]
    return event


def block(sender: Any, recipient: Any, urgency: str, subject: str = "CI") -> dict[str, Any]:
    payload = {**BLOCKED, "subject": subject, "urgency": urgency}
    event: dict[str, Any] = sender.data("event_send", event_type="BLOCKED", to_agent=recipient.name, payload=payload)[
        "event"
    ]
    return event


@pytest.fixture
def flooded(ada: Any, bob: Any) -> list[str]:
    return [hand_over(ada, bob, f"part {number}")["id"] for number in range(MOST_PER_MINUTE)]


def test_a_repeated_notice_is_one_notice_that_says_how_often_it_came(ada: Any, bob: Any, clock: Any) -> None:
    first = hand_over(ada, bob, "parser")
    clock.advance(milliseconds=5_000)
    again = hand_over(ada, bob, "parser")

    assert again == {**first, "times": 2, "latest_at": "2027-01-15T08:00:05.000Z"}
    (notice,) = bob.inbox()
    assert notice.items() >= again.items()
    assert "2 times" in bob.call("event_inbox").text


def test_a_notice_with_other_words_or_for_another_scope_is_not_a_repeated_one(ada: Any, bob: Any) -> None:
    hand_over(ada, bob, "parser")
    hand_over(ada, bob, "printer")

    assert [event["payload"]["subject"] for event in bob.inbox()] == ["parser", "printer"]


def test_what_was_read_is_sent_anew(ada: Any, bob: Any) -> None:
    first = hand_over(ada, bob, "parser")
    bob.data("event_mark", event_id=first["id"], mark="seen")

    assert hand_over(ada, bob, "parser")["id"] != first["id"]


def test_refused_reservations_leave_one_notice_for_each_reservation_in_the_way(app: App, ada: Any, bob: Any) -> None:
    for name in ("a", "b", "c"):
        bob.data("scope_reserve", scope=f"src/{name}")
    for _ in range(50):
        ada.refused("scope_reserve", scope="src")

    assert [event["times"] for event in bob.inbox()] == [50, 50, 50]
    with app.store.read() as tx:
        activity = tx.all("activity_after", room_id=ada.room_id, after=0, limit=1000)
    assert sum(row["kind"] == "INCURSION" for row in activity) == 3


def test_the_inbox_shows_the_most_urgent_first_and_then_the_oldest(ada: Any, bob: Any) -> None:
    low = block(ada, bob, "low")
    handoff = hand_over(ada, bob, "parser")
    medium = block(ada, bob, "medium")
    high = block(ada, bob, "high")
    bob.data("event_mark", event_id=handoff["id"], mark="seen")

    assert [event["id"] for event in bob.inbox()] == [high["id"], handoff["id"], medium["id"], low["id"]]
    assert [event["id"] for event in bob.inbox(limit=1)] == [high["id"]]
    assert [event["id"] for event in bob.inbox(state="all", limit=2)] == [high["id"], handoff["id"]]


def test_one_notice_too_many_is_refused_with_when_to_try_again(
    ada: Any, bob: Any, flooded: list[str], clock: Any
) -> None:
    clock.advance(milliseconds=20_000)
    payload = {"subject": "one more", **HANDOFF}
    refused = ada.refused("event_send", event_type="HANDOFF", to_agent=bob.name, payload=payload)
    clock.advance(milliseconds=refused["retry_after_seconds"] * 1_000)

    assert (refused["error"], refused["limit"]) == ("RATE_LIMITED", MOST_PER_MINUTE)
    assert refused["retry_after_seconds"] == 40
    assert hand_over(ada, bob, "one more")["state"] == "unread"


def test_repeated_and_urgent_notices_are_not_limited(ada: Any, bob: Any, flooded: list[str]) -> None:
    repeated = hand_over(ada, bob, "part 7")
    urgent = [block(ada, bob, "high", f"CI {number}")["id"] for number in range(3)]

    assert repeated["id"] == flooded[7]
    assert [event["id"] for event in bob.inbox(limit=3)] == urgent


def test_one_agents_limit_is_not_anothers(ada: Any, bob: Any, flooded: list[str], enter: Any) -> None:
    cyd = enter("cyd:3")

    assert hand_over(cyd, bob, "from cyd")["state"] == "unread"
    assert hand_over(ada, cyd, "to cyd")["state"] == "unread"


def test_a_reservation_is_refused_as_usual_when_its_owner_gets_no_more_notices(
    app: App, ada: Any, bob: Any, flooded: list[str]
) -> None:
    bob.data("scope_reserve", scope="src")

    refused = ada.refused("scope_reserve", scope="src/x.py")

    assert refused["error"] == "RESERVATION_CONFLICT"
    assert "Not every owner got a notice" in refused["message"]
    assert len(app.notices.inbox(bob.session.caller(), bob.room_id, ["unread"], 200)) == MOST_PER_MINUTE
    assert ada.data("scope_reserve", scope="docs")["reservation"]["state"] == "active"


def test_handing_the_stick_over_has_no_limit(ada: Any, bob: Any, flooded: list[str]) -> None:
    for giver in (ada, bob) * 2:
        turn = giver.data("wait_for_turn", max_wait_ms=0)
        held = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
        giver.data("release_stick", **held, handoff={"status": "done", "next_action": "go on"})

    assert ada.data("wait_for_turn", max_wait_ms=0)["status"] == "your_turn"


def test_the_next_page_of_the_inbox_goes_on_where_the_first_ends(ada: Any, bob: Any) -> None:
    sent = [block(ada, bob, urgency)["id"] for urgency in ("low", "medium", "high")]

    first = bob.data("event_inbox", limit=2)
    rest = bob.data("event_inbox", limit=2, after=first["cursor"])

    assert [event["id"] for event in first["events"]] == [sent[2], sent[1]]
    assert [event["id"] for event in rest["events"]] == [sent[0]]
