"""The real server when the system runs out: every request gets its reply, and the server goes on afterwards."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process from outside")


@pytest.fixture
def ada(conch, tmp_path):
    ada = conch("codex:ada")
    ada.room_id = ada.call("join_path", context_path=str(tmp_path))["structuredContent"]["room_id"]
    return ada


@pytest.fixture
def limit(ada):
    def limit(what, amount):
        resource.prlimit(ada.process.pid, what, (amount, resource.RLIM_INFINITY))

    return limit


def virtual_size(client):
    status = Path(f"/proc/{client.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmSize")).split()[1]) * 1_024


def calls_of_every_tool(client, room_id):
    """One call of each tool, with values that reach the store where that is possible."""
    known = {"room_id": room_id, "topic_id": "pink", "wait_seconds": 0, "max_wait_ms": 0, "scope": "src/*"}
    for tool in client.ask("tools/list")["result"]["tools"]:
        fields = tool["inputSchema"].get("properties", {})
        yield tool["name"], {name: value for name, value in known.items() if name in fields}


def test_without_a_free_descriptor_every_call_is_answered(ada, limit):
    calls = list(calls_of_every_tool(ada, ada.room_id))
    hard = resource.prlimit(ada.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(ada.process.pid, resource.RLIMIT_NOFILE, (3, hard))

    sent = {ada.start_call(name, **arguments) for name, arguments in calls}

    assert {ada.receive()["id"] for _ in sent} == sent
    resource.prlimit(ada.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert ada.call("wait_for_turn", room_id=ada.room_id)["structuredContent"]["status"] == "your_turn"
    assert "Traceback" not in ada.errors.read_text()


@pytest.mark.parametrize("spare", [0, 1, 8])
def test_without_memory_every_call_is_answered(ada, limit, spare):
    limit(resource.RLIMIT_AS, virtual_size(ada) + spare * 1_024 * 1_024)

    large = {ada.start_call("append_note", room_id=ada.room_id, text="x" * 3_000_000) for _ in range(3)}
    small = {ada.start_call("list_rooms", context_path="/") for _ in range(60)}
    lists = {ada.request("tools/list") for _ in range(20)}

    answered = [ada.receive()["id"] for _ in range(83)]
    assert small | lists <= set(answered)
    # A line that does not fit into the memory is refused before its id is known.
    assert set(answered) - small - lists <= large | {None}
    limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
    assert ada.call("wait_for_turn", room_id=ada.room_id)["structuredContent"]["status"] == "your_turn"
