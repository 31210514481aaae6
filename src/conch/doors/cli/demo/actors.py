"""The director's side of the scripted agents: it starts them, tells them what to call, and hears what came of it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from itertools import count
from typing import NamedTuple

from conch.doors.cli.demo.pipes import LinePipe, Object, write_line
from conch.doors.cli.demo.stage import Stage

ANSWER_SECONDS = 10.0
LEAVE_SECONDS = 2.0


class Unexpected(Exception):
    """Something went another way than the script says; the message tells what was expected."""


class Role(NamedTuple):
    """Whom a scripted agent plays."""

    name: str
    agent_id: str
    client_name: str
    """How this harness introduces itself to an MCP server."""


class Pending(NamedTuple):
    """A call that was sent."""

    number: int
    tool: str


class Reply(NamedTuple):
    """What a server answered, and when, in monotonic nanoseconds as the agent saw it."""

    tool: str
    data: Object
    refused: bool
    sent_at: int
    arrived_at: int


class Actor:
    """One scripted agent: a process that has its own server as a child, and one call in flight at most."""

    def __init__(self, role: Role, stage: Stage) -> None:
        self.role = role
        self._numbers = count(1)
        self._heard: deque[Object] = deque()
        command = [sys.executable, "-m", "conch.doors.cli.demo.agent", role.client_name]
        with open(stage.log_of(role.name), "ab") as log:
            # A group of its own: the terminal's Ctrl-C is for the director alone, and what is left can be ended as one.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                cwd=stage.checkout,
                env=stage.environ(os.environ, role.agent_id),
                process_group=0,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input = self._process.stdin
        self._output = LinePipe(self._process.stdout.fileno())

    @property
    def pid(self) -> int:
        return self._process.pid

    def until_ready(self) -> None:
        self._next("be ready")

    # -- calling tools

    def call(self, tool: str, **arguments: object) -> Reply:
        return self.reply(self.start(tool, **arguments))

    def start(self, tool: str, **arguments: object) -> Pending:
        """Send a call without waiting for its reply."""
        pending = Pending(next(self._numbers), tool)
        try:
            write_line(self._input.fileno(), {"call": pending.number, "tool": tool, "arguments": arguments})
        except BrokenPipeError:
            raise self._ended(f"call {tool}") from None
        return pending

    def until_waiting(self, pending: Pending) -> tuple[int, str]:
        """When the server began to wait, and what it says it waits for."""
        message = self._next(f"wait in {pending.tool}")
        if "waiting" not in message:
            raise Unexpected(f"{self.role.name} should wait in {pending.tool}, but it answered {message['data']}.")
        return message["at"], message["waiting"]

    def reply(self, pending: Pending) -> Reply:
        while True:
            message = self._next(f"answer to {pending.tool}")
            if "data" in message and message["call"] == pending.number:
                moments = message["sent_at"], message["arrived_at"]
                return Reply(pending.tool, message["data"], message["refused"], *moments)

    def _next(self, expected: str) -> Object:
        deadline = time.monotonic() + ANSWER_SECONDS
        while not self._heard:
            try:
                if not self._listen(deadline):
                    message = f"{self.role.name} should {expected}, but nothing came in {ANSWER_SECONDS:.0f} s."
                    raise Unexpected(message)
            except EOFError:
                raise self._ended(expected) from None
        return self._heard.popleft()

    def _listen(self, deadline: float) -> bool:
        """Hear something before the deadline; EOFError when the agent has ended."""
        readable, _, _ = select.select([self._output], [], [], max(0.0, deadline - time.monotonic()))
        if readable:
            self._heard.extend(self._output.read())
        return bool(readable)

    def _ended(self, expected: str) -> Unexpected:
        return Unexpected(f"{self.role.name} should {expected}, but its process has ended.")

    # -- leaving

    def crash(self) -> int:
        """End the agent as a crash would, and return the moment. Its server is left to find out by itself."""
        now = time.monotonic_ns()
        os.kill(self.pid, signal.SIGKILL)
        return now

    def dismiss(self) -> None:
        """Tell the agent that nothing more will come."""
        self._input.close()

    def wait_for_exit(self) -> None:
        """See the agent off, with everything it started."""
        deadline = time.monotonic() + LEAVE_SECONDS
        try:
            while self._listen(deadline):
                pass
        except EOFError:  # it ends after its server does
            pass
        # Not waited for until here, so this group is still ours, whatever is left in it.
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self._process.wait()
        os.close(self._output.fileno())
