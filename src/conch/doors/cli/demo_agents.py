"""The scripted agents of `conch demo`.

Each agent is a process of its own that stands in for a harness. It only starts `conch mcp` and waits for it. The demo
talks to that server through pipes that both processes inherit, so it can kill the agent as a crash would.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from queue import Empty, SimpleQueue

from conch import __version__
from conch.lean import Any

_PROGRAM = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-m', 'conch', 'mcp']))"
_PROTOCOL_VERSION = "2025-11-25"
_ANSWER_SECONDS, _LEAVE_SECONDS = 10.0, 2.0

Object = dict[str, Any]


class Unexpected(Exception):
    """The demo left its script. The message says what the script expected."""


class Agent:
    """One agent and its server, with at most one call in flight. Times are monotonic nanoseconds."""

    def __init__(self, name: str, agent_id: str, client_name: str, folder: str, environ: dict[str, str]) -> None:
        self.name, self.agent_id, self._client_name = name, agent_id, client_name
        self._calls, self._tool, self.sent_at = 0, "initialize", 0
        self._received: SimpleQueue[tuple[int, Object] | None] = SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, client_name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=folder,
            env={**environ, "CONCH_AGENT_ID": agent_id},
            process_group=0,  # Ctrl-C in the terminal must reach only the demo
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def connect(self) -> None:
        client = {"name": self._client_name, "version": __version__}
        handshake = {"protocolVersion": _PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client}
        self._send({"id": 0, "method": "initialize", "params": handshake})
        self._next()
        self._send({"method": "notifications/initialized"})

    def start(self, tool: str, **arguments: object) -> None:
        """Send a call without waiting for its reply."""
        self._calls, self._tool, self.sent_at = self._calls + 1, tool, time.monotonic_ns()
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": self._calls}}
        self._send({"id": self._calls, "method": "tools/call", "params": params})

    def until_waiting(self) -> None:
        """Return once the server says that it waits in the call."""
        _, message = self._next()
        if "id" in message:
            raise self._unexpected("wait", f"the answer was {message}")

    def reply(self, **expected: Any) -> tuple[int, Object]:
        """When the reply came, and its data. Unexpected if a field differs, or if it is a refusal by surprise."""
        at, message = self._next()
        while message.get("id") != self._calls:  # progress of the call
            at, message = self._next()
        data = message["result"]["structuredContent"] if "result" in message else message
        if any(data.get(name) != value for name, value in {"error": None, **expected}.items()):
            raise self._unexpected(f"get {expected or 'no refusal'}", f"the answer was {data}")
        return at, data

    def crash(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.leave()

    def leave(self) -> None:
        """Close the server's input. The server ends, and the agent with it."""
        assert self._process.stdin
        self._process.stdin.close()

    def wait_for_exit(self) -> None:
        """Wait for both processes, which hold the output open. Kill them if they hang."""
        self._reader.join(_LEAVE_SECONDS)
        if self._reader.is_alive():
            os.killpg(self.pid, signal.SIGKILL)
            self._reader.join(_LEAVE_SECONDS)
        with self._process:  # closes its pipes, and waits
            pass

    def _send(self, message: Object) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        except BrokenPipeError:
            raise self._unexpected("be there", "its process has ended") from None

    def _read(self) -> None:
        """Note when each line arrives. A thread does this, because the demo itself pauses on a terminal."""
        assert isinstance(self._process.stdout, io.RawIOBase)
        for line in io.BufferedReader(self._process.stdout):
            self._received.put((time.monotonic_ns(), json.loads(line)))
        self._received.put(None)

    def _next(self) -> tuple[int, Object]:
        try:
            received = self._received.get(timeout=_ANSWER_SECONDS)
        except Empty:
            raise self._unexpected("get an answer", f"none came in {_ANSWER_SECONDS:.0f} s") from None
        if received is None:
            raise self._unexpected("get an answer", "its process has ended")
        return received

    def _unexpected(self, expected: str, instead: str) -> Unexpected:
        return Unexpected(f"{self.name} should {expected} in {self._tool}, but {instead}.")
