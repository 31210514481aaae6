"""Every line that we send in a long mixed session is a message that the official types know, field by field."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

HANDSHAKE_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
META = "io.modelcontextprotocol/"


def load_story():
    spec = spec_from_file_location("story", Path(__file__).parent / "drivers" / "story.py")
    story = module_from_spec(spec)
    spec.loader.exec_module(story)
    return story


class Recorder:
    """A connection that keeps every line of the server, with the version and the method that it belongs to."""

    def __init__(self, version, data, agent_id, records):
        environ = {**os.environ, "CONCH_DATA_DIR": str(data), "CONCH_AGENT_ID": agent_id}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "conch", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
        )
        self.version = version
        self.records = records
        self.methods = {}
        self.stateless = version not in HANDSHAKE_VERSIONS

    def send(self, message):
        line = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline().decode()
        message = json.loads(line)
        method = self.methods.get(message.get("id")) if "result" in message else None
        self.records.append({"version": self.version, "method": method, "line": line})
        return message

    def start(self, method, params=None, token=None):
        request_id = len(self.methods) + 1
        self.methods[request_id] = method
        meta = {} if token is None else {"progressToken": token}
        if self.stateless:
            meta |= {f"{META}protocolVersion": self.version, f"{META}clientCapabilities": {}}
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**(params or {}), "_meta": meta}})
        return request_id

    def ask(self, method, params=None):
        request_id = self.start(method, params)
        reply = self.receive()
        assert reply["id"] == request_id
        return reply

    def notify(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def open(self):
        if self.stateless:
            self.ask("server/discover")
            return
        self.ask("initialize", {"protocolVersion": self.version, "capabilities": {"roots": {}}})
        self.notify("notifications/initialized")
        self.ask("ping")

    def call(self, tool, arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]["structuredContent"]

    async def ok(self, tool, **arguments):
        return self.call(tool, arguments)

    async def refused(self, tool, code, **arguments):
        assert self.call(tool, arguments)["error"] == code


def go_wrong(seat):
    """One of every error there is."""
    seat.send(b"this is not JSON\n")
    seat.receive()
    for method, params in [
        ("no/such/method", {}),
        ("tools/call", {"name": "no_such_tool"}),
        ("tools/call", {"name": "list_rooms", "arguments": []}),
        ("tools/list", {"cursor": "none"}),
    ]:
        assert "error" in seat.ask(method, params)
    seat.send({"jsonrpc": "2.0", "id": 9000, "method": 9000})
    seat.receive()
    seat.send(
        {"jsonrpc": "2.0", "id": 9001, "method": "tools/list", "params": {"_meta": {f"{META}protocolVersion": "1"}}}
    )
    seat.receive()


def wait_and_cancel(seat, workspace):
    room_id = seat.call("join_path", {"context_path": str(workspace)})["room_id"]
    seat.start("tools/call", {"name": "wait_for_turn", "arguments": {"room_id": room_id}}, token="my token")
    waiting = len(seat.methods)
    assert seat.receive()["method"] == "notifications/progress"
    duplicate = {"jsonrpc": "2.0", "id": waiting, "method": "tools/call", "params": {"name": "list_rooms"}}
    if not seat.stateless:
        seat.send(duplicate)
        assert seat.receive()["error"]["code"] == -32600
    seat.notify("notifications/cancelled", requestId=waiting)


def browse(seat, other):
    """Read everything, watch the room, and see another agent get the stick there."""
    for method in ("prompts/list", "resources/list", "resources/templates/list"):
        seat.ask(method)
    for name in ("join", "handover", "status"):
        seat.ask("prompts/get", {"name": name})
    for uri in ("conch://room", "conch://inbox", "conch://topic/none"):
        seat.ask("resources/read", {"uri": uri})
    watched = {"uri": "conch://room"}
    if seat.stateless:
        seat.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["conch://room"]}})
        assert seat.receive()["method"] == "notifications/subscriptions/acknowledged"
    else:
        seat.ask("resources/subscribe", watched)
    other.call("append_note", {"note": "seen?"})
    assert seat.receive()["method"] == "notifications/resources/updated"
    if not seat.stateless:
        seat.ask("resources/unsubscribe", watched)


def leave_a_question_open(seat):
    """The client said that it has roots, and then does not list them."""
    called = seat.start("tools/call", {"name": "list_rooms", "arguments": {}})
    assert seat.receive()["method"] == "roots/list"
    assert seat.receive()["method"] == "notifications/cancelled"
    assert seat.receive()["id"] == called


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """What the server said in every version."""
    place = tmp_path_factory.mktemp("records").resolve()
    kept = []
    for version in [*HANDSHAKE_VERSIONS, "2026-07-28"]:
        record_session(version, place / version, kept)
    path = place / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in kept))
    return path


def record_session(version, place, kept):
    data, workspace = place / "data", place / "workspace"
    workspace.mkdir(parents=True)
    data.mkdir()
    ada, bob = (Recorder(version, data, agent_id, kept) for agent_id in ("codex:ada", "claude:bob"))
    for seat in (ada, bob):
        seat.open()
        seat.ask("tools/list")
    asyncio.run(load_story().tell(ada, bob, str(workspace), "claude:bob"))
    owned = bob.call("join_path", {"context_path": str(workspace)})["room_id"]
    assert bob.call("wait_for_turn", {"room_id": owned})["status"] == "your_turn"
    wait_and_cancel(ada, workspace)
    browse(ada, bob)
    go_wrong(ada)
    if not ada.stateless:
        leave_a_question_open(ada)
    for seat in (ada, bob):
        seat.process.communicate(timeout=20)
        assert seat.process.returncode == 0


BROWSING = {"prompts/list", "prompts/get", "resources/list", "resources/templates/list", "resources/read"} | {
    *("resources/subscribe", "resources/unsubscribe", "notifications/resources/updated")
}
ERRORS = {"error -32700", "error -32600", "error -32601", "error -32602"}


def test_the_types_of_sdk_2_know_all_of_it(records, judge):
    judged = json.loads(judge(".venv-mcp2", "judge2.py", str(records)))

    assert sum(judged.values()) == len(records.read_text().splitlines())
    assert {"initialize", "server/discover", "ping", "tools/list", "roots/list"} <= set(judged)
    assert {"notifications/progress", "notifications/cancelled", "error -32022"} | ERRORS <= set(judged)
    assert judged["tools/call"] > 5 * 14
    assert BROWSING | {"notifications/subscriptions/acknowledged", "error -32002"} <= set(judged)


def test_the_types_of_sdk_1_know_all_of_the_handshake_era(records, judge, tmp_path):
    lines = [line for line in records.read_text().splitlines() if json.loads(line)["version"] in HANDSHAKE_VERSIONS]
    handshake = tmp_path / "records.jsonl"
    handshake.write_text("\n".join(lines))

    judged = json.loads(judge(".venv-mcp1", "judge1.py", str(handshake)))

    assert sum(judged.values()) == len(lines)
    assert {"initialize", "ping", "tools/list", "roots/list", "notifications/progress"} <= set(judged)
    assert judged["error without an id"] == len(HANDSHAKE_VERSIONS)
    assert judged["tools/call"] > 4 * 14
    assert set(judged) >= BROWSING
