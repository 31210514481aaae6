"""`conch demo`: three scripted agents share a scratch checkout. They take turns, skip a member, fail and recover.

Each agent speaks MCP to a real `conch mcp` of its own. The script checks every reply, and shows what the replies say.
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
from contextlib import closing

from conch.app import open_app
from conch.doors.cli.demo_agents import Agent, Object, Unexpected
from conch.doors.cli.output import abandon_stream, clean
from conch.errors import ConchError
from conch.lean import Any
from conch.rooms.verify import verify_rooms
from conch.tools.text import one_line

_CAST = {  # each agent's id, and the name that its harness gives to a server
    "codex": ("codex:demo", "codex-mcp-client"),
    "claude": ("claude-code:demo", "claude-code"),
    "gemini": ("gemini:demo", "gemini-cli-mcp-client"),
}
_NAMES = {agent_id: name for name, (agent_id, _) in _CAST.items()}
_FILES = {
    "AGENTS.md": "Scratch checkout of `conch demo`. Call join_path before you change anything.\n",
    "plan.md": "# Plan\n\n1. Find the slow query.\n2. Cache its result.\n3. Expire the cache.\n",
}
_FOREIGN = ("CONCH_", "TALKING_STICK_", "AGENT_BUS_", "BB_")  # settings of the user's own store
_SHORT_CLAIM_TTL_MS = 700
_LINE_SECONDS, _ACT_SECONDS = 0.12, 0.5
_INDENT = 22
_BOLD, _DIM, _RED, _GREEN = "1", "2", "31", "32"
_COLOURS = {"codex": "36", "claude": "33", "gemini": "35"}


def run_demo(keep: bool) -> int:
    """Play the demo and return 0 if all went well, else 1. `keep` leaves the scratch directory behind."""
    try:
        _Demo(keep).run()
        return 0
    except (ConchError, Unexpected, OSError) as problem:
        if not isinstance(problem, BrokenPipeError):  # the reader has seen enough
            print(f"conch demo: {clean(str(problem))}", file=sys.stderr, flush=True)
        abandon_stream(sys.stdout)
        return 1


class _Screen:
    """Standard output. A terminal gets colour, and pauses so that a person can follow."""

    def __init__(self) -> None:
        self._began = time.monotonic_ns()
        self._paced = sys.stdout.isatty()
        self._coloured = self._paced and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._width = max(40, min(shutil.get_terminal_size().columns, 110))

    def headline(self, title: str, about: str) -> None:
        self.say(about, _DIM, f"\n{self._paint(title, _BOLD)}  ", len(title) + 2, _ACT_SECONDS)

    def show(self, at: int, who: str, text: str, colour: str = "") -> None:
        """Add to the timeline: when (in monotonic nanoseconds), who, and what."""
        moment = self._paint(f"{(at - self._began) / 1e6:9.1f} ms  ", _DIM)
        self.say(text, colour, f"{moment}{self._paint(who.ljust(6), _COLOURS[who])}  ", _INDENT, _LINE_SECONDS)

    def quote(self, text: str) -> None:
        self.say(text, _DIM, indent=_INDENT + 2, seconds=_LINE_SECONDS)

    def say(self, text: str, colour: str = "", prefix: str = "", indent: int = 0, seconds: float = 0.0) -> None:
        for line in textwrap.wrap(one_line(text), self._width - indent, break_on_hyphens=False):
            print(prefix or " " * indent, self._paint(line, colour), sep="", flush=True)
            prefix = ""
            if self._paced:
                time.sleep(seconds)

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._coloured and colour else text


class _Demo:
    """The scratch directory, the agents in it, and the state of the play."""

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self._screen = _Screen()
        self._folder = os.path.realpath(tempfile.mkdtemp(prefix="conch-demo-"))
        self._checkout, self._data = (os.path.join(self._folder, name) for name in ("checkout", "data"))
        self._agents: dict[str, Agent] = {}
        self._room_id, self._turn_id, self._lease_id = "", 0, ""
        self._handoff: Object = {}  # the latest one
        self._since = 0  # when the stick was last handed over, or its owner killed
        self._latencies_ms: list[float] = []

    def run(self) -> None:
        _handle_signals(lambda number, _: sys.exit(128 + number), signal.SIGTERM, signal.SIGHUP)
        try:
            self._prepare()
            for act in (self._round_robin, self._explicit_skip, self._missed_recipient, self._crashed_owner):
                act()
            self._sum_up()
        finally:  # a second Ctrl-C must not stop the clean-up
            _handle_signals(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            self._clean_up()

    # -- the script

    def _round_robin(self) -> None:
        self._screen.headline("Act 1: round robin", "The next in sequence gets the stick and the handoff.")
        for name in _CAST:
            self._join(name)
        at, data = self._call("gemini", "get_room_state")
        sequence = " -> ".join(_NAMES[member] for member in data["room"]["members"])
        self._screen.show(at, "gemini", f"sees the sequence {sequence}; state {data['room']['state']}")
        self._call("codex", "wait_for_turn", "claimed turn {turn_id}: the stick was free", {"status": "your_turn"})
        self._look("claude", "must wait")
        self._hand_over("codex", "claude", "wrote the plan, steps 1 to 3", "look for gaps in it", 1)
        self._hand_over("claude", "gemini", "read the plan; step 3 is thin on stale entries", "say more in step 3", 5)
        self._hand_over("gemini", "codex", "step 3 now covers stale entries", "start on step 1", 3)

    def _explicit_skip(self) -> None:
        self._screen.headline("Act 2: an explicit skip", "The owner chooses; the sequence goes on from there.")
        self._hand_over("codex", "gemini", "step 2 may race with a second writer", "does the lease cover it?", 4, True)
        self._look("claude", "must wait")
        self._hand_over("gemini", "codex", "the lease covers it: no race", "write step 2", 4)

    def _missed_recipient(self) -> None:
        self._screen.headline("Act 3: a missed recipient", "An agent that does not answer cannot block the room.")
        limit = {"claim_ttl_ms": _SHORT_CLAIM_TTL_MS}
        self._call("codex", "set_room_policy", "set the room's claim_ttl_ms to {policy[claim_ttl_ms]}", policy=limit)
        self._wait("gemini")
        self._let_go("codex", "claude", "step 2 is written", "test it", 4)
        self._see_takeover("claim_timeout", "gemini")
        asked = {"expected_turn_id": self._turn_id, "reason": "claim timeout expired"}
        refusal = {"error": "takeover_not_available"}
        self._call("codex", "takeover_stick", "wants it back: refused, {error}", refusal, **asked)
        self._take_over("gemini", "claude")
        self._look("claude", "comes too late")
        self._call("gemini", "set_room_policy", policy={"claim_ttl_ms": None})

    def _crashed_owner(self) -> None:
        self._screen.headline("Act 4: a crashed owner", "The others see the crash at once. The old lease is void.")
        self._hand_over("gemini", "claude", "tested step 2: it holds", "you missed a turn; take step 3", 5, True)
        lost = self._lease()
        self._wait("codex", "gemini")
        self._crash("claude")
        self._see_takeover("owner_gone", "codex", "gemini")
        self._take_over("codex", "claude")
        self._join("claude")
        lost["handoff"] = {"status": "step 3 is done", "next_action": "check it"}
        for turn_id, error in ((lost["expected_turn_id"], "turn_mismatch"), (self._turn_id, "stale_lease")):
            lost["expected_turn_id"] = turn_id
            attempt = f"releases turn {turn_id} with its old lease: refused, {{error}}"
            self._call("claude", "release_stick", attempt, {"error": error}, **lost)

    # -- moves: each makes its calls, checks the replies, and shows them

    def _join(self, name: str) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        environ = {**own, "CONCH_DATA_DIR": self._data}
        agent = self._agents[name] = Agent(name, *_CAST[name], self._checkout, environ)
        agent.connect()
        agent.start("join_path", context_path=self._checkout)
        at, data = agent.reply(agent_id=agent.agent_id)
        self._room_id = data["room_id"]
        self._show(name, at, data, f"joined as {{agent_id}} ({{name}}), process {agent.pid}")

    def _look(self, name: str, text: str) -> None:
        """Ask for the stick while another agent holds it."""
        text += ": not_yet, {owner} holds the stick (turn {turn_id})"
        self._call(name, "wait_for_turn", text, {"status": "not_yet"}, max_wait_ms=0)

    def _wait(self, *names: str) -> None:
        """Begin to wait for the stick. Another move gets the replies."""
        for name in names:
            self._agents[name].start("wait_for_turn", room_id=self._room_id)
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
        choice = {"to_agent_id": _CAST[to][0]} if passing else {}
        agent = self._agents[owner]
        agent.start(tool, **self._lease(), **choice, handoff=self._handoff)
        _, data = agent.reply(state="reserved", reserved_for=_CAST[to][0])
        self._since = agent.sent_at
        self._show(owner, self._since, data, f"{verb} the stick: reserved for {to}, who is {{recipient_status}}")

    def _see_takeover(self, reason: str, *names: str) -> None:
        """The agents' waits end, in any order, because a takeover is open."""
        replies = [(*self._agents[name].reply(status="takeover_available", reason=reason), name) for name in names]
        for at, data, name in sorted(replies, key=lambda reply: reply[0]):
            self._show(name, at, data, "learns {ms} later: {status}, {reason}")

    def _take_over(self, name: str, revoked: str) -> None:
        """A takeover brings no handoff, so the agent looks for the last one in the log."""
        asked = {"expected_turn_id": self._turn_id, "reason": f"{revoked} does not answer"}
        text = f"took over: turn {{turn_id}}; {revoked} is revoked"
        self._call(name, "takeover_stick", text, {"revoked": _CAST[revoked][0]}, **asked)
        at, log = self._call(name, "get_room_events")
        *_, last = (event for event in log["events"] if event["handoff"] is not None)
        if last["handoff"] != self._handoff:
            raise Unexpected(f"{name} should find {self._handoff}, but the log ends with {last}.")
        self._show(name, at, last, f"reads the log; the last handoff is from {_NAMES[last['from_agent_id']]}:")

    def _crash(self, name: str) -> None:
        self._since = time.monotonic_ns()
        self._agents[name].crash()
        text = f"is killed holding the stick: SIGKILL to process {self._agents[name].pid}"
        self._screen.show(self._since, name, text, _RED)
        self._agents[name].wait_for_exit()

    def _call(
        self, name: str, tool: str, text: str = "", expected: Object | None = None, **given: Any
    ) -> tuple[int, Object]:
        self._agents[name].start(tool, **{"room_id": self._room_id, **given})
        at, data = self._agents[name].reply(**expected or {})
        if text:
            self._show(name, at, data, text)
        return at, data

    def _lease(self) -> Object:
        """The arguments that every call of the owner carries."""
        return {"room_id": self._room_id, "lease_id": self._lease_id, "expected_turn_id": self._turn_id}

    def _show(self, name: str, at: int, data: Object, text: str) -> None:
        """Show a reply, and keep its lease. The text may name fields of it, the `owner`, and `ms` since `_since`."""
        if data.get("lease_id"):
            self._turn_id, self._lease_id = data["turn_id"], data["lease_id"]
        owner = _NAMES.get(data.get("current_owner") or "", "nobody")
        colour = _RED if "error" in data else _GREEN if data.get("lease_id") else ""
        self._screen.show(at, name, text.format(ms=f"{(at - self._since) / 1e6:.1f} ms", owner=owner, **data), colour)
        if handoff := data.get("handoff"):
            self._screen.quote(f'"{handoff["status"]}"')
            self._screen.quote(f"next: {handoff['next_action']} [plan.md:{handoff['artifacts'][0]['lines'][0]}]")
        elif "error" in data:
            self._screen.quote(data["message"])

    # -- before and after

    def _prepare(self) -> None:
        self._screen.say("conch demo: three scripted agents share one checkout.", _BOLD)
        self._screen.say("Each is a process of its own and speaks MCP to its own `conch mcp`.")
        until = "kept" if self._keep else "removed at the end"
        print(f"Scratch directory, {until}: {clean(self._folder)}", flush=True)
        os.mkdir(self._checkout)
        for name, text in _FILES.items():
            with open(os.path.join(self._checkout, name), "w", encoding="utf-8") as file:
                file.write(text)

    def _sum_up(self) -> None:
        with closing(open_app({"CONCH_DATA_DIR": self._data})) as app:
            problems, (rooms, differences) = app.store.integrity_problems(), verify_rooms(app.store)
            command = shlex.join(["conch", "events", "--store", app.store.describe(), "--path", self._checkout])
        if problems or differences:
            raise Unexpected(f"The rooms should be what their log says, but {problems} {differences}.")
        count, took = len(self._latencies_ms), statistics.median(self._latencies_ms)
        print(flush=True)
        self._screen.say(f"{self._turn_id} turns granted, 2 of them by takeover.", _GREEN)
        delivered = f"{count} handoffs delivered word for word; median {took:.1f} ms from call to your_turn."
        self._screen.say(delivered, _GREEN)
        self._screen.say(f"db verify: {rooms} room replayed, nothing differs.", _GREEN)
        if self._keep:
            print(f"Read its log: {clean(command)}", flush=True)
        self._screen.say("Next: `conch join` in your checkout, or add `conch mcp` to your harness.", _BOLD)

    def _clean_up(self) -> None:
        """All agents leave at the same time."""
        for agent in self._agents.values():
            agent.leave()
        for agent in self._agents.values():
            agent.wait_for_exit()
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)


def _handle_signals(handler: Any, *numbers: signal.Signals) -> None:
    """Set the handler of some signals; those that are ignored stay ignored."""
    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)
