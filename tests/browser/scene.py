"""A room with an hour of history: turns, handoffs, a crash, notices, reservations, questions and a work item.

The agents are processes that can be killed. They act through the library, on the store that the console serves.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from tests.callers import named

from conch.agents.records import Caller
from conch.app import App, open_app
from conch.bus.drafts import Draft
from conch.clock import MINUTE, system_clock
from conch.errors import ConchError
from conch.host import processes
from conch.turns.waiting import Wait

BEAD = "bb-12"
LEXER = {
    "status": "The lexer is done; **tabs matter** and are tested.",
    "next_action": "Wire it into the parser, then run the slow tests.",
    "artifacts": [
        {"path": "src/lexer.py", "lines": [1, 80], "role": "review"},
        {"path": "src/parser.py", "role": "edit"},
    ],
    "do_not": ["touch `README.md`"],
}


class Clock:
    """Begins an hour ago. The play moves it on to the present."""

    def __init__(self) -> None:
        self.behind = 60 * MINUTE

    def __call__(self) -> int:
        return system_clock() - self.behind

    def move(self, minutes: int) -> None:
        self.behind = max(0, self.behind - minutes * MINUTE)


class Agent(NamedTuple):
    """A harness: a process of its own, and how it calls conch."""

    caller: Caller
    process: subprocess.Popen[bytes]


class Scene:
    def __init__(self, environ: dict[str, str], workspace: Path) -> None:
        self.clock = Clock()
        self.environ = environ
        self.app: App = open_app(environ, self.clock)
        self.workspace = workspace
        self.agents: dict[str, Agent] = {}
        self.room_id = ""
        self.turn: Any = None

    def close(self) -> None:
        for agent in self.agents.values():
            agent.process.kill()
            agent.process.wait()
        self.app.close()

    # -- what an agent does

    def join(self, agent_id: str, name: str) -> Caller:
        process = subprocess.Popen(["sleep", "3600"])
        caller = named(self.app.store, agent_id, processes.look_up(process.pid))
        self.agents[name] = Agent(caller, process)
        self.room_id = self.app.membership.join_path(caller, str(self.workspace)).snapshot.room.room_id
        self.app.registration.register(caller, self.room_id, name)
        return caller

    def who(self, name: str) -> Caller:
        return self.agents[name].caller

    def kill(self, name: str) -> None:
        self.agents[name].process.kill()
        self.agents[name].process.wait()

    def claim(self, name: str) -> Wait:
        wait = self.app.claims.wait_for_turn(self.who(name), self.room_id, max_wait_ms=0)
        assert wait.status == "your_turn", wait
        self.turn = wait.snapshot.room
        return wait

    def hand_over(self, name: str, to: str, handoff: dict[str, Any]) -> None:
        lease = (self.turn.lease_id, self.turn.turn_id)
        self.app.turns.pass_stick(self.who(name), self.room_id, *lease, self.who(to).agent_id, handoff)
        self.claim(to)

    def take_over(self, name: str, reason: str) -> None:
        taken = self.app.claims.takeover_stick(self.who(name), self.room_id, self.turn.turn_id, reason)
        self.turn = taken.room

    def say(self, name: str, text: str, kind: str = "message", reply_to: str | None = None, to: str = "") -> str:
        peer = self.app.peers.join_as_itself(self.who(name), self.topic_id)
        about = json.dumps({"to": [to]}) if to else None
        return self.app.messages.send(peer, [Draft(text, kind, reply_to, about)])[0].message.message_id

    def ask(self, name: str, text: str) -> str:
        peer = self.app.peers.join_as_itself(self.who(name), self.topic_id)
        return self.app.questions.ask(peer, text).question.question_id

    def reserve(self, name: str, scope: str, minutes: int = 120, bead_id: str | None = None) -> None:
        self.app.reservations.reserve(self.who(name), self.room_id, scope, minutes, bead_id=bead_id)

    def run_into(self, name: str, scope: str) -> None:
        """Reserve what another agent has reserved: refused, and the owner gets a notice."""
        try:
            self.reserve(name, scope)
        except ConchError:
            return
        raise AssertionError(f"{scope} was free")

    def block(self, name: str, to: str, subject: str, bead_id: str | None = None) -> None:
        payload = {
            "subject": subject,
            "blocker": "Two modules define the same token.",
            "requested_action": "Choose one of them.",
            "urgency": "high",
            "requires_ack": True,
        }
        self.app.notices.send(self.who(name), self.room_id, "BLOCKED", to, payload, bead_id)

    @property
    def topic_id(self) -> str:
        return str(self.app.rooms.get_state(None, self.room_id).room.topic_id)

    # -- the play

    def play(self) -> None:
        self._resume()
        self._work()
        self._crash()
        self.clock.move(60)
        for agent in self.agents.values():
            if agent.process.poll() is None:
                self.app.registration.heartbeat(agent.caller, self.room_id)
        self.app.turns.heartbeat(self.who("deft-osprey"), self.room_id, self.turn.lease_id, self.turn.turn_id)

    def _resume(self) -> None:
        """An agent died with uncommitted files. A new session of it goes on from there."""
        subprocess.run(["git", "init", "-q", str(self.workspace)], check=True)
        self.join("claude:first", "deft-osprey")
        self.reserve("deft-osprey", "src/")
        (self.workspace / "src").mkdir()
        (self.workspace / "src" / "parser.py").write_text("tokens = []\n")
        self.kill("deft-osprey")
        old = self.agents.pop("deft-osprey")
        self.clock.move(2)
        self.join("claude:second", "first-light")
        self.agents["deft-osprey"] = self.agents.pop("first-light")
        self.app.adoption.adopt(self.who("deft-osprey"), self.room_id, "deft-osprey", "src")
        self.app.reservations.release(self.who("deft-osprey"), self.room_id, "src/")
        assert old.process.poll() is not None

    def _work(self) -> None:
        self.join("codex:a", "ivory-swan")
        self.join("gemini:a", "noble-birch")
        self.join("cursor:a", "tall-reed")
        self.claim("deft-osprey")
        self.reserve("deft-osprey", "src/parser.py")
        self.clock.move(11)
        self.hand_over("deft-osprey", "ivory-swan", {"status": "Read the parser.", "next_action": "Write the lexer."})
        self.reserve("ivory-swan", "src/lexer.py", 90, BEAD)
        self.clock.move(9)
        self.hand_over("ivory-swan", "noble-birch", {"status": "Half of the lexer.", "next_action": "Test the tabs."})
        self.run_into("noble-birch", "src/parser.py")
        self.reserve("noble-birch", "docs/guide/", 150)
        self.clock.move(8)
        self.hand_over("noble-birch", "deft-osprey", {"status": "Tabs fail.", "next_action": "Accept tabs."})
        self.say("ivory-swan", "Section 3 is a guess, mind the dates.")
        self.clock.move(6)
        self.hand_over("deft-osprey", "ivory-swan", {"status": "Tabs pass.", "next_action": "Finish the lexer."})
        self.block("ivory-swan", "deft-osprey", "Which token for a tab?", BEAD)
        self.clock.move(5)

    def _crash(self) -> None:
        self.hand_over("ivory-swan", "tall-reed", LEXER)
        self.reserve("tall-reed", "api/", 60)
        (self.workspace / "api").mkdir()
        for name in ("routes", "errors", "limits"):
            (self.workspace / "api" / f"{name}.py").write_text("# begun\n")
        self.clock.move(4)
        self.kill("tall-reed")
        self.clock.move(1)
        self.take_over("deft-osprey", "tall-reed has crashed")
        self.app.membership.append_note(self.who("deft-osprey"), self.room_id, "Refactoring the parser.")
        self.say("deft-osprey", "Seen; I will check them against `CHANGES`.")
        self.clock.move(2)
        self.ask("noble-birch", "May I change `render()`? The tests in `docs/` pin its output.")
