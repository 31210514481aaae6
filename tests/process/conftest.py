"""Real processes on one store: players that a test starts, and a referee who reads the log afterwards."""

from __future__ import annotations

import fcntl
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.callers import named
from tests.patience import look_until
from tests.process.forking import Forks, close_streams, command_forks

from conch.agents.records import Caller
from conch.app import App, open_app
from conch.clock import MILLISECOND, SECOND, system_clock
from conch.host import processes
from conch.host.processes import Process
from conch.rooms.log import Event, list_events
from conch.upkeep.verify import verify_store

PLAYER = "tests.process.player"
SECONDS = 60


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Processes of `conch` that need not import it."""
    with command_forks() as forks:
        yield forks


# What servers and players import sooner or later.
SERVERS = ("conch.doors.cli.run", "conch.doors.mcp.server", "conch.doors.web.server", "conch.tools.instructions")
PARTS = ("conch.storage.sqlite.store", "conch.bells.ears", "conch.storage.postgres.store", "conch.bells.postgres")
HTTP = ("anyio._backends._asyncio", "uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.http.h11_impl")
OURS = ("tests.process.mcp.probe_server", "tests.process.player", "tests.process.postgres.agent")


@pytest.fixture(scope="session")
def server_forks() -> Iterator[Forks]:
    """The same for servers, in the interpreter's development mode: it says what was not closed."""
    forks = Forks("conch.main", *SERVERS, *PARTS, *HTTP, *OURS, options=("-X", "dev"))
    yield forks
    forks.end()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """What every process of a test sees: one store, and nothing of the harness that may run the tests."""
    return {
        "HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "CONCH_DATA_DIR": str(tmp_path / "data"),
    }


@pytest.fixture(params=["sqlite", "postgres"])
def every_engine(request: pytest.FixtureRequest) -> dict[str, str]:
    """What selects an engine, and an empty store of it. A module whose `environ` includes this runs on each."""
    return {"CONCH_STORE": request.getfixturevalue("postgres_url")} if request.param == "postgres" else {}


@pytest.fixture
def workspaces(tmp_path: Path) -> Callable[[int], list[str]]:
    """Directories with a marker, so that each is its own workspace root wherever the tests run."""

    def make(count: int) -> list[str]:
        roots = [tmp_path / f"workspace-{number}" for number in range(count)]
        for root in roots:
            root.mkdir()
            (root / "AGENTS.md").write_text("")
        return [os.path.realpath(root) for root in roots]

    return make


@pytest.fixture
def workspace(workspaces: Callable[[int], list[str]]) -> str:
    return workspaces(1)[0]


class MovableClock:
    """The clock of this process's store, moved by hand; the players have the system's."""

    def __init__(self) -> None:
        self.now = system_clock()

    def __call__(self) -> int:
        return self.now

    def move(self, *, seconds: int = 0, milliseconds: int = 0) -> None:
        self.now += seconds * SECOND + milliseconds * MILLISECOND


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def app(environ: dict[str, str], clock: MovableClock) -> Iterator[App]:
    app = open_app(environ, clock)
    yield app
    app.close()


@pytest.fixture
def agent(app: App) -> Callable[..., Caller]:
    """An agent by its id; without other facts it lives in this process."""
    here = processes.look_up(os.getpid())

    def make(agent_id: str, process: Process | None = here) -> Caller:
        return named(app.store, agent_id, process)

    return make


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Look again and again until something is so, with a deadline."""
    return lambda look: look_until(look, SECONDS)


class Gate:
    """Holds everybody back, and lets all of them through at the same moment."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._file = path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def open(self) -> None:
        self._file.close()


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[Callable[[int], list[Gate]]]:
    made: list[Gate] = []

    def make(count: int) -> list[Gate]:
        made.extend(Gate(tmp_path / f"gate-{len(made) + number}") for number in range(count))
        return made[-count:]

    yield make
    for gate in made:
        gate.open()


class Player:
    """A process that plays a role of player.py. Every wait for its output has a deadline."""

    def __init__(self, forks: Forks, role: str, environ: dict[str, str], arguments: dict[str, Any]) -> None:
        self.popen = forks.start([role, json.dumps(arguments)], environ, "/", PLAYER)
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.popen.stdout or ():
            self._lines.put(line)
        self._lines.put("")

    def heard(self) -> list[Any]:
        """The player's next words."""
        line = self._lines.get(timeout=SECONDS)
        assert line, f"the player ended: {self.popen.stderr.read() if self.popen.stderr else ''}"
        return list(json.loads(line))

    def heard_until(self, word: str) -> list[list[Any]]:
        """Everything up to the line that begins with this word, that line included."""
        lines = [self.heard()]
        while lines[-1][0] != word:
            lines.append(self.heard())
        return lines

    def tell(self, word: str) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(word + "\n")
        self.popen.stdin.flush()

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def last_words(self) -> list[list[Any]]:
        """The unread lines of a process that has ended; an incomplete last line does not count."""
        lines = []
        while (line := self._lines.get(timeout=SECONDS)).endswith("\n"):
            lines.append(list(json.loads(line)))
        return lines

    def end(self) -> None:
        if self.popen.poll():
            print(self.popen.stderr.read() if self.popen.stderr else "")  # why it ended before its time, if it did
        self.kill()
        self._reader.join()
        close_streams(self.popen)


@pytest.fixture
def player(environ: dict[str, str], server_forks: Forks) -> Iterator[Callable[..., Player]]:
    """Start players; those still running when the test ends are ended with it."""
    players: list[Player] = []

    def start(role: str, **arguments: Any) -> Player:
        players.append(Player(server_forks, role, environ, arguments))
        return players[-1]

    yield start
    for each in players:
        each.end()


@pytest.fixture
def is_queueing() -> Callable[[Player], bool]:
    """Whether a player stands in the writers' queue, as the kernel sees it."""
    locks = Path("/proc/locks")
    if not locks.exists():
        pytest.skip("this kernel does not list its locks")

    def look(player: Player) -> bool:
        waiters = [line.split() for line in locks.read_text().splitlines() if "-> FLOCK" in line]
        return any(str(player.popen.pid) in words for words in waiters)

    return look


class Referee:
    """Reads a room's log from the beginning, and knows the rules that no log may break."""

    def __init__(self, app: App) -> None:
        self._app = app

    def log(self, room_id: str) -> list[Event]:
        events: list[Event] = []
        while True:
            page = list_events(self._app.store, room_id, events[-1].event_seq if events else 0, 500)
            events += page.events
            if not page.has_more:
                return events

    def check(self, room_id: str) -> list[Event]:
        """One owner at a time, turns that grow by one, every handoff taken up at most once; and the log adds up."""
        events = self.log(room_id)
        owner, turn_id, waiting = None, 0, None
        for event in events:
            if event.event_type in ("claim", "takeover"):
                turn_id += 1
                assert event.turn_id == turn_id, f"{event} does not follow turn {turn_id - 1}"
                assert owner is None or event.event_type == "takeover", f"{event} while {owner} holds the stick"
                if event.event_type == "claim":
                    assert event.details["handoff_event_seq"] == waiting, f"{event} did not get the latest handoff"
                owner, waiting = event.to_agent_id, None
            elif event.event_type in ("release", "pass"):
                assert (event.from_agent_id, event.turn_id) == (owner, turn_id), f"{event} without the stick"
                owner, waiting = None, event.event_seq
            elif event.event_type == "return":
                assert event.from_agent_id == owner, f"{event} without the stick"
                owner, waiting = None, event.details.get("handoff_event_seq")
            elif event.event_type == "leave":
                assert event.from_agent_id != owner, f"{event} with the stick"
        assert verify_store(self._app.store).problems == []
        return events


@pytest.fixture
def referee(app: App) -> Referee:
    return Referee(app)
