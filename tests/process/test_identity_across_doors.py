"""One agent, whichever door it uses: the MCP server, a shell command, in whatever order they come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# A harness as conch meets it: a process by that name, which starts an MCP server and shell commands. What to do
# comes as words: `mcp NAME` joins through a server, `open NAME` too but leaves it running, `turn NAME` also asks for
# the stick, `look NAME` leaves a server running that only looks who is in the room. `shell` asks a command who it is,
# `register NAME` registers a script, and `init NAME` does so too. A third word is the session that the step belongs to,
# a fourth the session at the root of a subagent's.
HARNESS = '''
import json, os, subprocess, sys

opened = []

def through_mcp(name, door, thread, root):
    server = subprocess.Popen([sys.argv[1], "-m", "conch", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    def ask(number, method, params):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        server.stdin.write(json.dumps(request).encode() + b"\\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline())["result"]
    client = {"name": name, "version": "1"}
    ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
    meta = {"_meta": {"threadId": thread, **({"sessionId": root} if root else {})}} if thread else {}
    opened.append(server)
    if door == "look":
        found = ask(2, "tools/call", {"name": "list_rooms", "arguments": {}, **meta})["structuredContent"]
        return [agent_id for room in found["rooms"] for agent_id in room["members"]]
    joined = ask(2, "tools/call", {"name": "join_path", "arguments": {}, **meta})["structuredContent"]
    if door == "turn":
        arguments = {"room_id": joined["room_id"], "max_wait_ms": 0}
        turn = ask(3, "tools/call", {"name": "wait_for_turn", "arguments": arguments, **meta})
        return turn["structuredContent"]["status"]
    if door == "mcp":
        server.stdin.close()
        server.wait()
    return joined["agent_id"]

def through_shell(words, thread, root):
    command = f"'{sys.argv[1]}' -m conch {words} --json"
    env = {**os.environ, "CODEX_THREAD_ID": thread} if thread else None
    env = {**env, "CODEX_SESSION_ID": root} if root else env
    done = subprocess.run(["bash", "-c", f"{command}; true"], env=env, capture_output=True, check=True)
    return json.loads(done.stdout)["data"]["agent_id"]

ORPHAN = """
import os, sys, time
if os.fork():
    os._exit(0)
while os.getppid() != int(sys.argv[2]):
    time.sleep(0.01)
os.execv(sys.argv[1], [sys.argv[1], "-m", "conch", "whoami", "--json"])
"""

def through_orphan():
    import ctypes
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans below become children of this process
    words = [sys.argv[1], "-c", ORPHAN, sys.argv[1], str(os.getpid())]
    done = subprocess.run(words, start_new_session=True, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["data"]["agent_id"]

def take(door, client="-", thread=None, root=None):
    if door == "orphan":
        return through_orphan()
    named = {"register": f"agent register {client}", "init": f"init --register {client}"}
    words = {"shell": "whoami", **named}.get(door)
    return through_shell(words, thread, root) if words else through_mcp(client, door, thread, root)

print(json.dumps([take(*step.split()) for step in sys.argv[2:]]))
for server in opened:
    server.stdin.close()
    server.wait()
'''


@pytest.fixture
def run_harness(tmp_path: Path) -> Any:
    """Run the steps inside a process that looks like a harness; the agent ids that they were told, in order."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "AGENTS.md").touch()

    def run(program: str, *steps: str, **environ: str) -> list[str]:
        script = tmp_path / program
        script.write_text(HARNESS)
        marks = ("CONCH_", "TALKING_STICK_", "CLAUDE", "CODEX", "GEMINI", "OPENCODE", "CURSOR")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(marks)}
        done = subprocess.run(
            [sys.executable, str(script), sys.executable, *steps],
            cwd=workspace,
            env={**kept, "CONCH_DATA_DIR": str(tmp_path / "data"), **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        found: list[str] = json.loads(done.stdout)
        return found

    return run


@pytest.mark.parametrize("steps", [("mcp claude-code", "shell"), ("shell", "mcp claude-code"), ("shell", "shell")])
def test_the_server_and_a_command_of_one_harness_are_one_agent(run_harness: Any, steps: tuple[str, ...]) -> None:
    first, second = run_harness("claude", *steps)

    assert first == second
    assert first.startswith("claude-code:")


def test_a_harness_that_conch_does_not_know_is_one_agent_too(run_harness: Any) -> None:
    first, second = run_harness("someharness.py", "mcp someharness", "shell")

    assert first == second


def test_a_second_server_of_the_same_harness_is_the_same_agent(run_harness: Any) -> None:
    first, second = run_harness("codex", "mcp codex-mcp-client", "mcp codex-mcp-client")

    assert first == second
    assert first.startswith("codex:")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
@pytest.mark.parametrize("program", ["codex", "someharness.py"])
def test_an_orphan_does_not_speak_as_the_process_that_adopted_it(run_harness: Any, program: str) -> None:
    itself, orphan = run_harness(program, "shell", "orphan")

    assert orphan != itself


@pytest.mark.parametrize("program", ["codex", "someharness.py"])
def test_two_servers_that_run_at_the_same_time_are_two_agents(run_harness: Any, program: str) -> None:
    first, second, third = run_harness(program, "open codex-mcp-client", "mcp codex-mcp-client", "mcp codex-mcp-client")

    assert first != second
    assert third == second


@pytest.mark.parametrize(
    "steps", [("register ci-bot", "open acme"), ("open acme", "register ci-bot"), ("mcp acme", "register ci-bot")]
)
def test_a_script_that_registered_a_name_is_not_the_agent_of_a_server_beside_it(
    run_harness: Any, steps: tuple[str, ...]
) -> None:
    first, second, *again = run_harness("runner", *steps, *steps)

    assert first != second
    assert (again[0] == first or steps[0] == "open acme") and (again[1] == second or steps[1] == "open acme")


@pytest.mark.parametrize("command", ["register", "init"])
def test_a_script_that_creates_a_room_joins_it_alone(run_harness: Any, command: str) -> None:
    before, script, members = run_harness("runner", "look acme", f"{command} ci-bot", "look acme")

    assert before == []
    assert members == [script]


def test_of_two_servers_that_run_at_the_same_time_only_one_gets_the_stick(run_harness: Any) -> None:
    assert run_harness("someharness.py", "turn someharness", "turn someharness") == ["your_turn", "not_yet"]


def test_every_session_of_a_daemon_is_one_agent_through_its_server_and_its_commands(run_harness: Any) -> None:
    codex = "codex-mcp-client"

    early, one, two, late, again = run_harness(
        "codex", "shell - t2", f"open {codex} t1", f"open {codex} t2", "shell - t1", f"mcp {codex} t1"
    )

    assert early == two != one
    assert one == late == again


def test_a_command_beside_two_servers_of_its_harness_is_an_agent_of_its_own(run_harness: Any) -> None:
    found = run_harness("someharness.py", "open someharness", "open someharness", "shell", "shell")

    assert len(set(found[:3])) == 3
    assert found[2] == found[3]


def test_servers_that_share_an_exported_id_are_one_agent(run_harness: Any) -> None:
    found = run_harness("codex", "open codex-mcp-client", "open codex-mcp-client", "shell", CONCH_AGENT_ID="alice")

    assert found == ["alice"] * 3


def test_a_client_that_calls_itself_human_is_no_person(run_harness: Any) -> None:
    (found,) = run_harness("someharness.py", "mcp human")

    assert found.startswith("agent:")


def test_two_harnesses_are_two_agents(run_harness: Any) -> None:
    assert run_harness("claude", "mcp claude-code") != run_harness("codex", "mcp codex-mcp-client")


def test_two_tabs_of_one_harness_are_two_agents(run_harness: Any) -> None:
    assert run_harness("claude", "mcp claude-code") != run_harness("claude", "mcp claude-code")


def test_a_resumed_session_is_the_same_agent_in_a_new_process(run_harness: Any) -> None:
    before = run_harness("codex", "shell", CODEX_THREAD_ID="thread-1")

    assert run_harness("codex", "shell", "mcp codex-mcp-client", CODEX_THREAD_ID="thread-1") == before * 2


def test_a_subagent_of_codex_is_its_parents_agent_through_every_door(run_harness: Any) -> None:
    parent, other, *subagent = run_harness(
        "codex",
        "open codex-mcp-client root root",
        "open codex-mcp-client other other",
        "open codex-mcp-client child root",
        "shell - child root",
    )

    assert subagent == [parent] * 2
    assert other != parent
