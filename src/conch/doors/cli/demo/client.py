"""The smallest MCP client that a harness could have: a `conch mcp` child, the handshake, and tool calls."""

from __future__ import annotations

import subprocess
import sys

from conch import __version__
from conch.doors.cli.demo.pipes import LinePipe, Object, write_line

PROTOCOL_VERSION = "2025-11-25"
HANDSHAKE_ID = 0


class Client:
    """One server process, and the pipes to it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "conch", "mcp"]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._server.stdin is not None and self._server.stdout is not None
        self._input = self._server.stdin
        self.replies = LinePipe(self._server.stdout.fileno())

    def initialize(self, name: str) -> None:
        """The handshake, under the name by which a harness introduces itself."""
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": name, "version": __version__},
        }
        self._send({"id": HANDSHAKE_ID, "method": "initialize", "params": params})
        messages: list[Object] = []
        while not messages:
            messages = self.replies.read()
        if "result" not in messages[0]:
            raise RuntimeError(f"initialize was answered with {messages[0]}")
        self._send({"method": "notifications/initialized"})

    def call(self, number: int, tool: str, arguments: Object) -> None:
        """Send a tool call; its reply, and before that news of its progress, come under the same number."""
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": number}}
        self._send({"id": number, "method": "tools/call", "params": params})

    def close(self) -> None:
        """Close the server's input, which ends it, and wait until it has ended."""
        self._server.communicate()

    def _send(self, message: Object) -> None:
        write_line(self._input.fileno(), {"jsonrpc": "2.0", **message})
