"""Topics, and the names that agents take on them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from conch import __version__
from conch.app import App
from conch.errors import InvalidArgument
from conch.storage.base import Store


def codes(data: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in data["warnings"]]


def test_ping_says_which_versions_answer(red: Any) -> None:
    assert red.data("ping") == {"ok": True, "spec_version": "v6.3", "package_version": __version__, "warnings": []}


# -- topics


def test_a_topic_of_one_name_is_reused(red: Any, blue: Any) -> None:
    made = red.data("topic_create", name="pink", metadata={"about": "colours"})
    found = blue.data("topic_create", name="pink")

    assert made["status"] == "open"
    assert made["created"] is True
    assert (found["topic_id"], found["name"], found["created"]) == (made["topic_id"], "pink", False)


def test_metadata_for_a_topic_that_is_there_already_is_ignored_with_a_warning(red: Any, topic_id: str) -> None:
    again = red.data("topic_create", name="pink", metadata={"a": 1})

    assert codes(again) == ["METADATA_IGNORED"]
    assert red.data("topic_list")["topics"][0].get("metadata") is None


def test_a_new_topic_can_be_demanded_and_then_the_newest_wins(red: Any, topic_id: str, clock: Any) -> None:
    clock.advance(minutes=1)
    second = red.data("topic_create", name="pink", mode="new")["topic_id"]

    assert second != topic_id
    assert red.data("topic_create", name="pink")["topic_id"] == second
    assert red.data("topic_resolve", name="pink")["topic_id"] == second


def test_a_topic_without_a_name_gets_one(red: Any) -> None:
    assert red.data("topic_create")["name"].startswith("topic-")


def test_many_who_make_one_topic_at_once_make_one(enter: Callable[[str], Any]) -> None:
    clients = [enter(f"test:{number}") for number in range(8)]
    found: list[str] = []
    start = threading.Barrier(len(clients))

    def create(client: Any) -> None:
        start.wait()
        found.append(client.data("topic_create", name="race")["topic_id"])

    threads = [threading.Thread(target=create, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert len(set(found)) == 1


def test_the_database_itself_refuses_a_second_open_topic_of_one_name(store: Store, topic_id: str) -> None:
    columns = {"topic_id": "topic_other", "name": "pink", "metadata_json": None, "mode": "reuse"}

    with pytest.raises(Exception, match=r"(?i)unique|not be used"), store.write("x") as tx:
        tx.run("insert_topic", now=1, **columns)


def test_topics_are_listed_newest_first_by_status(red: Any, topic_id: str, clock: Any) -> None:
    clock.advance(minutes=1)
    newer = red.data("topic_create", name="blue")["topic_id"]
    red.data("topic_close", topic_id=topic_id, reason="done")

    def listed(**status: str) -> list[str]:
        return [topic["topic_id"] for topic in red.data("topic_list", **status)["topics"]]

    assert listed() == [newer, red.home]
    assert listed(status="closed") == [topic_id]
    assert listed(status="all") == [newer, *sorted([topic_id, red.home], reverse=True)]


def test_a_closed_topic_is_found_only_if_asked_for(red: Any, topic_id: str) -> None:
    red.data("topic_close", topic_id=topic_id)

    assert red.refused("topic_resolve", name="pink")["error"] == "TOPIC_NOT_FOUND"
    assert red.data("topic_resolve", name="pink", allow_closed=True)["topic_id"] == topic_id


def test_closing_again_changes_nothing_and_says_so(red: Any, topic_id: str, clock: Any) -> None:
    first = red.data("topic_close", topic_id=topic_id, reason="done")
    clock.advance(minutes=1)
    second = red.data("topic_close", topic_id=topic_id, reason="again")

    assert first["status"] == "closed"
    assert codes(first) == []
    assert codes(second) == ["ALREADY_CLOSED"]
    assert (second["closed_at"], second["close_reason"]) == (first["closed_at"], "done")


def test_the_name_of_a_closed_topic_is_free(red: Any, topic_id: str) -> None:
    red.data("topic_close", topic_id=topic_id)

    assert red.data("topic_create", name="pink")["topic_id"] != topic_id


def test_times_are_unix_seconds(red: Any, topic_id: str, clock: Any) -> None:
    closed = red.data("topic_close", topic_id=topic_id)

    assert closed["closed_at"] == clock.now / 1_000_000


# -- the home topic of a room


def test_the_members_of_a_room_are_on_its_home_topic_under_their_names(red: Any, blue: Any) -> None:
    red.send(red.home, "hello")

    found = blue.data("sync", topic_id=blue.home, wait_seconds=0)["received"]

    assert blue.home == red.home
    assert [(message["sender"], message["content_markdown"]) for message in found] == [(red.name, "hello")]


def test_the_home_topic_lives_as_long_as_its_room(red: Any) -> None:
    assert red.refused("topic_close", topic_id=red.home)["field"] == "topic_id"
    room_id = red.joined["room_id"]
    turn = red.data("wait_for_turn", room_id=room_id, max_wait_ms=0)

    red.data("close_room", room_id=room_id, lease_id=turn["lease_id"], expected_turn_id=turn["turn_id"])

    outbox = [{"content_markdown": "too late"}]
    assert red.refused("sync", topic_id=red.home, outbox=outbox, wait_seconds=0)["error"] == "TOPIC_CLOSED"


def test_nobody_takes_another_agents_name_in_a_room(red: Any, blue: Any, app: App) -> None:
    with app.store.write("x") as tx:
        tx.run("free_name", topic_id=red.home, agent_name=blue.name)

    refused = red.refused("topic_join", topic_id=red.home, agent_name=blue.name)

    assert refused["error"] == "AGENT_NAME_IN_USE"


def test_an_agent_whose_name_is_taken_joins_under_the_next_one(
    app: App, red: Any, blue: Any, topic_id: str, agent: Callable[..., Any]
) -> None:
    red.join(topic_id, "zed")
    blue.data("agent_register", name="zed")

    assert app.peers.join_as_itself(agent("test:blue"), topic_id).agent_name == "zed-2"


# -- names


def test_a_name_is_reserved_once_and_reclaimed_with_its_token(red: Any, blue: Any, topic_id: str) -> None:
    joined = red.join(topic_id, "red-squirrel")
    refused = blue.refused("topic_join", topic_id=topic_id, agent_name="red-squirrel")
    wrong = blue.refused("topic_join", topic_id=topic_id, agent_name="red-squirrel", reclaim_token="wrong")
    again = blue.data("topic_join", name="pink", agent_name="red-squirrel", reclaim_token=joined["reclaim_token"])

    assert (joined["topic_id"], joined["name"], joined["status"]) == (topic_id, "pink", "open")
    assert refused["error"] == wrong["error"] == "AGENT_NAME_IN_USE"
    assert again["reclaim_token"] == joined["reclaim_token"]
    assert blue.send(topic_id, "hi")[0]["sender"] == "red-squirrel"


def test_a_connection_that_never_got_the_token_joins_again_without_it(
    red: Any, blue: Any, enter: Callable[[str], Any], topic_id: str
) -> None:
    lost = red.call("topic_join", topic_id=topic_id, agent_name="red-squirrel", arrives=False).data["reclaim_token"]

    again = red.join(topic_id, "red-squirrel")
    by_name = red.data("topic_join", name="pink", agent_name="red-squirrel")
    wrong = red.refused("topic_join", topic_id=topic_id, agent_name="red-squirrel", reclaim_token="wrong")

    assert again["reclaim_token"] == by_name["reclaim_token"] == lost
    assert wrong["error"] == "AGENT_NAME_IN_USE"
    for other in (blue, enter("test:red")):  # another agent, and the same one through another connection
        refused = other.refused("topic_join", topic_id=topic_id, agent_name="red-squirrel")
        assert refused["error"] == "AGENT_NAME_IN_USE"


def test_the_token_is_in_the_text_and_not_in_the_store(red: Any, topic_id: str, store: Store) -> None:
    outcome = red.call("topic_join", topic_id=topic_id, agent_name="red-squirrel")
    token = outcome.data["reclaim_token"]

    assert f"reclaim_token={token}" in outcome.text
    with store.read() as tx:
        assert token not in repr(list(tx.dump("peers")))


def test_a_name_stays_reserved_however_long_its_peer_is_away(red: Any, blue: Any, topic_id: str, clock: Any) -> None:
    red.join(topic_id, "red-squirrel")
    clock.advance(minutes=60 * 24 * 365)

    assert blue.refused("topic_join", topic_id=topic_id, agent_name="red-squirrel")["error"] == "AGENT_NAME_IN_USE"


def test_the_same_name_is_free_on_another_topic(red: Any, blue: Any, topic_id: str) -> None:
    red.join(topic_id, "red-squirrel")
    other = red.data("topic_create", name="other")["topic_id"]

    assert blue.join(other, "red-squirrel")["agent_name"] == "red-squirrel"


def test_a_connection_that_has_not_joined_cannot_speak(red: Any, blue: Any, topic_id: str) -> None:
    red.join(topic_id, "red-squirrel")

    for name in ("sync", "cursor_reset", "pending_list"):
        assert blue.refused(name, topic_id=topic_id)["error"] == "AGENT_NOT_JOINED"


def test_a_closed_topic_is_joined_only_if_asked_for(red: Any, topic_id: str) -> None:
    red.data("topic_close", topic_id=topic_id)

    assert red.refused("topic_join", topic_id=topic_id, agent_name="red")["error"] == "TOPIC_CLOSED"
    assert red.refused("topic_join", name="pink", agent_name="red")["error"] == "TOPIC_NOT_FOUND"
    assert red.join(topic_id, "red", allow_closed=True)["status"] == "closed"


def test_a_freed_name_belongs_to_the_next_agent_that_takes_it(
    app: App, red: Any, blue: Any, topic_id: str, clock: Any
) -> None:
    red.join(topic_id, "red-squirrel")
    app.messages.free_name(topic_id, "red-squirrel", "an operator")
    clock.advance(milliseconds=1)
    blue.join(topic_id, "red-squirrel")

    notice = blue.data("sync", topic_id=topic_id, wait_seconds=0)["received"][0]
    assert (notice["sender"], notice["message_type"]) == ("conch", "notice")
    assert "an operator freed the name red-squirrel" in notice["content_markdown"]
    assert red.refused("sync", topic_id=topic_id, wait_seconds=0)["error"] == "AGENT_NOT_JOINED"
    assert blue.send(topic_id, "mine now")[0]["sender"] == "red-squirrel"


def test_an_agent_may_take_a_token_for_its_own_name(red: Any, blue: Any) -> None:
    token = red.join(red.home, red.name)["reclaim_token"]

    assert blue.refused("topic_join", topic_id=red.home, agent_name=red.name)["error"] == "AGENT_NAME_IN_USE"
    assert blue.join(red.home, red.name, reclaim_token=token)["agent_name"] == red.name
    assert blue.send(red.home, "as red")[0]["sender"] == red.name


# -- presence


def test_presence_lists_who_synced_lately(red: Any, blue: Any, topic_id: str, clock: Any) -> None:
    red.join(topic_id, "red")
    blue.join(topic_id, "blue")
    clock.advance(minutes=4)
    red.data("sync", topic_id=topic_id, wait_seconds=0)
    clock.advance(minutes=2)

    peers = red.data("topic_presence", topic_id=topic_id)["peers"]
    wider = red.data("topic_presence", topic_id=topic_id, window_seconds=3600)["peers"]
    narrower = red.data("topic_presence", topic_id=topic_id, window_seconds=3600, limit=1)["peers"]

    assert peers == [{"agent_name": "red", "last_seq": 0, "updated_at": clock.now / 1e6 - 120, "age_seconds": 120.0}]
    assert [peer["agent_name"] for peer in wider] == ["red", "blue"]
    assert narrower == wider[:1]


def test_frequent_calls_write_presence_once_a_second(red: Any, topic_id: str, clock: Any) -> None:
    joined_at = clock.now / 1_000_000
    red.join(topic_id, "red")

    seen = []
    for _ in range(5):
        clock.advance(milliseconds=400)
        red.send(topic_id, "still here")
        red.read(topic_id)
        seen.append(red.data("topic_presence", topic_id=topic_id)["peers"][0]["updated_at"])

    assert [round(moment - joined_at, 3) for moment in seen] == [0, 0, 1.2, 1.2, 1.2]


def test_a_peer_whose_process_is_gone_is_not_present(
    app: App, red: Any, agent: Callable[..., Any], child: Callable[[], Any], clock: Any
) -> None:
    process = child()
    clock.advance(milliseconds=1)
    gone = agent("test:gone", process.process)
    app.peers.join_as_itself(gone, red.home)
    before = [peer.agent_name for peer in app.peers.list_present(red.home, 300, 10)]

    process.kill()

    assert gone.name in before
    assert gone.name not in [peer.agent_name for peer in app.peers.list_present(red.home, 300, 10)]
    assert [peer.agent_name for peer in app.peers.list_present(red.home, 300, 1)] == [red.name]


# -- bad input


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("topic_create", {"name": ""}, "name"),
        ("topic_create", {"name": " pink"}, "name"),
        ("topic_create", {"name": "a\nb"}, "name"),
        ("topic_create", {"name": "x" * 201}, "name"),
        ("topic_create", {"name": "a\0b"}, "name"),
        ("topic_create", {"name": "\ud800"}, "name"),
        ("topic_create", {"name": 7}, "name"),
        ("topic_create", {"metadata": []}, "metadata"),
        ("topic_create", {"metadata": {"a": "x" * 20_000}}, "metadata"),
        ("topic_create", {"mode": "other"}, "mode"),
        ("topic_create", {"topic": "pink"}, "topic"),
        ("topic_list", {"status": "new"}, "status"),
        ("topic_resolve", {}, "name"),
        ("topic_close", {"topic_id": ""}, "topic_id"),
        ("topic_close", {"topic_id": "t", "reason": "x" * 3_000}, "reason"),
        ("topic_join", {"agent_name": "red"}, "topic_id"),
        ("topic_join", {"agent_name": "red", "topic_id": "t", "name": "n"}, "topic_id"),
        ("topic_join", {"topic_id": "t"}, "agent_name"),
        ("topic_join", {"topic_id": "t", "agent_name": ""}, "agent_name"),
        ("topic_join", {"topic_id": "t", "agent_name": "x" * 65}, "agent_name"),
        ("topic_join", {"topic_id": "t", "agent_name": "a\x1b[2J"}, "agent_name"),
        ("topic_presence", {"topic_id": "t", "window_seconds": 0}, "window_seconds"),
        ("topic_presence", {"topic_id": "t", "limit": 0}, "limit"),
        ("cursor_reset", {"topic_id": "t", "last_seq": -1}, "last_seq"),
        ("cursor_reset", {"topic_id": "t", "last_seq": True}, "last_seq"),
    ],
)
def test_bad_arguments_are_refused_by_their_field(red: Any, name: str, arguments: Any, field: str) -> None:
    refused = red.refused(name, **arguments)

    assert (refused["error"], refused["field"]) == ("INVALID_ARGUMENT", field)


@pytest.mark.parametrize("name", ["topic_close", "topic_presence", "sync", "cursor_reset"])
def test_an_unknown_topic_is_refused_by_every_tool(red: Any, name: str) -> None:
    assert red.refused(name, topic_id="topic_nowhere")["error"] == "TOPIC_NOT_FOUND"


def test_joining_an_unknown_topic_is_refused(red: Any) -> None:
    assert red.refused("topic_join", topic_id="topic_nowhere", agent_name="red")["error"] == "TOPIC_NOT_FOUND"
    assert red.refused("topic_join", name="nowhere", agent_name="red")["error"] == "TOPIC_NOT_FOUND"


def test_nobody_can_speak_as_the_system(red: Any, topic_id: str) -> None:
    assert red.refused("topic_join", topic_id=topic_id, agent_name="conch")["error"] == "AGENT_NAME_IN_USE"


def test_a_topic_cannot_be_called_like_a_room(red: Any) -> None:
    assert red.refused("topic_create", name="/home/somebody/project")["field"] == "name"


def test_an_agent_that_takes_a_freed_name_has_read_nothing_yet(
    app: App, red: Any, blue: Any, topic_id: str, clock: Any
) -> None:
    red.join(topic_id, "red")
    blue.join(topic_id, "blue")
    red.send(topic_id, "1", "2")
    blue.read(topic_id)
    app.messages.free_name(topic_id, "blue", "an operator")
    clock.advance(milliseconds=1)
    blue.join(topic_id, "blue")

    assert blue.read(topic_id)[:2] == ["1", "2"]


# -- another name


def test_a_renamed_agent_goes_on_where_it_was(red: Any, blue: Any, clock: Any) -> None:
    clock.advance(milliseconds=5)
    red.send(red.home, "before")
    session_before = blue.session.peer(blue.home)

    blue.data("agent_register", name="blue-whale")
    found = blue.app.messages.sync(session_before, [])
    blue.app.messages.settle(found, advance=True)

    assert [message.content_markdown for message in found.page.received] == ["before"]
    assert blue.send(blue.home, "after")[0]["sender"] == "blue-whale"
    assert blue.read(blue.home) == []


def test_a_question_stays_its_askers_under_another_name(red: Any, blue: Any) -> None:
    question_id = red.data("ask", topic_id=red.home, question="Why?", wait_seconds=0)["question_id"]
    response = {"question_id": question_id, "answer_markdown": "So.", "suggested_followups": ["And?"]}
    blue.data("answer", topic_id=red.home, responses=[response])
    red.data("agent_register", name="red-fox")
    blue.data("agent_register", name="blue-whale")

    own = red.refused("answer", topic_id=red.home, responses=[response])
    twice = blue.refused("answer", topic_id=red.home, responses=[response])

    assert own["error"] == "FORBIDDEN_SELF_ANSWER"
    assert twice["error"] == "FORBIDDEN_ALREADY_ANSWERED"
    assert red.data("pending_list", topic_id=red.home, wait_seconds=0)["questions"] == []
    assert red.data("question_mark_answered", topic_id=red.home, question_id=question_id)["status"] == "answered"


def test_what_an_agent_said_under_its_former_name_stays_its_own(red: Any, blue: Any) -> None:
    key = {"content_markdown": "once", "client_message_id": "k-1"}
    first = red.data("sync", topic_id=red.home, outbox=[key], wait_seconds=0)["sent"][0]["message"]
    blue.send(blue.home, "between")
    red.data("agent_register", name="red-fox")
    red.data("agent_register", name="red-wolf")

    again = red.data("sync", topic_id=red.home, outbox=[key], wait_seconds=0)

    assert again["sent"][0]["message"]["message_id"] == first["message_id"]
    assert [each["content_markdown"] for each in again["received"]] == ["between"]
    assert blue.read(blue.home) == ["once"]


def test_a_message_to_a_former_name_is_for_the_agent_that_had_it(red: Any, blue: Any) -> None:
    former = blue.joined["name"]
    red.data("sync", topic_id=red.home, outbox=[{"content_markdown": "1", "metadata": {"to": former}}], wait_seconds=0)
    blue.data("agent_register", name="blue-whale")

    late = {"content_markdown": "2", "metadata": {"to": former}}
    sent = red.data("sync", topic_id=red.home, outbox=[late], wait_seconds=0)
    received = blue.data("sync", topic_id=blue.home, wait_seconds=0)["received"]

    assert sent["warnings"] == []
    assert [(each["content_markdown"], each["addressed"]) for each in received] == [("1", True), ("2", True)]


def test_nobody_else_can_have_a_former_name(red: Any, blue: Any) -> None:
    former = blue.joined["name"]
    blue.data("agent_register", name="blue-whale")

    assert red.refused("topic_join", topic_id=red.home, agent_name=former)["error"] == "AGENT_NAME_IN_USE"
    assert red.refused("agent_register", name=former)["error"] == "DUPLICATE_AGENT_ID"
    assert blue.data("agent_register", name=former)["name"] == former
    assert blue.send(blue.home, "as before")[0]["sender"] == former


def test_a_name_taken_by_token_and_changed_there_and_back_stays_one_peer(red: Any, blue: Any) -> None:
    own = red.joined["name"]
    red.join(red.home, own)
    red.data("agent_register", name="beta-one")
    key = {"content_markdown": "once", "client_message_id": "k-1"}
    red.data("sync", topic_id=red.home, outbox=[key], wait_seconds=0)
    question_id = red.data("ask", topic_id=red.home, question="Why?", wait_seconds=0)["question_id"]

    red.data("agent_register", name=own)

    to_former = {"content_markdown": "for you", "metadata": {"to": "beta-one"}}
    blue.data("sync", topic_id=blue.home, outbox=[to_former], wait_seconds=0)
    again = red.data("sync", topic_id=red.home, outbox=[key], wait_seconds=0)
    assert [(each["content_markdown"], each["addressed"]) for each in again["received"]] == [("for you", True)]
    assert [warning["code"] for warning in again["warnings"]] == ["ALREADY_SENT"]
    assert red.data("pending_list", topic_id=red.home, wait_seconds=0)["questions"] == []
    assert red.data("question_mark_answered", topic_id=red.home, question_id=question_id)["status"] == "answered"


def test_a_token_is_good_for_a_former_name_too(red: Any, blue: Any) -> None:
    own = red.joined["name"]
    token = red.join(red.home, own)["reclaim_token"]
    red.send(red.home, "under the former name")
    red.data("agent_register", name="beta-one")
    question_id = red.data("ask", topic_id=red.home, question="Why?", wait_seconds=0)["question_id"]

    restarted = blue.join(blue.home, own, reclaim_token=token)

    assert restarted["agent_name"] == "beta-one"
    assert blue.read(blue.home) == []
    assert blue.data("pending_list", topic_id=blue.home, wait_seconds=0)["questions"] == []
    assert blue.data("ask_cancel", topic_id=blue.home, question_id=question_id)["status"] == "cancelled"


def test_a_former_name_cannot_be_freed_from_under_its_bearer(app: App, red: Any) -> None:
    own = red.joined["name"]
    red.data("agent_register", name="beta-one")

    with pytest.raises(InvalidArgument, match="beta-one"):
        app.messages.free_name(red.home, own, "an operator")

    app.messages.free_name(red.home, "beta-one", "an operator")
    assert red.refused("sync", topic_id=red.home, wait_seconds=0)["error"] == "AGENT_NOT_JOINED"


def test_an_agent_that_takes_a_name_can_reuse_its_predecessors_keys(
    app: App, red: Any, blue: Any, topic_id: str
) -> None:
    red.join(topic_id, "zed")
    first = {"content_markdown": "first", "client_message_id": "1"}
    red.data("sync", topic_id=topic_id, outbox=[first], wait_seconds=0)
    app.messages.free_name(topic_id, "zed", "an operator")
    blue.join(topic_id, "zed")

    second = {"content_markdown": "second", "client_message_id": "1"}
    synced = blue.data("sync", topic_id=topic_id, outbox=[second], wait_seconds=0)

    assert (synced["sent"][0]["message"]["content_markdown"], synced["warnings"]) == ("second", [])
    assert [each["content_markdown"] for each in synced["received"]][:1] == ["first"]


def test_nobody_can_take_a_name_that_passes_for_another(red: Any, blue: Any, topic_id: str) -> None:
    for name in ("test:blue", "Conch", "\uff43\uff4f\uff4e\uff43\uff48"):
        assert red.refused("topic_join", topic_id=topic_id, agent_name=name)["error"] == "AGENT_NAME_IN_USE"
    assert blue.join(topic_id, "test:blue")["agent_name"] == "test:blue"


def test_earlier_messages_under_a_name_belong_to_its_former_holder(app: App, red: Any, blue: Any) -> None:
    red.join(red.home, "zed")
    red.send(red.home, "by the first")
    app.messages.free_name(red.home, "zed", "an operator")

    blue.data("agent_register", name="zed")

    blue.send(blue.home, "by the second")
    assert blue.read(blue.home)[0] == "by the first"
    assert "by the second" not in blue.read(blue.home)


def test_a_name_that_an_agent_comes_back_to_was_its_own_all_along(red: Any) -> None:
    first = red.joined["name"]
    for name in ("red-fox", first):
        red.send(red.home, f"before {name}")
        red.data("agent_register", name=name)
    red.send(red.home, "after")

    assert red.read(red.home) == []


def test_an_agent_that_takes_a_freed_name_misses_nothing(app: App, red: Any, blue: Any, enter: Any) -> None:
    green = enter("test:green")
    red.join(red.home, "zed")
    green.send(green.home, "1", "2")
    red.read(red.home)
    app.messages.free_name(red.home, "zed", "an operator")

    blue.data("agent_register", name="zed")

    assert blue.read(blue.home)[:2] == ["1", "2"]


def test_any_number_of_addressees_can_be_looked_up(app: App, red: Any, topic_id: str) -> None:
    red.join(topic_id, "zed")

    known = app.peers.find_called(topic_id, {"zed", "test:red", *(f"nobody-{n}" for n in range(70_000))})

    assert {text: found.label for text, found in known.items()} == {"zed": "test·zed", "test:red": "test·zed"}
