"""Every engine, one suite: a test that takes `app` or `store` runs on each of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conch import processes
from conch.agents import Caller, adopt_override
from conch.app import App, open_app
from conch.processes import Process
from conch.storage.base import Store


class MovableClock:
    """The store's clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def advance(self, *, minutes: float = 0, milliseconds: float = 0) -> None:
        self.now += int(minutes * 60_000_000 + milliseconds * 1_000)


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture(params=["sqlite", "postgres"])
def environ(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """What selects an engine, and an empty store for one test."""
    environ = {"HOME": str(tmp_path / "home"), "CONCH_DATA_DIR": str(tmp_path / "data")}
    if request.param == "postgres":
        environ["CONCH_STORE"] = request.getfixturevalue("postgres_url")
    yield environ
    if request.param == "postgres":
        app = open_app(environ)
        app.store.wipe()
        app.close()


@pytest.fixture
def app(environ: dict[str, str], clock: MovableClock) -> Iterator[App]:
    app = open_app(environ, clock)
    yield app
    app.close()


@pytest.fixture
def store(app: App) -> Store:
    return app.store


@pytest.fixture
def workspace(tmp_path: Path) -> str:
    """A directory with a marker, so that it is its own workspace root wherever the tests run."""
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "AGENTS.md").write_text("")
    return os.path.realpath(root)


Agent = Callable[..., Caller]


@pytest.fixture
def agent(app: App) -> Agent:
    """An agent by its id, with no process unless one is given."""

    def make(agent_id: str, process: Process | None = None) -> Caller:
        nobody = Caller("test:0000", "nobody", process, "mcp_harness", None)
        return adopt_override(app.store, nobody, agent_id)._replace(overridden=False)

    return make


class Child:
    """A real process that lives until it is killed."""

    def __init__(self) -> None:
        self._popen = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        facts = processes.look_up(self._popen.pid)
        assert facts is not None
        self.process = facts

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()
        assert self._popen.stdin is not None
        self._popen.stdin.close()


@pytest.fixture
def child() -> Iterator[Callable[[], Child]]:
    children: list[Child] = []

    def start() -> Child:
        children.append(Child())
        return children[-1]

    yield start
    for each in children:
        each.kill()
