"""The moves of the play: each makes the calls of one move, checks the replies, and tells what they said."""

from __future__ import annotations

from typing import Any, NamedTuple

from conch.doors.cli.demo.actors import Actor, Pending, Reply, Unexpected
from conch.doors.cli.demo.pipes import Object
from conch.doors.cli.demo.screen import GREEN, RED, Screen


class Turn(NamedTuple):
    """A turn that somebody was granted."""

    turn_id: int
    lease_id: str


class Offer(NamedTuple):
    """A stick that was let go, for somebody."""

    handoff: Object
    by: Actor
    verb: str
    reply: Reply


class Play:
    """One room, as far as the play has got. What it tells is in the replies; what it expects is in the script."""

    def __init__(self, screen: Screen, names: dict[str, str]) -> None:
        self.screen = screen
        self.room_id = ""
        self.turn = Turn(0, "")
        self.latencies_ms: list[float] = []
        self.takeovers = 0
        self.deliveries = 0
        self.readings = 0
        self._names = names
        self._waits: dict[str, Pending] = {}

    # -- coming and waiting

    def join(self, actor: Actor, path: str) -> None:
        data = self._accepted(actor, actor.call("join_path", context_path=path), agent_id=actor.role.agent_id)
        self.room_id = self.room_id or data["room_id"]
        members = " -> ".join(map(self._name, data["room"]["members"]))
        made = "made the room" if data["created"] else "joined the room"
        self.tell_now(actor, f"{made} as {data['agent_id']} ({data['name']}); sequence: {members}")

    def claim(self, actor: Actor) -> None:
        """Take a stick that nobody has."""
        reply = actor.call("wait_for_turn", room_id=self.room_id, max_wait_ms=0)
        data = self._accepted(actor, reply, status="your_turn", reason="open_claim")
        self._granted(actor, reply)
        self.tell(reply.arrived_at, actor, f"claimed turn {data['turn_id']}: nobody had the stick", GREEN)

    def wait(self, actor: Actor, *, tell: bool = False, **arguments: Any) -> None:
        """Begin to wait; what comes of it is told later."""
        pending = actor.start("wait_for_turn", room_id=self.room_id, **arguments)
        at, what = actor.until_waiting(pending)
        self._waits[actor.role.name] = pending
        if tell:
            self.tell(at, actor, f"waits. {what}")

    def ask(self, actor: Actor) -> Reply:
        """Look whether it is the actor's turn; the script knows that it is not."""
        reply = actor.call("wait_for_turn", room_id=self.room_id, max_wait_ms=0)
        self._accepted(actor, reply, status="not_yet")
        return reply

    def waited(self, actor: Actor, **expected: Any) -> Reply:
        """How the actor's wait ended."""
        reply = actor.reply(self._waits.pop(actor.role.name))
        self._accepted(actor, reply, **expected)
        return reply

    # -- letting go and receiving

    def release(self, actor: Actor, to: Actor, handoff: Object) -> Offer:
        return self._let_go(actor, to, "released", actor.call("release_stick", **self._key(), handoff=handoff), handoff)

    def pass_to(self, actor: Actor, to: Actor, handoff: Object) -> Offer:
        reply = actor.call("pass_stick", **self._key(), to_agent_id=to.role.agent_id, handoff=handoff)
        return self._let_go(actor, to, "passed", reply, handoff)

    def _let_go(self, actor: Actor, to: Actor, verb: str, reply: Reply, handoff: Object) -> Offer:
        data = self._accepted(actor, reply, state="reserved", reserved_for=to.role.agent_id)
        text = f"{verb} the stick: reserved for {self._name(data['reserved_for'])}, who is {data['recipient_status']}"
        self.tell(reply.sent_at, actor, text)
        return Offer(handoff, actor, verb, reply)

    def receive(self, actor: Actor, offer: Offer, reason: str) -> None:
        """The actor, which waits, gets the stick and the very handoff that was written."""
        expected = {"handoff": offer.handoff, "from_agent_id": offer.by.role.agent_id, "reason": reason}
        reply = self.waited(actor, status="your_turn", turn_id=self.turn.turn_id + 1, **expected)
        self._granted(actor, reply)
        self.deliveries += 1
        self.latencies_ms.append((reply.arrived_at - offer.reply.sent_at) / 1e6)
        after = f"{self.latencies_ms[-1]:.1f} ms after it was {offer.verb}"
        self.tell(reply.arrived_at, actor, f"claimed turn {reply.data['turn_id']}, {after}, with the handoff", GREEN)
        self.quote_handoff(reply.data["handoff"])

    # -- taking over

    def take_over(self, actor: Actor, revoked: Actor, reason: str) -> None:
        reply = actor.call(
            "takeover_stick", room_id=self.room_id, expected_turn_id=self.turn.turn_id, reason=reason
        )
        data = self._accepted(actor, reply, turn_id=self.turn.turn_id + 1, revoked=revoked.role.agent_id)
        self._granted(actor, reply)
        self.takeovers += 1
        text = f'took over, "{reason}": turn {data["turn_id"]}, and {self._name(data["revoked"])} is revoked'
        self.tell(reply.arrived_at, actor, text, GREEN)

    def read_log(self, actor: Actor, written: Offer) -> None:
        """After a takeover there is no handoff; the log has the last one that was written."""
        reply = actor.call("get_room_events", room_id=self.room_id)
        events = self._accepted(actor, reply)["events"]
        found = [event for event in events if event["handoff"] is not None]
        if not found or found[-1]["handoff"] != written.handoff:
            raise Unexpected(f"{actor.role.name} should find the handoff {written.handoff} last in {events}.")
        self.readings += 1
        author = self._name(found[-1]["from_agent_id"])
        self.tell(reply.arrived_at, actor, f"read {len(events)} events, in them the last handoff, of {author}")
        self.quote_handoff(found[-1]["handoff"])

    # -- telling

    def refused(self, actor: Actor, what: str, code: str, tool: str, **arguments: Any) -> None:
        """A call that the server must refuse with this code."""
        reply = actor.call(tool, room_id=self.room_id, **arguments)
        if not reply.refused or reply.data["error"] != code:
            raise self._surprise(actor, reply, f"be refused with {code}")
        self.tell(reply.arrived_at, actor, f"{what}: refused, {code}. {reply.data['message']}", RED)

    def set_claim_ttl(self, actor: Actor, milliseconds: int | None) -> int:
        """The time that a recipient has in this room from now on; None restores the default."""
        policy = {"claim_ttl_ms": milliseconds}
        data = self._accepted(actor, actor.call("set_room_policy", room_id=self.room_id, policy=policy))
        return int(data["policy"]["claim_ttl_ms"])

    def whose_move(self, reply: Reply) -> str:
        owner, reserved_for = reply.data["current_owner"], reply.data["reserved_for"]
        who = f"{self._name(owner)} holds the stick" if owner else f"it is reserved for {self._name(reserved_for)}"
        return f"{reply.data['status']}, {who}"

    def quote_handoff(self, handoff: Object) -> None:
        places = "".join(f" [{_place(artifact)}]" for artifact in handoff.get("artifacts", ()))
        self.screen.quote(f'"{handoff["status"]}"')
        self.screen.quote(f"next: {handoff['next_action']}{places}")

    def tell(self, at: int, actor: Actor, text: str, colour: str = "") -> None:
        self.screen.event(at, actor.role.name, text, colour)

    # -- the fine print

    def key(self) -> Object:
        """What every call of the owner carries."""
        return {"lease_id": self.turn.lease_id, "expected_turn_id": self.turn.turn_id}
