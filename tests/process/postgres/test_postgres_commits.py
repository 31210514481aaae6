"""A lost connection: before the commit the call is retried; during the commit the caller gets an error."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.process.postgres.conftest import Run

from conch.app import App, open_app
from conch.bells.base import change_channel, seat_channel
from conch.calls import Call, retry_interrupted
from conch.errors import StoreFull
from conch.host import processes
from conch.rooms.log import append_event
from conch.rooms.presence import member_columns
from conch.rooms.room import load_room
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.replies import Reply
from conch.tools.session import Session

SOON = 20.0
HANDOFF = {"status": "done", "next_action": "go on"}


class Caller:
    """An agent in this process, behind the proxy, that has joined a room."""

    def __init__(self, app: App, workspace: str) -> None:
        self.app = app
        self.workspace = workspace
        self._session = Session(app, "mcp")
        self.room_id = self.call("join_path", context_path=workspace)["room_id"]

    def reply(self, tool: str, call: Call, **arguments: Any) -> Reply:
        return call_tool(TOOLS[tool], self._session, arguments, call)

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.reply(tool, Call(), **arguments).data

    def note(self) -> Any:
        return self.call("append_note", room_id=self.room_id, note="once")

    def wait(self) -> Any:
        return self.call("wait_for_turn", room_id=self.room_id, max_wait_ms=0)


@pytest.fixture
def caller(
    environ: dict[str, str],
    proxy: Any,
    database: str,
    workspace: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Caller]:
    """A test may give the server's settings for the agent's connections."""
    monkeypatch.setenv("CONCH_AGENT_ID", "codex:1")
    app = open_app({**environ, "CONCH_STORE": proxy.url(database, **getattr(request, "param", {}))})
    yield Caller(app, workspace)
    app.close()


@pytest.fixture
def notes(server: Any, database: str) -> Callable[[], int]:
    count = "SELECT count(*) FROM conch.room_events WHERE event_type = 'note'"
    return lambda: int(server.ask(count, database)[0][0])


def test_a_commit_that_never_reached_the_server_is_reported_as_uncertain(
    caller: Caller, proxy: Any, notes: Callable[[], int]
) -> None:
    proxy.at_commit(lambda link, data: link.cut())

    answer = caller.note()

    assert answer["error"] == "DB_UNCERTAIN"
    assert notes() == 0
    assert "event_seq" in caller.note()


def test_a_commit_whose_answer_was_lost_is_reported_as_uncertain_and_not_made_twice(
    caller: Caller, proxy: Any, notes: Callable[[], int], until: Callable[..., Any]
) -> None:
    def lose_the_answer(link: Any, data: bytes) -> None:
        link.deafen()
        link.forward(data)
        until(lambda: notes() == 1)

    proxy.at_commit(lose_the_answer)

    answer = caller.note()

    assert answer["error"] == "DB_UNCERTAIN"
    assert "Look at the room" in answer["message"]
    until(lambda: notes() == 1)


def test_a_connection_lost_before_the_commit_is_made_anew_and_the_call_is_made_once(
    caller: Caller, proxy: Any, notes: Callable[[], int]
) -> None:
    proxy.at_words(b"nextval", lambda link, data: link.cut())

    answer = caller.note()

    assert "event_seq" in answer
    assert notes() == 1


@pytest.mark.parametrize("arrives", [True, False])
def test_a_message_is_sent_once_although_the_connection_was_lost_before_its_answer(
    caller: Caller, proxy: Any, server: Any, database: str, until: Callable[..., Any], arrives: bool
) -> None:
    topic_id = caller.call("join_path", context_path=caller.workspace)["topic_id"]
    stored = lambda: server.ask("SELECT content_markdown FROM conch.messages ORDER BY seq", database)  # noqa: E731

    def lose_the_answer(link: Any, data: bytes) -> None:
        link.deafen()
        if arrives:
            link.forward(data)
            until(lambda: len(stored()) == 2)
        link.cut()

    def send(text: str) -> Any:
        outbox = [{"content_markdown": text}]
        return caller.call("sync", topic_id=topic_id, outbox=outbox, wait_seconds=0)

    send("before")
    proxy.at_words(b"INSERT INTO messages", lose_the_answer)

    sent = send("once")

    assert proxy.deed is None
    assert sent["sent"][0]["message"]["seq"] == 2
    assert stored() == [("before",), ("once",)]


@pytest.mark.parametrize("caller", [{"options": "-c idle_in_transaction_session_timeout=1s"}], indirect=True)
def test_an_idle_transaction_is_ended_and_the_next_call_works(
    caller: Caller, proxy: Any, server: Any, database: str, notes: Callable[[], int], until: Callable[..., Any]
) -> None:
    inside = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
    ended = "terminating connection due to idle-in-transaction timeout"
    before = server.log().count(ended)

    def stand_still(link: Any, data: bytes) -> None:
        until(lambda: server.ask(inside, database) == [(0,)])
        link.forward(data)

    proxy.at_commit(stand_still)

    answer = caller.note()

    assert "event_seq" in answer
    assert notes() == 1
    assert server.log().count(ended) > before


def test_a_claim_that_may_have_been_made_is_found_by_asking_again(
    caller: Caller, proxy: Any, server: Any, database: str, until: Callable[..., Any]
) -> None:
    claims = "SELECT count(*) FROM conch.room_events WHERE event_type = 'claim'"

    def lose_the_answer(link: Any, data: bytes) -> None:
        link.deafen()
        link.forward(data)

    proxy.at_commit(lose_the_answer)
    answer = caller.wait()
    until(lambda: server.ask(claims, database) == [(1,)])

    again = caller.wait()

    assert answer["error"] == "DB_UNCERTAIN"
    assert (again["status"], again["reason"], again["turn_id"]) == ("your_turn", "already_owner", 1)
    assert server.ask(claims, database) == [(1,)]


CLAIMS = {
    "wait_for_turn": "SELECT count(*) FROM conch.path_rooms WHERE owner = 'codex:1'",
    "takeover_stick": "SELECT count(*) FROM conch.path_rooms WHERE owner = 'codex:1'",
    "scope_reserve": "SELECT count(*) FROM conch.reservations WHERE state = 'active'",
}


@pytest.mark.parametrize("tool", CLAIMS)
def test_what_may_have_been_claimed_is_given_back_when_the_call_is_cancelled(
    caller: Caller, proxy: Any, server: Any, database: str, until: Callable[..., Any], lost_owner: Any, tool: str
) -> None:
    lost_owner(tool == "takeover_stick")
    arguments = {"takeover_stick": {"expected_turn_id": 1, "reason": "it is gone"}, "scope_reserve": {"scope": "a"}}
    call = Call()

    def lose_the_answer(link: Any, data: bytes) -> None:
        call.cancel()
        link.deafen()
        link.forward(data)

    changed = b"INSERT INTO reservations" if tool == "scope_reserve" else b"INSERT INTO room_events"
    proxy.at_words(changed, lose_the_answer)  # the commit travels with it
    reply = caller.reply(tool, call, **arguments.get(tool, {}))
    assert reply.is_error
    until(lambda: server.ask(CLAIMS[tool], database) == [(1,)])  # the reply may come before the server has finished

    reply.delivery.not_sent()  # as a server does for a call that was cancelled

    assert server.ask(CLAIMS[tool], database) == [(0,)]


def test_a_wait_that_finds_its_claim_in_doubt_was_made_can_still_give_it_back(
    caller: Caller, proxy: Any, server: Any, database: str, app: App, agent: Any, until: Callable[..., Any]
) -> None:
    holder, replies = agent("claude:1"), []
    app.membership.join_path(holder, caller.workspace)
    turn = app.claims.wait_for_turn(holder, caller.room_id, max_wait_ms=0).snapshot.room
    waiting = threading.Thread(target=lambda: replies.append(caller.reply("wait_for_turn", Call())))
    waiting.start()
    until(lambda: app.bell.hears(seat_channel(caller.room_id, "codex:1")))
    proxy.at_commit(lambda link, data: (link.deafen(), link.forward(data)))
    app.turns.release_stick(holder, caller.room_id, turn.lease_id, turn.turn_id, HANDOFF)
    waiting.join(SOON)

    replies[0].delivery.not_sent()

    assert (replies[0].data["status"], replies[0].data["reason"]) == ("your_turn", "already_owner")
    assert server.ask(CLAIMS["wait_for_turn"], database) == [(0,)]


@pytest.fixture
def lost_owner(app: App, agent: Any, caller: Caller) -> Callable[[bool], None]:
    """Let an agent take the stick, and end."""

    def lose(really: bool) -> None:
        if really:
            gone = processes.look_up(os.getpid())._replace(started_at=1)
            lost = agent("claude:1")
            app.membership.join_path(lost, caller.workspace)
            app.claims.wait_for_turn(lost, caller.room_id, max_wait_ms=0)
            with app.store.write(caller.room_id) as tx:
                tx.run(
                    "update_member_process",
                    room_id=caller.room_id,
                    agent_id="claude:1",
                    **member_columns(lost._replace(process=gone)),
                )

    return lose


def test_what_was_read_is_answered_even_if_the_connection_is_lost_right_after(
    caller: Caller, server: Any, database: str
) -> None:
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND usename = 'conch'"

    with caller.app.store.read() as tx:
        rooms = tx.all("all_rooms")
        assert server.ask(end, "postgres", database) == [(True,)]

    assert [room["room_id"] for room in rooms] == [caller.room_id]


def test_a_listener_that_begins_while_a_ring_is_being_committed_does_not_miss_the_change(
    caller: Caller, app: App, server: Any, database: str, until: Callable[..., Any]
) -> None:
    locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND NOT granted"
    seen: list[bool] = []

    def listen_and_look() -> None:
        with app.bell.listen(f"room-{caller.room_id}"), app.store.read() as tx:
            seen.append(
                any(e["event_type"] == "note" for e in tx.all("events_after", room_id=caller.room_id, after=0, limit=9))
            )

    listener = threading.Thread(target=listen_and_look)
    tx: Any
    with app.store.write(caller.room_id) as tx:
        append_event(tx, load_room(tx, caller.room_id), "note", details={"note": "once"})
        tx.connection.fly(tx.last_words(change_channel(())))  # it has found no listener, and only now one starts
        listener.start()
        until(lambda: server.ask(locks, database) != [(0,)])
    listener.join(SOON)

    assert seen == [True]


# -- commands


Conch = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def conch(environ: dict[str, str], proxy: Any, database: str, workspace: str, run_conch: Run) -> Conch:
    """Run a command in the workspace, behind the proxy."""
    env = {**os.environ, **environ, "CONCH_STORE": proxy.url(database)}

    def run(*words: str, agent: str = "codex:1", given: str = "") -> subprocess.CompletedProcess[str]:
        return run_conch(words, env | {"CONCH_AGENT_ID": agent}, workspace, given)

    return run


@pytest.fixture
def asked(app: App, workspace: str) -> None:
    """A room of two, a topic, and a question that is open."""

    def call(tool: str, **arguments: Any) -> Any:
        reply = call_tool(TOOLS[tool], session, arguments, Call())
        reply.delivery.sent()  # or the next call would wait a second for this
        return reply.data

    for agent_id in ("claude:1", "codex:1"):
        session = Session(app, "mcp")
        topic_id = call("join_path", context_path=workspace, agent_id_override=agent_id)["topic_id"]
    call("topic_create", name="alpha")
    call("sync", topic_id=topic_id, outbox=[{"content_markdown": "good morning"}], wait_seconds=0)
    call("ask", topic_id=topic_id, question="Why?", wait_seconds=0)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("words", "moment"),
    [
        ("answer 2 so", b"SELECT answer_id"),
        ("read", b"UPDATE cursors"),
        ("rooms --all", b"FROM path_rooms"),
        ("state", b"FROM path_rooms"),
        ("policy", b"FROM room_members"),
        ("events", b"FROM room_events"),
        ("agent list", b"FROM room_members"),
        ("agent show", b"FROM room_members"),
        ("agent status", b"FROM reservations"),
        ("questions", b"FROM questions"),
        ("read --since 1", b"FROM messages"),
        ("topics list", b"FROM topics"),
        ("topics show alpha", b"FROM topics"),
        ("topics rename alpha beta", b"pg_advisory_xact_lock"),
        ("topics export", b"FROM messages"),
        ("db verify", b"FROM room_events"),
    ],
)
def test_a_command_whose_connection_is_lost_before_a_commit_is_simply_made_again(
    conch: Conch, proxy: Any, words: str, moment: bytes
) -> None:
    proxy.at_words(moment, lambda link, data: link.cut())

    done = conch(*words.split(), agent="claude:1")

    assert proxy.deed is None
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("asked")
def test_a_new_agent_is_created_once_although_the_connection_was_lost(
    conch: Conch, proxy: Any, server: Any, database: str
) -> None:
    proxy.at_words(b"pg_advisory_xact_lock", lambda link, data: link.cut())

    done = conch("whoami", agent="gemini:1")

    assert (proxy.deed, done.returncode) == (None, 0)
    assert server.ask("SELECT count(*) FROM conch.agents WHERE agent_id = 'gemini:1'", database) == [(1,)]


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(("moment", "status", "answers"), [(b"SELECT answer_id", 0, 1), (b"COMMIT", 4, 0)])
def test_an_answer_is_never_given_twice(
    conch: Conch, proxy: Any, server: Any, database: str, moment: bytes, status: int, answers: int
) -> None:
    """If the connection is lost before the commit, the command tries again; during the commit, it reports that."""

    def cut_from_the_answer_on(link: Any, data: bytes) -> None:
        if moment in link.said:
            link.cut()
        else:
            link.forward(data)
            proxy.at_words(moment, lambda link, data: link.cut())

    proxy.at_words(b"SELECT answer_id", cut_from_the_answer_on)

    done = conch("answer", "2", "so", agent="claude:1")

    assert done.returncode == status
    assert ("DB_UNCERTAIN" in done.stderr) == (status == 4)
    count = "SELECT count(*) FROM conch.messages WHERE message_type = 'answer'"
    assert server.ask(count, database) == [(answers,)]


@pytest.mark.usefixtures("asked")
def test_a_question_is_asked_once_although_the_connection_was_lost_while_waiting_for_its_answer(
    conch: Conch, proxy: Any, server: Any, database: str
) -> None:
    def cut_the_next_look(link: Any, data: bytes) -> None:
        proxy.at_words(b"FROM questions", lambda link, data: link.cut())
        link.forward(data)

    proxy.at_words(b"INSERT INTO questions", cut_the_next_look)

    done = conch("ask", "Where?", "--wait", "1", agent="claude:1")

    assert proxy.deed is None
    assert "The question stays open" in done.stderr
    count = "SELECT count(*) FROM conch.messages WHERE message_type = 'question'"
    assert server.ask(count, database) == [(2,)]


@pytest.mark.usefixtures("asked")
def test_what_a_command_read_from_standard_input_is_sent_whole_although_the_connection_was_lost(
    conch: Conch, proxy: Any, server: Any, database: str
) -> None:
    proxy.at_words(b"pg_advisory_xact_lock", lambda link, data: link.cut())

    done = conch("send", "-", agent="claude:1", given="good evening")

    assert (proxy.deed, done.returncode, done.stderr) == (None, 0, "")
    said = "SELECT count(*) FROM conch.messages WHERE content_markdown = 'good evening'"
    assert server.ask(said, database) == [(1,)]


@pytest.mark.usefixtures("asked")
def test_messages_that_were_shown_while_nothing_could_be_written_come_again(
    conch: Conch, server: Any, database: str
) -> None:
    conch("read", "--peek", agent="claude:1")
    server.ask(f"ALTER DATABASE {database} SET default_transaction_read_only = on")

    shown = conch("read", agent="claude:1")
    told = conch("read", "--json", agent="claude:1")
    server.ask(f"ALTER DATABASE {database} RESET default_transaction_read_only")
    again = conch("read", agent="claude:1")

    assert (shown.returncode, told.returncode, json.loads(told.stdout)["ok"]) == (0, 0, True)
    shown_text, again_text = (re.sub(r"\d+ s ago", "now", done.stdout) for done in (shown, again))
    assert shown_text == again_text != ""
    for done in (shown, told):
        assert done.stderr.startswith("conch: these messages count as unread and will come again")
        assert "DB_READ_ONLY" in done.stderr and "Traceback" not in done.stderr
    assert again.stderr == ""
    assert conch("read", agent="claude:1").stdout.startswith("Nothing new.\n")


def test_making_the_schema_is_a_change_too(app: App, server: Any, database: str) -> None:
    server.ask("DROP SCHEMA IF EXISTS conch CASCADE", database)

    def request() -> None:
        with app.store.read() as tx:
            assert tx.now  # there is a store now
            raise StoreFull("The disk is full.")

    with pytest.raises(StoreFull) as refusal:
        retry_interrupted(request)

    assert refusal.value.message == "The disk is full."
