"""However long the texts of agents are, no reply to a page is, and its pages are complete."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from tests.callers import named
from tests.process.web.conftest import Console

from conch.agents.records import process_columns
from conch.app import open_app
from conch.bus.drafts import Draft
from conch.bus.peers import enter_as_itself
from conch.bus.stream import append_messages
from conch.notices.events import insert_event
from conch.rooms.room import load_room

ONE = 60_000  # bytes of a text
MOST = 1024 * 1024 + 2 * ONE
LONG = "x" * ONE
QUESTIONS, MESSAGES, NOTICES, MEMBERS = 30, 30, 30, 2_500
WHOLE = 4  # texts that a page has room for, beside the beginnings of the others


@pytest.fixture
def environ(environ: dict[str, str], every_engine: dict[str, str]) -> dict[str, str]:
    return {**environ, **every_engine}


@pytest.fixture
def console(environ: dict[str, str], consoles: Callable[..., Console]) -> Console:
    return consoles(environ)


@pytest.fixture
def room(environ: dict[str, str], console: Console) -> Any:
    """A room that is full of long texts."""
    with closing(open_app(environ)) as app:
        ada = named(app.store, "ada:1")
        room = app.membership.join_path(ada, str(console.folder)).snapshot.room
        with app.store.write(room.room_id) as tx:
            peer = enter_as_itself(tx, room.topic_id, ada)
            append_messages(tx, peer, [Draft(LONG, "question")] * QUESTIONS + [Draft(LONG)] * MESSAGES)
            payload = {"subject": LONG, "blocker": "b", "requested_action": "r", "urgency": "low", "requires_ack": True}
            for number in range(NOTICES):
                insert_event(tx, load_room(tx, room.room_id), "BLOCKED", payload, ada, ada, None, f"src/{number}")
    return room


def read(console: Console, address: str) -> Any:
    answer = console.request("GET", address)
    assert answer.status == 200, answer.body
    assert len(answer.body) <= MOST, (address, len(answer.body))
    return answer.data


def test_no_page_reads_more_than_a_browser_can_take(console: Console, room: Any) -> None:
    listed = read(console, "/api/rooms")["rooms"]
    shown = read(console, f"/api/rooms/{room.room_id}")["room"]
    topic = read(console, f"/api/topics/{room.topic_id}")
    read(console, "/api/search?q=x&mode=fts&limit=40")

    assert [len(listed[0][name]) for name in ("questions", "notices")] == [QUESTIONS, NOTICES]
    for questions in (shown["questions"], topic["questions"]):
        lengths = [len(each["question_text"]) for each in questions]
        assert lengths == [ONE] * WHOLE + [300] * (QUESTIONS - WHOLE)
        assert questions[-1]["question_text"] == LONG[:299] + "…"


def test_a_room_with_more_members_than_fit_counts_the_others(
    console: Console, environ: dict[str, str], room: Any
) -> None:
    with closing(open_app(environ)) as app, app.store.write(room.room_id) as tx:
        for n in range(MEMBERS):
            who = {"agent_id": f"other:{n:0>120}", "name": f"other-{n:0>40}", "session_kind": "mcp_harness"}
            who |= process_columns(None)
            tx.run("insert_agent", harness="test", now=tx.now, **who)
            member = {"room_id": room.room_id, "ordinal": n + 10, "display_name": None, "takes_turns": 1}
            tx.run("insert_member", now=tx.now, **member, **who)

    for shown in (read(console, "/api/rooms")["rooms"][0], read(console, f"/api/rooms/{room.room_id}")["room"]):
        assert len(shown["members"]) + shown["left_out"]["members"] == MEMBERS + 1


@pytest.mark.parametrize("forward", [True, False])
def test_messages_that_do_not_fit_come_with_the_next_page(console: Console, room: Any, forward: bool) -> None:
    seqs: list[int] = []
    way, more, last = ("after=0", "has_newer", -1) if forward else ("limit=200", "has_older", 0)
    while True:
        page = read(console, f"/api/topics/{room.topic_id}/messages?limit=200&{way}")
        found = [message["seq"] for message in page["messages"]]
        seqs = seqs + found if forward else found + seqs
        if not page[more]:
            break
        way = f"{'after' if forward else 'before'}={found[last]}"

    assert seqs == [*range(1, QUESTIONS + MESSAGES + 1)]


@pytest.mark.parametrize("forward", [True, False])
def test_entries_that_do_not_fit_come_with_the_next_page(console: Console, room: Any, forward: bool) -> None:
    keys: list[str] = []
    way = "&after=0.0.0" if forward else ""
    while True:
        page = read(console, f"/api/rooms/{room.room_id}/timeline?limit=200{way}")
        found = [entry["key"] for entry in page["entries"]]
        keys = keys + found if forward else found + keys
        if not page["has_newer" if forward else "has_older"]:
            break
        way = f"&after={page['end']}" if forward else f"&before={page['start']}"

    assert len(keys) == len(set(keys)) == 1 + QUESTIONS + MESSAGES
