"""No change keeps other writers waiting for more than two round trips: one that takes its locks, and its commit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.conftest import Child, Client
from tests.contract.test_margin import closing, everything_said, filled
from tests.process.postgres.counted import Clock
from tests.process.postgres.flights import Holding

from conch.app import App, open_app
from conch.host.processes import Process
from conch.tools.catalogue import TOOLS

MOST = 2
TEXT = "src/plain"
WRITERS = {name for name, tool in TOOLS.items() if not tool.annotations.get("readOnlyHint")}

Held = tuple[str, list[list[str]]]
"""A tool, and what a transaction of it asked while it held a lock, by round trip."""


@pytest.fixture
def holding(server: Any) -> Iterator[Holding]:
    holding = Holding(server.socket)
    yield holding
    holding.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(environ: dict[str, str], holding: Holding, database: str, clock: Clock) -> Iterator[App]:
    url = f"postgresql://conch@127.0.0.1:{holding.port}/{database}?gssencmode=disable&sslmode=disable"
    app = open_app({**environ, "CONCH_STORE": url}, clock)
    with app.store.look() as tx:
        assert tx.now  # the schema is there
    holding.found.clear()
    yield app
    app.close()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """With an uncommitted file, so that the work of an agent that is gone can be resumed."""
    root = tmp_path / "workspace"
    (root / "src").mkdir(parents=True)
    (root / TEXT).write_text("unfinished")
    subprocess.run(["git", "init", "--quiet", root], check=True)
    return os.path.realpath(root)


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child()
    yield child
    child.kill()


def told(held: list[Held]) -> str:
    lines = []
    for tool, flights in held:
        lines.append(f"{tool}: {len(flights)} round trips")
        lines += ["    " + "; ".join(" ".join(words.split())[:100] for words in flight) for flight in flights]
    return "\n".join(lines)


@pytest.fixture
def calls(app: App, folder: str, child: Child, holding: Holding) -> list[Held]:
    """What is held by calls of every tool, many of which are refused."""

    def note(tool: str) -> None:
        held.extend((tool, flights) for flights in holding.found)
        holding.found.clear()

    class Counted(Client):
        def call(self, tool: str, /, **arguments: Any) -> Any:
            holding.found.clear()
            reply = super().call(tool, **arguments)
            note(tool)
            return reply

    def enter(agent_id: str, process: Process | None = None, where: str = folder) -> Client:
        client = Counted(app, agent_id, where, process)
        note("join_path")
        return client

    held: list[Held] = []
    for _ in everything_said(enter, folder, child, TEXT):
        pass
    bob = enter("bob:2")
    for client, tool, given in closing(bob, TEXT):
        client.call(tool, **filled(client, given))
    return held


def test_no_tool_holds_a_lock_for_more_than_two_round_trips(calls: list[Held]) -> None:
    long = [(tool, flights) for tool, flights in calls if tool in WRITERS and len(flights) > MOST]

    assert long == [], told(long)
    assert {tool for tool, _ in calls} >= WRITERS


def test_a_plain_message_holds_the_lock_of_its_topic_for_nothing_but_itself(
    app: App, folder: str, holding: Holding
) -> None:
    ada = Client(app, "codex:ada", folder)
    ada.call("sync", topic_id=ada.home, outbox=[{"content_markdown": "first"}], wait_seconds=0)
    holding.found.clear()

    ada.call("sync", topic_id=ada.home, outbox=[{"content_markdown": "second"}], wait_seconds=0)

    ((held,),) = holding.found
    assert ["INSERT INTO messages" in words for words in held] == [False, True, False, False], held
    assert ["pg_notify" in words for words in held] == [False, False, True, False], held


def test_messages_to_labels_and_replies_hold_the_lock_of_their_topic_for_two_round_trips(
    app: App, folder: str, holding: Holding
) -> None:
    ada, bob = Client(app, "codex:ada", folder), Client(app, "claude:bob", folder)
    question = {"content_markdown": "Well?", "message_type": "question"}
    asked = bob.call("sync", topic_id=bob.home, outbox=[question], wait_seconds=0)
    label, reply_to = f"claude·{bob.name}", asked.data["sent"][0]["message"]["message_id"]
    said = [{"metadata": {"to": label}}, {"metadata": {"to": [label, "nobody"]}}]
    said += [{"reply_to": reply_to}, {"reply_to": reply_to, "message_type": "answer"}]
    holding.found.clear()

    ada.call(
        "sync", topic_id=ada.home, outbox=[{"content_markdown": "text", **each} for each in said * 2], wait_seconds=0
    )

    assert max(len(flights) for flights in holding.found) == MOST, told([("sync", each) for each in holding.found])


def test_an_owner_that_claims_again_holds_the_lock_of_its_room_for_two_round_trips(
    app: App, folder: str, holding: Holding
) -> None:
    ada, bob = Client(app, "codex:ada", folder), Client(app, "claude:bob", folder)
    ada.call("wait_for_turn", max_wait_ms=0)
    ada.call("release_stick", handoff={"status": "s", "next_action": "n"})
    bob.call("wait_for_turn", max_wait_ms=0)
    holding.found.clear()

    again = bob.call("wait_for_turn", max_wait_ms=0)

    assert again.data["handoff"]["status"] == "s"
    assert [len(flights) for flights in holding.found] == [MOST], told([("claim", each) for each in holding.found])
