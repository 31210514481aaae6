"""A connection may leave out the ids of its own room, topic and turn. That makes nothing less safe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.arguments import HANDOFF
from tests.callers import named

from conch.app import App
from conch.calls import Call
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS, select_tools
from conch.tools.replies import Delivery, Object
from conch.tools.session import Session

OWNER_CALLS: list[tuple[str, Object]] = [
    ("heartbeat", {}),
    ("release_stick", {"handoff": HANDOFF}),
    ("pass_stick", {"to_agent_id": "bob:2", "handoff": HANDOFF}),
    ("close_room", {}),
]
owner_calls = pytest.mark.parametrize(("tool", "arguments"), OWNER_CALLS, ids=[tool for tool, _ in OWNER_CALLS])


class Connection:
    """One connection, whose calls have exactly the given arguments."""

    def __init__(self, app: App, agent_id: str, workspace: str) -> None:
        self._session = Session(app, "mcp")
        self._session.speak_as(named(app.store, agent_id)._replace(overridden=True))
        self.workspace = workspace
        self.delivery = Delivery()

    def start(self, tool: str, /, **arguments: Any) -> Object:
        """Call a tool. What becomes of its reply is up to the test."""
        outcome = call_tool(TOOLS[tool], self._session, arguments, Call())
        self.delivery = outcome.delivery
        return outcome.data

    def call(self, tool: str, /, **arguments: Any) -> Object:
        """Call a tool, and get its reply."""
        data = self.start(tool, **arguments)
        self.delivery.sent()
        return data

    def join(self, **arguments: Any) -> Object:
        return self.call("join_path", context_path=self.workspace, **arguments)

    def claim(self) -> Object:
        turn = self.call("wait_for_turn", max_wait_ms=0)
        assert turn["status"] == "your_turn", turn
        return turn


Connect = Callable[[str], Connection]


@pytest.fixture
def connect(app: App, workspace: str) -> Connect:
    def connect(agent_id: str) -> Connection:
        connection = Connection(app, agent_id, workspace)
        connection.join()
        return connection

    return connect


@pytest.fixture
def ada(connect: Connect) -> Connection:
    return connect("ada:1")


@pytest.fixture
def bob(connect: Connect) -> Connection:
    return connect("bob:2")


def owner(connection: Connection) -> str | None:
    found: str | None = connection.call("get_room_state")["room"]["owner"]
    return found


# -- a session without ids


def test_a_whole_handover_needs_no_ids(ada: Connection, bob: Connection) -> None:
    ada.claim()
    ada.call("heartbeat")
    ada.call("append_note", note="half done")
    ada.call("sync", outbox=[{"content_markdown": "nearly there"}], wait_seconds=0)
    ada.call("scope_reserve", scope="src")
    ada.call("release_stick", handoff=HANDOFF)

    assert bob.claim()["handoff"] == HANDOFF
    assert [each["content_markdown"] for each in bob.call("sync", wait_seconds=0)["received"]] == ["nearly there"]
    assert owner(bob) == "bob:2"


def test_null_means_left_out(ada: Connection) -> None:
    ada.claim()

    assert ada.call("heartbeat", room_id=None, lease_id=None, expected_turn_id=None)["turn_id"] == 1


def test_without_a_room_a_call_says_how_to_get_one(app: App, workspace: str) -> None:
    stranger = Connection(app, "cleo:3", workspace)

    refused = stranger.call("wait_for_turn")

    assert (refused["error"], refused["field"]) == ("invalid_argument", "room_id")
    assert refused["message"].endswith("has joined no room. Call join_path first.")
    assert stranger.call("sync")["field"] == "topic_id"


def test_with_two_rooms_a_call_must_name_one(ada: Connection, workspace: str) -> None:
    inner = Path(workspace, "inner")
    inner.mkdir()
    (inner / "AGENTS.md").write_text("")
    outer_id = ada.call("get_room_state")["room"]["room_id"]
    joined = ada.call("join_path", context_path=str(inner), force_new=True)

    refused, unclear = ada.call("get_room_state"), ada.call("sync", wait_seconds=0)

    assert (refused["error"], refused["field"]) == ("invalid_argument", "room_id")
    assert outer_id in refused["message"] and joined["room_id"] in refused["message"]
    assert (unclear["field"], joined["topic_id"] in unclear["message"]) == ("topic_id", True)
    ada.call("leave_path", room_id=outer_id)
    assert ada.call("get_room_state")["room"]["room_id"] == joined["room_id"]


def test_joining_the_same_workspace_again_does_not_make_it_two(ada: Connection) -> None:
    ada.claim()
    ada.call("close_room")
    new = ada.join()
    ada.join()

    assert ada.call("get_room_state")["room"]["room_id"] == new["room_id"]


def test_the_one_topic_that_was_joined_is_the_default(app: App, workspace: str) -> None:
    red = Connection(app, "red:1", workspace)
    pink = red.call("topic_create", name="pink")["topic_id"]
    red.call("topic_join", topic_id=pink, agent_name="red")

    assert red.call("sync", outbox=[{"content_markdown": "hi"}], wait_seconds=0)["topic_id"] == pink
    assert red.call("messages_search", query="hi", mode="fts")["results"][0]["topic_id"] == pink
    assert red.call("topic_join", agent_name="blue")["field"] == "topic_id"  # nothing says which topic to join
    assert red.call("topic_close")["field"] == "topic_id"


@pytest.mark.parametrize(
    ("groups", "advice"),
    [
        (["everyday"], "Call join_path first."),
        (["questions"], "Call topic_join first."),
        (["turns", "bus"], "Call join_path or topic_join first."),
    ],
    ids=["everyday", "questions", "turns and bus"],
)
def test_a_newcomer_without_a_topic_is_told_how_to_get_one(app: App, groups: list[str], advice: str) -> None:
    offered = select_tools(groups)
    talk = next(tool for name, tool in offered.items() if name in ("sync", "pending_list"))

    refused = call_tool(talk, Session(app, "mcp", offered=offered), {"wait_seconds": 0}, Call())

    assert refused.data["message"].endswith(f"this connection has joined no topic and no room. {advice}")


# -- a turn that is over


def refusal_as_given(connection: Connection, lease: Object, tool: str, arguments: Object) -> Object:
    """What the same call says if it shows the old ids itself."""
    ids = {"room_id": lease["room_id"], "lease_id": lease["lease_id"], "expected_turn_id": lease["turn_id"]}
    return connection.call(tool, **ids, **arguments)


@owner_calls
def test_a_turn_that_was_taken_over_is_refused(
    ada: Connection, bob: Connection, clock: Any, tool: str, arguments: Object
) -> None:
    lease = ada.claim()
    clock.advance(minutes=46)
    bob.call("takeover_stick", expected_turn_id=1, reason="no answer")

    late = ada.call(tool, **arguments)

    assert late == refusal_as_given(ada, lease, tool, arguments)
    assert late["error"] == "turn_mismatch"
    assert owner(bob) == "bob:2"


@owner_calls
def test_a_turn_that_was_handed_over_is_refused(ada: Connection, bob: Connection, tool: str, arguments: Object) -> None:
    lease = ada.claim()
    ada.call("release_stick", handoff=HANDOFF)
    released = ada.call(tool, **arguments)
    bob.claim()

    late = ada.call(tool, **arguments)

    assert released["error"] == "stale_lease"
    assert late == refusal_as_given(ada, lease, tool, arguments)
    assert late["error"] == "turn_mismatch"
    assert owner(bob) == "bob:2"


def test_an_agent_that_got_its_turn_through_another_door_is_told_so(
    ada: Connection, bob: Connection, connect: Connect
) -> None:
    ada.claim()
    ada.call("release_stick", handoff=HANDOFF)
    bob.claim()
    bob.call("release_stick", handoff=HANDOFF)
    connect("ada:1").claim()

    late = ada.call("heartbeat")

    assert late["error"] == "turn_mismatch"
    assert late["message"].endswith("Turn 3 is yours. Call wait_for_turn to claim or keep the stick.")
    assert ada.claim()["turn_id"] == ada.call("heartbeat")["turn_id"] == 3


def test_a_caller_whose_turn_is_over_is_told_what_to_do(ada: Connection, bob: Connection) -> None:
    ada.claim()
    ada.call("release_stick", handoff=HANDOFF)
    stale = ada.call("heartbeat")
    bob.claim()
    late = ada.call("heartbeat")

    assert (stale["error"], late["error"]) == ("stale_lease", "turn_mismatch")
    assert all(each["message"].endswith("Stop, and call get_room_state.") for each in (stale, late))


def test_one_id_that_is_given_is_checked_as_ever(ada: Connection, bob: Connection) -> None:
    first = ada.claim()
    ada.call("release_stick", handoff=HANDOFF)
    bob.claim()
    bob.call("release_stick", handoff=HANDOFF)
    ada.claim()

    assert ada.call("heartbeat", lease_id=first["lease_id"])["error"] == "stale_lease"
    assert ada.call("heartbeat", expected_turn_id=first["turn_id"])["error"] == "turn_mismatch"
    assert ada.call("heartbeat", room_id="room_x")["field"] == "lease_id"
    assert ada.call("heartbeat")["turn_id"] == 3


@owner_calls
def test_a_new_connection_has_not_received_the_turn_of_the_old_one(
    ada: Connection, connect: Connect, tool: str, arguments: Object
) -> None:
    ada.claim()
    again = connect("ada:1")

    refused = again.call(tool, **arguments)

    assert (refused["error"], refused["field"]) == ("invalid_argument", "lease_id")
    assert "Call wait_for_turn" in refused["message"]
    assert again.call("wait_for_turn")["reason"] == "already_owner"
    assert again.call("heartbeat")["turn_id"] == 1


def test_a_new_connection_that_gives_its_lease_is_told_that_the_turn_is_missing(
    ada: Connection, connect: Connect
) -> None:
    lease = ada.claim()

    refused = connect("ada:1").call("heartbeat", lease_id=lease["lease_id"])

    assert refused["field"] == "expected_turn_id"
    assert refused["message"].startswith("expected_turn_id is required, because")


@owner_calls
def test_a_member_that_never_got_the_stick_is_refused(
    ada: Connection, bob: Connection, tool: str, arguments: Object
) -> None:
    ada.claim()

    assert bob.call(tool, **arguments)["field"] == "lease_id"
    assert owner(ada) == "ada:1"


@owner_calls
def test_another_agent_of_the_same_connection_has_not_the_turn_of_the_first(
    ada: Connection, tool: str, arguments: Object
) -> None:
    ada.claim()
    ada.join(agent_id_override="ann:4")

    assert ada.call(tool, **arguments)["error"] == "stale_lease"
    assert owner(ada) == "ada:1"


# -- a turn whose reply did not arrive


@owner_calls
@pytest.mark.parametrize("fate", ["not sent", "sent and taken back"])
def test_a_turn_whose_reply_was_taken_back_was_not_received(
    ada: Connection, fate: str, tool: str, arguments: Object
) -> None:
    ada.start("wait_for_turn")
    delivery = ada.delivery
    if fate == "not sent":
        delivery.not_sent()
    else:
        delivery.sent()
        delivery.retracted(lambda task: task())

    assert ada.call(tool, **arguments)["field"] == "lease_id"
    assert owner(ada) is None


def test_a_takeover_whose_reply_was_taken_back_was_not_received(ada: Connection, bob: Connection, clock: Any) -> None:
    ada.claim()
    clock.advance(minutes=46)
    bob.start("takeover_stick", expected_turn_id=1, reason="no answer")
    bob.delivery.not_sent()

    assert bob.call("release_stick", handoff=HANDOFF)["field"] == "lease_id"
    assert ada.call("heartbeat")["error"] == "turn_mismatch"


def test_taking_back_an_old_reply_leaves_the_newer_turn(ada: Connection) -> None:
    ada.start("wait_for_turn")
    old = ada.delivery
    old.sent()
    ada.call("release_stick", handoff=HANDOFF)
    ada.claim()

    old.retracted(lambda task: task())

    assert ada.call("heartbeat")["turn_id"] == 2


def test_a_turn_that_was_used_cannot_be_taken_back(ada: Connection) -> None:
    ada.start("wait_for_turn")
    old = ada.delivery
    old.sent()
    ada.call("heartbeat")

    old.retracted(lambda task: task())

    assert ada.call("heartbeat")["turn_id"] == 1
