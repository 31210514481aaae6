"""The scripted agents of `conch demo`: each is a process of its own, in the place of a harness, above its own server.

The process only starts `conch mcp` and waits for it. The demo speaks MCP to that server through the pipes that both
inherit, so it can kill the agent as a crash would.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from queue import Empty, SimpleQueue

from conch import __version__
from conch.lean import Any, NamedTuple

_PROGRAM = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-m', 'conch', 'mcp']))"
_PROTOCOL_VERSION = "2025-11-25"
_ANSWER_SECONDS, _LEAVE_SECONDS = 10.0, 2.0

Object = dict[str, Any]


class Unexpected(Exception):
    """Something went another way than the script says; the message says what was expected."""


class Reply(NamedTuple):
    """What a server answered. Moments are monotonic nanoseconds."""

    data: Object
    refused: bool
    sent_at: int
    arrived_at: int


class Agent:
    """One agent and its server, with one call in flight at most. A thread notes when each line arrives."""

    def __init__(self, name: str, agent_id: str, client_name: str, folder: str, environ: dict[str, str]) -> None:
        self.name, self.agent_id = name, agent_id
        self._calls, self._tool, self._sent_at = 0, "initialize", 0
        self._heard: SimpleQueue[tuple[int, Object] | None] = SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, client_name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=folder,
            env={**environ, "CONCH_AGENT_ID": agent_id},
            process_group=0,  # Ctrl-C in the terminal is for the demo alone
        )
        assert self._process.stdin and self._process.stdout
        self.pid, self._input, self._output = self._process.pid, self._process.stdin, self._process.stdout
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        client = {"name": client_name, "version": __version__}
        handshake = {"protocolVersion": _PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client}
        self._send({"id": 0, "method": "initialize", "params": handshake})

    def until_ready(self) -> None:
        self._next()
        self._send({"method": "notifications/initialized"})

    def start(self, tool: str, **arguments: object) -> None:
        """Send a call without waiting for its reply."""
        self._calls, self._tool, self._sent_at = self._calls + 1, tool, time.monotonic_ns()
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": self._calls}}
        self._send({"id": self._calls, "method": "tools/call", "params": params})

    def until_waiting(self) -> tuple[int, str]:
        """When the server began to wait in the call, and what it says it waits for."""
        at, message = self._next()
        if "params" not in message:
            raise self.surprise("wait", f"the answer was {message}")
        return at, message["params"].get("message", "")

    def reply(self) -> Reply:
        """The answer to the call in flight."""
        at, message = self._next()
        while message.get("id") != self._calls:
            at, message = self._next()
        result = message.get("result") or {"isError": True, "structuredContent": message["error"]}
        return Reply(result["structuredContent"], result["isError"], self._sent_at, at)

    def surprise(self, expected: str, instead: str) -> Unexpected:
        return Unexpected(f"{self.name} should {expected} in {self._tool}, but {instead}.")

    def crash(self) -> int:
        """End the agent as a crash would, and return the moment."""
        now = time.monotonic_ns()
        os.kill(self.pid, signal.SIGKILL)
        self.leave()
        return now

    def leave(self) -> None:
        """Close the server's input, which ends it, and so the agent."""
        self._input.close()

    def wait_for_exit(self) -> None:
        """See both processes off, if need be by force: while one of them hangs, their output is open."""
        self._reader.join(_LEAVE_SECONDS)
        if self._reader.is_alive():
            os.killpg(self.pid, signal.SIGKILL)
            self._reader.join(_LEAVE_SECONDS)
        with self._process:  # closes its pipes, and waits
            pass

    def _send(self, message: Object) -> None:
        try:
            self._input.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        except BrokenPipeError:
            raise self.surprise("be there", "its process has ended") from None

    def _listen(self) -> None:
        with os.fdopen(self._output.fileno(), "rb", closefd=False) as lines:
            for line in lines:
                self._heard.put((time.monotonic_ns(), json.loads(line)))
        self._heard.put(None)

    def _next(self) -> tuple[int, Object]:
        try:
            heard = self._heard.get(timeout=_ANSWER_SECONDS)
        except Empty:
            raise self.surprise("be answered", f"nothing came in {_ANSWER_SECONDS:.0f} s") from None
        if heard is None:
            raise self.surprise("be answered", "its process has ended")
        return heard
