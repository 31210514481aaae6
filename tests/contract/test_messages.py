"""`sync` and the cursor: everything at least once, in order, and nothing lost to a reply that did not arrive."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.conftest import DEADLINE, Client, in_background

from conch.app import App
from conch.calls import Call
from conch.config import LONGEST_WAIT_MS
from conch.storage.base import Store, Transaction
from conch.tools.catalogue import TOOLS


@pytest.fixture
def pink(red: Any, blue: Any, topic_id: str) -> str:
    """A topic with two peers on it."""
    red.join(topic_id, "red")
    blue.join(topic_id, "blue")
    return topic_id


# -- several connections of one peer


def test_a_slower_connection_of_the_same_peer_does_not_set_the_cursor_back(
    app: App, red: Any, blue: Any, pink: str
) -> None:
    red.send(pink, *map(str, range(6)))
    peer = blue.session.peer(pink)
    few, many = app.messages.sync(peer, [], max_items=1), app.messages.sync(peer, [], max_items=5)

    app.messages.settle(few, advance=True)
    app.messages.settle(many, advance=True)

    assert blue.read(pink) == ["5"]


def test_a_faster_connection_of_the_same_peer_is_not_held_back(app: App, red: Any, blue: Any, pink: str) -> None:
    red.send(pink, *map(str, range(6)))
    peer = blue.session.peer(pink)
    few, many = app.messages.sync(peer, [], max_items=1), app.messages.sync(peer, [], max_items=5)

    app.messages.settle(many, advance=True)
    app.messages.settle(few, advance=True)

    assert blue.read(pink) == ["5"]


# -- what it costs


class Counting:
    """A store that counts its transactions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.begun: list[str] = []

    def read(self) -> AbstractContextManager[Transaction]:
        self.begun.append("read")
        return self._store.read()

    def look(self) -> AbstractContextManager[Transaction]:
        self.begun.append("read")
        return self._store.look()

    def write(self, *locks: str) -> AbstractContextManager[Transaction]:
        self.begun.append("write")
        return self._store.write(*locks)

    def write_at_once(self, *given: Any) -> Any:
        self.begun.append("write")
        return self._store.write_at_once(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def counted(app: App, workspace: str) -> tuple[Client, list[str]]:
    """A member of the room as itself, and the transactions that its calls begin."""
    store: Any = Counting(app.store)
    green = Client(App(store, app.bell, app.settings), "test:green", workspace)
    green.read(green.home)
    store.begun.clear()
    return green, store.begun


def test_sending_takes_one_write_where_nothing_is_to_be_received(counted: tuple[Client, list[str]]) -> None:
    green, begun = counted

    green.data("sync", topic_id=green.home, outbox=[{"content_markdown": "1"}], wait_seconds=0)
    green.data("sync", topic_id=green.home, outbox=[{"content_markdown": "2"}], wait_seconds=0)

    assert begun == ["write", "write"]


def test_sending_takes_one_write_and_at_most_one_read_where_there_is_something_to_receive(
    app: App, red: Any, counted: tuple[Client, list[str]]
) -> None:
    green, begun = counted
    red.send(red.home, "news")
    given = {"topic_id": green.home, "outbox": [{"content_markdown": "1"}], "auto_advance": False}

    synced = green.data("sync", **given, wait_seconds=0)

    assert [each["content_markdown"] for each in synced["received"]] == ["news"]
    assert begun == (["write"] if app.store.is_server else ["write", "read"])


# -- waiting


def test_no_number_of_thanks_ends_a_wait(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, *["thanks"] * 3, message_type="ack")

    for most in (1, 20):
        started = time.monotonic()
        waited = blue.data("sync", topic_id=pink, max_items=most, wait_seconds=1, auto_advance=False)
        assert time.monotonic() - started >= 1
        assert len(waited["received"]) == min(most, 3)

    red.send(pink, "news")
    at_once = in_background(lambda: blue.data("sync", topic_id=pink, max_items=1, wait_seconds=50, auto_advance=False))
    assert (at_once()["received"][0]["message_type"], at_once()["has_more"]) == ("ack", True)


def test_news_behind_more_thanks_than_a_reply_can_carry_ends_a_wait(red: Any, blue: Any, pink: str) -> None:
    for _ in range(3):
        red.send(pink, *["x" * 60_000] * 3, message_type="ack")
    red.send(pink, "news")

    waiting = in_background(lambda: blue.data("sync", topic_id=pink, max_items=50, wait_seconds=50))

    assert waiting()["has_more"]


def test_a_waiting_peer_is_present(red: Any, blue: Any, pink: str, clock: Any) -> None:
    clock.advance(minutes=10)
    waiting = in_background(lambda: blue.data("sync", topic_id=pink, wait_seconds=10))

    def is_present() -> bool:
        peers = red.data("topic_presence", topic_id=pink, window_seconds=60)["peers"]
        return "blue" in [peer["agent_name"] for peer in peers]

    deadline = time.monotonic() + DEADLINE
    while not is_present() and time.monotonic() < deadline:
        time.sleep(0.01)
    present = is_present()
    red.send(pink, "go on")

    assert present
    assert waiting()["status"] == "ready"


def test_what_matters_is_in_the_text_too(red: Any, blue: Any, pink: str) -> None:
    to_nobody = {"content_markdown": "hi", "metadata": {"to": "nobody"}}
    sent = red.call("sync", topic_id=pink, outbox=[to_nobody], wait_seconds=0)
    red.data("topic_close", topic_id=pink)

    closed = blue.call("sync", topic_id=pink, wait_seconds=0)
    nothing = blue.call("pending_list", topic_id=pink, wait_seconds=0)

    assert "UNKNOWN_ADDRESSEE" in sent.text
    assert "TOPIC_CLOSED" in closed.text and "TOPIC_CLOSED" in nothing.text


# -- sending


def test_metadata_counts_towards_the_size_of_a_reply(red: Any, blue: Any, pink: str) -> None:
    bulky = [{"content_markdown": str(n), "metadata": {"note": "x" * 15_000}} for n in range(60)]
    for place in range(0, 60, 10):
        red.data("sync", topic_id=pink, outbox=bulky[place : place + 10], wait_seconds=0)

    synced = blue.data("sync", topic_id=pink, max_items=60, wait_seconds=0)

    assert (len(synced["received"]) < 30, synced["has_more"]) == (True, True)


def test_a_message_arrives_whole(red: Any, blue: Any, pink: str, clock: Any) -> None:
    content = "# Hello\n\nemoji 🦀, 日本語, and a tab\there"
    first = red.send(pink, "first")[0]
    outbox = [
        {
            "content_markdown": content,
            "message_type": "report",
            "reply_to": first["message_id"],
            "metadata": {"a": [1, {"b": None}]},
            "client_message_id": "key-1",
        }
    ]

    sent = red.data("sync", topic_id=pink, outbox=outbox, wait_seconds=0)["sent"]
    received = blue.data("sync", topic_id=pink, wait_seconds=0)["received"][1]

    assert sent == [{"message": {name: value for name, value in received.items() if name != "addressed"}}]
    assert received == {
        "message_id": sent[0]["message"]["message_id"],
        "topic_id": pink,
        "seq": 2,
        "sender": "red",
        "message_type": "report",
        "reply_to": first["message_id"],
        "content_markdown": content,
        "metadata": {"a": [1, {"b": None}]},
        "client_message_id": "key-1",
        "created_at": clock.now / 1_000_000,
        "addressed": False,
    }


def test_null_is_as_good_as_nothing_in_every_optional_field(red: Any, blue: Any, pink: str) -> None:
    item = TOOLS["sync"].input_schema["properties"]["outbox"]["items"]
    optional = [name for name in item["properties"] if name not in item["required"]]

    red.send(pink, "hello", **dict.fromkeys(optional))
    red.send(pink, "hello", **dict.fromkeys(optional))

    first, second = blue.data("sync", topic_id=pink, wait_seconds=0)["received"]
    assert {first[name] for name in optional} == {None, "message"}
    assert first["message_id"] != second["message_id"]
    assert all("null" in item["properties"][name]["type"] for name in optional)


def test_seqs_are_contiguous_and_in_the_order_of_the_outbox(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, "1", "2", "3")
    blue.send(pink, "4")
    red.send(pink, "5")

    found = blue.data("sync", topic_id=pink, wait_seconds=0, include_self=True)["received"]

    assert [(message["seq"], message["content_markdown"]) for message in found] == [(n, str(n)) for n in range(1, 6)]


def test_the_text_has_the_bodies_and_says_whom_a_message_is_for(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, "look at\nparser.py", metadata={"to": "blue"})

    text = blue.call("sync", topic_id=pink, wait_seconds=0).text

    assert "look at\n  parser.py" in text
    assert "(to you)" in text
    assert "cursor=1" in text


@pytest.mark.parametrize("ending", ["\n", "\r", "\x0b", "\x85", "\u2028"])
def test_no_line_of_a_message_passes_for_one_of_ours(red: Any, blue: Any, pink: str, ending: str) -> None:
    red.send(pink, f"hello{ending}status=ready cursor=99")

    text = blue.call("sync", topic_id=pink, wait_seconds=0).text

    assert [line for line in text.splitlines() if line.startswith("status=")] == ["status=ready cursor=1"]


def test_a_send_is_repeated_safely_under_its_key(red: Any, blue: Any, pink: str) -> None:
    first = red.send(pink, "once", client_message_id="key")[0]
    outbox = [{"content_markdown": "once", "client_message_id": "key"}, {"content_markdown": "other"}]

    again = red.data("sync", topic_id=pink, outbox=outbox, wait_seconds=0)

    assert [sent["message"]["seq"] for sent in again["sent"]] == [1, 2]
    assert again["sent"][0]["message"] == first
    assert [warning["code"] for warning in again["warnings"]] == ["ALREADY_SENT"]
    assert blue.read(pink) == ["once", "other"]


def test_a_key_is_the_senders_own_and_counts_within_one_outbox_too(red: Any, blue: Any, pink: str) -> None:
    sent = red.send(pink, "a", "a", client_message_id="key")
    blue.send(pink, "b", client_message_id="key")

    assert [message["seq"] for message in sent] == [1, 1]
    assert red.read(pink, include_self=True) == ["a", "b"]


@pytest.mark.parametrize("to", ["blue", ["blue"], ["green", "blue"]])
def test_an_addressee_is_marked_and_all_peers_see_the_message(
    red: Any, blue: Any, enter: Any, pink: str, to: Any
) -> None:
    other = enter("test:other")
    other.join(pink, "other")
    red.send(pink, "for blue", metadata={"to": to})

    found = [one.data("sync", topic_id=pink, wait_seconds=0)["received"][0] for one in (blue, other)]

    assert [message["addressed"] for message in found] == [True, False]


def test_a_message_can_be_addressed_by_agent_id(red: Any, blue: Any, pink: str) -> None:
    outbox = [{"content_markdown": "for blue", "metadata": {"to": "test:blue"}}]

    sent = red.data("sync", topic_id=pink, outbox=outbox, wait_seconds=0)

    assert sent["warnings"] == []
    assert blue.data("sync", topic_id=pink, wait_seconds=0)["received"][0]["addressed"] is True


def test_an_unknown_addressee_gets_a_warning(red: Any, pink: str) -> None:
    outbox = [{"content_markdown": "hi", "metadata": {"to": ["blue", "nobody"]}}]

    found = red.data("sync", topic_id=pink, outbox=outbox, wait_seconds=0)

    assert [(warning["code"], warning["context"]) for warning in found["warnings"]] == [
        ("UNKNOWN_ADDRESSEE", {"name": "nobody"})
    ]


def test_a_closed_topic_takes_nothing_new_and_can_be_read(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, "last words")
    red.data("topic_close", topic_id=pink)

    refused = red.refused("sync", topic_id=pink, outbox=[{"content_markdown": "x"}], wait_seconds=0)

    assert refused["error"] == "TOPIC_CLOSED"
    assert blue.read(pink) == ["last words"]
    ended = blue.data("sync", topic_id=pink)
    assert (ended["status"], ended["warnings"][0]["code"]) == ("empty", "TOPIC_CLOSED")


def test_a_retry_is_harmless_also_after_the_topic_has_ended(red: Any, pink: str) -> None:
    first = red.send(pink, "in time", client_message_id="key")
    red.data("topic_close", topic_id=pink)

    assert red.send(pink, "in time", client_message_id="key") == first


# -- receiving


def test_received_messages_do_not_come_again(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, "1", "2")

    assert blue.read(pink) == ["1", "2"]
    assert blue.data("sync", topic_id=pink, wait_seconds=0) == {
        "topic_id": pink,
        "status": "empty",
        "received": [],
        "sent": [],
        "cursor": 2,
        "has_more": False,
        "warnings": [],
    }


def test_ones_own_messages_come_only_if_asked_for(red: Any, pink: str) -> None:
    red.send(pink, "mine")

    assert red.read(pink) == []
    assert red.read(pink, include_self=True) == ["mine"]


def test_an_agents_own_messages_do_not_hide_those_of_others(red: Any, blue: Any, pink: str) -> None:
    for number in range(3):
        red.send(pink, f"monologue {number}")
        assert red.read(pink) == []
    blue.send(pink, "may I?")
    red.send(pink, "go on")

    assert red.read(pink) == ["may I?"]
    assert red.read(pink) == []
    red.data("cursor_reset", topic_id=pink)
    assert red.read(pink) == ["may I?"]
    red.data("cursor_reset", topic_id=pink)
    assert len(red.read(pink, include_self=True)) == 5


def test_a_long_backlog_comes_in_pages(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, *map(str, range(45)))
    pages = [blue.data("sync", topic_id=pink, wait_seconds=0) for _ in range(3)]

    assert [len(page["received"]) for page in pages] == [20, 20, 5]
    assert [page["has_more"] for page in pages] == [True, True, False]
    assert [page["cursor"] for page in pages] == [20, 40, 45]
    assert [message["content_markdown"] for page in pages for message in page["received"]] == [*map(str, range(45))]


@pytest.mark.parametrize("max_items", [1, 49, 50, 51, 75, 79, 80, 1_000])
def test_as_many_come_as_are_asked_for(red: Any, blue: Any, pink: str, max_items: int) -> None:
    for _ in range(4):
        red.send(pink, *["x"] * 20)

    found = blue.data("sync", topic_id=pink, wait_seconds=0, max_items=max_items)

    assert [message["seq"] for message in found["received"]] == [*range(1, min(max_items, 80) + 1)]
    assert found["has_more"] == (max_items < 80)


def test_exactly_as_many_as_asked_for_is_not_more(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, "1", "2")

    assert blue.data("sync", topic_id=pink, wait_seconds=0, max_items=2)["has_more"] is False


def test_a_reply_does_not_grow_beyond_what_a_client_can_take(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, *["x" * 6_000] * 3)

    first = blue.data("sync", topic_id=pink, wait_seconds=0)
    second = blue.data("sync", topic_id=pink, wait_seconds=0)

    assert (len(first["received"]), first["has_more"]) == (2, True)
    assert (len(second["received"]), second["has_more"]) == (1, False)


def test_without_auto_advance_only_an_acknowledgement_moves_the_cursor(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, "1", "2", "3")

    first = blue.data("sync", topic_id=pink, wait_seconds=0, auto_advance=False)
    again = blue.data("sync", topic_id=pink, wait_seconds=0, auto_advance=False)
    after = blue.data("sync", topic_id=pink, wait_seconds=0, auto_advance=False, ack_through=2)

    assert (first["cursor"], again["cursor"], after["cursor"]) == (0, 0, 2)
    assert [message["seq"] for message in again["received"]] == [1, 2, 3]
    assert [message["seq"] for message in after["received"]] == [3]


def test_an_acknowledgement_never_goes_back_and_is_ignored_with_auto_advance(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, "1", "2", "3")
    blue.data("sync", topic_id=pink, wait_seconds=0, auto_advance=False, ack_through=3)

    back = blue.data("sync", topic_id=pink, wait_seconds=0, auto_advance=False, ack_through=1)
    ignored = blue.data("sync", topic_id=pink, wait_seconds=0, ack_through=1)

    assert back["cursor"] == 3
    assert [warning["code"] for warning in ignored["warnings"]] == ["ACK_IGNORED"]


@pytest.mark.parametrize("arguments", [{"ack_through": 4, "auto_advance": False}, {"ack_through": -1}])
def test_nobody_acknowledges_what_is_not_there(red: Any, blue: Any, pink: str, arguments: Any) -> None:
    red.send(pink, "1", "2", "3")

    refused = blue.refused("sync", topic_id=pink, wait_seconds=0, **arguments)

    assert (refused["error"], refused["field"]) == ("INVALID_ARGUMENT", "ack_through")


def test_the_cursor_can_be_set_back_to_read_again(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, "1", "2", "3")
    blue.read(pink)

    assert blue.data("cursor_reset", topic_id=pink)["cursor"] == 0
    assert blue.read(pink) == ["1", "2", "3"]
    blue.data("cursor_reset", topic_id=pink, last_seq=2)
    assert blue.read(pink) == ["3"]
    assert blue.refused("cursor_reset", topic_id=pink, last_seq=4)["field"] == "last_seq"


# -- at least once


def test_a_reply_that_did_not_arrive_comes_again(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, "precious")

    lost = blue.call("sync", arrives=False, topic_id=pink, wait_seconds=0)

    assert len(lost.data["received"]) == 1
    assert blue.read(pink) == ["precious"]


def test_what_a_killed_server_has_read_comes_again(
    red: Any, blue: Any, pink: str, enter: Any, app: App, workspace: str
) -> None:
    token = blue.join(blue.home, blue.name)["reclaim_token"]
    red.send(red.home, "precious")
    blue.call("sync", arrives=False, topic_id=blue.home, wait_seconds=0)  # killed before the reply was delivered

    successor = enter("test:successor")
    successor.join(blue.home, blue.name, reclaim_token=token)

    assert successor.read(blue.home) == ["precious"]


def test_a_cursor_that_was_set_meanwhile_is_not_moved_by_a_late_reply(red: Any, blue: Any, pink: str, app: App) -> None:
    red.send(pink, "1", "2")
    late = blue.session.app.messages.sync(blue.session.peer(pink), [])
    blue.read(pink)
    blue.data("cursor_reset", topic_id=pink, last_seq=1)

    app.messages.settle(late, advance=True)

    assert blue.read(pink) == ["2"]


def test_a_late_reply_does_not_move_the_cursor_of_the_names_next_holder(
    red: Any, blue: Any, enter: Callable[[str], Any], pink: str, app: App, clock: Any
) -> None:
    red.send(pink, "1", "2")
    before = blue.session.peer(pink)
    late = app.messages.sync(before, [])
    app.messages.free_name(pink, "blue", "an operator")
    clock.advance(milliseconds=1)
    green = enter("test:green")
    green.join(pink, "blue")

    app.messages.settle(late, advance=True)

    assert green.read(pink)[:2] == ["1", "2"]


def test_a_call_waits_until_the_reply_before_it_is_delivered_or_lost(red: Any, blue: Any, pink: str) -> None:
    from conch.tools.calling import call_tool
    from conch.tools.catalogue import TOOLS

    red.send(pink, "1")
    first = call_tool(TOOLS["sync"], blue.session, {"topic_id": pink, "wait_seconds": 0}, Call())
    second = in_background(lambda: blue.read(pink))

    first.delivery.sent()

    assert len(first.data["received"]) == 1
    assert second() == []


def test_a_cancelled_wait_takes_nothing(red: Any, blue: Any, pink: str) -> None:
    call = Call()
    waiting = in_background(lambda: blue.call("sync", call=call, topic_id=pink, wait_seconds=30))

    call.cancel()

    assert waiting().data["error"] == "cancelled"
    red.send(pink, "precious")
    assert blue.read(pink) == ["precious"]


def test_a_cancelled_call_sends_nothing(red: Any, blue: Any, pink: str) -> None:
    call = Call()
    call.cancel()

    red.call("sync", call=call, topic_id=pink, outbox=[{"content_markdown": "x"}])

    assert blue.read(pink) == []


# -- waiting


def test_a_waiting_peer_is_woken_by_a_message(app: App, red: Any, blue: Any, pink: str) -> None:
    waiting = in_background(lambda: blue.data("sync", topic_id=pink, wait_seconds=40))

    red.send(pink, "wake up")

    found = waiting()
    assert found["status"] == "ready"
    assert [message["content_markdown"] for message in found["received"]] == ["wake up"]


def test_a_wait_without_a_message_returns_timeout(blue: Any, pink: str) -> None:
    assert blue.data("sync", topic_id=pink, wait_seconds=1)["status"] == "timeout"


def test_every_wait_ends_before_common_clients_give_up() -> None:
    assert LONGEST_WAIT_MS <= 50_000


def test_thanks_wake_nobody_and_still_arrive(red: Any, blue: Any, pink: str) -> None:
    waiting = in_background(lambda: blue.data("sync", topic_id=pink, wait_seconds=40))

    red.send(pink, "thank you!", message_type="ack")
    red.send(pink, "now work", message_type="message")

    assert [message["content_markdown"] for message in waiting()["received"]] == ["thank you!", "now work"]


def test_a_message_behind_many_thanks_ends_a_wait(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, "thanks", "thank you", "thanks again", message_type="ack")
    red.send(pink, "now listen")

    waits = in_background(lambda: blue.data("sync", topic_id=pink, max_items=2, wait_seconds=LONGEST_WAIT_MS // 1_000))

    assert (len(waits()["received"]), waits()["has_more"]) == (2, True)
    assert blue.read(pink) == ["thanks again", "now listen"]


def test_a_wait_that_hears_only_thanks_brings_them_when_its_time_is_over(red: Any, blue: Any, pink: str) -> None:
    red.send(pink, "thank you!", message_type="ack")

    found = blue.data("sync", topic_id=pink, wait_seconds=1)

    assert (found["status"], len(found["received"])) == ("ready", 1)


def test_a_wait_does_not_delay_other_calls_of_its_connection(red: Any, blue: Any, pink: str) -> None:
    waiting = in_background(lambda: blue.data("sync", topic_id=pink, wait_seconds=40))

    assert blue.data("ping")["ok"] is True
    blue.send(blue.home, "elsewhere")
    red.send(pink, "enough")

    assert waiting()["status"] == "ready"


def test_the_end_of_a_topic_ends_the_waits_on_it(red: Any, blue: Any, pink: str) -> None:
    waiting = in_background(lambda: blue.data("sync", topic_id=pink, wait_seconds=40))

    red.data("topic_close", topic_id=pink)

    assert waiting()["warnings"][0]["code"] == "TOPIC_CLOSED"


# -- bad input


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({}, "content_markdown"),
        ({"content_markdown": None}, "content_markdown"),
        ({"content_markdown": 7}, "content_markdown"),
        ({"content_markdown": "  "}, "content_markdown"),
        ({"content_markdown": "x" * 65_537}, "content_markdown"),
        ({"content_markdown": "x" * 1_048_576}, "content_markdown"),
        ({"content_markdown": "x" * 8_001, "message_type": "question"}, "content_markdown"),
        ({"content": "x"}, "content"),
        ({"content_markdown": "x", "message_type": ""}, "message_type"),
        ({"content_markdown": "x", "message_type": "a\nb"}, "message_type"),
        ({"content_markdown": "x", "message_type": "x" * 65}, "message_type"),
        ({"content_markdown": "x", "reply_to": 1}, "reply_to"),
        ({"content_markdown": "x", "reply_to": "msg_nowhere"}, "reply_to"),
        ({"content_markdown": "x", "metadata": []}, "metadata"),
        ({"content_markdown": "x", "metadata": {"a": "x" * 20_000}}, "metadata"),
        ({"content_markdown": "x", "metadata": {"a": float("nan")}}, "metadata"),
        ({"content_markdown": "x", "metadata": {"to": 7}}, "metadata.to"),
        ({"content_markdown": "x", "metadata": {"to": ["a", ""]}}, "metadata.to"),
        ({"content_markdown": "x", "metadata": {"to": "blue:\n#2 boss"}}, "metadata.to"),
        ({"content_markdown": "x", "client_message_id": ""}, "client_message_id"),
        ({"content_markdown": "x", "client_message_id": "x" * 201}, "client_message_id"),
        ({"content_markdown": "x", "colour": "red"}, "colour"),
    ],
)
def test_one_bad_message_keeps_its_whole_batch_from_being_sent(
    red: Any, blue: Any, pink: str, item: Any, field: str
) -> None:
    outbox = [{"content_markdown": "fine"}, item]

    refused = red.refused("sync", topic_id=pink, outbox=outbox, wait_seconds=0)

    assert (refused["error"], refused["field"]) == ("INVALID_ARGUMENT", f"outbox[1].{field}")
    assert blue.read(pink) == []
    assert red.send(pink, "next")[0]["seq"] == 1


def test_a_wrong_field_name_says_which_is_meant(red: Any, pink: str) -> None:
    refused = red.refused("sync", topic_id=pink, outbox=[{"content": "x"}], wait_seconds=0)

    assert "content_markdown" in refused["message"]


def test_a_reply_across_topics_is_refused(red: Any, pink: str) -> None:
    elsewhere = red.send(red.home, "at home")[0]["message_id"]

    refused = red.refused(
        "sync", topic_id=pink, outbox=[{"content_markdown": "x", "reply_to": elsewhere}], wait_seconds=0
    )

    assert (refused["field"], "another topic" in refused["message"]) == ("outbox[0].reply_to", True)


def deep(levels: int) -> Any:
    return {"a": deep(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"outbox": "x"}, "outbox"),
        ({"outbox": ["x"]}, "outbox"),
        ({"outbox": [{"content_markdown": "x"}] * 51}, "outbox"),
        ({"outbox": [{"content_markdown": "x"}, {"content_markdown": "a\0b"}]}, "outbox[1].content_markdown"),
        ({"outbox": [{"content_markdown": "\udfff"}]}, "outbox[0].content_markdown"),
        ({"outbox": [{"content_markdown": "x", "reply_to": "\0"}]}, "outbox[0].reply_to"),
        ({"outbox": [{"content_markdown": "x", "metadata": {"to": ["a", "\0"]}}]}, "outbox[0].metadata.to"),
        ({"outbox": [{"content_markdown": "x", "metadata": {"\ud800": 1}}]}, "outbox[0].metadata"),
        ({"outbox": [{"content_markdown": "x", "metadata": deep(40)}]}, "outbox[0].metadata.a"),
        ({"max_items": 0}, "max_items"),
        ({"max_items": 1_001}, "max_items"),
        ({"max_items": "20"}, "max_items"),
        ({"include_self": 1}, "include_self"),
        ({"wait_seconds": -1}, "wait_seconds"),
        ({"wait_seconds": 1.5}, "wait_seconds"),
        ({"auto_advance": "yes"}, "auto_advance"),
        ({"ack_through": "1"}, "ack_through"),
        ({"messages": []}, "messages"),
    ],
)
def test_bad_arguments_are_refused_by_their_field(red: Any, pink: str, arguments: Any, field: str) -> None:
    refused = red.refused("sync", **{"topic_id": pink, "wait_seconds": 0, **arguments})

    assert (refused["error"], refused["field"]) == ("INVALID_ARGUMENT", field)


# -- any order of sends, reads, losses and resets

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 4)),
        st.tuples(st.just("say"), st.integers(1, 4)),
        st.tuples(st.just("read"), st.integers(1, 3)),
        st.tuples(st.just("lose"), st.integers(1, 3)),
        st.tuples(st.just("ack"), st.integers(0, 12)),
        st.tuples(st.just("reset"), st.integers(0, 12)),
    ),
    max_size=14,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_cursor_is_where_the_rules_say_after_any_history(red: Any, blue: Any, steps: Any) -> None:
    topic_id = red.data("topic_create", mode="new")["topic_id"]
    red.join(topic_id, "red")
    blue.join(topic_id, "blue")
    highest = cursor = 0
    others: list[int] = []
    for step, number in steps:
        if step in ("send", "say"):
            sent = (red if step == "send" else blue).send(topic_id, *(["x"] * number))
            assert [message["seq"] for message in sent] == [*range(highest + 1, highest + number + 1)]
            highest += number
            others += [message["seq"] for message in sent if step == "send"]
        elif step == "reset":
            if number <= highest:
                blue.data("cursor_reset", topic_id=topic_id, last_seq=number)
                cursor = number
        elif step == "ack":
            if number <= highest:
                blue.data("sync", topic_id=topic_id, wait_seconds=0, auto_advance=False, ack_through=number)
                cursor = max(cursor, number)
        else:
            found = blue.call("sync", arrives=step == "read", topic_id=topic_id, wait_seconds=0, max_items=number)
            seqs = [message["seq"] for message in found.data["received"]]
            unread = [seq for seq in others if seq > cursor]
            assert seqs == unread[:number]
            assert found.data["has_more"] == (len(unread) > number)
            if step == "read":
                cursor = max([cursor, *seqs])
    rest = blue.data("sync", topic_id=topic_id, wait_seconds=0, max_items=1_000)
    assert [message["seq"] for message in rest["received"]] == [seq for seq in others if seq > cursor]
