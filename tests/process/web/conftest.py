"""A real console on a loopback port, and a plain HTTP client that can send anything."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.process.forking import Forks, close_streams

SECONDS = 30
MOST_SILENCES = 3  # each of 15 seconds


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


class Event(NamedTuple):
    kind: str
    id: str
    data: Any


class Stream:
    """One page's event stream."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self.response = connection.getresponse()
        assert self.response.status == 200, self.response.read()

    def __iter__(self) -> Iterator[Event]:
        """The events until the server ends the stream."""
        fields: dict[str, str] = {}
        for line in self.response:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif fields:
                yield Event(fields.get("event", ""), fields.get("id", ""), json.loads(fields.get("data", "null")))
                fields = {}

    def next(self, kind: str, within: float = SECONDS) -> Event:
        silences = 0
        self._connection.sock.settimeout(within)
        try:
            for event in self:
                if event.kind == kind:
                    return event
                silences += event.kind == "ping"
                assert silences < MOST_SILENCES, f"{kind} did not come"
        except TimeoutError:
            pytest.fail(f"{kind} did not come within {within:g} seconds")
        raise AssertionError(f"The stream ended before {kind} came.")

    def take(self, count: int) -> list[Event]:
        return list(islice(self, count))

    def cut(self) -> None:
        """Lose the connection without a word."""
        self.response.close()
        self._connection.close()


class Console:
    program: str | None = None
    """Another module whose `main` serves it."""

    def __init__(self, forks: Forks, environ: dict[str, str], folder: Path, *options: str) -> None:
        self.environ = environ
        self.folder = folder
        self._forks = forks
        self._streams: list[Stream] = []
        self.process = forks.start(["serve", "--port", "0", *options], environ, folder, self.program)
        self.url = self.process.stdout.readline().strip()
        self.port = int(self.url.partition("//")[2].partition("/")[0].rpartition(":")[2] or 0)
        self.token = self.url.rpartition("=")[2]
        self.host = f"127.0.0.1:{self.port}"

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send exactly this. Without `headers`, the token."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        given = self.bearer if headers is None else headers
        connection.putrequest(method, path, skip_host="Host" in given, skip_accept_encoding=True)
        for name, value in given.items():
            connection.putheader(name, value)
        if body is not None and "Content-Length" not in given and "Transfer-Encoding" not in given:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        answer = Answer(response.status, response.headers, response.read())
        connection.close()
        return answer

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def cookie(self) -> dict[str, str]:
        """What a signed-in browser sends from a page of the console."""
        return {"Cookie": f"conch_{self.port}={self.token}", "Origin": f"http://{self.host}"}

    def get(self, path: str) -> Any:
        answer = self.request("GET", path)
        assert answer.status == 200, answer.body
        return answer.data

    def act(self, name: str, /, **given: Any) -> Answer:
        headers = {**self.cookie, "Content-Type": "application/json"}
        return self.request("POST", f"/api/act/{name}", json.dumps(given).encode(), headers)

    def stream(self, last_event_id: str | None = None) -> Stream:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        given = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        connection.request("GET", "/api/stream", headers={**self.bearer, **given})
        self._streams.append(Stream(connection))
        return self._streams[-1]

    def conch(self, *words: str, agent: str = "ada:1") -> Any:
        """Run a command as an agent, in a process of its own; returns its data."""
        environ = {**self.environ, "CONCH_AGENT_ID": agent}
        done = self._forks.run([*words, "--json"], environ, self.folder, b"", SECONDS)
        answer = json.loads(done.out)
        assert answer["ok"], answer
        return answer["data"]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; returns the exit status and what the server wrote to standard error."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, errors

    def close(self) -> None:
        for stream in self._streams:
            stream.cut()
        close_streams(self.process)


@pytest.fixture
def consoles(workspace: str, server_forks: Forks) -> Iterator[Callable[..., Console]]:
    """Starts consoles. They end with the test, without a word on standard error."""
    started: list[Console] = []

    def start(environ: dict[str, str], *options: str) -> Console:
        started.append(Console(server_forks, environ, Path(workspace), *options))
        return started[-1]

    yield start
    ends = [console.end() for console in started if console.process.poll() is None]
    for console in started:
        console.close()
    assert all(end == (0, "") for end in ends), ends


@pytest.fixture(scope="module")
def shared_console(tmp_path_factory: pytest.TempPathFactory, server_forks: Forks) -> Iterator[Console]:
    """One console for tests that change nothing."""
    folder = tmp_path_factory.mktemp("console")
    (folder / "AGENTS.md").write_text("")
    environ = {
        "HOME": str(folder / "home"),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "CONCH_DATA_DIR": str(folder / "data"),
    }
    console = Console(server_forks, environ, folder)
    console.conch("join")
    yield console
    end = console.end()
    console.close()
    assert end == (0, "")
