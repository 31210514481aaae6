"""The moves of the play: each makes the calls of one move, checks the replies, and tells what they say."""

from __future__ import annotations

from conch.doors.cli.demo.actors import Actor, Pending, Reply, Unexpected
from conch.doors.cli.demo.pipes import Object
from conch.doors.cli.demo.screen import GREEN, RED, Screen
from conch.typed import Any, NamedTuple


class Turn(NamedTuple):
    """A turn that somebody was granted."""

    turn_id: int
    lease_id: str


class Offer(NamedTuple):
    """A stick that was let go: by whom, how, when, and what was written."""

    by: Actor
    verb: str
    at: int
    handoff: Object


class Play:
    """One room, as far as the play has got. The script says what is expected; what is told comes from replies."""

    def __init__(self, screen: Screen, names: dict[str, str]) -> None:
        self.screen = screen
        self.room_id = ""
        self.turn = Turn(0, "")
        self.latencies_ms: list[float] = []
        self.takeovers = 0
        self._names = names
        self._waits: dict[str, Pending] = {}

    # -- coming and waiting

    def join(self, actor: Actor, path: str) -> None:
        """Come in. The server must take the scripted agent for the process to go by, whatever runs the demo."""
        reply = self.call(actor, "join_path", context_path=path)
        self.expect(actor, reply, agent_id=actor.role.agent_id)
        pids = {member["agent_id"]: member["pid"] for member in reply.data["members"]}
        pid = pids.get(actor.role.agent_id)
        if pid != actor.pid:
            raise self._surprise(actor, reply, f"go by process {actor.pid}")
        self.room_id = reply.data["room_id"]
        how = "made the room" if reply.data["created"] else "joined"
        text = f"{how} as {reply.data['agent_id']} ({reply.data['name']}), process {pid}"
        self.tell(reply.arrived_at, actor, text)

    def look_round(self, actor: Actor) -> None:
        reply = self.call(actor, "get_room_state", room_id=self.room_id)
        self.expect(actor, reply)
        sequence = " -> ".join(map(self.name_of, reply.data["room"]["members"]))
        self.tell(reply.arrived_at, actor, f"sees the sequence {sequence}; state {reply.data['room']['state']}")

    def claim(self, actor: Actor) -> None:
        """Take a stick that nobody has."""
        reply = self.look(actor)
        self.expect(actor, reply, status="your_turn", reason="open_claim", turn_id=self.turn.turn_id + 1)
        self._grant(reply)
        self.tell(reply.arrived_at, actor, f"claimed turn {self.turn.turn_id}: nobody had the stick", colour=GREEN)

    def look(self, actor: Actor) -> Reply:
        """Ask for the stick without waiting."""
        return self.call(actor, "wait_for_turn", room_id=self.room_id, max_wait_ms=0)

    def wait(self, actor: Actor, *, silent: bool = False, **arguments: Any) -> None:
        """Begin to wait. What comes of it is for `waited` or `receive`."""
        pending = actor.start("wait_for_turn", room_id=self.room_id, **arguments)
        at, news = actor.until_waiting(pending)
        self._waits[actor.role.name] = pending
        if not silent:
            self.tell(at, actor, f"waits. {news}")

    def waited(self, actor: Actor, **expected: Any) -> Reply:
        """How the actor's wait ended."""
        reply = actor.reply(self._waits.pop(actor.role.name))
        self.expect(actor, reply, **expected)
        return reply

    # -- letting go and receiving

    def release(self, actor: Actor, to: Actor, handoff: Object) -> Offer:
        reply = self.call(actor, "release_stick", **self.key(), handoff=handoff)
        return self._let_go(actor, to, "released", reply, handoff)

    def pass_to(self, actor: Actor, to: Actor, handoff: Object) -> Offer:
        reply = self.call(actor, "pass_stick", **self.key(), to_agent_id=to.role.agent_id, handoff=handoff)
        return self._let_go(actor, to, "passed", reply, handoff)

    def _let_go(self, actor: Actor, to: Actor, verb: str, reply: Reply, handoff: Object) -> Offer:
        self.expect(actor, reply, state="reserved", reserved_for=to.role.agent_id)
        recipient = f"{self.name_of(reply.data['reserved_for'])}, who is {reply.data['recipient_status']}"
        self.tell(reply.sent_at, actor, f"{verb} the stick: reserved for {recipient}")
        return Offer(actor, verb, reply.sent_at, handoff)

    def receive(self, actor: Actor, offer: Offer, reason: str) -> None:
        """The actor, which waits, gets the stick together with the very handoff that was written."""
        expected = {"handoff": offer.handoff, "from_agent_id": offer.by.role.agent_id, "reason": reason}
        reply = self.waited(actor, status="your_turn", turn_id=self.turn.turn_id + 1, **expected)
        self._grant(reply)
        self.latencies_ms.append((reply.arrived_at - offer.at) / 1e6)
        after = f"{self.latencies_ms[-1]:.1f} ms after it was {offer.verb}"
        text = f"claimed turn {self.turn.turn_id}, {after}, and reads:"
        self.tell(reply.arrived_at, actor, text, quoting=_words(reply.data["handoff"]), colour=GREEN)

    # -- taking over

    def take_over(self, actor: Actor, revoked: Actor, reason: str) -> None:
        turn_id = self.turn.turn_id
        reply = self.call(actor, "takeover_stick", room_id=self.room_id, expected_turn_id=turn_id, reason=reason)
        self.expect(actor, reply, turn_id=turn_id + 1, revoked=revoked.role.agent_id)
        self._grant(reply)
        self.takeovers += 1
        loser = self.name_of(reply.data["revoked"])
        self.tell(reply.arrived_at, actor, f"took over: turn {self.turn.turn_id}; {loser} is revoked", colour=GREEN)

    def read_log(self, actor: Actor, written: Offer) -> None:
        """A takeover brings no handoff; the log has the last one that was written."""
        reply = self.call(actor, "get_room_events", room_id=self.room_id)
        self.expect(actor, reply)
        events = [event for event in reply.data["events"] if event["handoff"] is not None]
        if not events or events[-1]["handoff"] != written.handoff:
            raise self._surprise(actor, reply, f"find {written.handoff} as the last handoff")
        author = self.name_of(events[-1]["from_agent_id"])
        text = f"reads the log; the last handoff in it is from {author}:"
        self.tell(reply.arrived_at, actor, text, quoting=_words(events[-1]["handoff"]))

    def set_claim_ttl(self, actor: Actor, milliseconds: int | None) -> Reply:
        """How long a recipient has in this room from now on; None restores the default."""
        reply = self.call(actor, "set_room_policy", room_id=self.room_id, policy={"claim_ttl_ms": milliseconds})
        self.expect(actor, reply)
        return reply

    # -- calls, expectations, and what is told of them

    def call(self, actor: Actor, tool: str, **arguments: Any) -> Reply:
        return actor.reply(actor.start(tool, **arguments))

    def key(self) -> Object:
        """What every call of the owner carries."""
        return {"room_id": self.room_id, "lease_id": self.turn.lease_id, "expected_turn_id": self.turn.turn_id}

    def expect(self, actor: Actor, reply: Reply, **expected: Any) -> None:
        if reply.refused or any(reply.data.get(name) != value for name, value in expected.items()):
            raise self._surprise(actor, reply, f"be answered with {expected or 'no refusal'}")

    def refused(self, actor: Actor, reply: Reply, code: str, attempt: str) -> None:
        if not reply.refused or reply.data["error"] != code:
            raise self._surprise(actor, reply, f"be refused with {code}")
        text = f"{attempt}: refused, {reply.data['error']}"
        self.tell(reply.arrived_at, actor, text, quoting=(reply.data["message"],), colour=RED)

    def tell(self, at: int, actor: Actor, text: str, *, quoting: tuple[str, ...] = (), colour: str = "") -> None:
        self.screen.event(at, actor.role.name, text, quoting=quoting, colour=colour)

    def name_of(self, agent_id: str) -> str:
        return self._names.get(agent_id, agent_id)

    def _surprise(self, actor: Actor, reply: Reply, expected: str) -> Unexpected:
        return Unexpected(f"{actor.role.name}'s {reply.tool} should {expected}, but the answer was {reply.data}.")

    def _grant(self, reply: Reply) -> None:
        self.turn = Turn(reply.data["turn_id"], reply.data["lease_id"])


def _words(handoff: Object) -> tuple[str, str]:
    places = "".join(f" [{_place(artifact)}]" for artifact in handoff.get("artifacts", ()))
    return f'"{handoff["status"]}"', f"next: {handoff['next_action']}{places}"


def _place(artifact: Object) -> str:
    first, last = artifact["lines"]
    return f"{artifact['role']} {artifact['path']}:{first}" + (f"-{last}" if last > first else "")
