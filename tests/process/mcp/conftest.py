"""A raw MCP client for the tests of the stdio server: it sends any bytes and sees every line that comes back."""

from __future__ import annotations

import http.client
import json
import os
import queue
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from tests.process.forking import Fork, Forks, close_streams

CONCH, PROBE = "conch.main", "tests.process.mcp.probe_server"
AFRESH = {CONCH: ["-m", "conch"], PROBE: ["-X", "dev", str(Path(__file__).with_name("probe_server.py"))]}
SECONDS = 20
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"

Object = dict[str, Any]


class Client:
    """One server process and the pipes to it. Every wait has a deadline."""

    def __init__(self, process: subprocess.Popen[bytes] | Fork, journal: Path, errors: Path) -> None:
        self.process = process
        self.journal = journal
        self.errors = errors
        self.envelope: Object | None = None
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._next_id = 1000

    def start_reading(self) -> None:
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send(self, message: object) -> None:
        """An object as one line, or bytes as they are."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive_line(self) -> bytes:
        return self._lines.get(timeout=SECONDS)

    def receive(self) -> Any:
        """The next message of the server; None when it closed its output."""
        line = self.receive_line()
        assert line == b"" or line.endswith(b"\n")
        return json.loads(line) if line else None

    def request(self, method: str, params: Object | None = None, request_id: object = None) -> object:
        """Send a request, with the envelope when this client speaks the stateless era, and return its id."""
        self._next_id += 1
        message: Object = {
            "jsonrpc": "2.0",
            "id": self._next_id if request_id is None else request_id,
            "method": method,
        }
        if self.envelope is not None:
            params = {**(params or {}), "_meta": {**self.envelope, **(params or {}).get("_meta", {})}}
        if params is not None:
            message["params"] = params
        self.send(message)
        return message["id"]

    def ask(self, method: str, params: Object | None = None, request_id: object = None) -> Any:
        """Send a request; the very next message must be its reply."""
        sent = self.request(method, params, request_id)
        reply = self.receive()
        assert reply["id"] == sent
        return reply

    def notify(self, method: str, params: Object | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def initialize(self, version: str = "2025-11-25", capabilities: Object | None = None) -> Any:
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "probe-client", "version": "1"},
        }
        reply = self.ask("initialize", params)
        self.notify("notifications/initialized")
        return reply

    def speak_stateless(self, **changes: object) -> None:
        self.envelope = {VERSION: "2026-07-28", CAPABILITIES: {}, CLIENT: {"name": "probe-client", "version": "1"}}
        self.envelope.update(changes)

    def start_call(self, tool: str, token: object = None, request_id: object = None, **arguments: object) -> object:
        params: Object = {"name": tool, "arguments": arguments}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.request("tools/call", params, request_id)

    def start_waiting_call(self, tool: str = "wait", request_id: object = None) -> object:
        """Start a call that sleeps, and return its id once it does."""
        sent = self.start_call(tool, token="waiting", request_id=request_id)
        assert self.receive()["params"]["message"] == "waiting"
        return sent

    def call(self, tool: str, **arguments: object) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]

    def cancel(self, request_id: object) -> None:
        self.notify("notifications/cancelled", {"requestId": request_id, "reason": "the test says so"})

    def drain(self) -> list[Any]:
        """Everything that the server says before it answers a ping."""
        sent, said = self.request("ping"), []
        while (message := self.receive()).get("id") != sent:
            said.append(message)
        return said

    def wait_for_exit(self) -> int:
        return self.process.wait(timeout=SECONDS)

    def end(self) -> None:
        """Go away in an orderly manner."""
        self.process.stdin.close()

    def kill(self) -> None:
        self.process.kill()

    def rest(self) -> list[Any]:
        """Every message that is still to come, until the server closes its output."""
        messages = []
        while (message := self.receive()) is not None:
            messages.append(message)
        return messages

    def undone(self) -> int:
        return len(self.journal.read_text().splitlines()) if self.journal.exists() else 0


class Site(NamedTuple):
    """A server that runs, for all agents of a test."""

    process: Fork
    address: str
    token: str
    journal: Path
    errors: Path


class WebClient(Client):
    """The same over HTTP: each message is a request of its own, and what comes back is put into one line."""

    def __init__(self, site: Site, agent: str) -> None:
        parts = urlsplit(site.address)
        self.journal, self.errors = site.journal, site.errors
        self.envelope = None
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._path = f"/mcp?agent={agent}"
        self._headers = {
            "Authorization": f"Bearer {site.token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._next_id = 1000
        self._cancelled: set[object] = set()
        self._open: dict[http.client.HTTPConnection, threading.Thread] = {}
        self._asked: dict[str, http.client.HTTPConnection] = {}

    def send(self, message: object) -> None:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        connection = http.client.HTTPConnection(self._host, self._port, timeout=SECONDS)
        connection.request("POST", self._path, body, {**self._headers, **_routing(message)})
        thread = threading.Thread(target=self._hear, args=[connection])
        self._open[connection] = thread
        if isinstance(message, dict):
            self._asked[json.dumps(message.get("id"))] = connection
        thread.start()
        if b'"id"' not in body:
            thread.join(SECONDS)

    def _hear(self, connection: http.client.HTTPConnection) -> None:
        try:
            reply = connection.getresponse()
            if reply.getheader("Mcp-Session-Id"):
                self._headers["Mcp-Session-Id"] = reply.getheader("Mcp-Session-Id") or ""
            is_stream = "event-stream" in (reply.getheader("Content-Type") or "")
            for line in reply if is_stream else [b"data: " + reply.read()]:
                text = line.removeprefix(b"data: ").strip()
                if line.startswith(b"data: ") and text and self._is_wanted(json.loads(text)):
                    self._lines.put(text + b"\n")
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass  # the test has cut the connection
        connection.close()

    def _is_wanted(self, message: Object) -> bool:
        """Over HTTP, the request that was cancelled gets an error, which a client drops."""
        return not (message.get("id") in self._cancelled and "error" in message)

    def cancel(self, request_id: object) -> None:
        """In the stateless era, a client cancels a request by closing its connection."""
        self._cancelled.add(request_id)
        if self.envelope is None:
            super().cancel(request_id)
        else:
            self._cut(self._asked[json.dumps(request_id)])

    def end(self) -> None:
        """Cut every connection."""
        for connection in list(self._open):
            self._cut(connection)

    def _cut(self, connection: http.client.HTTPConnection) -> None:
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        self._open.pop(connection).join(SECONDS)

    def drain(self) -> list[Any]:
        """Each request has a connection of its own, so an earlier one can be answered after a ping."""
        for thread in list(self._open.values()):
            thread.join(SECONDS)
        return super().drain()

    def wait_for_exit(self) -> int:
        """The server goes on for others. All that it had to do for this client is done."""
        self.end()
        return 0

    kill = end

    def rest(self) -> list[Any]:
        self.end()
        self._lines.put(b"")
        return super().rest()


def _routing(message: object) -> dict[str, str]:
    """The headers that repeat what a request of the stateless era says."""
    params = message.get("params") if isinstance(message, dict) else None
    version = params.get("_meta", {}).get(VERSION) if isinstance(params, dict) else None
    if not isinstance(message, dict) or version is None:
        return {}
    name = params.get("name") if isinstance(params, dict) else None
    named = {"Mcp-Name": name} if isinstance(name, str) else {}
    return {"MCP-Protocol-Version": str(version), "Mcp-Method": message["method"], **named}


class Servers:
    """Starts servers; whatever a test leaves running is ended with it."""

    def __init__(self, folder: Path, forks: Forks | None) -> None:
        self._folder = folder
        self._forks = forks
        self._clients: list[Client] = []

    def start(self, command: list[str], agent_id: str, reading: bool = True, **popen: Any) -> Client:
        """In a new interpreter, or whatever the command says."""
        with self._errors().open("wb") as stderr:
            streams: Object = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": stderr, **popen}
            process = subprocess.Popen(command, env=self._environ(agent_id), cwd=self._folder, **streams)
        return self._connected(process, reading)

    def run(self, program: str, words: list[str], agent_id: str, reading: bool = True, **popen: Any) -> Client:
        """A server of ours, from one that has imported it already unless the test wants it otherwise."""
        if popen or self._forks is None:
            return self.start([sys.executable, *AFRESH[program], *words], agent_id, reading, **popen)
        with self._errors().open("wb") as stderr:
            environ = self._environ(agent_id)
            process = self._forks.start(words, environ, self._folder, program, stderr.fileno(), text=False)
        return self._connected(process, reading)

    def _errors(self) -> Path:
        return self._folder / f"stderr-{len(self._clients)}"

    def _environ(self, agent_id: str) -> dict[str, str]:
        return {**os.environ, "CONCH_DATA_DIR": str(self._folder / "data"), "CONCH_AGENT_ID": agent_id}

    def _connected(self, process: subprocess.Popen[bytes] | Fork, reading: bool) -> Client:
        self._clients.append(Client(process, self._folder / "journal", self._errors()))
        if reading:
            self._clients[-1].start_reading()
        return self._clients[-1]

    def end(self) -> None:
        for client in self._clients:
            client.process.kill()
            client.process.wait()
            close_streams(client.process)


@pytest.fixture
def warm(server_forks: Forks) -> Forks | None:
    """None in a module whose tests need servers that have imported nothing yet."""
    return server_forks


@pytest.fixture
def servers(tmp_path: Path, warm: Forks | None) -> Iterator[Servers]:
    servers = Servers(tmp_path, warm)
    yield servers
    servers.end()


@pytest.fixture
def start(servers: Servers) -> Callable[..., Client]:
    return servers.start


@pytest.fixture
def launch(servers: Servers, tmp_path: Path) -> Callable[..., Client]:
    """Start the server with the tools made for these tests."""

    def launch(*options: str, **popen: Any) -> Client:
        return servers.run(PROBE, [str(tmp_path / "journal"), *options], "codex:probe", **popen)

    return launch


@pytest.fixture
def conch(servers: Servers) -> Callable[..., Client]:
    """Start the real server for an agent, ready for calls."""

    def conch(agent_id: str, *options: str, stateless: bool = False) -> Client:
        client = servers.run(CONCH, ["mcp", *options], agent_id)
        client.speak_stateless() if stateless else client.initialize()
        return client

    return conch


@contextmanager
def serving(forks: Forks, program: str, words: list[str], folder: Path) -> Iterator[Site]:
    """A server of ours for HTTP, until the end of the block."""
    journal, errors = folder / "journal", folder / "stderr-site"
    environ = {**os.environ, "CONCH_DATA_DIR": str(folder / "data")}
    with errors.open("wb") as stderr:
        process = forks.start(words, environ, folder, program, stderr.fileno())
    address, _, token = process.stdout.readline().strip().partition("/?token=")
    yield Site(process, address, token, journal, errors)
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0
    close_streams(process)


@pytest.fixture
def web(tmp_path: Path, server_forks: Forks) -> Iterator[Callable[..., WebClient]]:
    """Connect an agent to `conch serve`, ready for calls."""
    clients: list[WebClient] = []
    with serving(server_forks, CONCH, ["serve", "--port", "0"], tmp_path) as site:

        def connect(agent_id: str) -> WebClient:
            clients.append(WebClient(site, agent_id))
            clients[-1].initialize()
            return clients[-1]

        yield connect
        for client in clients:
            client.end()
    assert site.errors.read_text() == ""


@pytest.fixture(scope="session")
def probe_site(tmp_path_factory: pytest.TempPathFactory, server_forks: Forks) -> Iterator[Site]:
    """The tools made for these tests, over HTTP. One server serves all tests, each as an agent of its own."""
    folder = tmp_path_factory.mktemp("probe")
    with serving(server_forks, PROBE, [str(folder / "journal"), "--http"], folder) as site:
        yield site


@pytest.fixture
def over_http(probe_site: Site) -> Iterator[Callable[[], WebClient]]:
    clients: list[WebClient] = []
    probe_site.journal.write_text("")

    def connect() -> WebClient:
        clients.append(WebClient(probe_site, secrets.token_hex(8)))
        return clients[-1]

    yield connect
    for client in clients:
        client.end()


@pytest.fixture
def door(request: pytest.FixtureRequest) -> str:
    """How a test connects. See `doors.py`."""
    return getattr(request, "param", "stdio")


@pytest.fixture
def connect(door: str, request: pytest.FixtureRequest) -> Callable[..., Client]:
    """Connect to the server with the tools made for these tests, through the door of the test."""
    return request.getfixturevalue("over_http" if door == "http" else "launch")


@pytest.fixture
def agent_at(door: str, request: pytest.FixtureRequest) -> Callable[..., Client]:
    """Connect an agent to the real server, ready for calls, through the door of the test."""
    return request.getfixturevalue("web" if door == "http" else "conch")


@pytest.fixture
def raw(connect: Callable[..., Client]) -> Client:
    """A connection without any message yet."""
    return connect()


@pytest.fixture
def client(raw: Client) -> Client:
    """A connection of the handshake era, ready for calls."""
    raw.initialize()
    return raw


@pytest.fixture
def stateless(raw: Client) -> Client:
    """A connection of the stateless era."""
    raw.speak_stateless()
    return raw


@pytest.fixture(params=["handshake", "stateless"])
def either(door: str, request: pytest.FixtureRequest) -> Client:
    """The same promise in both eras. `door` is named here because pytest does not see what is asked for below."""
    return request.getfixturevalue("client" if request.param == "handshake" else "stateless")
