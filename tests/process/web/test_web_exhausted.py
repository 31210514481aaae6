"""A console whose system has run out of something answers each request, and works again when there is more of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.process.forking import Forks
from tests.process.web.conftest import Console
from tests.process.web.test_web_mcp import ONLY_LINUX, Client, claim_unread, until

from conch.doors.web.threads import surely


class Exhausted(Console):
    program = "tests.process.web.exhausted"


@pytest.fixture
def sign(tmp_path: Path) -> Path:
    """While this file exists, the console's system starts no thread."""
    return tmp_path / "no-threads"


@pytest.fixture
def console(environ: dict[str, str], workspace: str, tmp_path: Path, server_forks: Forks) -> Iterator[Console]:
    console = Exhausted(server_forks, {**environ, "SIGNS": str(tmp_path)}, Path(workspace))
    yield console
    end = console.end()
    console.close()
    assert end == (0, "")


def error_of(client: Client, method: str, **params: object) -> str:
    [data] = [line for line in client.post(method, params).body.decode().splitlines() if line.startswith("data: {")]
    message: str = json.loads(data.removeprefix("data: "))["error"]["message"]
    return message


def test_without_threads_everything_is_refused_and_afterwards_everything_works(
    console: Console, workspace: str, sign: Path
) -> None:
    sign.touch()
    ada = Client(console, "/mcp?agent=ada")

    refused = error_of(ada, "tools/call", name="join_path", arguments={"context_path": workspace})
    unread = error_of(ada, "resources/read", uri="conch://rooms")
    statuses = [console.request("GET", path).status for path in ("/api/rooms", "/api/health")]
    pages = [console.request("GET", "/api/stream").body for _ in range(2)]

    assert (refused, unread) == (
        "Internal error: the system cannot start another thread. Try again later.",
        "Internal error: the system cannot start another thread. Try again later.",
    )
    assert statuses == [503, 503]
    assert pages == [b"", b""]
    sign.unlink()
    room_id = ada.call("join_path", context_path=workspace)["room_id"]
    stream = console.stream()
    stream.next("hello")
    ada.call("append_note", room_id=room_id, note="Back again.")
    assert "Back again." in json.dumps(stream.next("entry").data)
    assert console.get(f"/api/rooms/{room_id}")


def test_the_page_of_a_room_that_agents_have_left_works_again(console: Console, workspace: str, sign: Path) -> None:
    """The page asks git and Beads what they have left, on a thread of its own."""
    client = Client(console)
    room_id = client.call("join_path", context_path=workspace)["room_id"]
    Client(console, "/mcp?agent=next").call("join_path", context_path=workspace)
    client.end()
    console.get("/api/rooms")  # on a thread that then waits for more
    sign.touch()

    without = console.request("GET", f"/api/rooms/{room_id}").status
    sign.unlink()

    assert (without, console.request("GET", f"/api/rooms/{room_id}").status) == (503, 200)


def test_with_few_threads_every_wait_is_answered_and_its_agent_goes_on(
    console: Console, workspace: str, sign: Path
) -> None:
    clients = [Client(console, f"/mcp?agent={name}") for name in "abcd"]
    room_id = {each.call("join_path", context_path=workspace)["room_id"] for each in clients}.pop()
    wait = {"name": "wait_for_turn", "arguments": {"room_id": room_id, "max_wait_ms": 500}}
    sign.touch()

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda client: client.post("tools/call", wait), clients * 3))

    assert all(b"data: {" in answer.body for answer in answers)
    sign.unlink()
    assert {each.call("get_room_state", room_id=room_id)["room"]["room_id"] for each in clients} == {room_id}


@ONLY_LINUX
def test_a_claim_that_nobody_reads_is_given_back_although_the_system_could_not_tell_for_a_while(
    console: Console, tmp_path: Path
) -> None:
    (tmp_path / "no-files").touch()
    bob = Client(console)
    _, room_id, unread = claim_unread(console, tmp_path / "folder")
    time.sleep(1)  # longer than until the first look

    (tmp_path / "no-files").unlink()

    until(lambda: bob.call("get_room_state", room_id=room_id)["room"]["owner"] is None, "the stick is free")
    unread.close()


def test_what_must_be_done_is_done_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def start_new_thread(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading._start_new_thread", start_new_thread)

    assert anyio.run(partial(surely, lambda: "done", None)) == "done"


def test_what_fails_on_a_thread_is_not_done_twice() -> None:
    done: list[str] = []

    def fail() -> None:
        done.append("once")
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError):
        anyio.run(partial(surely, fail, None))
    assert done == ["once"]
