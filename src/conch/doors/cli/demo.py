"""`conch demo`: three scripted agents share a scratch checkout. They take turns, skip a member, fail and recover.

Each agent is a process that stands in for a harness: it starts `conch mcp` and waits for it. The demo speaks MCP to
that server through pipes that both inherit, so it can kill the agent as a crash would. It checks every reply.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import statistics
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import suppress
from queue import SimpleQueue

from conch import __version__
from conch.agents.records import label
from conch.doors.cli.output import Report, abandon_stream, clean
from conch.doors.cli.terminal import has_colours
from conch.doors.exits import REFUSED, status_after
from conch.errors import ConchError, InternalError
from conch.host.programs import PIPE, start_python
from conch.lean import Any
from conch.tools.replies import Object
from conch.tools.text import one_line

_CAST = {"codex": "codex:demo", "claude": "claude-code:demo", "gemini": "gemini:demo"}
_NAMES = {agent_id: name for name, agent_id in _CAST.items()}
_HARNESSES = {"codex": "codex-mcp-client", "claude": "claude-code", "gemini": "gemini-cli-mcp-client"}
_COLOURS = {"codex": "36", "claude": "33", "gemini": "35"}
_BOLD, _DIM, _RED, _GREEN = "1", "2", "31", "32"
_PROGRAM = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-P', '-m', 'conch', 'mcp']))"
_FOREIGN = ("CONCH_", "TALKING_STICK_", "AGENT_BUS_", "BB_")  # settings of the user's own store
_LEAVE_SECONDS, _LINE_SECONDS = 2.0, 0.15
_INDENT = 22


def demo(options: Any) -> Report:
    """Play the demo. `--keep` leaves the scratch directory behind."""
    return Report(None, "", status=_play(options.keep), is_printed=True)


def _play(keep: bool) -> int:
    try:
        _Demo(keep).run()
        return 0
    except (ConchError, OSError) as problem:
        if not isinstance(problem, BrokenPipeError):  # the reader has seen enough
            print(f"conch demo: {clean(str(problem))}", file=sys.stderr, flush=True)
        abandon_stream(sys.stdout)
        return REFUSED


def _headline(title: str, about: str) -> None:
    _say(about, _DIM, f"\n{_paint(title, _BOLD)}  ", len(title) + 2)


def _say(text: str, colour: str = "", prefix: str = "", indent: int = 0) -> None:
    """Print a paragraph. On a terminal, pause after each line so that a person can follow."""
    width = max(40, min(shutil.get_terminal_size().columns, 110))
    for line in textwrap.wrap(one_line(text), width - indent, break_on_hyphens=False):
        print(prefix or " " * indent, _paint(line, colour), sep="", flush=True)
        prefix = ""
        if sys.stdout.isatty():
            time.sleep(_LINE_SECONDS)


def _paint(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if colour and has_colours() else text


class _Agent:
    """One agent and its server, with at most one call in flight. Times are monotonic nanoseconds."""

    def __init__(self, name: str, folder: str, environ: dict[str, str], inbox: SimpleQueue[Any]) -> None:
        self._name, self._inbox = name, inbox  # all agents share the inbox
        self._unread: list[tuple[int, Object]] = []
        environ = {**environ, "CONCH_AGENT_ID": _CAST[name]}
        # Ctrl-C in the terminal must reach only the demo, so the agent gets a process group.
        started: Any = {"cwd": folder, "env": environ, "process_group": 0, "stdin": PIPE, "stdout": PIPE}
        self.process: Any = start_python("-c", _PROGRAM, _HARNESSES[name], **started)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def connect(self) -> None:
        client = {"name": _HARNESSES[self._name], "version": __version__}
        self._send("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}, id=0)
        self.reply()
        self._send("notifications/initialized", {})

    def start(self, tool: str, arguments: Object) -> None:
        """Send a call without waiting for its reply."""
        self._send("tools/call", {"name": tool, "arguments": arguments, "_meta": {"progressToken": tool}}, id=1)

    def until_waiting(self) -> None:
        """Return once the server says that it waits in the call."""
        if "id" in (message := self._next()[1]):
            raise InternalError(f"{self._name} should wait, but the reply was {message}.")

    def reply(self, **expected: Any) -> tuple[int, Object]:
        """When the reply came, and its data. Fails if a field is not as expected, or if a refusal was not expected."""
        at, message = self._next()
        while "id" not in message:  # progress of the call
            at, message = self._next()
        data = message["result"].get("structuredContent", {}) if "result" in message else message
        if any(data.get(name) != value for name, value in {"error": None, **expected}.items()):
            raise InternalError(f"{self._name} should get {expected or 'no refusal'}, but the reply was {data}.")
        return at, data

    def wait_for_exit(self) -> None:
        """Wait for both processes, which hold the output open. Kill them if they hang."""
        with self.process:  # closes its pipes, and waits
            self._reader.join(_LEAVE_SECONDS)
            if self._reader.is_alive():
                os.killpg(self.process.pid, signal.SIGKILL)
                self._reader.join()

    def _send(self, method: str, params: Object, **identity: int) -> None:
        message = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **identity})
        with suppress(BrokenPipeError):  # the reader reports the end of the process
            os.write(self.process.stdin.fileno(), message.encode() + b"\n")

    def _read(self) -> None:
        """Note when each line arrives. A thread does this, because the demo itself pauses on a terminal."""
        for line in self.process.stdout:
            self._inbox.put((self, time.monotonic_ns(), json.loads(line)))
        self._inbox.put((self, time.monotonic_ns(), {"id": 1, "error": f"the process of {self._name} has ended"}))

    def _next(self) -> tuple[int, Object]:
        while not self._unread:
            received = self._inbox.get()
            if isinstance(received, SystemExit):
                raise received
            sender, *message = received
            sender._unread.append(message)
        return self._unread.pop(0)


class _Demo:
    """The scratch directory, the agents in it, and the state of the play."""

    def __init__(self, keep: bool) -> None:
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        # A signal ends the demo only while it waits for a reply, so it always ends the processes it started.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # an ignored signal stays ignored
                signal.signal(number, lambda number, _: self._inbox.put(SystemExit(status_after(number))))
        self._keep, self._began = keep, time.monotonic_ns()
        self._folder = os.path.realpath(tempfile.mkdtemp(prefix="conch-demo-"))
        self._checkout, self._data = (os.path.join(self._folder, name) for name in ("checkout", "data"))
        own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        self._environ = {**own, "CONCH_DATA_DIR": self._data}
        self._agents: dict[str, _Agent] = {}
        self._room: Object = {}  # the argument that names it
        self._lease: Object = {}  # what every call of the owner carries
        self._handoff: Object = {}  # the latest one
        self._since = 0  # when the latest call was made, or the owner killed
        self._latencies_ms: list[float] = []

    def run(self) -> None:
        try:
            self._prepare()
            for act in (self._round_robin, self._explicit_skip, self._missed_recipient, self._crashed_owner):
                act()
            self._sum_up()
        finally:
            for agent in self._agents.values():
                agent.process.stdin.close()  # ends the server, and the agent with it
            for agent in self._agents.values():
                agent.wait_for_exit()
            if not self._keep:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _prepare(self) -> None:
        _say("conch demo: three scripted agents share one checkout.", _BOLD)
        _say("Each is a process of its own and speaks MCP to its own `conch mcp`.")
        print(f"Scratch directory, {'kept' if self._keep else 'removed at the end'}: {clean(self._folder)}", flush=True)
        os.mkdir(self._checkout)
        with open(os.path.join(self._checkout, "plan.md"), "w", encoding="utf-8") as file:
            file.write("# Plan\n\n1. Find the slow query.\n2. Cache its result.\n3. Expire the cache.\n")

    def _sum_up(self) -> None:
        count, took = len(self._latencies_ms), statistics.median(self._latencies_ms)
        _say(f"{self._lease['expected_turn_id']} turns granted, 2 of them by takeover.", _GREEN, prefix="\n")
        _say(f"{count} handoffs delivered word for word; median {took:.1f} ms from call to your_turn.", _GREEN)
        if start_python("-m", "conch", "db", "verify", env=self._environ).wait():
            raise InternalError("`conch db verify` failed.")
        if self._keep:
            command = f"CONCH_DATA_DIR={shlex.quote(self._data)} conch events --path {shlex.quote(self._checkout)}"
            print(f"Read its log: {clean(command)}", flush=True)
        _say("Next: `conch join` in your checkout, or add `conch mcp` to your harness.", _BOLD)

    # -- the script

    def _round_robin(self) -> None:
        _headline("Act 1: round robin", "The next in sequence gets the stick and the handoff.")
        for name in _CAST:
            self._join(name)
        seen = self._call("gemini", "get_room_state")
        sequence = " -> ".join(_NAMES[member["agent_id"]] for member in seen["members"])
        self._show("gemini", self._since, {}, f"sees the sequence {sequence}; state {seen['room']['state']}")
        self._call("codex", "wait_for_turn", "claimed turn {turn_id}: the stick was free", {"status": "your_turn"})
        self._look("claude", "must wait")
        self._hand_over("codex", "claude", "wrote the plan, steps 1 to 3", "look for gaps in it", 1)
        self._hand_over("claude", "gemini", "read the plan; step 3 is thin on stale entries", "say more in step 3", 5)
        self._hand_over("gemini", "codex", "step 3 now covers stale entries", "start on step 1", 3)

    def _explicit_skip(self) -> None:
        _headline("Act 2: an explicit skip", "The owner chooses; the sequence goes on from there.")
        self._hand_over("codex", "gemini", "step 2 may race with a second writer", "does the lease cover it?", 4, True)
        self._look("claude", "must wait")
        self._hand_over("gemini", "codex", "the lease covers it: no race", "write step 2", 4)

    def _missed_recipient(self) -> None:
        _headline("Act 3: a missed recipient", "An agent that does not answer cannot block the room.")
        text = "set the room's claim_ttl_ms to {policy[claim_ttl_ms]}"
        self._call("codex", "set_room_policy", text, policy={"claim_ttl_ms": 700})
        self._wait("gemini")
        self._let_go("codex", "claude", "step 2 is written", "test it", 4)
        self._see_takeover("claim_timeout", "gemini")
        self._take_over("codex", "wants it back: refused, {error}", error="takeover_not_available")
        self._take_over("gemini", "took over: turn {turn_id}; claude is revoked", revoked=_CAST["claude"])
        self._look("claude", "comes too late")
        self._call("gemini", "set_room_policy", policy={"claim_ttl_ms": None})

    def _crashed_owner(self) -> None:
        _headline("Act 4: a crashed owner", "The others see the crash at once. The old lease is void.")
        self._hand_over("gemini", "claude", "tested step 2: it holds", "you missed a turn; take step 3", 5, True)
        lost = {**self._lease, "handoff": {"status": "step 3 is done", "next_action": "check it"}}
        self._wait("codex", "gemini")
        claude, self._since = self._agents["claude"], time.monotonic_ns()
        claude.process.kill()
        claude.process.stdin.close()
        text = f"is killed holding the stick: SIGKILL to process {claude.process.pid}"
        self._show("claude", self._since, {}, text, _RED)
        claude.wait_for_exit()
        self._see_takeover("owner_gone", "codex", "gemini")
        self._take_over("codex", "took over: turn {turn_id}; claude is revoked", revoked=_CAST["claude"])
        self._join("claude")
        for turn_id, error in ((8, "turn_mismatch"), (9, "stale_lease")):
            attempt = f"releases turn {turn_id} with its old lease: refused, {{error}}"
            self._call("claude", "release_stick", attempt, {"error": error}, **lost | {"expected_turn_id": turn_id})

    # -- moves: each makes its calls, checks the replies, and shows them

    def _join(self, name: str) -> None:
        agent = self._agents[name] = _Agent(name, self._checkout, self._environ, self._inbox)
        agent.connect()
        text = f"joined as {{who}}, process {agent.process.pid}"
        self._room = {"context_path": self._checkout}
        self._room = {"room_id": self._call(name, "join_path", text, {"agent_id": _CAST[name]})["room_id"]}

    def _look(self, name: str, text: str) -> None:
        """Ask for the stick while another agent holds it."""
        text += ": not_yet, {owner} holds the stick (turn {turn_id})"
        self._call(name, "wait_for_turn", text, {"status": "not_yet"}, max_wait_ms=0)

    def _wait(self, *names: str) -> None:
        """Begin to wait for the stick. Another move gets the replies."""
        for name in names:
            self._agents[name].start("wait_for_turn", self._room)
            self._agents[name].until_waiting()

    def _hand_over(self, owner: str, to: str, status: str, ask: str, line: int, passing: bool = False) -> None:
        """Hand the stick to an agent that waits for it, and gets the handoff word for word."""
        self._wait(to)
        self._let_go(owner, to, status, ask, line, passing)
        at, data = self._agents[to].reply(status="your_turn", handoff=self._handoff)
        self._latencies_ms.append((at - self._since) / 1e6)
        self._show(to, at, data, "claimed turn {turn_id}, {ms} after the handover, and reads:")

    def _let_go(self, owner: str, to: str, status: str, ask: str, line: int, passing: bool = False) -> None:
        """Release the stick to the next in sequence, or pass it to an agent of the owner's choice."""
        artifact = {"path": "plan.md", "lines": [line, line], "role": "review"}
        self._handoff = {"status": status, "next_action": ask, "artifacts": [artifact]}
        tool, verb = ("pass_stick", "passed") if passing else ("release_stick", "released")
        choice = {"to_agent_id": _CAST[to]} if passing else {}
        text = f"{verb} the stick: reserved for {to}, who is {{recipient_status}}"
        expected = {"state": "reserved", "reserved_for": _CAST[to]}
        self._call(owner, tool, text, expected, **self._lease, **choice, handoff=self._handoff)

    def _see_takeover(self, reason: str, *names: str) -> None:
        """The agents' waits end, in any order, because a takeover is open."""
        replies = [(*self._agents[name].reply(status="takeover_available", reason=reason), name) for name in names]
        for at, data, name in sorted(replies, key=lambda reply: reply[0]):
            self._show(name, at, data, "learns {ms} later: {status}, {reason}")

    def _take_over(self, name: str, text: str, **expected: str) -> None:
        """Take the stick over, and show the last handoff as the log has it."""
        given = {"expected_turn_id": self._lease["expected_turn_id"], "reason": "claude does not answer"}
        if "error" in self._call(name, "takeover_stick", text, expected, **given):
            return
        events = self._call(name, "get_room_events")["events"]
        last = [event for event in events if event.get("handoff") == self._handoff][-1]
        self._show(name, self._since, last, f"reads the log; the last handoff is from {_NAMES[last['from_agent_id']]}:")

    def _call(self, name: str, tool: str, text: str = "", expected: Object | None = None, **given: Any) -> Object:
        self._since = time.monotonic_ns()
        self._agents[name].start(tool, {**self._room, **given})
        _, data = self._agents[name].reply(**expected or {})
        if text:
            self._show(name, self._since, data, text)
        return data

    def _show(self, name: str, at: int, data: Object, text: str, colour: str = "") -> None:
        """Add a reply to the timeline, and keep its lease. The text may name its fields, `owner`, `who` and `ms`."""
        if data.get("lease_id"):
            self._lease, colour = {"lease_id": data["lease_id"], "expected_turn_id": data["turn_id"]}, _GREEN
        owner, ms = _NAMES.get(data.get("current_owner") or ""), f"{(at - self._since) / 1e6:.1f} ms"
        who = label(data["agent_id"], data["name"]) if "name" in data else ""
        moment = _paint(f"{(at - self._began) / 1e6:9.1f} ms  ", _DIM)
        prefix = f"{moment}{_paint(name.ljust(6), _COLOURS[name])}  "
        _say(text.format(owner=owner, ms=ms, who=who, **data), _RED if "error" in data else colour, prefix, _INDENT)
        if "error" in data:
            _say(data["message"], _DIM, indent=_INDENT + 2)
        if handoff := data.get("handoff"):
            line = handoff["artifacts"][0]["lines"][0]
            _say(f'"{handoff["status"]}"', _DIM, indent=_INDENT + 2)
            _say(f"next: {handoff['next_action']} [plan.md:{line}]", _DIM, indent=_INDENT + 2)
