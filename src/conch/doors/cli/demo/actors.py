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

from conch.doors.cli.demo.pipes import CHUNK, LinePipe, Object, write_line
from conch.doors.cli.demo.stage import Stage
from conch.typed import NamedTuple

ANSWER_SECONDS = 10.0
LEAVE_SECONDS = 2.0
LAST_WORDS_BYTES = 2_000


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
        self._written = b""
        # A group of its own: the terminal's Ctrl-C is for the director alone, and what hangs can be ended as one.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "conch.doors.cli.demo.agent", role.client_name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=stage.checkout,
            env=stage.environ(os.environ, role.agent_id),
            process_group=0,
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._orders, self._errors = self._process.stdin, self._process.stderr
        self._reports = LinePipe(self._process.stdout.fileno())

    @property
    def pid(self) -> int:
        return self._process.pid

    def until_ready(self) -> None:
        self._next("be ready")

    # -- calling tools

    def start(self, tool: str, **arguments: object) -> Pending:
        """Send a call without waiting for its reply."""
        pending = Pending(next(self._numbers), tool)
        try:
            write_line(self._orders.fileno(), {"call": pending.number, "tool": tool, "arguments": arguments})
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
            message = self._next(f"get an answer to {pending.tool}")
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
        reports, errors = self._reports.fileno(), self._errors.fileno()
        readable, _, _ = select.select([reports, errors], [], [], max(0.0, deadline - time.monotonic()))
        if errors in readable:
            self._keep_errors()
        if reports in readable:
            self._heard.extend(self._reports.read())
        return bool(readable)

    def _keep_errors(self) -> bool:
        """Keep the end of what the agent and its server write to standard error; False when both are gone."""
        chunk = os.read(self._errors.fileno(), CHUNK)
        self._written = (self._written + chunk)[-LAST_WORDS_BYTES:]
        return bool(chunk)

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
        self._orders.close()

    def wait_for_exit(self) -> None:
        """See the agent off, with everything it started."""
        if not self._all_gone(LEAVE_SECONDS):
            os.killpg(self.pid, signal.SIGKILL)  # still ours: its leader has not been waited for
            self._all_gone(LEAVE_SECONDS)
        with self._process:  # closes its pipes, and waits
            pass

    def last_words(self) -> str:
        """The end of what the agent and its server have written to standard error."""
        self._all_gone(0.0)
        return self._written.decode(errors="replace").strip()

    def _all_gone(self, seconds: float) -> bool:
        """Wait until nobody has the agent's standard error open any more, which its server inherited."""
        deadline = time.monotonic() + seconds
        while select.select([self._errors], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if not self._keep_errors():
                return True
        return False
