"""Every command that lists something prints one bounded page, and says how to go on. A script reads all pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from tests.callers import named

from conch.agents.connections import end_sessions
from conch.agents.records import Caller
from conch.app import App, open_app
from conch.bus.drafts import Draft
from conch.bus.peers import enter_as_itself
from conch.bus.stream import append_messages
from conch.bus.topics import make_home
from conch.calls import Call
from conch.notices.events import insert_event
from conch.rooms.log import append_event
from conch.rooms.room import load_room, save_room
from conch.storage.base import Transaction

Conch = Callable[..., Any]
BUDGET = 32 * 1024
MANY = 700
LONG = 'needle "\u200b日本\n' * 30


@pytest.fixture(scope="module")
def full(shared_conch: Any) -> Iterator[Any]:
    """A store in which no list fits into one page."""
    joined = shared_conch("join", "--json").data
    app = open_app({**shared_conch.env, "CONCH_AGENT_ID": "ada:1"})
    try:
        fill(app, joined["room_id"], joined["topic_id"], str(shared_conch.workspace))
    finally:
        app.close()
    yield shared_conch


def fill(app: App, room_id: str, home: str, workspace: str) -> None:
    with app.store.write(room_id) as tx:
        others = [add_member(tx, room_id, n) for n in range(MANY)]
        for n, other in enumerate(others):
            add_reservation(tx, room_id, "ada:1" if n % 2 else other.agent_id, n)
            add_topic_and_room(tx, f"{workspace}/{n}", n, other)
            append_messages(tx, enter_as_itself(tx, home, other), [Draft(f"{n}? {LONG}", "question")])
        room = load_room(tx, room_id)
        for n in range(60):
            payload = {"subject": LONG[:100], "blocker": LONG, "requested_action": LONG, "urgency": "low"}
            ada = Caller("ada:1", "ada", None, "mcp_harness", None)
            insert_event(tx, room, "BLOCKED", payload, others[0], ada, None, f"src/{n}")
            _, room = append_event(tx, room, "note", by="ada:1", details={"note": LONG})
        save_room(tx, room)


def add_member(tx: Transaction, room_id: str, n: int) -> Caller:
    who = {"agent_id": f"other:{n}", "name": f"other-{n}", "session_kind": "mcp_harness"}
    process = dict.fromkeys(("host_id", "boot_id", "pid", "process_started_at"))
    tx.run("insert_agent", harness="test", now=tx.now, **who, **process)
    tx.run(
        "insert_member",
        room_id=room_id,
        ordinal=10 + n,
        now=tx.now,
        display_name=None,
        takes_turns=1,
        **who,
        **process,
    )
    return Caller(who["agent_id"], who["name"], None, "mcp_harness", None)


def add_reservation(tx: Transaction, room_id: str, agent_id: str, n: int) -> None:
    scope = {"given": None, "scope": f"src/{n}", "scope_key": f"/src/{n}/", "bead_id": None}
    times = {"created_at": tx.now, "expires_at": tx.now + 10**12}
    tx.run("insert_reservation", reservation_id=f"res_{n}", room_id=room_id, agent_id=agent_id, **scope, **times)


def add_topic_and_room(tx: Transaction, path: str, n: int, member: Caller) -> None:
    tx.run("insert_topic", topic_id=f"topic_{n}", name=f"topic {n}", metadata_json=None, mode="reuse", now=tx.now)
    tx.run("insert_topic_seq", topic_id=f"topic_{n}", now=tx.now)
    if n % 2 == 0:
        tx.run("insert_room", room_id=f"room_{n}", canonical_path=path, topic_id=f"home_{n}", now=tx.now)
        make_home(tx, f"home_{n}", path)


class List(NamedTuple):
    words: tuple[str, ...]
    name: str
    key: str
    least: int
    option: str = "--after"


LISTS = [
    List(("rooms", "--all"), "rooms", "room_id", MANY // 2 + 1),
    List(("status", "--all"), "rooms", "room_id", MANY // 2 + 1),
    List(("state",), "members", "agent_id", MANY + 1),
    List(("state", "--all"), "members", "agent_id", MANY + 1),
    List(("who",), "agents", "agent_id", MANY + 1),
    List(("agent", "list"), "agents", "agent_id", MANY + 1),
    List(("agent", "show"), "reservations", "reservation_id", MANY // 2),
    List(("reservations",), "reservations", "reservation_id", MANY),
    List(("agent", "status", "--all"), "reservations", "reservation_id", MANY),
    List(("reservations", "src"), "overlaps", "reservation_id", MANY),
    List(("agent", "inbox"), "events", "id", 60),
    List(("events", "--after", "0"), "events", "created_at", 1),
    List(("topics", "list", "--status", "all"), "topics", "topic_id", MANY),
    List(("topics", "show"), "peers", "agent_name", MANY),
    List(("questions",), "questions", "question_id", MANY),
    List(("search", "needle", "--mode", "fts", "--content"), "results", "message_id", 500),
    List(("read", "--since", "1"), "received", "message_id", MANY, "--since"),
]


@pytest.mark.parametrize("wanted", LISTS, ids=lambda wanted: " ".join(wanted.words))
def test_a_list_comes_complete_in_bounded_pages(full: Any, wanted: List) -> None:
    found: list[str] = []
    cursor, words = None, wanted.words
    for _ in range(200):
        given = () if cursor is None else (wanted.option, cursor)
        told = full(*words, *given, "--json")
        data = told.data
        assert len(told.out.encode()) <= BUDGET or len(data[wanted.name]) == 1, (words, len(told.out))
        found += [item[wanted.key] for item in data[wanted.name]]
        if not data["has_more"]:
            break
        assert data[wanted.name] and data["cursor"] != cursor
        cursor = str(data["cursor"])

    assert data["has_more"] is False
    assert len(set(found)) >= wanted.least
    assert wanted.name == "events" or max(Counter(found).values()) == 1


@pytest.mark.parametrize("wanted", LISTS, ids=lambda wanted: " ".join(wanted.words))
def test_the_text_of_a_list_is_bounded_and_says_how_to_go_on(full: Any, wanted: List) -> None:
    told = full(*wanted.words)
    lines = told.out.splitlines()

    assert told.status == 0
    assert len(told.out.encode()) <= BUDGET
    more = [line for line in lines if line.startswith("There are more: ")]
    assert len(more) == 1 and " --" in more[0], lines[-3:]
    going_on = more[0].split()[-1].rstrip(".")
    assert full(*wanted.words, wanted.option, going_on).out != told.out


def test_what_a_glance_leaves_out_is_counted_and_can_be_listed(full: Any) -> None:
    room = full("status", "--json").data["rooms"][0]
    (note,) = [line for line in full("status").out.splitlines() if line.startswith("Not shown: ")]

    assert {"members", "reservations", "questions"} <= room["left_out"].keys()
    assert " questions. " in note
    assert note.endswith("`conch state`, `conch reservations` and `conch questions` have the rest.")


COMMANDS = [
    ("status",),
    ("join",),
    ("events",),
    ("agent", "show", "other-1"),
    ("reserve", "a"),
]
REFUSED = [("reserve", "src"), ("agent", "reserve", "src"), ("unreserve", "src"), ("reorder", "nobody")]


@pytest.mark.parametrize("words", [*COMMANDS, *REFUSED])
def test_the_other_commands_are_bounded(full: Any, words: tuple[str, ...]) -> None:
    plain, as_json = full(*words), full(*words, "--json")

    assert max(len(each.out.encode()) + len(each.err.encode()) for each in (plain, as_json)) <= BUDGET


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_news_that_do_not_fit_come_with_the_next_command(conch: Any, options: tuple[str, ...]) -> None:
    joined = conch("join", "--json").data
    with closing(open_app(conch.env)) as app:
        bob = named(app.store, "bob:2")
        with app.store.write(joined["room_id"]) as tx:
            peer = enter_as_itself(tx, joined["topic_id"], bob)
            append_messages(tx, peer, [Draft(f"{LONG * 5} end-{n:02}") for n in range(20)])

    told = [conch("listen", "--timeout", "0", *options) for _ in range(20)]

    news = [each.out for each in told if each.status == 0]
    assert len(news) > 1
    assert max(len(each.encode()) for each in news) <= BUDGET
    assert [sum(f"end-{n:02}" in each for each in news) for n in range(20)] == [1] * 20


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_notes_of_a_takeover_that_do_not_fit_can_be_listed(conch: Any, options: tuple[str, ...]) -> None:
    room_id = conch("join", "--json").data["room_id"]
    with closing(open_app(conch.env)) as app:
        lost = named(app.store, "lost:1")
        app.membership.join_path(lost, str(conch.workspace))
        app.claims.wait_for_turn(lost, room_id, None, 0, Call())
        for n in range(60):
            app.membership.append_note(lost, room_id, f"{n} {LONG}")
        end_sessions(app.store, ["lost:1"])

    taken = conch("take", "--reason", "it is gone", *options)

    assert taken.status == 0, taken.err
    assert "59 needle" in taken.out
    assert len(taken.out.encode()) <= BUDGET
    assert "0 needle" in conch("events", "--after", "0").out
    if options:
        assert taken.data["has_more"] and taken.data["cursor"] == "0"
    else:
        assert "There are older notes: `conch events --after 0`." in taken.out


def test_whoever_asks_for_more_gets_more(full: Any) -> None:
    assert len(full("who", "--limit", "100000", "--json").data["agents"]) == MANY + 1
    assert full("who", "--limit", "100000", "--json").data["has_more"] is False
    assert full("who", "--limit", "0", "--json").error["field"] == "limit"
    assert full("rooms", "--all", "--after", "nothing", "--json").error["field"] == "after"
