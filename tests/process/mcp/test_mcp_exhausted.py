"""The real server when the system runs out: every request gets its reply, and the server goes on afterwards."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process from outside")


@pytest.fixture
def warm():
    """None, so that nothing has been imported that a server would only import when it is too late."""


@pytest.fixture(params=["sqlite", "postgres"])
def ada(request, monkeypatch, conch, tmp_path):
    if request.param == "postgres":
        monkeypatch.setenv("CONCH_STORE", request.getfixturevalue("postgres_url"))
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


def takes_a_turn(client):
    """In a room that it joins again: of the calls of every tool, leave_path or close_room may have succeeded."""
    room_id = client.call("join_path", context_path=str(client.errors.parent))["structuredContent"]["room_id"]
    return client.call("wait_for_turn", room_id=room_id)["structuredContent"]["status"] == "your_turn"


def test_without_a_free_descriptor_every_call_is_answered_however_long_it_lasts(ada, limit, until):
    calls = list(calls_of_every_tool(ada, ada.room_id)) * 3
    before = threads_and_files(ada)
    hard = resource.prlimit(ada.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(ada.process.pid, resource.RLIMIT_NOFILE, (3, hard))

    sent = {ada.start_call(name, **arguments) for name, arguments in calls}

    assert len(sent) > 100
    assert {ada.receive()["id"] for _ in sent} == sent
    resource.prlimit(ada.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert takes_a_turn(ada)
    assert "Traceback" not in ada.errors.read_text()
    until(lambda: all(now <= few + 8 for now, few in zip(threads_and_files(ada), before, strict=True)))


def test_a_server_with_few_descriptors_stays_the_same_agent_in_the_same_room(start, tmp_path):
    ada = start(["env", "-u", "CONCH_AGENT_ID", sys.executable, "-m", "conch", "mcp"], "not exported")
    ada.initialize()
    worktree = tmp_path / "worktree"
    (worktree / "deep").mkdir(parents=True)
    (worktree / "deep" / "AGENTS.md").write_text("")
    (worktree / ".git").write_text("gitdir: /somewhere/else")
    first = ada.call("join_path", context_path=str(worktree / "deep"))["structuredContent"]
    hard = resource.prlimit(ada.process.pid, resource.RLIMIT_NOFILE)[1]
    open_files = threads_and_files(ada)[1]
    found = set()

    for few in range(3, open_files + 8):
        resource.prlimit(ada.process.pid, resource.RLIMIT_NOFILE, (few, hard))
        joined = ada.call("join_path", context_path=str(worktree / "deep"))["structuredContent"]
        found.add((joined["agent_id"], joined["room_id"]) if "agent_id" in joined else joined["error"])

    assert found - {"DB_UNAVAILABLE", "resources_exhausted"} == {(first["agent_id"], first["room_id"])}


@pytest.mark.parametrize("spare", [16, 96, 112, 128, 192, 256])
def test_a_search_by_meaning_without_memory_does_not_end_the_server(ada, limit, spare):
    """Libraries for mathematics end the process when an allocation fails."""
    ada.call("messages_search", query="anything", mode="fts")
    limit(resource.RLIMIT_AS, virtual_size(ada) + spare * 1_024 * 1_024)

    found = ada.call("messages_search", query="anything")["structuredContent"]

    limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
    assert found.get("mode") == "fts" or found["error"] == "resources_exhausted"
    assert ada.call("messages_search", query="anything")["structuredContent"]["mode"] == "hybrid"


def test_a_loaded_model_without_memory_does_not_end_the_server(ada, limit):
    ada.call("messages_search", query="anything")
    texts = [{"content_markdown": " ".join(f"word{n}x{m}" for m in range(300))} for n in range(50)]
    topic_id = ada.call("topic_resolve", name=str(ada.errors.parent))["structuredContent"]["topic_id"]
    for _ in range(3):
        ada.call("sync", topic_id=topic_id, outbox=texts, wait_seconds=0)
    limit(resource.RLIMIT_AS, virtual_size(ada))

    found = ada.call("messages_search", query="word1x1")

    limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
    assert found["isError"]
    assert ada.call("messages_search", query="word1x1")["structuredContent"]["mode"] == "hybrid"


FEW_FILES = """
import resource, sys
from conch.main import main
resource.setrlimit(resource.RLIMIT_NOFILE, ({few}, 100))
sys.exit(main(["mcp"]))
"""


@pytest.mark.parametrize("few", [4, 5, 6, 7, 8])
def test_a_server_that_starts_with_few_descriptors_answers_or_ends_without_a_traceback(start, few):
    bob = start([sys.executable, "-c", FEW_FILES.format(few=few)], "claude:bob")
    with suppress(BrokenPipeError):
        bob.request("tools/call", {"name": "join_path", "arguments": {}})
        bob.end()

    assert bob.receive() is not None or bob.wait_for_exit() == 1
    bob.wait_for_exit()
    assert "Traceback" not in bob.errors.read_text()


def threads_and_files(client):
    """Of the server. It keeps a few idle threads and connections."""
    return tuple(len(os.listdir(f"/proc/{client.process.pid}/{kind}")) for kind in ("task", "fd"))


def test_on_a_full_disk_every_call_is_answered_however_long_it_lasts(start, tmp_path, until):
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0:
        pytest.skip("no disk can be mounted here")
    data = tmp_path / "data"
    data.mkdir()
    mounting = f"mount -t tmpfs -o size=2m tmpfs {data} && exec {sys.executable} -m conch mcp"
    bob = start(["unshare", "-rm", "/bin/sh", "-c", mounting], "claude:bob")
    bob.initialize()
    room_id = bob.call("join_path", context_path=str(tmp_path))["structuredContent"]["room_id"]
    note = {"room_id": room_id, "note": "x" * 10_000}
    before = threads_and_files(bob)
    filler = Path(f"/proc/{bob.process.pid}/root{data}/filler")
    fill(filler)

    sent = {bob.start_call("append_note", **note) for _ in range(100)}
    replies = [bob.receive() for _ in sent]

    assert {reply["id"] for reply in replies} == sent
    refused = [reply["result"]["structuredContent"] for reply in replies if reply["result"]["isError"]]
    assert {each["error"] for each in refused} == {"DB_FULL"}
    assert all(each["message"].endswith("Nothing was changed.") for each in refused)
    filler.unlink()
    assert bob.call("append_note", **note)["isError"] is False
    events = bob.call("get_room_events", room_id=room_id, limit=500)["structuredContent"]["events"]
    assert sum(event["event_type"] == "note" for event in events) == len(sent) - len(refused) + 1
    assert "Traceback" not in bob.errors.read_text()
    until(lambda: all(now <= few + 8 for now, few in zip(threads_and_files(bob), before, strict=True)))


def fill(file):
    with suppress(OSError), file.open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4_096))


@pytest.mark.parametrize("spare", [0, 1, 8])
def test_without_memory_every_call_is_answered(ada, limit, spare):
    calls = list(calls_of_every_tool(ada, ada.room_id)) * 3
    limit(resource.RLIMIT_AS, virtual_size(ada) + spare * 1_024 * 1_024)

    sent = {ada.start_call("append_note", room_id=ada.room_id, note="x" * 3_000_000) for _ in range(3)}
    sent |= {ada.start_call(name, **arguments) for name, arguments in calls}
    sent |= {ada.request("tools/list") for _ in range(20)}

    assert {ada.receive()["id"] for _ in sent} == sent
    limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
    assert takes_a_turn(ada)


WAKING_WITHOUT_MEMORY = """
import os, resource
from conch.doors.mcp.stdio import StopSign, Wire

stop, (reading, writing) = StopSign(), os.pipe()
wire = Wire((reading, writing), stop, most_bytes=1_000)
resource.setrlimit(resource.RLIMIT_AS, (1, resource.RLIM_INFINITY))
hoard, size = [], 1_048_576
while size > 2_048:
    try:
        hoard.append(bytearray(size))
    except MemoryError:
        size //= 2
stop.wake()
os.write(writing, b"line\\n")
os.write(1, next(wire.lines(lambda: False)))
"""


def test_a_wire_that_is_woken_without_memory_goes_on():
    ended = subprocess.run([sys.executable, "-c", WAKING_WITHOUT_MEMORY], capture_output=True, text=True, timeout=60)

    assert ended.stdout == "line", ended.stderr


MAKING_A_WIRE = """
import os
from conch.doors.mcp.stdio import StopSign, Wire
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = resident()
wire = Wire(os.pipe(), StopSign(), 1_000)
print(resident() - before)
"""


def test_what_is_set_aside_for_bad_times_uses_no_memory():
    ended = subprocess.run([sys.executable, "-c", MAKING_A_WIRE], capture_output=True, text=True, timeout=60)

    assert int(ended.stdout) < 512 * 1_024, ended.stderr


@pytest.mark.parametrize("filling", [b"[],", b'"\\u00e9",'])
def test_a_request_that_does_not_fit_into_memory_is_refused_under_its_id(ada, limit, filling):
    limit(resource.RLIMIT_AS, virtual_size(ada))
    head, tail = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{"a":[', b"0]}}\n"

    for number in range(900, 920):
        ada.send(head % number + filling * (1_900_000 // len(filling)) + tail)

    assert {ada.receive()["id"] for _ in range(20)} == {*range(900, 920)}
    limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
    assert ada.ask("tools/list")["result"]["tools"]


THREAD_THAT_NEVER_BEGINS = """
import _thread
import sys

def start_new_thread(*_):
    {happens}

_thread.start_new_thread = start_new_thread
from conch.main import main
sys.exit(main(["mcp"]))
"""


@pytest.mark.parametrize("happens", ["return 1", "raise RuntimeError"])
def test_a_call_whose_thread_never_begins_is_refused(start, happens):
    """A new thread that finds no memory ends before it runs any Python."""
    bob = start([sys.executable, "-c", THREAD_THAT_NEVER_BEGINS.format(happens=happens)], "claude:bob")
    bob.initialize()

    sent = {bob.start_call("get_room_state", room_id="r") for _ in range(3)}
    replies = [bob.receive() for _ in sent]

    assert {reply["id"] for reply in replies} == sent
    assert all("cannot start another thread" in reply["error"]["message"] for reply in replies)
