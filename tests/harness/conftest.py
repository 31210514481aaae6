"""Hooks as harnesses run them: a workspace, a store of its own, and agents that are only sessions of a harness."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.process.forking import Forks, command_forks

from conch.doors.hook.run import reply

Object = dict[str, Any]
SECONDS = 60
_HARNESSES = ("CLAUDE", "CODEX", "GEMINI", "OPENCODE", "KILO", "COPILOT", "QWEN", "CURSOR", "CONCH", "AI_AGENT")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "project"
    (root / "src").mkdir(parents=True)
    (root / "AGENTS.md").write_text("")
    return root


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What hooks and commands see: one store, and nothing of the harness that may run the tests."""
    for name in os.environ:
        if name.startswith(_HARNESSES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CONCH_DATA_DIR", str(tmp_path / "data"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


Hook = Callable[..., Object]


def answer_to(words: list[str], given: Object) -> Object:
    """What `conch hook` prints, in this process."""
    written: list[bytes] = []
    reply(words, json.dumps(given).encode(), lambda text: written.append(text) is None)
    answer: Object = json.loads(b"".join(written) or b"{}")
    return answer


@pytest.fixture
def hook(environ: dict[str, str], project: Path) -> Hook:
    """Answer a hook of a session in this process, and do what follows once it is printed."""

    def run(event: str, session: str = "one", harness: str = "claude-code", **fields: Any) -> Object:
        given = {"session_id": session, "cwd": str(project), "hook_event_name": event, **fields}
        return answer_to([event, "--harness", harness], given)

    return run


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with command_forks() as forks:
        yield forks


@pytest.fixture
def conch(environ: dict[str, str], project: Path, forks: Forks) -> Callable[..., Object]:
    """Run a command of a session as a process. It returns the JSON envelope."""

    def run(session: str, *words: str) -> Object:
        marks = {"CLAUDE_CODE_SESSION_ID": session, "CLAUDECODE": "1"}
        envelope: Object = json.loads(forks.run([*words, "--json"], {**environ, **marks}, project, b"", SECONDS).out)
        return envelope

    return run
