"""`conch demo`: three scripted agents in a scratch checkout take turns, skip, fail and recover.

Each speaks MCP to a real `conch mcp` of its own. The script says what is expected of every reply; what is shown comes
from the replies.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import statistics
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from contextlib import closing
from types import FrameType

from conch.app import open_app
from conch.doors.cli.demo_agents import Agent, Object, Reply, Unexpected
from conch.doors.cli.output import abandon_stream, clean
from conch.errors import ConchError
from conch.lean import Any, NoReturn
from conch.rooms.verify import verify_rooms
from conch.tools.text import one_line

_Handler = Callable[[int, FrameType | None], NoReturn] | signal.Handlers

_ROLES = {  # by name: the agent's id, and how such a harness introduces itself to a server
    "codex": ("codex:demo", "codex-mcp-client"),
    "claude": ("claude-code:demo", "claude-code"),
    "gemini": ("gemini:demo", "gemini-cli-mcp-client"),
}
_NAMES = {agent_id: name for name, (agent_id, _) in _ROLES.items()}
_FILES = {
    "AGENTS.md": "Scratch checkout of `conch demo`. Call join_path before you change anything.\n",
    "plan.md": "# Plan\n\n1. Find the slow query.\n2. Cache its result.\n3. Expire the cache.\n",
}
_FOREIGN = ("CONCH_", "TALKING_STICK_", "AGENT_BUS_", "BB_")  # settings of the user's own store
_SHORT_CLAIM_TTL_MS = 700
_OPEN = {"status": "your_turn", "reason": "open_claim"}
_RECEIVED = "claimed turn {turn_id}, {ms} after it was let go, and reads:"
_LATER = "hears {ms} later: {status}, {reason}"
_NOT_YET = "{status}, {owner} has it (turn {turn_id})"
_LINE_SECONDS, _ACT_SECONDS = 0.12, 0.5
_INDENT = 22
_BOLD, _DIM, _RED, _GREEN = "1", "2", "31", "32"
_COLOURS = {"codex": "36", "claude": "33", "gemini": "35"}


def run_demo(keep: bool) -> int:
    """Play the demo: 0 when everything went as it should, else 1. It cleans up however it ends.

    `keep` leaves the scratch checkout and its store behind.
    """
    try:
        _Demo(keep).run()
        return 0
    except (ConchError, Unexpected) as refusal:
        _complain(str(refusal))
    except OSError as problem:
        if not isinstance(problem, BrokenPipeError):  # the reader has seen enough
            _complain(str(problem))
        abandon_stream(sys.stdout)
    return 1


class _Screen:
    """Writes to standard output. On a terminal it uses colour, and pauses so that a person can follow."""

    def __init__(self) -> None:
        self._began = time.monotonic_ns()
        self._paced = sys.stdout.isatty()
        self._coloured = self._paced and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._width = max(40, min(shutil.get_terminal_size().columns, 110))

    def headline(self, title: str, about: str) -> None:
        self.print(f"\n{self._paint(title, _BOLD)}  {self._paint(about, _DIM)}", _ACT_SECONDS)

    def show(self, at: int, who: str, text: str, quoting: tuple[str, ...] = (), colour: str = "") -> None:
        """The next entry of the timeline: when (in monotonic nanoseconds), who, what, and words that belong to it."""
        moment = self._paint(f"{(at - self._began) / 1e6:9.1f} ms  ", _DIM)
        margin = f"{moment}{self._paint(who.ljust(6), _COLOURS[who])}  "
        for line in self._wrap(text, _INDENT):
            self.print(margin + self._paint(line, colour), _LINE_SECONDS)
            margin = " " * _INDENT
        for line in (line for words in quoting for line in self._wrap(words, _INDENT + 2)):
            self.print(f"{margin}  {self._paint(line, _DIM)}", _LINE_SECONDS)

    def say(self, text: str, colour: str = "") -> None:
        for line in self._wrap(text, 0):
            self.print(self._paint(line, colour))

    def print(self, line: str, seconds: float = 0.0) -> None:
        print(line, flush=True)
        if self._paced:
            time.sleep(seconds)

    def _wrap(self, text: str, indent: int) -> list[str]:
        return textwrap.wrap(one_line(text), self._width - indent, break_on_hyphens=False) or [""]

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._coloured and colour else text


class _Demo:
    """The scratch directory, everybody who ever worked in it, and the room as far as the play has got."""

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self._screen = _Screen()
        self._folder = os.path.realpath(tempfile.mkdtemp(prefix="conch-demo-"))
        self._checkout, self._data = (os.path.join(self._folder, name) for name in ("checkout", "data"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        self._environ = {**kept, "CONCH_DATA_DIR": self._data}
        self._agents: list[Agent] = []
        self._room_id, self._turn_id, self._lease_id = "", 0, ""
        self._handoff: Object = {}  # the last that was written
        self._since = 0  # when the stick was last let go, or its owner killed
        self._latencies_ms: list[float] = []

    def run(self) -> None:
        _handle(_leave, signal.SIGTERM, signal.SIGHUP)
        try:
            self._announce()
            cast = self._hire(*_ROLES)
            for act in (self._round_robin, self._explicit_skip, self._missed_recipient, self._crashed_owner):
                act(*cast)
            self._sum_up()
        finally:  # a second Ctrl-C does not stop it
            _handle(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            self._clean_up()

    def _round_robin(self, codex: Agent, claude: Agent, gemini: Agent) -> None:
        self._screen.headline("Act 1: round robin", "The next in sequence gets the stick, and the handoff.")
        for agent in (codex, claude, gemini):
            self._join(agent)
        room = self._call(gemini, "get_room_state").data["room"]
        sequence = " -> ".join(_NAMES[member] for member in room["members"])
        self._screen.show(time.monotonic_ns(), "gemini", f"sees the sequence {sequence}; state {room['state']}")
        self._call(codex, "wait_for_turn", "claimed turn {turn_id}: nobody had the stick", _OPEN, max_wait_ms=0)
        at, news = self._wait(claude)
        self._screen.show(at, "claude", f"waits. {news}")
        self._wait(gemini)
        self._let_go(codex, claude, "wrote the plan, steps 1 to 3", "look for gaps in it", 1)
        self._waited((claude, _RECEIVED, {"reason": "sequence"}))
        self._wait(codex)
        self._let_go(claude, gemini, "read the plan; step 3 is thin on stale entries", "say more in step 3", 5)
        self._waited((gemini, _RECEIVED, {"reason": "sequence"}))
        self._let_go(gemini, codex, "step 3 now covers stale entries", "start on step 1", 3)
        self._waited((codex, _RECEIVED, {"reason": "sequence"}))

    def _explicit_skip(self, codex: Agent, claude: Agent, gemini: Agent) -> None:
        self._screen.headline("Act 2: an explicit skip", "The owner chooses; the sequence goes on from there.")
        seen = self._call(claude, "wait_for_turn", "", {"current_owner": codex.agent_id}, max_wait_ms=0)
        self._wait(claude, cursor=seen.data["cursor"])
        self._wait(gemini)
        self._let_go(codex, gemini, "step 2 may race with a second writer", "does the lease cover it?", 4, passing=True)
        self._waited(
            (gemini, _RECEIVED, {"reason": "direct_pass"}), (claude, f"waits too: {_NOT_YET}", {"status": "not_yet"})
        )
        self._wait(codex)
        self._let_go(gemini, codex, "the lease covers it: no race", "write step 2", 4)
        self._waited((codex, _RECEIVED, {"reason": "sequence"}))

    def _missed_recipient(self, codex: Agent, claude: Agent, gemini: Agent) -> None:
        self._screen.headline("Act 3: a missed recipient", "Nobody is waited for without end.")
        limit = {"claim_ttl_ms": _SHORT_CLAIM_TTL_MS}
        self._call(codex, "set_room_policy", "set the room's claim_ttl_ms to {policy[claim_ttl_ms]}", policy=limit)
        self._wait(gemini)
        self._let_go(codex, claude, "step 2 is written", "test it", 4)
        self._waited((gemini, _LATER, {"status": "takeover_available", "reason": "claim_timeout"}))
        takeover = {"expected_turn_id": self._turn_id, "reason": "claim timeout expired"}
        refusal = {"error": "takeover_not_available"}
        self._call(codex, "takeover_stick", "wants it back: refused, {error}", refusal, **takeover)
        self._take_over(gemini, claude)
        late = {"status": "not_yet", "turn_id": self._turn_id}
        self._call(claude, "wait_for_turn", f"comes late: {_NOT_YET}", late, max_wait_ms=0)
        self._call(gemini, "set_room_policy", policy={"claim_ttl_ms": None})

    def _crashed_owner(self, codex: Agent, claude: Agent, gemini: Agent) -> None:
        self._screen.headline("Act 4: a crashed owner", "Its death is seen at once, and its lease is void.")
        self._wait(claude)
        self._let_go(gemini, claude, "tested step 2: it holds", "you missed a turn; take step 3", 5, passing=True)
        self._waited((claude, _RECEIVED, {"reason": "direct_pass"}))
        lost = self._key()
        self._wait(codex)
        self._wait(gemini)
        self._since = claude.crash()
        text = f"is killed holding the stick: SIGKILL to process {claude.pid}"
        self._screen.show(self._since, "claude", text, colour=_RED)
        gone = {"status": "takeover_available", "reason": "owner_gone"}
        self._waited((codex, _LATER, gone), (gemini, _LATER, gone))
        self._take_over(codex, claude)
        (claude,) = self._hire("claude")
        self._join(claude)
        attempt = f"releases turn {lost['expected_turn_id']} with its old lease: refused, {{error}}"
        lost["handoff"] = {"status": "step 3 is done", "next_action": "check it"}
        self._call(claude, "release_stick", attempt, {"error": "turn_mismatch"}, **lost)
        attempt = f"tries the old lease on turn {self._turn_id}: refused, {{error}}"
        lost["expected_turn_id"] = self._turn_id
        self._call(claude, "release_stick", attempt, {"error": "stale_lease"}, **lost)

    # -- moves: each makes its calls, checks the replies, and shows what they say

    def _join(self, agent: Agent) -> None:
        """The server must take the scripted agent for the process to go by, whatever runs the demo."""
        agent.start("join_path", context_path=self._checkout)
        reply = self._answer(agent, {"agent_id": agent.agent_id})
        pids = {member["agent_id"]: member["pid"] for member in reply.data["members"]}
        if pids[agent.agent_id] != agent.pid:
            raise agent.surprise(f"go by process {agent.pid}", f"the answer was {reply.data}")
        self._room_id = reply.data["room_id"]
        how = "made the room" if reply.data["created"] else "joined"
        self._tell(agent, reply, f"{how} as {{agent_id}} ({{name}}), process {agent.pid}")

    def _wait(self, agent: Agent, **arguments: Any) -> tuple[int, str]:
        """Begin to wait, and say since when and for what. What comes of it is for `_waited`."""
        agent.start("wait_for_turn", room_id=self._room_id, **arguments)
        return agent.until_waiting()

    def _waited(self, *waits: tuple[Agent, str, Object]) -> None:
        """How the agents' waits ended, in the order of time: who, what to show of it, what is expected."""
        ended = [(self._answer(agent, expected), agent, text) for agent, text, expected in waits]
        for reply, agent, text in sorted(ended, key=lambda each: each[0].arrived_at):
            self._tell(agent, reply, text)

    def _let_go(self, agent: Agent, to: Agent, status: str, ask: str, line: int, passing: bool = False) -> None:
        """Release the stick to the next in sequence, or pass it to an agent of the owner's choice."""
        artifact = {"path": "plan.md", "lines": [line, line], "role": "review"}
        self._handoff = {"status": status, "next_action": ask, "artifacts": [artifact]}
        tool, verb = ("pass_stick", "passed") if passing else ("release_stick", "released")
        choice = {"to_agent_id": to.agent_id} if passing else {}
        agent.start(tool, **self._key(), **choice, handoff=self._handoff)
        reply = self._answer(agent, {"state": "reserved", "reserved_for": to.agent_id})
        self._since = reply.sent_at
        text = f"{verb} the stick: reserved for {to.name}, who is {{recipient_status}}"
        self._tell(agent, reply._replace(arrived_at=reply.sent_at), text)  # the next owner may hear of it before

    def _take_over(self, agent: Agent, revoked: Agent) -> None:
        """A takeover brings no handoff; the log has the last one that was written."""
        asked = {"expected_turn_id": self._turn_id, "reason": f"{revoked.name} does not answer"}
        text = f"took over: turn {{turn_id}}; {revoked.name} is revoked"
        self._call(agent, "takeover_stick", text, {"revoked": revoked.agent_id}, **asked)
        log = self._call(agent, "get_room_events")
        *_, last = (event for event in log.data["events"] if event["handoff"] is not None)
        if last["handoff"] != self._handoff:
            raise agent.surprise(f"find {self._handoff}", f"the log ends with {last}")
        text = f"reads the log; the last handoff in it is from {_NAMES[last['from_agent_id']]}:"
        self._tell(agent, log._replace(data=last), text)

    def _call(self, agent: Agent, tool: str, text: str = "", expected: Object | None = None, **given: Any) -> Reply:
        agent.start(tool, **{"room_id": self._room_id, **given})
        reply = self._answer(agent, expected or {})
        if text:
            self._tell(agent, reply, text)
        return reply

    def _answer(self, agent: Agent, expected: Object) -> Reply:
        """The reply to the agent's call; Unexpected unless it is what the script says."""
        reply = agent.reply()
        data = reply.data
        if reply.refused != ("error" in expected) or any(data.get(name) != value for name, value in expected.items()):
            raise agent.surprise(f"be answered with {expected or 'no refusal'}", f"the answer was {data}")
        if data.get("lease_id"):
            self._turn_id, self._lease_id = data["turn_id"], data["lease_id"]
        if data.get("status") == "your_turn" and data["handoff"]:
            if data["handoff"] != self._handoff:
                raise agent.surprise(f"read {self._handoff}", f"the answer was {data}")
            self._latencies_ms.append((reply.arrived_at - self._since) / 1e6)
        return reply

    def _key(self) -> Object:
        """What every call of the owner carries."""
        return {"room_id": self._room_id, "lease_id": self._lease_id, "expected_turn_id": self._turn_id}

    def _tell(self, agent: Agent, reply: Reply, text: str) -> None:
        """Show a reply. The text may name the fields of its answer, the `owner`, and `ms`, the time since `_since`."""
        data = reply.data
        owner = _NAMES.get(data.get("current_owner") or "", "nobody")
        shown = text.format(ms=f"{(reply.arrived_at - self._since) / 1e6:.1f} ms", owner=owner, **data)
        colour = _RED if reply.refused else _GREEN if data.get("lease_id") else ""
        self._screen.show(reply.arrived_at, agent.name, shown, _words(data), colour)

    # -- before and after

    def _announce(self) -> None:
        self._screen.say("conch demo: three scripted agents share one checkout.", _BOLD)
        self._screen.say("Each is a process of its own and speaks MCP to its own `conch mcp`.")
        self._screen.print(
            f"Scratch directory, {'kept' if self._keep else 'removed at the end'}: {clean(self._folder)}"
        )
        os.mkdir(self._checkout)
        for name, text in _FILES.items():
            with open(os.path.join(self._checkout, name), "w", encoding="utf-8") as file:
                file.write(text)

    def _hire(self, *names: str) -> list[Agent]:
        """Agents that start at the same time, once all their servers have answered."""
        for name in names:
            self._agents.append(Agent(name, *_ROLES[name], self._checkout, self._environ))
        hired = self._agents[-len(names) :]
        for agent in hired:
            agent.until_ready()
        return hired

    def _sum_up(self) -> None:
        with closing(open_app({"CONCH_DATA_DIR": self._data})) as app:
            problems, (rooms, differences) = app.store.integrity_problems(), verify_rooms(app.store)
            command = shlex.join(["conch", "events", "--store", app.store.describe(), "--path", self._checkout])
        if problems or differences:
            raise Unexpected(f"The rooms should be what their log says, but {problems} {differences}.")
        count, took = len(self._latencies_ms), statistics.median(self._latencies_ms)
        self._screen.print("")
        self._screen.say(f"{self._turn_id} turns granted, 2 of them by takeover.", _GREEN)
        delivered = f"{count} handoffs delivered word for word; median {took:.1f} ms from call to your_turn."
        self._screen.say(delivered, _GREEN)
        self._screen.say(f"db verify: {rooms} room replayed, nothing differs.", _GREEN)
        if self._keep:
            self._screen.print(f"Read its log: {clean(command)}")
        self._screen.say("Next: `conch join` in your checkout, or add `conch mcp` to your harness.", _BOLD)

    def _clean_up(self) -> None:
        """Everybody leaves at the same time."""
        for agent in self._agents:
            agent.leave()
        for agent in self._agents:
            agent.wait_for_exit()
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)


def _words(data: Object) -> tuple[str, ...]:
    """What an answer says at length: why it is a refusal, or the handoff in it."""
    if handoff := data.get("handoff"):
        (artifact,) = handoff["artifacts"]
        return f'"{handoff["status"]}"', f"next: {handoff['next_action']} [plan.md:{artifact['lines'][0]}]"
    return (data["message"],) if "error" in data else ()


def _handle(handler: _Handler, *numbers: signal.Signals) -> None:
    """Handle some signals in this way from now on; those that are ignored stay so."""
    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    """Unwind instead of dying at once, so that the demo can clean up."""
    raise SystemExit(128 + number)


def _complain(text: str) -> None:
    print(f"conch demo: {clean(text)}", file=sys.stderr, flush=True)
