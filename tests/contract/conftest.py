"""Every engine, one suite: a test that takes `app` or `store` runs on each of them."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.callers import named
from tests.contract.stores import Original, OriginalOnServer, WarmConnections

from conch.agents.records import Caller
from conch.app import App, open_app
from conch.calls import Call
from conch.host import processes
from conch.host.processes import Process
from conch.storage.base import Store
from conch.tools import facts
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.replies import Reply, Told
from conch.tools.session import Session

Object = dict[str, Any]


DEADLINE = 20


def in_background(act: Callable[[], Any]) -> Callable[[], Any]:
    """Start something that waits; the returned function gives its result."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(act()))
    thread.start()

    def result() -> Any:
        thread.join(DEADLINE)
        assert found, "it still waits"
        return found[0]

    return result


def plan(app: App, statement: str, **given: Any) -> str:
    """How the engine would run a statement on tables that are not tiny."""
    with app.store.read() as tx:
        statements = tx._statements  # type: ignore[attr-defined]
        explain = "EXPLAIN QUERY PLAN"
        if "rooms.sqlite" not in app.store.describe():
            explain = "EXPLAIN"
            statements["avoid_scans"] = "SET LOCAL enable_seqscan = off"
            tx.run("avoid_scans")
        statements["explained"] = f"{explain} {statements[statement]}"
        return "\n".join(str(row) for row in tx.all("explained", **given))


def gather_statistics(app: App, table: str) -> None:
    """Let the engine know what is in a table, as PostgreSQL does by itself sooner or later."""
    with app.store.write(table) as tx:
        tx._statements["gather_statistics"] = f"ANALYZE {table}"  # type: ignore[attr-defined]
        tx.run("gather_statistics")


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
def environ(request: pytest.FixtureRequest, tmp_path: Path, put_store: Callable[[Path], None]) -> dict[str, str]:
    """What selects an engine, and an empty store for one test."""
    environ = {"HOME": str(tmp_path / "home"), "CONCH_DATA_DIR": str(tmp_path / "data")}
    if request.param == "postgres":
        environ["CONCH_STORE"] = request.getfixturevalue("postgres_url")
    else:
        put_store(tmp_path / "data")
    return environ


@pytest.fixture(autouse=True)
def every_told_fact_is_in_its_text(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A view may say that its text always has some facts. Search for them in the texts of every reply of a test."""
    missing: list[tuple[str, Any, str]] = []
    add_left = facts._add_left

    def add_and_search(data: Object, text: str, told: Told) -> str:
        whole = add_left(data, text, told)
        for about, name, value in facts._untold(data, whole):
            is_said = value is True  # in words
            is_topic = name == "topic_id" and "message_type" in data  # of a whole list, so the reply names it once
            is_text = isinstance(value, str) and value in re.split(r"[\s·,]+", whole)  # a message or a name of digits
            if {name, f"{about}.{name}"} & told and not (is_said or is_topic or is_text):
                missing.append((name, value, whole))
        return whole

    monkeypatch.setattr(facts, "_add_left", add_and_search)
    yield
    assert missing == []


@pytest.fixture(scope="session")
def warm_connections() -> Iterator[WarmConnections]:
    connections = WarmConnections()
    yield connections
    connections.close()


@pytest.fixture
def app(environ: dict[str, str], clock: MovableClock, warm_connections: WarmConnections) -> Iterator[App]:
    app = open_app(environ, clock)
    warm_connections.lend(app.store)
    yield app
    warm_connections.take_back(app.store)
    app.close()


@pytest.fixture(scope="module")
def originals(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Original]]:
    """The store that the module's `fill` fills on an engine, once. A fixture with a parameter would make it anew."""
    made: dict[str, Original] = {}

    def original(engine: str) -> Original:
        if engine not in made:
            folder, fill = tmp_path_factory.mktemp("original"), request.module.fill
            made[engine] = (
                OriginalOnServer(folder, fill, request.getfixturevalue("first_database"))
                if engine == "postgres"
                else Original(folder, fill)
            )
        return made[engine]

    yield original
    for each in made.values():
        each.close()


@pytest.fixture(params=["sqlite", "postgres"])
def original(request: pytest.FixtureRequest, originals: Callable[[str], Original]) -> Original:
    return originals(request.param)


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
        return named(app.store, agent_id, process)

    return make


class Child:
    """A real process that lives until it is killed."""

    def __init__(self) -> None:
        self._popen = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
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


class Client:
    """One connection under an id of its own, in the workspace's room."""

    def __init__(self, app: App, agent_id: str, workspace: str, process: Process | None = None) -> None:
        self.app = app
        self.agent_id = agent_id
        self.session = Session(app, "mcp")
        self.session.speak_as(named(app.store, agent_id, process)._replace(overridden=True))
        self.joined = call_tool(TOOLS["join_path"], self.session, {"context_path": workspace}, Call()).data
        self.room_id: str = self.joined["room_id"]
        self.home: str = self.joined["topic_id"]

    @property
    def name(self) -> str:
        return self.session.caller().name

    def call(self, tool: str, /, *, arrives: bool = True, call: Call | None = None, **arguments: Any) -> Reply:
        """Call a tool, with the room if it takes one, and then report that its reply arrived, as a door does."""
        if "room_id" in TOOLS[tool].input_schema["properties"]:
            arguments = {"room_id": self.room_id, **arguments}
        outcome = call_tool(TOOLS[tool], self.session, arguments, call or Call())
        (outcome.delivery.sent if arrives else outcome.delivery.not_sent)()
        return outcome

    def data(self, tool: str, /, **arguments: Any) -> Object:
        outcome = self.call(tool, **arguments)
        assert not outcome.is_error, outcome.text
        return outcome.data

    def refused(self, tool: str, /, **arguments: Any) -> Object:
        outcome = self.call(tool, **arguments)
        assert outcome.is_error, outcome.text
        return outcome.data

    # -- topics and messages

    def join(self, topic_id: str, agent_name: str, **arguments: Any) -> Object:
        return self.data("topic_join", topic_id=topic_id, agent_name=agent_name, **arguments)

    def send(self, topic_id: str, *texts: str, **fields: Any) -> list[Object]:
        outbox = [{"content_markdown": text, **fields} for text in texts]
        sent = self.data("sync", topic_id=topic_id, outbox=outbox, wait_seconds=0, max_items=1, auto_advance=False)
        return [each["message"] for each in sent["sent"]]

    def read(self, topic_id: str, **arguments: Any) -> list[str]:
        found = self.data("sync", topic_id=topic_id, wait_seconds=0, **arguments)
        return [message["content_markdown"] for message in found["received"]]

    # -- reservations and notices

    def reserve(self, scope: str, **options: Any) -> Object:
        reservation: Object = self.data("scope_reserve", scope=scope, **options)["reservation"]
        return reservation

    def inbox(self, **options: Any) -> list[Object]:
        events: list[Object] = self.data("event_inbox", **options)["events"]
        return events


Enter = Callable[..., Client]


@pytest.fixture
def enter(app: App, workspace: str) -> Enter:
    """Connect as an agent, with no process unless one is given, in the workspace unless another is."""
    return lambda agent_id, process=None, folder=workspace: Client(app, agent_id, folder, process)


@pytest.fixture
def ada(enter: Enter) -> Client:
    return enter("ada:1")


@pytest.fixture
def bob(enter: Enter) -> Client:
    return enter("bob:2")


@pytest.fixture
def red(enter: Enter) -> Client:
    return enter("test:red")


@pytest.fixture
def blue(enter: Enter) -> Client:
    return enter("test:blue")


@pytest.fixture
def topic_id(red: Client) -> str:
    """A free topic without peers."""
    topic: str = red.data("topic_create", name="pink")["topic_id"]
    return topic
