"""A client's end of one `conch mcp`: sends requests, reads replies, and notices when the server is dead."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from tests.torture.history import Object

CONCH = (sys.executable, "-m", "conch")
PATIENCE = 60.0
"""Every call that the agents make is answered much sooner, even while processes are stopped."""


class Lost(Exception):
    """The server ended before it replied."""


class Unanswered(Exception):
    """The server lives, but it did not reply in time."""


class Server:
    def __init__(self, environ: dict[str, str], errors: Path) -> None:
        with errors.open("ab") as stderr:
            self._popen = subprocess.Popen(
                (*CONCH, "mcp"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environ, bufsize=0
            )
        assert self._popen.stdin and self._popen.stdout
        self._input, self._output = self._popen.stdin.fileno(), self._popen.stdout.fileno()
        self._rest, self._last_id = b"", 0

    @property
    def pid(self) -> int:
        return self._popen.pid

    def initialize(self) -> None:
        client = {"name": "torture", "version": "1"}
        self._request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, args: Object) -> Object:
        """The result of a tool: its structure, and whether it is an error."""
        return self._request("tools/call", {"name": tool, "arguments": args})

    def _request(self, method: str, params: Object) -> Object:
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        deadline = time.monotonic() + PATIENCE
        while (message := self._receive(deadline)).get("id") != self._last_id:
            pass
        result: Object = message.get("result") or {"isError": True, "structuredContent": message["error"]}
        return result

    def _send(self, message: Object) -> None:
        data = memoryview(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        try:
            while data:
                data = data[os.write(self._input, data) :]
        except BrokenPipeError:
            raise Lost from None

    def _receive(self, deadline: float) -> Object:
        while b"\n" not in self._rest:
            if not select.select([self._output], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise Unanswered
            chunk = os.read(self._output, 65_536)
            if not chunk:
                raise Lost
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        message: Object = json.loads(line)
        return message

    def end(self) -> None:
        """Close the connection; a server that does not end by itself is killed."""
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                stream.close()
        try:
            self._popen.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
