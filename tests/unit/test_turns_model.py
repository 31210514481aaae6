"""Random games of two to four agents, played with conch and with a small model of the rules at the same time.

The model knows the rules only: one room, its members in order, who owns or is offered the stick, two deadlines, when
each member was last seen and whether its process lives. Every answer and every derived state must be the same.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.callers import named

from conch.agents.records import Caller
from conch.app import open_app
from conch.errors import ConchError
from conch.host import processes
from conch.host.processes import Process
from conch.rooms.log import list_events
from conch.upkeep.verify import verify_store

AGENTS = ("codex:a", "claude:b", "gemini:c", "cursor:d")
MINUTE = 60_000
HOUR = 60 * MINUTE
DEFAULTS = {"owner_lease_ttl_ms": 45 * MINUTE, "claim_ttl_ms": 20 * MINUTE, "presence_ttl_ms": 4 * HOUR}
HEARTBEAT_MS = 5 * MINUTE
EPOCH_MS = 1_800_000_000_000

Answer = tuple[Any, ...]


class Refused(Exception):
    """The model says no, with this code."""


# -- the rules


class Seat:
    """A member as the rules see it; `process` is None when only time can tell whether it lives."""

    def __init__(self, seen: int, process: Process | None) -> None:
        self.seen = seen
        self.process = process


class Model:
    """One room by the rules alone. Times are milliseconds; refusals change nothing."""

    def __init__(self) -> None:
        self.now = EPOCH_MS
        self.dead: set[Process] = set()
        self.facts: dict[str, Process | None] = {}
        self.open_room()

    def open_room(self) -> None:
        self.seats: dict[str, Seat] = {}
        self.policy = dict(DEFAULTS)
        self.closed = False
        self.owner: str | None = None
        self.reserved_for: str | None = None
        self.turn_id = 0
        self.lease_id: str | None = None
        self.deadline: int | None = None  # the end of the lease while an agent owns the stick, else of the claim
        self.handoff: Answer | None = None  # (kind, author, text): what the next claimant will get
        self.received: Answer | None = None  # what the owner got
        self.pointer: str | None = None  # the member that the sequence goes on from
        self.log: list[Answer] = []

    # what is so at this moment

    def life(self, process: Process | None) -> str:
        if process is None or process.host_id != processes.host_id():
            return "unknown"
        return "gone" if process in self.dead else "alive"

    def is_gone(self, agent: str) -> bool:
        """Whether the process that speaks for an agent is known to have ended."""
        return self.life(self.facts[agent] or self.seats[agent].process) == "gone"

    def is_active(self, agent: str) -> bool:
        seat = self.seats[agent]
        return self.now - seat.seen < self.policy["presence_ttl_ms"] and self.life(seat.process) != "gone"

    @property
    def expected(self) -> str | None:
        return self.owner or self.reserved_for

    @property
    def is_late(self) -> bool:
        return self.deadline is not None and self.deadline <= self.now

    @property
    def is_dead(self) -> bool:
        return self.expected is not None and self.life(self.seats[self.expected].process) == "gone"

    @property
    def state(self) -> str:
        if self.closed:
            return "closed"
        if self.is_dead:
            return "owner_gone" if self.owner else "recipient_gone"
        if self.owner and self.is_late:
            return "stale_owner"
        if not any(self.is_active(agent) or self.life(seat.process) == "alive" for agent, seat in self.seats.items()):
            return "dormant"
        return "owned" if self.owner else "reserved" if self.reserved_for else "idle"

    @property
    def takeover_reason(self) -> str | None:
        if self.is_dead:
            return "owner_gone" if self.owner else "recipient_gone"
        if not self.is_late:
            return None
        return "owner_timeout" if self.owner else "claim_timeout"

    def may_take_over(self, agent: str) -> bool:
        if self.takeover_reason is None or agent == self.expected:
            return False
        if self.takeover_reason == "claim_timeout" and self.handoff and self.handoff[1] == agent:
            return not any(self.is_active(other) for other in self.seats if other not in (agent, self.reserved_for))
        return True

    # who may act

    def require_open(self) -> None:
        if self.closed:
            raise Refused("room_closed")

    def require_living_member(self, agent: str) -> None:
        if agent not in self.seats or self.is_gone(agent):
            raise Refused("unknown_member")

    def require_lease(self, agent: str, lease_id: str, turn_id: int) -> None:
        self.require_open()
        if turn_id != self.turn_id:
            raise Refused("turn_mismatch")
        if (agent, lease_id) != (self.owner, self.lease_id) or self.is_gone(agent):
            raise Refused("stale_lease")

    def see(self, agent: str) -> None:
        seat = self.seats[agent]
        seat.seen, seat.process = self.now, self.facts[agent] or seat.process

    def see_if_due(self, agent: str) -> None:
        """Waiting writes a sign of life only when the last one has aged, or is of another process."""
        seat, lease = self.seats[agent], self.policy["owner_lease_ttl_ms"]
        heartbeat = HEARTBEAT_MS if lease > HEARTBEAT_MS else max(1, lease // 3)
        age = min(heartbeat, self.policy["presence_ttl_ms"] // 4)
        if self.now - seat.seen >= age or self.facts[agent] not in (None, seat.process):
            self.see(agent)

    # what they do

    def join(self, agent: str) -> Answer:
        if self.closed:
            self.open_room()
        if agent not in self.seats:
            self.log.append(("join", None, self.turn_id))
        seat = self.seats.setdefault(agent, Seat(self.now, None))
        seat.seen, seat.process = self.now, self.facts[agent]
        return ("joined",)

    def wait(self, agent: str) -> Answer:
        self.require_living_member(agent)
        if not self.closed and self.owner == agent:
            self.see(agent)
            self.deadline = self.now + self.policy["owner_lease_ttl_ms"]
            return ("your_turn", "already_owner", self.turn_id, *(self.received or (None, None, None))[1:])
        if not self.closed and (self.expected is None or self.reserved_for == agent):
            self.see(agent)
            return self.claim(agent)
        self.see_if_due(agent)
        if self.closed:
            return ("closed",)
        if self.may_take_over(agent):
            return ("takeover_available", self.takeover_reason, self.turn_id, self.state)
        return ("not_yet", None, self.turn_id, self.state)

    def claim(self, agent: str) -> Answer:
        kind, author, text = self.handoff or (None, None, None)
        reason = "open_claim" if self.expected is None else "direct_pass" if kind == "pass" else "sequence"
        self.grant(agent, "claim", self.handoff)
        return ("your_turn", reason, self.turn_id, author, text)

    def grant(self, agent: str, kind: str, received: Answer | None) -> None:
        self.owner, self.reserved_for, self.handoff, self.received = agent, None, None, received
        self.turn_id += 1
        self.deadline = self.now + self.policy["owner_lease_ttl_ms"]
        self.log.append((kind, agent, self.turn_id))

    def take_over(self, agent: str, turn_id: int) -> Answer:
        self.require_open()
        self.require_living_member(agent)
        if turn_id != self.turn_id:
            raise Refused("turn_mismatch")
        if not self.may_take_over(agent):
            raise Refused("takeover_not_available")
        revoked = self.expected
        self.see(agent)
        self.grant(agent, "takeover", self.handoff or self.received)  # the last handoff survives
        return (self.turn_id, revoked)

    def heartbeat(self, agent: str, lease_id: str, turn_id: int) -> Answer:
        self.require_lease(agent, lease_id, turn_id)
        self.see(agent)
        self.deadline = self.now + self.policy["owner_lease_ttl_ms"]
        return (self.deadline,)

    def release(self, agent: str, lease_id: str, turn_id: int, text: str) -> Answer:
        self.require_lease(agent, lease_id, turn_id)
        order = list(self.seats)
        place = order.index(agent)
        active = [other for other in order[place + 1 :] + order[:place] if self.is_active(other)]
        return self.offer("release", agent, active[0] if active else None, text)

    def hand_to(self, agent: str, lease_id: str, turn_id: int, to: str, text: str) -> Answer:
        self.require_lease(agent, lease_id, turn_id)
        if to == agent:
            raise Refused("invalid_argument")
        if to not in self.seats or not self.is_active(to):
            raise Refused("unknown_member")
        return self.offer("pass", agent, to, text)

    def offer(self, kind: str, agent: str, to: str | None, text: str) -> Answer:
        self.see(agent)
        self.owner, self.lease_id, self.reserved_for = None, None, to
        self.handoff = kind, agent, text
        self.deadline = self.now + self.policy["claim_ttl_ms"] if to else None
        self.pointer = to or self.pointer
        self.log.append((kind, to, self.turn_id))
        return (to, self.deadline)

    def leave(self, agent: str) -> Answer:
        self.require_open()
        self.require_living_member(agent)
        if self.owner == agent:
            raise Refused("stick_held")
        del self.seats[agent]
        if self.pointer == agent:
            self.pointer = None
        if self.reserved_for == agent:
            self.reserved_for = self.deadline = None
        self.log.append(("leave", None, self.turn_id))
        return ()

    def note(self, agent: str) -> Answer:
        self.require_open()
        self.require_living_member(agent)
        self.see(agent)
        self.log.append(("note", None, self.turn_id))
        return ()

    def reorder(self, agent: str, order: list[str]) -> Answer:
        self.require_open()
        self.require_living_member(agent)
        if not order or not set(order) <= set(self.seats):
            raise Refused("invalid_argument")
        whole = [*order, *(each for each in self.seats if each not in order)]  # those left out go behind the others
        self.see(agent)
        self.seats = {each: self.seats[each] for each in whole}
        self.log.append(("reorder", None, self.turn_id))
        return ()

    def set_policy(self, agent: str, name: str, milliseconds: int | None) -> Answer:
        if milliseconds == 0:
            raise Refused("invalid_argument")
        self.require_open()
        self.require_living_member(agent)
        self.see(agent)
        self.policy[name] = DEFAULTS[name] if milliseconds is None else milliseconds
        self.log.append(("policy", None, self.turn_id))
        return ()

    def close(self, agent: str, lease_id: str, turn_id: int) -> Answer:
        self.require_lease(agent, lease_id, turn_id)
        self.see(agent)
        self.closed, self.owner, self.lease_id, self.deadline = True, None, None, None
        self.log.append(("close", None, self.turn_id))
        return ()


# -- processes that really die


class Nursery:
    """Living processes to lend to agents. Those still alive are used again, and all end with this one."""

    def __init__(self) -> None:
        self._running: dict[Process, subprocess.Popen[bytes]] = {}
        self._lent: set[Process] = set()

    def lend(self) -> Process:
        idle = [process for process in self._running if process not in self._lent]
        process = idle[0] if idle else self._start()
        self._lent.add(process)
        return process

    def _start(self) -> Process:
        popen = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        process = processes.look_up(popen.pid)
        assert process is not None
        self._running[process] = popen
        return process

    def kill(self, process: Process) -> None:
        popen = self._running.pop(process)
        popen.kill()
        popen.communicate()

    def take_back(self) -> None:
        self._lent.clear()

    def close(self) -> None:
        for process in list(self._running):
            self.kill(process)


NURSERY = Nursery()


@pytest.fixture(autouse=True, scope="module")
def nursery() -> Iterator[None]:
    yield
    NURSERY.close()


@pytest.fixture(autouse=True, scope="module")
def new_stores(put_store: Callable[[Path], None]) -> None:
    Game.put_store = staticmethod(put_store)


# -- the game

somebody = st.sampled_from([*["the expected one"] * 6, *["the one after"] * 2, *AGENTS])
another = st.sampled_from([*["the one after"] * 6, "the one before", "the one before", *AGENTS])
places = st.sampled_from(["here", "here", "elsewhere", "unknown"])
keys = st.sampled_from([*["right"] * 6, "old", "forged", "of another turn"])
moments = st.sampled_from([1, 1_000, *[20 * MINUTE] * 4, *[45 * MINUTE] * 4, 4 * HOUR, 5 * HOUR, -HOUR])
MOVES: dict[str, tuple[int, tuple[st.SearchStrategy[Any], ...]]] = {
    "join": (2, (st.sampled_from(AGENTS),)),
    "wait": (8, (st.one_of(somebody, another),)),
    "heartbeat": (2, (somebody, keys)),
    "release": (4, (somebody, keys)),
    "hand_to": (4, (somebody, keys, another)),
    "take_over": (5, (another, st.sampled_from([*[0] * 6, -1, 1]))),
    "leave": (1, (somebody,)),
    "note": (1, (somebody,)),
    "reorder": (1, (somebody, st.permutations(AGENTS), st.sampled_from([True, True, True, False]))),
    "set_policy": (1, (somebody, st.sampled_from(sorted(DEFAULTS)), st.sampled_from([1, 10_000, None, 0]))),
    "close": (1, (somebody, st.sampled_from(["right", "old"]))),
    "let_time_pass": (4, (moments,)),
    "die": (2, (somebody,)),
    "come_back": (2, (somebody, places)),
}
"""Each move, how often it is made, and with what: most of them make sense, so that games get somewhere."""
CHOICES = {name: st.tuples(st.just(name), *given) for name, (_, given) in MOVES.items()}  # made once, not in each move
moves = st.sampled_from([name for name, (weight, _) in MOVES.items() for _ in range(weight)]).flatmap(
    CHOICES.__getitem__
)


class Game(RuleBasedStateMachine):
    engine: dict[str, str] = {}
    """What selects another one than the default."""
    put_store: Callable[[Path], None]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.folder = tempfile.TemporaryDirectory(prefix="conch-model-")
        self.put_store(Path(self.folder.name, "data"))
        environ = {"HOME": self.folder.name, "CONCH_DATA_DIR": f"{self.folder.name}/data", **self.engine}
        self.moves = 0  # no two of them happen in the same microsecond
        self.app = open_app(environ, lambda: self.model.now * 1_000 + self.moves)
        self.room_id = ""
        self.leases: list[tuple[str, int]] = []
        self.written = 0

    @initialize(count=st.sampled_from([2, 3, 3, 4, 4]), where=st.lists(places, min_size=4, max_size=4))
    def sit_down(self, count: int, where: list[str]) -> None:
        for agent, place in zip(AGENTS, where, strict=True):
            self.model.facts[agent] = self.process_at(place)
            named(self.app.store, agent, self.model.facts[agent])
        for agent in AGENTS[:count]:
            self.join(agent)

    def teardown(self) -> None:
        assert verify_store(self.app.store).problems == []
        assert len(set(self.leases)) == len({lease_id for lease_id, _ in self.leases})
        if self.engine:
            self.app.store.wipe()
        self.app.close()
        self.folder.cleanup()
        NURSERY.take_back()

    # helpers

    def process_at(self, place: str) -> Process | None:
        if place == "here":
            return NURSERY.lend()
        return Process("another-host", "another-boot", 4_000_000, 1) if place == "elsewhere" else None

    def who(self, name: str) -> str:
        """An agent by its id, or by where it sits as seen from the one whose move it is."""
        if name in AGENTS:
            return name
        order = list(self.model.seats) or [AGENTS[0]]
        place = order.index(self.model.expected) if self.model.expected else 0
        steps = {"the expected one": 0, "the one after": 1, "the one before": -1}[name]
        return order[(place + steps) % len(order)]

    def caller(self, agent: str) -> Caller:
        return Caller(agent, agent, self.model.facts[agent], "mcp_harness", None)

    def key(self, kind: str) -> tuple[str, int]:
        lease_id, turn_id = self.model.lease_id or "lease_none", self.model.turn_id
        if kind == "old" and self.leases:
            return self.leases[len(self.leases) // 2]
        if kind == "forged":
            return lease_id + "0", turn_id
        return lease_id, turn_id + (kind == "of another turn")

    def write_down(self) -> dict[str, str]:
        self.written += 1
        return {"status": f"handoff {self.written}", "next_action": "go on"}

    def play(self, expected: Callable[[], Answer], actual: Callable[[], Answer]) -> Answer:
        """Make the same move on both sides. The model goes first, because it gives conch the time and the facts."""
        outcomes: list[Answer] = []
        for move, refusal in ((expected, Refused), (actual, ConchError)):
            try:
                outcomes.append(("accepted", *move()))
            except refusal as error:
                outcomes.append(("refused", getattr(error, "code", None) or str(error)))
        assert outcomes[1] == outcomes[0], f"conch says {outcomes[1]}, the rules say {outcomes[0]}"
        return outcomes[0]

    def note_lease(self, lease_id: str | None, turn_id: int) -> None:
        assert lease_id is not None
        if lease_id != self.model.lease_id:
            self.model.lease_id = lease_id
            self.leases.append((lease_id, turn_id))

    @rule(move=moves)
    def make(self, move: tuple[Any, ...]) -> None:
        self.moves += 1
        getattr(self, move[0])(*move[1:])

    # moves

    def join(self, name: str) -> None:
        agent = self.who(name)

        def join() -> Answer:
            self.room_id = self.app.membership.join_path(self.caller(agent), self.folder.name).snapshot.room.room_id
            return ("joined",)

        self.play(lambda: self.model.join(agent), join)

    def wait(self, name: str) -> None:
        agent = self.who(name)

        def wait() -> Answer:
            wait = self.app.claims.wait_for_turn(self.caller(agent), self.room_id, max_wait_ms=0)
            room = wait.snapshot.room
            if wait.status == "closed":
                return ("closed",)
            if wait.status == "your_turn":
                self.note_lease(room.lease_id, room.turn_id)
                text = wait.handoff["status"] if wait.handoff else None
                return (wait.status, wait.reason, room.turn_id, wait.from_agent_id, text)
            return (wait.status, wait.reason, room.turn_id, wait.snapshot.state)

        self.play(lambda: self.model.wait(agent), wait)

    def heartbeat(self, name: str, key: str) -> None:
        agent, (lease_id, turn_id) = self.who(name), self.key(key)

        def heartbeat() -> Answer:
            room = self.app.turns.heartbeat(self.caller(agent), self.room_id, lease_id, turn_id)
            return ((room.lease_expires_at or 0) // 1_000,)

        self.play(lambda: self.model.heartbeat(agent, lease_id, turn_id), heartbeat)

    def release(self, name: str, key: str) -> None:
        agent, (lease_id, turn_id), handoff = self.who(name), self.key(key), self.write_down()

        def release() -> Answer:
            room = self.app.turns.release_stick(self.caller(agent), self.room_id, lease_id, turn_id, handoff).room
            return (room.reserved_for, room.claim_expires_at and room.claim_expires_at // 1_000)

        self.play(lambda: self.model.release(agent, lease_id, turn_id, handoff["status"]), release)

    def hand_to(self, name: str, key: str, recipient: str) -> None:
        agent, (lease_id, turn_id), handoff = self.who(name), self.key(key), self.write_down()
        to = self.who(recipient)

        def hand_to() -> Answer:
            room = self.app.turns.pass_stick(self.caller(agent), self.room_id, lease_id, turn_id, to, handoff).room
            return (room.reserved_for, room.claim_expires_at and room.claim_expires_at // 1_000)

        self.play(lambda: self.model.hand_to(agent, lease_id, turn_id, to, handoff["status"]), hand_to)

    def take_over(self, name: str, late: int) -> None:
        agent, turn_id = self.who(name), self.model.turn_id + late

        def take_over() -> Answer:
            taken = self.app.claims.takeover_stick(self.caller(agent), self.room_id, turn_id, "it does not answer")
            self.note_lease(taken.room.lease_id, taken.room.turn_id)
            return (taken.room.turn_id, taken.revoked)

        self.play(lambda: self.model.take_over(agent, turn_id), take_over)

    def leave(self, name: str) -> None:
        agent = self.who(name)

        def leave() -> Answer:
            self.app.membership.leave_path(self.caller(agent), self.room_id)
            return ()

        self.play(lambda: self.model.leave(agent), leave)

    def note(self, name: str) -> None:
        agent = self.who(name)

        def note() -> Answer:
            self.app.membership.append_note(self.caller(agent), self.room_id, "by the way")
            return ()

        self.play(lambda: self.model.note(agent), note)

    def reorder(self, name: str, order: list[str], complete: bool) -> None:
        agent = self.who(name)
        given = [each for each in order if each in self.model.seats] if complete else order[1:]

        def reorder() -> Answer:
            self.app.membership.reorder_members(self.caller(agent), self.room_id, given)
            return ()

        self.play(lambda: self.model.reorder(agent, given), reorder)

    def set_policy(self, name: str, value: str, milliseconds: int | None) -> None:
        agent = self.who(name)

        def set_policy() -> Answer:
            self.app.membership.set_room_policy(self.caller(agent), self.room_id, {value: milliseconds})
            return ()

        self.play(lambda: self.model.set_policy(agent, value, milliseconds), set_policy)

    def close(self, name: str, key: str) -> None:
        agent, (lease_id, turn_id) = self.who(name), self.key(key)

        def close() -> Answer:
            self.app.membership.close_room(self.caller(agent), self.room_id, lease_id, turn_id, None)
            return ()

        self.play(lambda: self.model.close(agent, lease_id, turn_id), close)

    def let_time_pass(self, milliseconds: int) -> None:
        self.model.now += milliseconds

    def die(self, name: str) -> None:
        process = self.model.facts[self.who(name)]
        if self.model.life(process) == "alive":
            assert process is not None
            NURSERY.kill(process)
            self.model.dead.add(process)

    def come_back(self, name: str, place: str) -> None:
        self.model.facts[self.who(name)] = self.process_at(place)

    # what anybody sees at any time

    @invariant()
    def the_room_looks_the_same_from_outside(self) -> None:
        if not self.room_id:
            return
        model, snapshot = self.model, self.app.rooms.get_state(None, self.room_id)
        room = snapshot.room
        assert (snapshot.state, snapshot.takeover_reason) == (model.state, model.takeover_reason)
        assert (room.owner, room.reserved_for, room.turn_id) == (model.owner, model.reserved_for, model.turn_id)
        assert room.lease_id == model.lease_id
        assert (room.pending_handoff_event_seq is None) == (model.handoff is None)
        deadline = room.lease_expires_at or room.claim_expires_at
        assert (deadline and deadline // 1_000) == model.deadline
        with self.app.rooms.look(None, self.room_id) as (_, whole):
            members = whole.roll.everyone()
        assert [(m.agent_id, m.last_seen_at // 1_000, whole.is_active(m)) for m in members] == [
            (agent, seat.seen, model.is_active(agent)) for agent, seat in model.seats.items()
        ]
        if model.pointer is not None:
            assert snapshot.member(model.pointer).ordinal == room.sequence_index
        for agent in AGENTS:
            allowed = agent in model.seats and model.may_take_over(agent)
            assert self.app.claims.takeover_is_open(self.caller(agent), snapshot) == allowed

    @invariant()
    def the_log_tells_the_same_story(self) -> None:
        if not self.room_id:
            return
        events = list_events(self.app.store, self.room_id, 0, 500).events
        assert [(e.event_type, e.to_agent_id, e.turn_id) for e in events] == self.model.log


class PostgresGame(Game):
    """Played less often: it takes several times as long, and the rules are the same code."""


@pytest.fixture(scope="class")
def on_postgres(postgres: Any) -> None:
    PostgresGame.engine = {"CONCH_STORE": postgres.url}


TestGame = Game.TestCase
TestGame.settings = settings(max_examples=120, stateful_step_count=50, derandomize=True, deadline=None)
TestPostgresGame = pytest.mark.usefixtures("on_postgres")(PostgresGame.TestCase)
TestPostgresGame.settings = settings(max_examples=10, stateful_step_count=50, derandomize=True, deadline=None)


def test_a_deserted_room_treats_a_returning_agent_by_the_rules() -> None:
    game = Game()
    game.sit_down(2, ["unknown"] * 4)

    for move in [("wait", "codex:a"), ("release", "codex:a", "right"), ("let_time_pass", 5 * HOUR)]:
        game.make(move)
    game.make(("wait", "codex:a"))

    game.teardown()
