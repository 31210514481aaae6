"""How often a command asks the store. Each question costs time, and on a server a journey over the network."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conch.main import main

Count = Callable[..., int]


@pytest.fixture
def count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Count:
    """How many transactions a command begins, run in this process on a real store."""
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(statements.append)
        return connection

    workspace = tmp_path / "w"
    (workspace / ".git").mkdir(parents=True)
    monkeypatch.chdir(workspace)
    monkeypatch.setattr(sqlite3, "connect", traced)
    monkeypatch.setenv("CONCH_DATA_DIR", str(tmp_path / "data"))

    def run(*words: str, agent: str = "ada:1") -> int:
        monkeypatch.setenv("CONCH_AGENT_ID", agent)
        statements.clear()
        status = main([*words, "--json"])
        answer = json.loads(capsys.readouterr().out)
        assert status == 0, answer
        return sum(statement.startswith("BEGIN") for statement in statements)

    return run


@pytest.fixture
def room(count: Count) -> Count:
    """A room with two members; ada holds the stick, and bob has asked a question."""
    for agent in ("ada:1", "bob:2"):
        count("join", agent=agent)
        count("read", agent=agent)
    count("wait", "--timeout", "0")
    count("ask", "Why?", "--wait", "0", agent="bob:2")
    count("agent", "reserve", "held")
    count("agent", "send", "bob:2", "--subject", "s", "--summary", "s", "--next", "n")
    return count


DONE = ("--status", "s", "--next", "n")


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("state",), 2),
        (("rooms",), 2),
        (("events",), 3),
        (("note", "n"), 3),
        (("policy",), 2),
        (("whoami",), 2),
        (("release", *DONE), 4),
        (("pass", "bob:2", *DONE), 5),
        (("wait", "--timeout", "0"), 4),
        (("join",), 4),
        (("send", "hello"), 4),
        (("send", "hello", "--to", "bob:2"), 6),
        (("read",), 5),
        (("ask", "What?", "--wait", "0"), 5),
        (("answer", "1", "Because."), 6),
        (("questions",), 3),
        (("topics", "list"), 1),
        (("topics", "show"), 4),
        (("agent", "list"), 4),
        (("agent", "show"), 5),
        (("agent", "register", "swift-otter"), 3),
        (("agent", "heartbeat"), 3),
        (("agent", "reserve", "src/x"), 3),
        (("agent", "reserve", "held"), 3),
        (("agent", "release", "held"), 3),
        (("agent", "status"), 3),
        (("agent", "status", "held"), 3),
        (("agent", "inbox"), 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_asks_the_store_only_what_it_needs(room: Count, words: tuple[str, ...], most: int) -> None:
    assert room(*words) <= most
