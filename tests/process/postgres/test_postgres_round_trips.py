"""How many round trips to the server a call takes. Over a network, they are what a call costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.process.postgres.flights import Flights, counted

from conch.agents.identity import Signal, Signals
from conch.app import App, open_app
from conch.calls import Call
from conch.tools.catalogue import TOOLS
from conch.tools.registry import call_tool
from conch.tools.session import Session

Object = dict[str, Any]
HANDOFF = {"status": "done", "next_action": "go on"}


@pytest.fixture
def flights(server: Any) -> Iterator[Flights]:
    with counted(f"{server.folder}/.s.PGSQL.{server.port}") as flights:
        yield flights


@pytest.fixture
def app(environ: dict[str, str], flights: Flights, database: str) -> Iterator[App]:
    """In this process, with the proxy between it and the server."""
    url = f"postgresql://conch@127.0.0.1:{flights.port}/{database}?gssencmode=disable&sslmode=disable"
    app = open_app({**environ, "CONCH_STORE": url})
    yield app
    app.close()


class Caller:
    """A connection that shows who it is at every join, as a real one does."""

    def __init__(self, app: App, agent_id: str, workspace: str) -> None:
        signal = Signal("explicit", agent_id, "CONCH_AGENT_ID")
        signals = Signals((signal,), "agent", None, None, "mcp_harness", "")
        self._session = Session(app, "mcp", signals=lambda called_in: signals)
        self._workspace = workspace
        self.joined = self.join()

    def call(self, tool: str, **arguments: Any) -> Object:
        """Call a tool, and report that its reply has arrived, as a door does."""
        reply = call_tool(TOOLS[tool], self._session, arguments, Call())
        assert not reply.is_error, reply.text
        reply.delivery.sent()
        return reply.data

    def join(self) -> Object:
        return self.call("join_path", context_path=self._workspace)

    def sync(self, *texts: str) -> Object:
        outbox = [{"content_markdown": text} for text in texts]
        return self.call("sync", topic_id=self.joined["topic_id"], outbox=outbox, wait_seconds=0)

    def claim(self) -> Object:
        return self.call("wait_for_turn", max_wait_ms=0)

    def release(self) -> Object:
        return self.call("release_stick", handoff=HANDOFF)


@pytest.fixture
def workspace(tmp_path: Path) -> str:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "AGENTS.md").write_text("")
    return os.path.realpath(root)


@pytest.fixture
def ada(app: App, workspace: str) -> Caller:
    return Caller(app, "codex:ada", workspace)


@pytest.fixture
def bob(app: App, workspace: str) -> Caller:
    return Caller(app, "claude:bob", workspace)


def require(found: list[list[str]], most: int) -> None:
    """At most this many; otherwise, tell where they went."""
    lines = ["; ".join(" ".join(words.split())[:150] for words in flight) for flight in found]
    told = "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))
    assert len(found) <= most, f"{len(found)} round trips, not {most}:\n{told}"
    assert found, "the proxy has counted nothing"


def test_a_sync_that_sends(flights: Flights, ada: Caller) -> None:
    ada.sync("warm-up")

    require(flights.during(lambda: ada.sync("hello")), 3)


def test_a_sync_with_nothing_to_read(flights: Flights, ada: Caller) -> None:
    ada.sync()

    require(flights.during(ada.sync), 1)


def test_a_sync_that_receives_and_moves_its_cursor(flights: Flights, ada: Caller, bob: Caller) -> None:
    ada.sync("warm-up")
    bob.sync()
    ada.sync("hello")
    received: list[Object] = []

    found = flights.during(lambda: received.append(bob.sync()))

    assert [each["content_markdown"] for each in received[0]["received"]] == ["hello"]
    require(found, 4)


def test_a_claim_a_heartbeat_and_a_release(flights: Flights, ada: Caller, bob: Caller) -> None:
    for caller in (ada, bob):
        caller.claim()
        caller.call("heartbeat")
        caller.release()

    claiming = flights.during(ada.claim)
    beating = flights.during(lambda: ada.call("heartbeat"))
    releasing = flights.during(ada.release)

    require(claiming, 4)
    require(beating, 2)
    require(releasing, 3)


def test_a_join_of_a_known_room(flights: Flights, ada: Caller, bob: Caller) -> None:
    require(flights.during(ada.join), 4)


@pytest.mark.parametrize("reserved", ["src", "docs"])
def test_a_check_of_a_path(flights: Flights, ada: Caller, bob: Caller, reserved: str) -> None:
    bob.call("scope_reserve", scope=reserved)
    check: Callable[[], Object] = lambda: ada.call("scope_check", scope="src/a.py")  # noqa: E731
    check()

    require(flights.during(check), 1)
