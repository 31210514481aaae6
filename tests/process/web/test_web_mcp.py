"""MCP over HTTP: one agent per session, and nothing that a lost reply brought stays."""

from __future__ import annotations

import http.client
import json
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.patience import look_until
from tests.process.web.conftest import SECONDS, Answer, Console

from conch.doors.web.mcp_calls import MOST_CALLS

Object = dict[str, Any]
CLIENT = {"name": "codex-mcp-client", "version": "1"}


@pytest.fixture
def console(environ: dict[str, str], consoles: Callable[..., Console]) -> Console:
    return consoles(environ)


class Client:
    """The least that an MCP client sends."""

    def __init__(self, console: Console, address: str = "/mcp") -> None:
        self._console = console
        self._address = address
        self._id = 0
        self._session: dict[str, str] = {}
        opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
        answer = self.post("initialize", opening)
        self.session_id = answer.headers["Mcp-Session-Id"]
        self._session = {"Mcp-Session-Id": self.session_id, "MCP-Protocol-Version": "2025-11-25"}
        self.post("notifications/initialized", is_request=False)

    @property
    def headers(self) -> dict[str, str]:
        accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        return {**self._console.bearer, **accepted, **self._session}

    def post(self, method: str, params: Object | None = None, is_request: bool = True) -> Answer:
        return self._console.request("POST", self._address, self.message(method, params, is_request), self.headers)

    def message(self, method: str, params: Object | None = None, is_request: bool = True) -> bytes:
        self._id += 1
        request_id = {"id": self._id} if is_request else {}
        return json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, **request_id}).encode()

    def call(self, tool: str, **arguments: Any) -> Object:
        answer = self.post("tools/call", {"name": tool, "arguments": arguments})
        assert answer.status == 200, answer.body
        [data] = [line for line in answer.body.decode().splitlines() if line.startswith("data: {")]
        result: Object = json.loads(data.removeprefix("data: "))["result"]["structuredContent"]
        return result

    def cancel_last(self) -> None:
        self.post("notifications/cancelled", {"requestId": self._id}, is_request=False)

    def end(self) -> int:
        """End the session; returns the status of the reply."""
        return self._console.request("DELETE", self._address, headers=self.headers).status

    def begin(self, tool: str, **arguments: Any) -> http.client.HTTPConnection:
        """Send a call and do not wait for its reply."""
        connection = http.client.HTTPConnection("127.0.0.1", self._console.port, timeout=SECONDS)
        body = self.message("tools/call", {"name": tool, "arguments": arguments})
        connection.request("POST", self._address, body, self.headers)
        return connection

    def call_on(self, connection: http.client.HTTPConnection, tool: str) -> None:
        """Send another call on a connection whose reply was not read."""
        body = self.message("tools/call", {"name": tool, "arguments": {}})
        headers = {"Host": self._console.host, "Content-Length": str(len(body)), **self.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection.sock.sendall(f"POST {self._address} HTTP/1.1\r\n{head}\r\n".encode() + body)


def test_each_session_is_an_agent_of_its_own(console: Console, workspace: str) -> None:
    one, other = Client(console), Client(console)

    first = one.call("join_path", context_path=workspace)
    second = other.call("join_path", context_path=workspace)
    again = one.call("join_path", context_path=workspace)

    assert first["agent_id"] != second["agent_id"]
    assert again["agent_id"] == first["agent_id"]
    assert first["agent_id"].startswith("codex:")


def test_a_word_in_the_address_keeps_the_agent_across_sessions(console: Console, workspace: str) -> None:
    before = Client(console, "/mcp?agent=ada").call("join_path", context_path=workspace)
    after = Client(console, "/mcp?agent=ada").call("join_path", context_path=workspace)
    other = Client(console, "/mcp?agent=bob").call("join_path", context_path=workspace)

    assert after["agent_id"] == before["agent_id"]
    assert other["agent_id"] != before["agent_id"]


def test_a_word_in_the_address_that_is_too_long_is_refused_and_not_cut(console: Console, workspace: str) -> None:
    longest = Client(console, f"/mcp?agent={'a' * 64}")
    longer = Client(console, f"/mcp?agent={'a' * 65}")

    assert longest.call("join_path", context_path=workspace)["agent_id"]
    refused = longer.post("tools/call", {"name": "join_path", "arguments": {"context_path": workspace}})
    assert b"more than 64 characters" in refused.body


@pytest.fixture
def every_console(environ: dict[str, str], every_engine: dict[str, str], consoles: Callable[..., Console]) -> Console:
    """A console on each engine."""
    return consoles({**environ, **every_engine})


def test_an_agent_whose_session_has_ended_is_gone_at_once(every_console: Console, workspace: str) -> None:
    console = every_console
    ada, bob = Client(console), Client(console)
    room_id = ada.call("join_path", context_path=workspace)["room_id"]
    ada.call("wait_for_turn")
    ada.call("scope_reserve", room_id=room_id, scope="src")
    bob.call("join_path", context_path=workspace)
    waiting = bob.begin("wait_for_turn", room_id=room_id)
    while console.get(f"/api/rooms/{room_id}")["room"]["members"][1]["doing"] != "waiting":
        pass

    assert ada.end() == 200
    woken = waiting.getresponse().read().decode()
    waiting.close()
    room = console.get(f"/api/rooms/{room_id}")["room"]
    reserved = bob.call("scope_reserve", room_id=room_id, scope="src", takeover_stale=True)
    taken = bob.call("takeover_stick", room_id=room_id, expected_turn_id=1, reason="ada is gone")

    assert "takeover_available" in woken
    assert (room["state"], room["members"][0]["doing"]) == ("owner_gone", "gone")
    assert room["reservations"][0]["liveness"] == "evicted"
    assert reserved["taken_over"]
    assert taken["turn_id"] == 2
    assert ada.post("tools/list").status == 404


def test_an_agent_with_a_name_outlasts_its_session(console: Console, workspace: str) -> None:
    ada = Client(console, "/mcp?agent=ada")
    room_id = ada.call("join_path", context_path=workspace)["room_id"]
    mine = ada.call("wait_for_turn")

    assert ada.end() == 200
    again = Client(console, "/mcp?agent=ada")
    again.call("join_path", context_path=workspace)

    assert console.get(f"/api/rooms/{room_id}")["room"]["state"] == "owned"
    assert again.call("wait_for_turn", room_id=room_id)["lease_id"] == mine["lease_id"]


def test_sessions_end_with_the_server(
    environ: dict[str, str], consoles: Callable[..., Console], workspace: str
) -> None:
    before = consoles(environ)
    ada = Client(before)
    room_id = ada.call("join_path", context_path=workspace)["room_id"]
    ada.call("wait_for_turn")

    assert before.end() == (0, "")

    assert consoles(environ).get(f"/api/rooms/{room_id}")["room"]["state"] == "owner_gone"


def test_a_client_must_say_where_it_works(console: Console) -> None:
    assert Client(console).call("join_path")["field"] == "context_path"


def test_a_wait_whose_client_goes_away_claims_nothing(console: Console, workspace: str) -> None:
    ada, bob = Client(console), Client(console)
    room_id = ada.call("join_path", context_path=workspace)["room_id"]
    mine = ada.call("wait_for_turn")
    bob_id = bob.call("join_path", context_path=workspace)["agent_id"]
    waiting = bob.begin("wait_for_turn", room_id=room_id)
    while console.get(f"/api/rooms/{room_id}")["room"]["members"][1]["doing"] != "waiting":
        pass

    waiting.close()
    while console.get(f"/api/rooms/{room_id}")["room"]["members"][1]["doing"] == "waiting":
        pass
    fence = {"room_id": room_id, "lease_id": mine["lease_id"], "expected_turn_id": mine["turn_id"]}
    ada.call("release_stick", **fence, handoff={"status": "s", "next_action": "n"})

    room = ada.call("get_room_state", room_id=room_id)["room"]
    assert (room["owner"], room["reserved_for"]) == (None, bob_id)


def test_waits_whose_clients_went_away_no_longer_count(console: Console, workspace: str) -> None:
    ada, bob = Client(console), Client(console)
    room_id = ada.call("join_path", context_path=workspace)["room_id"]
    bob.call("join_path", context_path=workspace)
    ada.call("wait_for_turn")
    waits = [bob.begin("wait_for_turn", room_id=room_id) for _ in range(MOST_CALLS)]
    until(lambda: b"Too many requests" in ping(bob), "there are as many waits as an agent may have")

    for wait in waits:
        wait.close()

    until(lambda: b"Too many requests" not in ping(bob), "none of them counts any more")


def ping(client: Client) -> bytes:
    return client.post("tools/call", {"name": "ping", "arguments": {}}).body


def until(holds: Callable[[], bool], what: str) -> None:
    look_until(holds, SECONDS, what)


ONLY_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much of a reply was read")


@ONLY_LINUX
def test_a_claim_whose_reply_nobody_reads_is_given_back_and_one_that_was_read_stays(
    console: Console, workspace: str, tmp_path: Path
) -> None:
    ada, bob, idle = Client(console), Client(console), Client(console)
    room_id = ada.call("join_path", context_path=workspace)["room_id"]
    bob.call("join_path", context_path=workspace)
    elsewhere = idle.call("join_path", context_path=str(tmp_path), force_new=True)["room_id"]
    read = idle.begin("wait_for_turn", room_id=elsewhere)
    assert b"your_turn" in read.getresponse().read()
    unread = ada.begin("wait_for_turn", room_id=room_id)
    while bob.call("get_room_state", room_id=room_id)["room"]["owner"] is None:
        time.sleep(0.01)

    began = time.monotonic()
    while bob.call("get_room_state", room_id=room_id)["room"]["owner"] is not None:
        assert time.monotonic() - began < 15
        time.sleep(0.1)

    assert bob.call("get_room_state", room_id=elsewhere)["room"]["owner"] is not None
    unread.close()
    read.close()


@ONLY_LINUX
@pytest.mark.parametrize("tool", ["wait_for_turn", "list_rooms"])
def test_further_requests_do_not_show_that_a_client_has_read_a_reply(
    console: Console, workspace: str, tool: str
) -> None:
    ada, bob = Client(console), Client(console)
    room_id = ada.call("join_path", context_path=workspace)["room_id"]
    bob.call("join_path", context_path=workspace)
    unread = ada.begin("wait_for_turn", room_id=room_id)
    until(lambda: bob.call("get_room_state", room_id=room_id)["room"]["owner"] is not None, "ada has the stick")
    began = time.monotonic()

    for _ in range(2):
        time.sleep(1)
        ada.call_on(unread, tool)
    until(lambda: bob.call("get_room_state", room_id=room_id)["room"]["owner"] is None, "the stick is free")

    assert time.monotonic() - began < 15
    unread.close()


@ONLY_LINUX
def test_a_claim_that_nobody_reads_is_given_back_once_the_store_lets_us(
    environ: dict[str, str], consoles: Callable[..., Console], tmp_path: Path
) -> None:
    console = consoles({**environ, "CONCH_BUSY_TIMEOUT_MS": "100"})
    bob = Client(console)
    _, room_id, unread = claim_unread(console, tmp_path / "folder")
    with sqlite3.connect(f"{environ['CONCH_DATA_DIR']}/rooms.sqlite", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(12)  # longer than a reply may stay unread
        other.execute("ROLLBACK")
    other.close()

    until(lambda: bob.call("get_room_state", room_id=room_id)["room"]["owner"] is None, "the stick is free")

    unread.close()


def claim_unread(console: Console, folder: Path) -> tuple[Client, str, http.client.HTTPConnection]:
    """A client in a room of its own, and the connection on which it leaves the reply with its claim unread."""
    client = Client(console)
    folder.mkdir()
    room_id = client.call("join_path", context_path=str(folder), force_new=True)["room_id"]
    unread = client.begin("wait_for_turn", room_id=room_id)
    until(lambda: client.call("get_room_state", room_id=room_id)["room"]["owner"] is not None, "the stick is taken")
    return client, room_id, unread


@ONLY_LINUX
def test_no_connection_of_a_client_that_does_not_read_keeps_its_claim(console: Console, tmp_path: Path) -> None:
    tools = ("heartbeat", "wait_for_turn")
    claims = {tool: (*claim_unread(console, tmp_path / tool), time.monotonic()) for tool in tools}
    bob, unread = Client(console), []

    while claims:
        for tool, (deaf, room_id, _, began) in [*claims.items()]:
            unread.append(deaf.begin(tool))
            room = bob.call("get_room_state", room_id=room_id)["room"]
            if room["turn_id"] > (room["owner"] is not None):  # free, or claimed again
                unread.append(claims.pop(tool)[2])
            assert time.monotonic() - began < 15, tool
        time.sleep(1)

    for connection in unread:
        connection.close()


@ONLY_LINUX
def test_a_claim_stays_if_another_reply_that_tells_of_it_was_read(console: Console, tmp_path: Path) -> None:
    tools = ("heartbeat", "wait_for_turn")
    claims = {tool: claim_unread(console, tmp_path / tool) for tool in tools}

    leases = [claims[tool][0].call(tool)["lease_id"] for tool in tools]
    time.sleep(12)  # longer than a reply may stay unread

    assert [claims[tool][0].call("heartbeat")["lease_id"] for tool in tools] == leases
    for _, _, unread in claims.values():
        unread.close()


@ONLY_LINUX
def test_a_claim_is_given_back_if_its_client_goes_away_before_it_reads_the_reply(
    console: Console, workspace: str
) -> None:
    ada, bob = Client(console), Client(console)
    room_id = ada.call("join_path", context_path=workspace)["room_id"]
    bob.call("join_path", context_path=workspace)
    unread = ada.begin("wait_for_turn", room_id=room_id)
    until(lambda: bob.call("get_room_state", room_id=room_id)["room"]["owner"] is not None, "ada has the stick")
    time.sleep(1)  # the server looks at what was read twice a second

    unread.close()

    until(lambda: bob.call("get_room_state", room_id=room_id)["room"]["owner"] is None, "the stick is free")


@pytest.mark.parametrize("first", ["list_rooms", "join_path"])
def test_any_late_cancellation_shows_what_a_client_is_like(console: Console, workspace: str, first: str) -> None:
    client = Client(console)
    client.call("join_path", context_path=workspace)
    client.call(first, context_path=workspace)
    client.cancel_last()

    turn = client.call("wait_for_turn")
    client.cancel_last()

    assert "error" not in client.call("heartbeat", lease_id=turn["lease_id"], expected_turn_id=turn["turn_id"])


def test_another_page_and_another_token_reach_no_tool(console: Console) -> None:
    client = Client(console)
    body = client.message("tools/list")

    wrong = {**client.headers, "Authorization": "Bearer wrong"}
    elsewhere = {**client.headers, "Origin": "http://evil.example"}

    assert console.request("POST", "/mcp", body, wrong).status == 401
    assert console.request("POST", "/mcp", body, elsewhere).status == 403


def test_the_server_ends_while_clients_wait(console: Console, workspace: str) -> None:
    ada, bob = Client(console), Client(console)
    room_id = ada.call("join_path", context_path=workspace)["room_id"]
    ada.call("wait_for_turn")
    bob.call("join_path", context_path=workspace)
    waiting = bob.begin("wait_for_turn", room_id=room_id)
    while console.get(f"/api/rooms/{room_id}")["room"]["members"][1]["doing"] != "waiting":
        pass
    listening = http.client.HTTPConnection("127.0.0.1", console.port, timeout=SECONDS)
    listening.request("GET", "/mcp", headers={**bob.headers, "Accept": "text/event-stream"})
    stream = listening.getresponse()

    assert console.end(signal.SIGTERM) == (0, "")
    stream.read()
    for connection in (waiting, listening):
        connection.close()
