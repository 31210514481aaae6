"""`conch mcp --wake` wakes its agent through the harness, once a hook has said that the agent has stopped."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.process.mcp.conftest import SECONDS, Client

MODULE = [sys.executable, "-m", "conch"]
HOOK = ["hook", "--harness", "claude-code"]


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of a Claude Code that takes prompts."""
    path = str(tmp_path / "sock")
    monkeypatch.setenv("CLAUDE_CODE_MESSAGING_SOCKET", path)
    monkeypatch.setenv("CLAUDE_CODE_MESSAGING_TOKEN", "token")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        server.settimeout(SECONDS)
        yield server


def run(tmp_path: Path, agent: str, *words: str, given: object = None) -> str:
    environ = {**os.environ, "CONCH_DATA_DIR": str(tmp_path / "data"), "CONCH_AGENT_ID": agent}
    done = subprocess.run(
        [*MODULE, *words], cwd=tmp_path, env=environ, input=json.dumps(given), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_stopped_agent_is_woken_by_its_own_server(
    start: Callable[..., Client], harness: socket.socket, tmp_path: Path
) -> None:
    (tmp_path / "AGENTS.md").write_text("")
    server = start([*MODULE, "mcp", "--wake"], "claude-code:1")
    client = {"name": "claude-code", "version": "1"}
    server.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
    server.call("join_path")
    hook = {"session_id": "s-1", "cwd": str(tmp_path)}

    run(tmp_path, "rival:1", "join")
    run(tmp_path, "claude-code:1", *HOOK, "Stop", given=hook)
    run(tmp_path, "rival:1", "send", "Hello.", "--to", "claude-code:1")
    with harness.accept()[0] as wire, wire.makefile() as lines:
        token, prompt = (json.loads(line) for line in lines)
    text = prompt["message"]["content"]
    shown = run(tmp_path, "claude-code:1", *HOOK, "UserPromptSubmit", given={**hook, "prompt": text})

    assert token == {"type": "auth", "token": "token"}
    assert "messages to you from rival" in text
    assert "Hello." in shown
    assert ": delivered" in run(tmp_path, "rival:1", "events")
