"""The public inspector's command line lists and calls our tools, in both eras."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

CLIENTS = Path(__file__).parent / "inspector/node_modules/@modelcontextprotocol/inspector/clients"
INSPECTOR = CLIENTS / "launcher/build/index.js"
IN_ONE_PROCESS = Path(__file__).parent / "drivers/inspector.mjs"

pytestmark = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="npm or node not on this machine"
)
eras = pytest.mark.parametrize("era", ["legacy", "auto", "modern"])


@pytest.fixture
def surroundings(tmp_path, workspace):
    """A home of its own for the inspector."""
    assert INSPECTOR.exists(), "the inspector is missing; `make oracle` installs it"
    return {"text": True, "cwd": workspace, "env": {**os.environ, "HOME": str(tmp_path)}}


@pytest.fixture
def our_server(tmp_path):
    """How the inspector is to run our server, in an era."""
    server = [sys.executable, "-m", "conch", "mcp"]
    facts = ["-e", f"CONCH_DATA_DIR={tmp_path / 'data'}", "-e", "CONCH_AGENT_ID=codex:inspector"]
    return lambda era: [*server, "--protocol-era", era, "--format", "json", *facts]


@pytest.fixture
def inspect(surroundings, our_server):
    """What the inspector prints, for one command after the other; each starts a server of its own."""
    command = ["node", IN_ONE_PROCESS, (CLIENTS / "cli/build/index.js").as_uri()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **surroundings) as process:

        def run(era, *words):
            process.stdin.write(json.dumps([*our_server(era), *words]) + "\n")
            process.stdin.flush()
            return json.loads(json.loads(process.stdout.readline()))["result"]

        deadline = Timer(120, process.kill)
        deadline.start()
        yield run
        deadline.cancel()
        process.stdin.close()


@eras
def test_it_lists_the_tools_and_finds_no_fault_in_their_schemas(surroundings, our_server, era):
    command = ["node", INSPECTOR, "--cli", *our_server(era), "--method", "tools/list", "--strict"]

    listed = subprocess.run(command, capture_output=True, timeout=60, **surroundings)

    assert listed.returncode == 0, listed.stderr
    names = {tool["name"] for tool in json.loads(listed.stdout)["result"]["tools"]}
    assert {"list_rooms", "join_path", "wait_for_turn", "set_room_policy"} <= names


def others(room_id, home, me):
    """The tools beside those for turns: what each is called with, and something that it says."""
    room, topic, question = {"room_id": room_id}, {"topic_id": home}, {"topic_id": home, "question_id": "msg_0"}
    payload = {"subject": "s", "summary": "s", "next_action": "n"}
    notice = {**room, "event_type": "HANDOFF", "to_agent": me, "payload": payload}
    response = {"question_id": "msg_0", "answer_markdown": "a", "suggested_followups": ["f"]}
    return [
        ("ping", {}, "spec_version"),
        ("topic_create", {"name": "pink"}, "topic_id"),
        ("topic_list", {}, "topics"),
        ("topic_resolve", {"name": "pink"}, "topic_id"),
        ("topic_close", {"topic_id": "topic_0"}, "error"),
        ("topic_join", {"name": "pink", "agent_name": "red"}, "reclaim_token"),
        ("topic_presence", topic, "peers"),
        ("sync", {**topic, "outbox": [{"content_markdown": "hello"}], "wait_seconds": 0}, "sent"),
        ("cursor_reset", topic, "cursor"),
        ("messages_search", {"query": "hello"}, "results"),
        ("ask", {**topic, "question": "why?", "wait_seconds": 0}, "question_id"),
        ("ask_poll", question, "error"),
        ("ask_cancel", question, "error"),
        ("question_mark_answered", question, "error"),
        ("pending_list", {**topic, "wait_seconds": 0}, "questions"),
        ("answer", {**topic, "responses": [response]}, "skipped"),
        ("agent_register", {**room, "name": "ada-fox"}, "liveness"),
        ("agent_adopt", {**room, "name": "nobody", "scope": "src"}, "error"),
        ("agent_heartbeat", room, "liveness"),
        ("agent_list", room, "agents"),
        ("scope_reserve", {**room, "scope": "src"}, "reservation"),
        ("scope_check", {**room, "path": "src"}, "overlaps"),
        ("scope_list", room, "reservations"),
        ("scope_release", {**room, "scope": "src"}, "reservation"),
        ("event_send", notice, "event"),
        ("event_inbox", room, "events"),
        ("event_mark", {"event_id": "proto_0", "mark": "seen"}, "error"),
        ("listen", {"wait_seconds": -1}, "error"),
    ]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_it_calls_every_tool(inspect, era, workspace):
    listed = inspect(era, "--method", "tools/list")["tools"]
    called = set()

    def call(tool, **arguments):
        words = ("--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        result = inspect(era, *words)
        called.add(tool)
        assert result.get("isError", False) == ("error" in result["structuredContent"])
        return result["structuredContent"]

    def owned(turn):
        return {"room_id": room_id, "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}

    handoff = {"status": "looked at it", "next_action": "look again"}
    assert call("list_rooms")["rooms"] == []
    joined = call("join_path", context_path=str(workspace))
    room_id, me = joined["room_id"], joined["agent_id"]
    for tool, arguments, key in others(room_id, joined["topic_id"], me):
        assert key in call(tool, **arguments), tool
    turn = call("wait_for_turn", room_id=room_id)
    assert turn["status"] == "your_turn"
    assert call("heartbeat", **owned(turn))["lease_id"] == turn["lease_id"]
    assert call("append_note", room_id=room_id, note="a note")["event_seq"] > 0
    assert call("get_room_state", room_id=room_id)["room"]["owner"] == me
    assert call("get_room_events", room_id=room_id, limit=1)["events"][0]["event_type"] == "note"
    assert call("set_room_policy", room_id=room_id, policy={"claim_ttl_ms": 5_000})["policy"]["claim_ttl_ms"] == 5_000
    assert call("reorder_members", room_id=room_id, order=[me])["members"][0]["agent_id"] == me
    assert call("pass_stick", **owned(turn), to_agent_id="codex:2", handoff=handoff)["error"] == "unknown_member"
    taking = {"room_id": room_id, "expected_turn_id": turn["turn_id"], "reason": "none"}
    assert call("takeover_stick", **taking)["error"] == "takeover_not_available"
    assert call("leave_path", room_id=room_id)["error"] == "stick_held"
    assert call("release_stick", **owned(turn), handoff=handoff)["state"] == "idle"
    turn = call("wait_for_turn", room_id=room_id)
    assert turn["handoff"] == handoff
    assert call("close_room", **owned(turn))["state"] == "closed"
    assert called == {tool["name"] for tool in listed}
