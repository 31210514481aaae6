"""A PostgreSQL server of these tests' own, which they may kill and start again, and agents that share it."""

from __future__ import annotations

import json
import os
import queue
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from tests.conftest import EMPTY, Postgres, Programs
from tests.process.forking import Fork, Forks, close_streams, command_forks
from tests.process.postgres.flights import Flights
from tests.process.postgres.requests import Requests
from tests.proxy import Link, Proxy

from conch.app import App, open_app

AGENT = Path(__file__).with_name("agent.py")
SECONDS = 30
SECRET = "mother of/pe@rl?"
ADMISSION = """
local all all trust
host all all 127.0.0.1/32 scram-sha-256
host all all 10.213.0.0/16 trust
"""
SETTINGS = {
    "fsync": "off",  # a killed server loses nothing that it had written: only a power failure would
    "max_wal_senders": "0",
    "password_encryption": "scram-sha-256",
}

END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""

Object = dict[str, Any]


class Server:
    """One server on a socket in a folder of its own, and on a port of the loopback interface."""

    def __init__(self, programs: Programs) -> None:
        self._run = programs.run
        self.folder = Path(tempfile.mkdtemp(prefix="conch-pg-"))
        os.chown(self.folder, programs.user, programs.group)
        self._data = self.folder / "data"
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        (self._data / "pg_hba.conf").write_text(ADMISSION)
        self.port = _find_port()

    def start(self, addresses: str = "127.0.0.1", within: tuple[str, ...] = (), **settings: str) -> None:
        """Ready for connections when this returns."""
        where = {"unix_socket_directories": str(self.folder), "listen_addresses": addresses, "port": str(self.port)}
        options = " ".join(f"-c {name}={value}" for name, value in {**SETTINGS, **where, **settings}.items())
        log = str(self.folder / "log")
        self._run("pg_ctl", "start", "-w", "-D", str(self._data), "-l", log, "-o", options, within=within)

    @property
    def socket(self) -> str:
        return f"{self.folder}/.s.PGSQL.{self.port}"

    @property
    def is_running(self) -> bool:
        return (self._data / "postmaster.pid").exists()

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", str(self._data))

    def kill(self) -> None:
        """Kill all processes of the server at once, as a power failure does."""
        import psutil

        postmaster = psutil.Process(int((self._data / "postmaster.pid").read_text().split()[0]))
        postmaster.suspend()  # so that it starts no process between the count and the kill
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family:
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                pass
        _, alive = psutil.wait_procs(family, timeout=SECONDS)
        assert not alive

    def restart(self, **settings: str) -> None:
        self.stop()
        self.start(**settings)

    def url(self, database: str, user: str = "postgres", **parameters: str) -> str:
        """Through the socket, where everybody is trusted."""
        given = {"host": str(self.folder), "port": str(self.port), **parameters}
        return f"postgresql://{user}@/{database}?" + "&".join(f"{name}={quote(v)}" for name, v in given.items())

    def tcp_url(self, database: str, password: str = SECRET, user: str = "conch") -> str:
        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def ask(self, statement: str, database: str = "postgres", *parameters: Any) -> list[Any]:
        """What a superuser sees: the rows, each as a tuple."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        if self.is_running:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _find_port() -> int:
    """A free port outside the range for clients, so that no client takes it while the server is down.

    Each worker that runs tests has a thousand of its own.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 12
    while True:
        with socket.socket() as probe:
            port = 20_000 + 1_000 * worker + random.randrange(1_000)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@pytest.fixture(scope="session")
def programs(postgres: Postgres) -> Programs:
    return postgres.programs


@pytest.fixture(scope="session")
def one_server(programs: Programs) -> Iterator[Server]:
    server = Server(programs)
    try:
        server.start()
        server.ask(f"CREATE ROLE conch LOGIN PASSWORD '{SECRET}'")
        yield server
    finally:
        server.remove()


@pytest.fixture
def server(one_server: Server) -> Iterator[Server]:
    """It runs when the test begins. If the test stops it, it is started again for the next test."""
    one_server.ask("SELECT 1")
    yield one_server
    if not one_server.is_running:
        one_server.start()


@pytest.fixture(scope="session")
def one_database(one_server: Server) -> str:
    one_server.ask("CREATE DATABASE shared OWNER conch")
    return "shared"


@pytest.fixture
def database(server: Server, one_database: str) -> Iterator[str]:
    """It belongs to the role `conch`. It has an empty store, or none if no test has made one.

    A new database and its schema would take most of a test's time.
    """
    yield one_database
    if not server.is_running:
        server.start()
    server.ask(END_OTHERS, one_database)
    server.ask(EMPTY, one_database)


@pytest.fixture
def new_database(server: Server) -> Iterator[str]:
    """It belongs to the role `conch`, and has no schema. For tests that change the schema, or see it created."""
    name = f"test_{os.urandom(4).hex()}"
    server.ask(f"CREATE DATABASE {name} OWNER conch")
    yield name
    if not server.is_running:
        server.start()
    server.ask(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def flights(server: Server) -> Iterator[Flights]:
    """A proxy before the server that counts round trips."""
    flights = Flights(server.socket)
    yield flights
    flights.close()


@pytest.fixture
def environ(environ: dict[str, str], server: Server, database: str) -> dict[str, str]:
    return {**environ, "CONCH_STORE": server.url(database, user="conch")}


@pytest.fixture
def app(environ: dict[str, str]) -> Iterator[App]:
    """In this process, with the server's own clock."""
    app = open_app(environ)
    yield app
    app.close()


class Agent:
    """A process of agent.py. Every wait for its output has a deadline."""

    def __init__(self, popen: Fork | subprocess.Popen[str], agent_id: str) -> None:
        self.agent_id = agent_id
        self.popen = popen
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.popen.stdout or ():
            self._lines.put(line)
        self._lines.put("")

    def hear(self, seconds: float = SECONDS) -> Any:
        """Its next line, which must come within this time."""
        line = self._lines.get(timeout=seconds)
        assert line, f"{self.agent_id} ended: {self.popen.stderr.read() if self.popen.stderr else ''}"
        return json.loads(line)

    def begin(self, tool: str, **arguments: Any) -> None:
        """Let it call a tool; the answer is the next line."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(json.dumps({"tool": tool, "arguments": arguments}) + "\n")
        self.popen.stdin.flush()

    def call(self, tool: str, **arguments: Any) -> Any:
        self.begin(tool, **arguments)
        return self.hear()

    def go(self) -> None:
        """Let an agent that plays by itself begin."""
        assert self.popen.stdin is not None
        self.popen.stdin.write("go\n")
        self.popen.stdin.flush()

    def end(self) -> None:
        self.popen.kill()
        self.popen.wait()
        self._reader.join()
        close_streams(self.popen)


@pytest.fixture
def agents(environ: dict[str, str], server_forks: Forks) -> Iterator[Callable[..., Agent]]:
    """Start agents; those still running when the test ends are ended with it."""
    started: list[Agent] = []

    def start(agent_id: str, *words: str, within: tuple[str, ...] = (), **variables: str) -> Agent:
        env = {**environ, **variables, "CONCH_AGENT_ID": agent_id}
        if within or "--skew" in words:  # in a namespace of its own, or before anything knows the time
            command = [*within, sys.executable, str(AGENT), *words]
            streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            started.append(Agent(subprocess.Popen(command, env=env, text=True, **streams), agent_id))
        else:
            started.append(Agent(server_forks.start(words, env, "/", "tests.process.postgres.agent"), agent_id))
        return started[-1]

    yield start
    for agent in started:
        agent.end()


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """These have imported the driver, too, which takes longer than most commands."""
    with command_forks(more=("storage.postgres.store", "bells.postgres")) as forks:
        yield forks


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_conch(forks: Forks) -> Run:
    """Run a command to its end, as `subprocess.run` does."""

    def run(
        words: Sequence[str], env: dict[str, str], folder: Path | str, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        ended = forks.run(list(words), env, Path(folder), given.encode(), 2 * SECONDS)
        return subprocess.CompletedProcess(words, ended.status, ended.out.decode(), ended.err.decode())

    return run


@pytest.fixture
def start_conch(forks: Forks) -> Iterator[Callable[..., Fork]]:
    """Start a command and go on; one that still runs when the test ends is ended with it."""
    started: list[Fork] = []

    def start(words: Sequence[str], env: dict[str, str], folder: Path | str) -> Fork:
        started.append(forks.start(words, env, folder))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait()
        close_streams(each)


class CommitProxy(Proxy):
    """Can do something to one message of a change that is being logged."""

    def __init__(self, server: Server) -> None:
        self.deed: Deed | None = None
        self.moment = b""
        self.is_logged_only = True
        super().__init__(server.socket)

    def at_commit(self, deed: Deed) -> None:
        """The next time a transaction with an event in it is about to be committed."""
        self.moment, self.deed = b"COMMIT", deed

    def at_words(self, words: bytes, deed: Deed) -> None:
        """The next time that any request has these words in it."""
        self.moment, self.deed, self.is_logged_only = words, deed, False

    def url(self, database: str, **parameters: str) -> str:
        more = "".join(f"&{name}={quote(value)}" for name, value in parameters.items())
        return f"postgresql://conch@127.0.0.1:{self.port}/{database}?gssencmode=disable&sslmode=disable{more}"

    def link(self, client: socket.socket, server: socket.socket) -> Link:
        return CommitLink(self, client, server)


class CommitLink(Link):
    def __init__(self, proxy: CommitProxy, client: socket.socket, server: socket.socket) -> None:
        super().__init__(client, server)
        self._proxy = proxy
        self._logged = False
        self._requests = Requests()
        self.said = b""
        """The statements of the message at hand."""

    def ask(self, data: bytes) -> None:
        self.said = "; ".join(self._requests.read(data)).encode()
        self._logged = b"INSERT INTO room_events" in self.said or (self._logged and b"BEGIN" not in self.said)
        counts = self._logged or not self._proxy.is_logged_only
        if counts and self._proxy.deed and self._proxy.moment in self.said:
            deed, self._proxy.deed = self._proxy.deed, None
            deed(self, data)
        else:
            self.forward(data)

    def forward(self, data: bytes) -> None:
        super().ask(data)

    def deafen(self) -> None:
        """The client gets nothing more, not even replies that the server is about to send."""
        self._client.shutdown(socket.SHUT_RDWR)


Deed = Callable[[CommitLink, bytes], None]


@pytest.fixture
def proxy(server: Server) -> Iterator[CommitProxy]:
    proxy = CommitProxy(server)
    yield proxy
    proxy.close()
