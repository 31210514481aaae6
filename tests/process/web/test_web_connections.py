"""Connections that keep the server waiting: they are closed, and keep nobody else out."""

from __future__ import annotations

import asyncio
import http.client
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from tests.process.web.conftest import SECONDS, Console

from conch.doors.web import connections
from conch.doors.web.connections import PatientConnection

FILES = 128
MOST_PAGES = 100


@pytest.fixture
def port(environ: dict[str, str], workspace: str) -> Iterator[int]:
    """The port of a server that may open only a few files."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))

    command = [sys.executable, "-m", "conch", "serve", "--port", "0"]
    server = subprocess.Popen(
        command, env=environ, cwd=workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit
    )
    assert server.stdout is not None
    yield int(server.stdout.readline().partition("/?token=")[0].rpartition(":")[2])
    server.terminate()
    _, errors = server.communicate(timeout=SECONDS)
    assert "Traceback" not in errors
    assert errors.count("\n") <= 1


def ask(port: int) -> int:
    """The status of a request."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection:
        connection.request("GET", "/api/me")
        return connection.getresponse().status


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"], ids=["nothing", "half a request"])
def test_connections_that_send_no_request_keep_nobody_out(port: int, sent: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(2 * FILES):
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", port)))).sendall(sent)

        assert ask(port) == 401


def test_a_page_too_many_is_refused(environ: dict[str, str], consoles: Callable[..., Console]) -> None:
    console = consoles(environ)
    for _ in range(MOST_PAGES):
        console.stream()

    assert console.request("GET", "/api/stream").data["error"] == "TOO_MANY_PAGES"
    assert console.get("/api/me")


class Served(threading.Thread):
    """A server in this process, whose only reply is long."""

    def __init__(self) -> None:
        super().__init__()
        config = uvicorn.Config(self._reply, http=PatientConnection, lifespan="off", interface="asgi3", log_config=None)
        self.server = uvicorn.Server(config)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.ended = threading.Event()

    async def _reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1_000):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
        self.ended.set()

    def run(self) -> None:
        asyncio.run(self.server.serve([self.listening]))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    for limit in ("_HEAD_SECONDS", "_READ_SECONDS"):
        monkeypatch.setattr(connections, limit, 0.1)
    thread = Served()
    thread.start()
    yield thread
    thread.server.should_exit = True
    thread.join(SECONDS)


def test_a_request_that_does_not_come_is_not_waited_for(served: Served) -> None:
    with closing(socket.create_connection(served.listening.getsockname(), timeout=SECONDS)) as client:
        client.sendall(b"GET / HTTP/1.1\r\n")

        assert client.recv(1) == b""


def test_a_client_that_stops_reading_is_let_go(served: Served) -> None:
    with closing(socket.create_connection(served.listening.getsockname(), timeout=SECONDS)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

        assert served.ended.wait(SECONDS)
