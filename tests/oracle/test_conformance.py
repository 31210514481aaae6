"""The protocol's own conformance suite against `conch serve`: every scenario that needs no tool made for the suite."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

MODULES = Path(__file__).parent / "conformance/node_modules"
NODE = MODULES / "node/bin/node"
SUITE = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    "prompts-list",
    "resources-list",
    "dns-rebinding-protection",
    "server-sse-polling",
    "server-sse-multiple-streams",
)
RECOMMENDED = {"server-sse-priming-event", "server-sse-retry-field"}

pytestmark = pytest.mark.skipif(not SUITE.exists(), reason="`make oracle` could not install the suite with npm.")


class Proxy(BaseHTTPRequestHandler):
    """Adds the token, because the suite cannot send one. It changes nothing else."""

    port: int
    token: str

    def pass_on(self) -> None:
        server = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in [*self.headers.items(), ("Authorization", f"Bearer {self.token}")]:
            server.putheader(name, value)
        server.endheaders(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        reply = server.getresponse()
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        self.end_headers()
        while piece := reply.read1():
            self.wfile.write(piece)
        server.close()

    do_GET = do_POST = do_DELETE = pass_on  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the suite finds a server."""
    folder = tmp_path_factory.mktemp("conformance")
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    host = f"127.0.0.1:{proxy.server_address[1]}"
    server = subprocess.Popen(
        [sys.executable, "-m", "conch", "serve", "--port", "0", "--allow-host", host],
        env={**os.environ, "CONCH_DATA_DIR": str(folder / "data"), "HOME": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    printed = urlsplit(server.stdout.readline().strip())
    Proxy.port, Proxy.token = printed.port or 0, printed.query.removeprefix("token=")
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()

    yield f"http://{host}/mcp"

    proxy.shutdown()
    thread.join()
    proxy.server_close()
    server.terminate()
    assert server.wait(20) == 0
    server.stdout.close()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_of_the_suite_finds_no_fault(scenario: str, address: str, tmp_path: Path) -> None:
    command = [NODE, SUITE, "server", "--url", address, "--scenario", scenario, "--output-dir", tmp_path]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)

    [report] = tmp_path.glob("**/checks.json")
    checks = json.loads(report.read_text())
    assert ended.returncode == 0, ended.stdout
    statuses = {check["id"]: check["status"] for check in checks if check["status"] != "INFO"}
    assert statuses, "the suite checked nothing"
    # The suite asks for a first event to resume from, but says that it speaks 2025-03-26, whose clients cannot read
    # one, so the SDK sends none. It is only recommended, and our waits end with their connection.
    assert {name for name, status in statuses.items() if status != "SUCCESS"} <= RECOMMENDED, checks
