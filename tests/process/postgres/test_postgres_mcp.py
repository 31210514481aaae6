"""`conch mcp` on a shared server, through real MCP calls."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conch.app import App
from conch.bells.base import seat_channel

SECONDS = 30
SECRET = "mother of/pe@rl?"
HANDOFF = {"status": "shell polished \N{SPIRAL SHELL}", "next_action": "find the pearl"}


class Client:
    """One `conch mcp` process and the pipes to it."""

    def __init__(self, environ: dict[str, str], agent_id: str, cwd: Path) -> None:
        self._errors = cwd / f"stderr-{agent_id.replace(':', '-')}"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "dev", "-m", "conch", "mcp"],
                env={**environ, "CONCH_AGENT_ID": agent_id},
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.heard = ""
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._send(
            "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"}
        )
        self._receive()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)

    def _send(self, method: str, **params: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
        self._process.stdin.flush()

    def _receive(self) -> Any:
        line = self._lines.get(timeout=SECONDS)
        self.heard += line
        return json.loads(line)["result"]

    def begin(self, tool: str, **arguments: Any) -> None:
        self._send("tools/call", name=tool, arguments=arguments)

    def finish(self) -> Any:
        return self._receive()["structuredContent"]

    def call(self, tool: str, **arguments: Any) -> Any:
        self.begin(tool, **arguments)
        return self.finish()

    def end(self) -> tuple[int, str]:
        """How it ended by itself, and everything that it wrote to its log."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            status = self._process.wait(SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            self._process.stdout.close()
        return status, self._errors.read_text()


@pytest.fixture
def client(environ: dict[str, str], server: Any, database: str, tmp_path: Path) -> Iterator[Callable[[str], Client]]:
    """Servers that reach the store over TCP, with a password."""
    clients: list[Client] = []

    def start(agent_id: str) -> Client:
        clients.append(Client({**environ, "CONCH_STORE": server.tcp_url(database)}, agent_id, tmp_path))
        return clients[-1]

    yield start
    for each in clients:
        status, log = each.end()
        assert (status, log) == (0, "")
        assert SECRET not in each.heard


def test_two_servers_hand_the_stick_over_and_outlive_the_store(
    client: Callable[[str], Client], app: App, server: Any, workspace: str, until: Callable[..., Any]
) -> None:
    codex, claude = client("codex:1"), client("claude:1")
    for each in (codex, claude):
        room_id = each.call("join_path", context_path=workspace)["room_id"]
    turn = codex.call("wait_for_turn", room_id=room_id, max_wait_ms=0)
    lease = {"room_id": room_id, "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    claude.begin("wait_for_turn", room_id=room_id, max_wait_ms=25_000)
    until(lambda: app.bell.hears(seat_channel(room_id, "claude:1")))

    server.stop()
    refused = codex.call("heartbeat", **lease)
    server.start()
    codex.call("pass_stick", **lease, to_agent_id="claude:1", handoff=HANDOFF)
    mine = claude.finish()

    assert refused["error"] == "DB_UNAVAILABLE"
    assert (mine["status"], mine["reason"], mine["handoff"]) == ("your_turn", "direct_pass", HANDOFF)
    assert codex.call("heartbeat", **lease)["error"] == "turn_mismatch"
    assert [room["owner"] for room in codex.call("list_rooms", context_path=workspace)["rooms"]] == ["claude:1"]


def test_a_server_that_is_down_is_reported_in_a_reply_without_the_password(
    client: Callable[[str], Client], server: Any, workspace: str
) -> None:
    codex = client("codex:1")
    server.stop()

    answer = codex.call("join_path", context_path=workspace)

    assert answer["error"] == "DB_UNAVAILABLE"
    assert "conch@127.0.0.1" in answer["store"]


def test_an_address_that_makes_no_sense_ends_the_server_with_advice_and_without_the_password(
    environ: dict[str, str], tmp_path: Path
) -> None:
    broken = {**environ, "CONCH_STORE": "postgresql://conch:pe%rl@127.0.0.1/conch"}

    done = subprocess.run(
        [sys.executable, "-m", "conch", "mcp"], env=broken, cwd=tmp_path, input="", capture_output=True, text=True
    )

    assert done.returncode == 2
    assert "CONCH_STORE is not a valid PostgreSQL address" in done.stderr
    assert "pe%rl" not in done.stderr + done.stdout
