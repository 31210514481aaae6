"""Listening: one wait for a turn, a takeover, messages, questions and notices, each shown once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.arguments import HANDOFF
from tests.contract.conftest import Client, Enter, MovableClock, in_background

from conch.app import App
from conch.calls import Call
from conch.notices.delivery import find_news, mark_shown

BLOCKED = {"subject": "I wait", "blocker": "the stick", "requested_action": "Please hand over.", "urgency": "high"}


def listen(client: Client, **arguments: Any) -> dict[str, Any]:
    return client.data("listen", **{"wait_seconds": 0, **arguments})


def texts(heard: dict[str, Any], kind: str = "messages") -> list[str]:
    return [each["content_markdown"] for each in heard.get(kind, ())]


def mail(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.data("get_room_state").get("mail", {})
    return found


def hold(client: Client) -> dict[str, Any]:
    turn = client.data("wait_for_turn", max_wait_ms=0)
    return {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}


def test_a_listener_hears_what_is_for_it_and_not_what_is_for_another(ada: Client, bob: Client, enter: Enter) -> None:
    cleo = enter("cleo:3")
    bob.send(bob.home, "to ada", metadata={"to": ada.name})
    bob.send(bob.home, "to cleo", metadata={"to": cleo.name})
    bob.send(bob.home, "to all")
    bob.send(bob.home, "thanks", message_type="ack")
    ada.send(ada.home, "my own")

    heard = listen(ada)

    assert (heard["status"], texts(heard)) == ("news", ["to ada", "to all"])
    assert [each["addressed"] for each in heard["messages"]] == [True, False]
    assert listen(ada)["status"] == "timeout"


def test_what_was_said_to_all_before_an_agent_came_is_not_news(
    ada: Client, bob: Client, enter: Enter, clock: MovableClock
) -> None:
    bob.send(bob.home, "long ago")
    bob.send(bob.home, "for the next one", metadata={"to": "cleo:3"})
    clock.advance(minutes=1)
    cleo = enter("cleo:3")
    bob.send(bob.home, "welcome")

    assert texts(listen(cleo)) == ["for the next one", "welcome"]


def test_listening_moves_no_cursor_and_mail_leaves_out_what_it_showed(ada: Client, bob: Client) -> None:
    bob.send(bob.home, "one", metadata={"to": ada.name})
    bob.send(bob.home, "two")
    assert mail(ada)["to_you"]["count"] == 1

    listen(ada)

    assert mail(ada) == {}
    assert ada.read(ada.home) == ["one", "two"]


def test_the_reply_of_a_listener_does_not_count_its_own_news_as_mail(ada: Client, bob: Client) -> None:
    bob.send(bob.home, "one", metadata={"to": ada.name})
    bob.data("ask", topic_id=bob.home, question="Which branch?", wait_seconds=0)
    bob.data("event_send", event_type="BLOCKED", to_agent=ada.name, payload=BLOCKED)

    heard = listen(ada)

    assert (texts(heard), texts(heard, "questions")) == (["one"], ["Which branch?"])
    assert [notice["event_type"] for notice in heard["notices"]] == ["BLOCKED"]
    assert "mail" not in heard


def test_an_open_question_that_a_listener_has_shown_is_counted_until_it_is_answered(ada: Client, bob: Client) -> None:
    asked = bob.data("ask", topic_id=bob.home, question="Which branch?", wait_seconds=0)["question_id"]
    listen(ada)
    shown = mail(ada)
    later = bob.data("ask", topic_id=bob.home, question="And which file?", wait_seconds=0)["question_id"]
    both = mail(ada)
    for question_id in (asked, later):
        answer = {"question_id": question_id, "answer_markdown": "main", "suggested_followups": ["So?"]}
        ada.data("answer", topic_id=ada.home, responses=[answer])

    assert shown == {"questions": {"count": 1, "topic_id": ada.home, "question_id": asked}}
    newest = {"question_id": later, "from": bob.name, "line": "And which file?"}
    assert both["questions"] == {"count": 2, "topic_id": ada.home, **newest}
    assert "questions" not in mail(ada)


def test_what_sync_has_brought_is_not_news(ada: Client, bob: Client) -> None:
    bob.send(bob.home, "one", metadata={"to": ada.name})
    ada.read(ada.home)

    assert listen(ada)["status"] == "timeout"


@pytest.mark.parametrize("arrives", [False, None])
def test_news_that_did_not_arrive_come_again(ada: Client, bob: Client, arrives: bool | None) -> None:
    bob.send(bob.home, "one", metadata={"to": ada.name})
    bob.data("event_send", event_type="BLOCKED", to_agent=ada.name, payload=BLOCKED)
    lost = ada.call("listen", wait_seconds=0, arrives=arrives is None)
    if arrives is None:
        lost.delivery.retracted(lambda task: task())

    heard = listen(ada)

    assert (texts(heard), len(heard["notices"])) == (["one"], 1)


def test_a_question_that_others_answered_or_the_agent_asked_itself_is_no_question_for_it(
    ada: Client, bob: Client, enter: Enter
) -> None:
    cleo = enter("cleo:3")
    ada.data("ask", topic_id=ada.home, question="Mine?", wait_seconds=0)
    closed = bob.data("ask", topic_id=bob.home, question="Closed?", wait_seconds=0)["question_id"]
    bob.data("question_mark_answered", topic_id=bob.home, question_id=closed)
    cleo.data("ask", topic_id=cleo.home, question="Open?", wait_seconds=0)

    assert texts(listen(ada), "questions") == ["Open?"]


@pytest.mark.parametrize("act", ["message", "question", "notice"])
def test_a_waiting_listener_wakes(ada: Client, bob: Client, act: str) -> None:
    heard = in_background(lambda: listen(ada, wait_seconds=20))

    if act == "message":
        bob.send(bob.home, "one", metadata={"to": ada.name})
    elif act == "question":
        bob.data("ask", topic_id=bob.home, question="Which?", wait_seconds=0)
    else:
        bob.data("event_send", event_type="BLOCKED", to_agent=ada.name, payload=BLOCKED)

    assert heard()["status"] == "news"


def test_a_listener_gets_the_stick_that_is_released_to_it_with_the_handoff(ada: Client, bob: Client) -> None:
    lease = hold(bob)
    heard = in_background(lambda: listen(ada, wait_seconds=20))

    bob.data("release_stick", **lease, handoff=HANDOFF)

    turn = heard()
    assert (turn["status"], turn["handoff"]["status"]) == ("your_turn", HANDOFF["status"])
    assert ada.data("heartbeat")["lease_id"] == turn["lease_id"]
    assert listen(ada)["status"] == "timeout"


def test_a_free_stick_ends_no_listening_but_a_handoff_that_waits_with_it_does(
    ada: Client, bob: Client, clock: MovableClock
) -> None:
    told = listen(ada)
    assert (told["status"], told["free_room_id"]) == ("timeout", ada.room_id)
    assert "listening does not claim it: call wait_for_turn" in told["next"]
    bob.send(bob.home, "one")
    assert "call wait_for_turn" in listen(ada)["next"]
    lease = hold(bob)
    assert "free_room_id" not in listen(ada)
    clock.advance(minutes=30)  # ada is away, so nobody gets the stick
    bob.data("release_stick", **lease, handoff=HANDOFF)

    assert listen(bob)["status"] == "timeout"
    assert listen(ada)["status"] == "your_turn"


def test_a_turn_whose_reply_was_lost_is_offered_again(ada: Client, bob: Client) -> None:
    bob.data("pass_stick", **hold(bob), to_agent_id=ada.agent_id, handoff=HANDOFF)

    ada.call("listen", wait_seconds=0, arrives=False)

    assert listen(ada)["status"] == "your_turn"


def test_a_takeover_is_told_once(ada: Client, bob: Client, clock: MovableClock) -> None:
    hold(bob)
    clock.advance(minutes=120)

    heard = listen(ada)

    assert (heard["status"], heard["current_owner"]) == ("takeover_available", bob.agent_id)
    assert listen(ada)["status"] == "timeout"
    assert ada.data("wait_for_turn", max_wait_ms=0)["status"] == "takeover_available"


def test_a_second_listener_of_an_agent_is_refused_while_the_first_lives(ada: Client, app: App, enter: Enter) -> None:
    waiting = Call()
    first = in_background(lambda: ada.call("listen", wait_seconds=20, call=waiting))
    while not app.store.glance("find_listener", agent_id=ada.agent_id):
        pass

    refusal = ada.refused("listen", wait_seconds=0)

    assert refusal["error"] == "duplicate_listener"
    waiting.cancel()
    assert first().data["error"] == "cancelled"
    assert listen(ada)["status"] == "timeout"


@pytest.mark.parametrize("end", ["killed", "silent"])
def test_a_dead_listener_is_replaced(ada: Client, app: App, child: Any, clock: MovableClock, end: str) -> None:
    process = child()
    with app.store.write(ada.agent_id) as tx:
        facts = process.process
        about = {"host_id": facts.host_id, "boot_id": facts.boot_id, "pid": facts.pid}
        tx.run(
            "put_listener",
            agent_id=ada.agent_id,
            listener_id="first",
            process_started_at=facts.started_at,
            now=tx.now,
            expires_at=tx.now + 1,
            **about,
        )
    assert ada.refused("listen", wait_seconds=0)["error"] == "duplicate_listener"

    process.kill() if end == "killed" else clock.advance(minutes=1)

    assert listen(ada)["status"] == "timeout"


def test_a_listener_whose_agent_has_ended_stops_and_leaves_its_place(
    app: App, enter: Enter, bob: Client, child: Any
) -> None:
    harness = child()
    ended = enter("cleo:3", harness.process)
    heard = in_background(lambda: ended.call("listen", wait_seconds=20))
    while not app.store.glance("find_listener", agent_id="cleo:3"):
        pass

    harness.kill()
    bob.send(bob.home, "Is anyone here?")

    assert heard().data["error"] == "unknown_member"
    assert texts(listen(enter("cleo:3", child().process))) == ["Is anyone here?"]


def test_what_a_hook_has_shown_is_neither_mail_nor_news(ada: Client, bob: Client, app: App) -> None:
    listen(ada)
    bob.send(bob.home, "to all")
    bob.send(bob.home, "to ada", metadata={"to": ada.name})

    shown = find_news(app.store, ada.agent_id, 10, to_all=False)
    mark_shown(app.store, shown)

    assert [each.content_markdown for each in shown.messages] == ["to ada"]
    assert mail(ada) == {"others": 1}
    assert texts(listen(ada)) == ["to all"]


def test_a_long_list_of_news_comes_in_parts_and_loses_nothing(ada: Client, bob: Client) -> None:
    bob.send(bob.home, *[f"number {number}" for number in range(25)], metadata={"to": ada.name})

    first, second = listen(ada), listen(ada)

    assert (first["has_more"], second["has_more"]) == (True, False)
    assert texts(first) + texts(second) == [f"number {number}" for number in range(25)]


def test_news_of_several_topics_come_one_topic_at_a_time(ada: Client, bob: Client) -> None:
    other = bob.data("topic_create", name="pink")["topic_id"]
    ada.join(other, "ada-there")
    bob.join(other, "bob-there")
    bob.send(bob.home, "at home", metadata={"to": ada.name})
    bob.send(other, "there", metadata={"to": "ada-there"})

    assert [texts(listen(ada)), texts(listen(ada))] == [["at home"], ["there"]]
