"""Another store in place of the one before: a session goes on, and nothing that it remembers hides anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.arguments import HANDOFF

from conch.agents.identity import Signal, Signals
from conch.app import App, open_app
from conch.calls import Call
from conch.errors import StoreReplaced
from conch.storage.copying import copy_store
from conch.storage.replacement import new_epoch
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.session import Session

Object = dict[str, Any]


def call(session: Session, tool: str, **arguments: Any) -> Object:
    reply = call_tool(TOOLS[tool], session, arguments, Call())
    assert not reply.is_error, reply
    reply.delivery.sent()
    return reply.data


def wipe(environ: dict[str, str]) -> None:
    other = open_app(environ)
    other.store.wipe()
    other.close()


@pytest.fixture
def session(app: App) -> Session:
    return Session(app, "mcp")


def talk(session: Session, names: list[str]) -> list[str]:
    """Each says something on a new topic of the same name, then the first one reads."""
    topic = call(session, "topic_create", name="pink")["topic_id"]
    for name in names:
        call(session, "topic_join", topic_id=topic, agent_name=name)
        said = [{"content_markdown": f"{name} {number}"} for number in range(3)]
        call(session, "sync", topic_id=topic, outbox=said, wait_seconds=0, auto_advance=False)
    call(session, "topic_join", topic_id=topic, agent_name=names[0])
    read = call(session, "sync", topic_id=topic, wait_seconds=0)["received"]
    return [message["content_markdown"] for message in read]


@pytest.mark.parametrize("way", ["read", "write"])
def test_the_first_transaction_after_a_wipe_says_so_and_the_next_one_goes_on(
    app: App, environ: dict[str, str], way: str
) -> None:
    with app.store.read():
        pass
    wipe(environ)

    with pytest.raises(StoreReplaced), getattr(app.store, way)():
        pass
    with getattr(app.store, way)() as tx:
        rooms = tx.all("all_rooms")

    assert rooms == []
    assert len(app.store.replacements) == 1


@pytest.mark.parametrize("environ", ["postgres"], indirect=True)
def test_a_glance_at_tables_that_were_dropped_says_that_the_store_was_replaced(
    app: App, environ: dict[str, str]
) -> None:
    with app.store.read():
        pass
    with psycopg.connect(environ["CONCH_STORE"], autocommit=True) as connection:
        connection.execute("DROP SCHEMA conch CASCADE")

    with pytest.raises(StoreReplaced):
        app.store.glance("count_members", room_id="room_x", is_gone=0, most=1)

    assert app.store.glance("count_members", room_id="room_x", is_gone=0, most=1) == [{"total": 0}]


def test_what_a_session_remembers_of_a_wiped_store_hides_no_message(session: Session, environ: dict[str, str]) -> None:
    talk(session, ["amber"])  # it notes that all messages are its own, and need not be read again
    wipe(environ)

    read = talk(session, ["beryl", "coral"])

    assert read == ["coral 0", "coral 1", "coral 2"]


def read_late(session: Session, environ: dict[str, str]) -> tuple[Object, Any]:
    """A reply with three messages is on its way, while another store takes the place of the one it came from.

    Returns the reply's delivery, and a topic of the new store where the same peer number has read nothing yet.
    """
    call(session, "topic_create", name="pink")
    talk(session, ["amber"])
    topic = call(session, "topic_join", name="pink", agent_name="beryl")["topic_id"]
    reply = call_tool(TOOLS["sync"], session, {"topic_id": topic, "wait_seconds": 0}, Call())
    assert len(reply.data["received"]) == 3
    wipe(environ)
    call(session, "ping")
    talk(session, ["amber"])
    return call(session, "topic_join", name="pink", agent_name="beryl"), reply.delivery


def test_a_reply_from_a_replaced_store_moves_no_cursor_of_the_new_one(
    session: Session, environ: dict[str, str]
) -> None:
    joined, delivery = read_late(session, environ)

    delivery.sent()

    unread = call(session, "sync", topic_id=joined["topic_id"], wait_seconds=0)["received"]
    assert [message["content_markdown"] for message in unread] == ["amber 0", "amber 1", "amber 2"]


def test_a_retracted_reply_from_a_replaced_store_moves_no_cursor_back(
    session: Session, environ: dict[str, str]
) -> None:
    joined, delivery = read_late(session, environ)
    call(session, "sync", topic_id=joined["topic_id"], wait_seconds=0)

    delivery.retracted(lambda task: task())

    assert call(session, "sync", topic_id=joined["topic_id"], wait_seconds=0)["received"] == []


PAYLOAD = {"subject": "CI", "blocker": "no token", "requested_action": "add one", "urgency": "low"}


def replace_by_the_same(environ: dict[str, str]) -> None:
    """What a restore is for a running process, if nothing was done since the backup."""
    other = open_app(environ)
    with other.store.write("schema") as tx:
        tx.run("set_epoch", epoch=new_epoch())
    other.close()


def calls(room: Object, topic: Object) -> Iterator[tuple[str, Object]]:
    """A call of every tool that needs what is in the store, in an order in which all succeed."""
    lease = {name: room[name] for name in ("room_id", "lease_id", "turn_id")}
    lease["expected_turn_id"] = lease.pop("turn_id")
    yield from (("list_rooms", {}), ("join_path", {"context_path": room["path"]}), ("heartbeat", lease))
    for tool in ("get_room_state", "get_room_events", "agent_list", "agent_heartbeat", "event_inbox", "scope_list"):
        yield tool, {"room_id": room["room_id"]}
    yield "wait_for_turn", {"room_id": room["room_id"], "max_wait_ms": 0}
    for tool, given in {
        "agent_register": {"name": "zinc-owl"},
        "scope_reserve": {"scope": "src"},
        "scope_check": {"path": "src"},
        "scope_release": {"scope": "src"},
        "event_send": {"event_type": "BLOCKED", "to_agent": "zinc-owl", "payload": PAYLOAD},
        "append_note": {"note": "so far so good"},
        "set_room_policy": {"policy": {"claim_ttl_ms": 60_000}},
    }.items():
        yield tool, {"room_id": room["room_id"], **given}
    for tool, given in {
        "sync": {"outbox": [{"content_markdown": "hello"}], "wait_seconds": 0},
        "ask": {"question": "Why?", "wait_seconds": 0},
        "ask_poll": {"question_id": topic["asked"][0]},
        "question_mark_answered": {"question_id": topic["asked"][0]},
        "ask_cancel": {"question_id": topic["asked"][1]},
        "pending_list": {"wait_seconds": 0},
        "cursor_reset": {"last_seq": 0},
        "topic_presence": {},
        "topic_join": {"agent_name": "amber"},
        "topic_close": {},
    }.items():
        yield tool, {"topic_id": topic["topic_id"], **given}
    yield from (("messages_search", {"query": "hello"}), ("topic_list", {}), ("topic_create", {"name": "blue"}))
    yield "release_stick", {**lease, "handoff": HANDOFF}
    yield "leave_path", {"room_id": room["room_id"]}


def test_every_tool_goes_on_at_once_after_a_restore(session: Session, environ: dict[str, str], workspace: str) -> None:
    room_id = call(session, "join_path", context_path=workspace)["room_id"]
    turn = call(session, "wait_for_turn", room_id=room_id, max_wait_ms=0)
    topic_id = call(session, "topic_create", name="pink")["topic_id"]
    call(session, "topic_join", topic_id=topic_id, agent_name="amber")
    asked = [call(session, "ask", topic_id=topic_id, question="Why?", wait_seconds=0)["question_id"] for _ in range(2)]

    for tool, arguments in calls({**turn, "path": workspace}, {"topic_id": topic_id, "asked": asked}):
        replace_by_the_same(environ)
        warned = call(session, tool, **arguments)["warnings"]
        assert "STORE_REPLACED" in [warning["code"] for warning in warned], tool


def test_a_room_and_a_topic_that_the_restored_store_has_may_still_be_left_out(
    session: Session, environ: dict[str, str], workspace: str
) -> None:
    joined = call(session, "join_path", context_path=workspace)
    replace_by_the_same(environ)

    state, read = call(session, "get_room_state"), call(session, "sync", wait_seconds=0)
    gone = call(session, "topic_create", name="pink")["topic_id"]
    call(session, "topic_join", topic_id=gone, agent_name="amber")
    wipe(environ)
    refused = call_tool(TOOLS["sync"], session, {"wait_seconds": 0}, Call())
    again = call(session, "join_path", context_path=workspace)

    assert state["room"]["room_id"] == joined["room_id"]
    assert read["received"] == []
    assert (refused.data["error"], refused.data["field"]) == ("INVALID_ARGUMENT", "topic_id")
    assert again["room_id"] != joined["room_id"]
    assert call(session, "sync", wait_seconds=0)["received"] == []


@pytest.mark.parametrize("tool", ["sync", "get_room_state"])
def test_rooms_and_topics_that_were_wiped_are_no_choice(
    session: Session, environ: dict[str, str], workspace: str, tmp_path: Path, tool: str
) -> None:
    second = tmp_path / "second"
    second.mkdir()
    (second / "AGENTS.md").write_text("")
    for folder in (workspace, str(second)):
        call(session, "join_path", context_path=folder)
    session.begin_call()
    wipe(environ)

    refused = call_tool(TOOLS[tool], session, {}, Call())

    assert "has joined no" in refused.text
    assert session.app.store.replacements


def test_a_room_that_a_later_restore_brings_back_may_be_left_out_again(
    session: Session, environ: dict[str, str], workspace: str, tmp_path: Path
) -> None:
    joined = call(session, "join_path", context_path=workspace)
    backup = str(tmp_path / "kept.sqlite")
    copy(environ, environ | {"CONCH_STORE": backup})
    wipe(environ)
    refused = call_tool(TOOLS["get_room_state"], session, {}, Call())

    wipe(environ)  # the refused call has made its agent known again
    copy(environ | {"CONCH_STORE": backup}, environ)

    assert refused.data["field"] == "room_id"
    assert call(session, "get_room_state")["room"]["room_id"] == joined["room_id"]
    assert call(session, "sync", wait_seconds=0)["topic_id"] == joined["topic_id"]


def copy(source: dict[str, str], target: dict[str, str]) -> None:
    there, here = open_app(source), open_app(target)
    copy_store(there.store, here.store)
    there.close()
    here.close()


def test_a_turn_that_came_after_a_restore_is_known(session: Session, environ: dict[str, str], workspace: str) -> None:
    call(session, "join_path", context_path=workspace)
    call(session, "wait_for_turn", max_wait_ms=0)
    bob = Signals((Signal("explicit", "bob:2", "CONCH_AGENT_ID"),), "agent", None, None, "mcp_harness", "")
    waiting = Session(session.app, "mcp", signals=lambda called_in: bob)
    call(waiting, "join_path", context_path=workspace)
    reports: list[str] = []

    def restore(report: str) -> None:
        reports.append(report)
        if len(reports) == 1:
            replace_by_the_same(environ)
            turn = call(session, "wait_for_turn", max_wait_ms=0)
            call(session, "release_stick", handoff=HANDOFF)
            assert turn["reason"] == "already_owner"

    reply = call_tool(TOOLS["wait_for_turn"], waiting, {"max_wait_ms": 10_000}, Call(restore, 0.01))
    reply.delivery.sent()

    assert reply.data["status"] == "your_turn"
    assert call(waiting, "heartbeat")["turn_id"] == reply.data["turn_id"]


def test_a_name_that_another_agent_took_after_a_restore_is_not_used(session: Session, environ: dict[str, str]) -> None:
    topic_id = call(session, "topic_create", name="pink")["topic_id"]
    call(session, "topic_join", topic_id=topic_id, agent_name="amber")
    other = open_app(environ)
    with other.store.write("schema") as tx:  # as if the backup were from before, and another agent were faster
        tx.run("set_epoch", epoch=new_epoch())
        peer = tx.one("peer_named", topic_id=topic_id, agent_name="amber")
        assert peer is not None
        tx.run("claim_peer", peer_id=peer["peer_id"], agent_id=peer["agent_id"], reclaim_token_hash="0" * 64, now=1)
    other.close()

    refused = call_tool(TOOLS["sync"], session, {"topic_id": topic_id, "wait_seconds": 0}, Call())

    assert refused.data["error"] == "AGENT_NOT_JOINED"
