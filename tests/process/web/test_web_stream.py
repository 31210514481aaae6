"""The event stream brings everything that happens, at once and without a gap."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.callers import named
from tests.process.web.conftest import Console, Event, Stream

from conch.agents.connections import Connection, close_connection, record_connection
from conch.app import open_app
from conch.calls import Call
from conch.doors.web.stream import Hub
from conch.errors import Cancelled
from conch.host import processes
from conch.overseeing.lapses import Ends


@pytest.fixture
def environ(environ: dict[str, str], every_engine: dict[str, str]) -> dict[str, str]:
    return {**environ, **every_engine}


@pytest.fixture
def console(environ: dict[str, str], consoles: Callable[..., Console]) -> Console:
    return consoles(environ)


def sentences(events: list[Event]) -> list[str]:
    return [event.data["sentence"] for event in events if event.kind == "entry"]


def test_what_other_processes_do_comes_at_once_in_rooms_that_were_not_there(console: Console) -> None:
    stream = console.stream()
    hello = stream.next("hello")

    console.conch("join")
    joined = stream.next("entry")
    console.conch("send", "Good morning")
    said = stream.next("entry")
    console.conch("reserve", "src")
    reserved = stream.next("entry")

    assert hello.data["cursor"] == hello.id
    assert (joined.data["kind"], joined.data["event_type"]) == ("room", "join")
    assert said.data["content_markdown"] == "Good morning"
    assert (reserved.data["kind"], reserved.data["label"]) == ("reservation", "Reserved")
    assert {joined.data["room_id"], said.data["room_id"], reserved.data["room_id"]} == {joined.data["room_id"]}


def test_a_topic_without_a_room_is_heard_too(console: Console) -> None:
    stream = console.stream()
    stream.next("hello")

    console.conch("topics", "create", "plans")
    stream.next("changed")  # a page that lists topics reads them again
    console.conch("send", "A plan", "--topic", "plans")

    assert stream.next("entry").data["content_markdown"] == "A plan"


def test_a_change_without_an_entry_is_announced_too(console: Console) -> None:
    console.conch("join")
    asked = console.conch("ask", "Why?", "--wait", "0")
    stream = console.stream()
    stream.next("hello")

    console.conch("questions", "--cancel", asked["question_id"])

    assert stream.next("changed").data == {}


def test_a_page_that_comes_back_gets_what_it_missed(console: Console) -> None:
    console.conch("join")
    stream = console.stream()
    last = stream.next("hello")
    stream.cut()
    for number in range(3):
        console.conch("note", f"note {number}")
    console.conch("send", "a message")

    back = iter(console.stream(last.id))
    missed = [next(back) for _ in range(5)]

    assert [event.kind for event in missed] == ["hello", *["entry"] * 4]
    assert [text.rpartition(": ")[2] for text in sentences(missed)] == ["note 0", "note 1", "note 2", "a message"]


def test_connections_that_break_while_others_write_lose_nothing(console: Console) -> None:
    console.conch("join")
    console.conch("join", agent="bob:2")
    last = console.stream().next("hello").id
    writers = [threading.Thread(target=write_notes, args=(console, agent)) for agent in ("ada:1", "bob:2")]
    for writer in writers:
        writer.start()

    keys: dict[str, Any] = {}
    wanted = {f"{agent} {number}" for agent in ("ada:1", "bob:2") for number in range(5)}
    while wanted - set(keys.values()):
        stream = console.stream(last)
        for event in stream:  # two entries of each connection, then it breaks
            if event.kind == "entry":
                keys[event.data["key"]] = event.data["details"]["note"]
                last = event.id
                if len(keys) % 2 == 0:
                    break
        stream.cut()
    for writer in writers:
        writer.join()

    assert set(keys.values()) == wanted


def write_notes(console: Console, agent: str) -> None:
    for number in range(5):
        console.conch("note", f"{agent} {number}", agent=agent)


def test_a_cursor_of_another_store_is_answered_with_a_reset(shared_console: Console) -> None:
    assert shared_console.stream("900.900.900").next("hello").data["reset"] is True


@pytest.mark.parametrize("cursor", ["x", "1.2", "-1.0.0", "1.1." + "9" * 40])
def test_what_is_no_cursor_is_refused(shared_console: Console, cursor: str) -> None:
    headers = {**shared_console.bearer, "Last-Event-ID": cursor}

    answer = shared_console.request("GET", "/api/stream", headers=headers)

    assert answer.status in (400, 413)
    assert answer.data["field"] == "after"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_its_streams_and_itself_quietly(console: Console, number: int) -> None:
    streams = [console.stream() for _ in range(3)]
    for stream in streams:
        stream.next("hello")

    status, errors = console.end(number)

    assert (status, errors) == (130 if number == signal.SIGINT else 0, "")
    assert [list(stream) for stream in streams] == [[], [], []]


@pytest.fixture
def harness() -> Iterator[subprocess.Popen[bytes]]:
    """The process of an agent."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def hold_stick(console: Console, agent: subprocess.Popen[bytes] | None = None, **settings: str) -> str:
    """An agent joins the workspace and takes the stick; returns the room."""
    app = open_app({**console.environ, **settings})
    holder = named(app.store, "codex:1", processes.look_up(agent.pid) if agent else None)
    room_id = app.membership.join_path(holder, str(console.folder)).snapshot.room.room_id
    app.claims.wait_for_turn(holder, room_id, max_wait_ms=0)
    app.close()
    return room_id


def test_the_end_of_a_process_is_announced(console: Console, harness: subprocess.Popen[bytes]) -> None:
    room_id = hold_stick(console, harness)
    stream = console.stream()
    stream.next("hello")

    harness.kill()
    stream.next("changed")

    assert console.get("/api/rooms")["rooms"][0]["state"] == "owner_gone"
    assert console.get(f"/api/rooms/{room_id}/turns")["turns"][0]["is_gone"] is True


def test_a_stream_begins_when_the_end_of_a_process_cannot_be_missed(
    console: Console, harness: subprocess.Popen[bytes]
) -> None:
    hold_stick(console, harness)
    process = processes.look_up(harness.pid)
    assert process is not None
    app = open_app(console.environ)

    async def open_one() -> Ends:
        hub = Hub(app)
        queue, _ = await hub.open()
        harness.kill()
        harness.wait()
        hub.leave(queue)
        return hub.ends

    ends = asyncio.run(open_one())
    ends.notice(5)
    for thread in threading.enumerate():
        if thread.name == "conch-news":  # it still uses the store
            thread.join()
    app.close()

    assert ends.find(process) is not None


def show_holder(console: Console, room_id: str) -> dict[str, Any]:
    holder: dict[str, Any] = console.get(f"/api/rooms/{room_id}")["room"]["members"][0]
    assert holder["doing"] == "gone"
    return holder


def test_an_agent_is_gone_since_its_process_ended(console: Console, harness: subprocess.Popen[bytes]) -> None:
    room_id = hold_stick(console, harness)
    stream = console.stream()
    stream.next("hello")
    alive_at = console.get("/api/me")["now"]

    harness.kill()
    stream.next("changed")
    while "is_last_seen" in (holder := show_holder(console, room_id)):
        stream.next("changed")  # the one before was of the claim
    trouble = console.get(f"/api/rooms/{room_id}")["room"]["troubles"][0]

    assert holder["last_seen_at"] < alive_at < holder["since"] == trouble["since"]
    assert "is_last_seen" not in holder | trouble


def test_an_agent_is_gone_since_its_last_connection_was_closed(
    console: Console, harness: subprocess.Popen[bytes]
) -> None:
    room_id = hold_stick(console, harness)
    process = processes.look_up(harness.pid)
    assert process is not None
    connection = Connection(process, "process:1", "codex")
    app = open_app(console.environ)
    with app.store.write() as tx:
        record_connection(tx, connection, "codex:1")
    alive_at = console.get("/api/me")["now"]
    close_connection(app.store, connection.key)
    app.close()
    closed_at = console.get("/api/me")["now"]

    harness.kill()
    harness.wait()
    holder = show_holder(console, room_id)

    assert alive_at <= holder["since"] <= closed_at
    assert "is_last_seen" not in holder


def test_of_an_agent_that_went_unseen_only_the_last_call_is_known(
    console: Console, harness: subprocess.Popen[bytes]
) -> None:
    room_id = hold_stick(console, harness)

    harness.kill()
    harness.wait()
    holder = show_holder(console, room_id)

    assert (holder["since"], holder["is_last_seen"]) == (holder["last_seen_at"], True)


def test_a_time_that_runs_out_is_announced(console: Console) -> None:
    stream = console.stream()
    stream.next("hello")

    hold_stick(console, CONCH_OWNER_LEASE_TTL_MS="1000")
    stream.next("entry")
    while (state := console.get("/api/rooms")["rooms"][0]["state"]) == "owned":
        stream.next("changed")

    assert state == "stale_owner"


def test_a_wait_is_announced_when_it_begins_and_when_it_ends(console: Console) -> None:
    room_id = hold_stick(console)
    app, call = open_app(console.environ), Call()
    waiter = named(app.store, "ada:1")
    app.membership.join_path(waiter, str(console.folder))
    stream = console.stream()
    stream.next("hello")

    with ThreadPoolExecutor() as threads:
        wait = threads.submit(app.claims.wait_for_turn, waiter, room_id, call=call)
        watch_until(console, stream, "waiting")
        call.cancel()
        watch_until(console, stream, "here")

        assert isinstance(wait.exception(), Cancelled)
    app.close()


def watch_until(console: Console, stream: Stream, doing: str) -> None:
    """Look at the room at each change, until ada does this."""
    while [each["doing"] for each in console.get("/api/rooms")["rooms"][0]["members"]][1] != doing:
        stream.next("changed")


def test_a_wiped_store_is_announced(console: Console) -> None:
    console.conch("join")
    stream = console.stream()
    stream.next("hello")

    console.conch("db", "wipe", "--yes")
    again = stream.next("hello")

    assert again.data["reset"] is True
    assert console.get("/api/rooms")["rooms"] == []
