"""What only people may do: step in between agents, for a reason, under their own name.

Every function asks for a `Person`, which a door makes from its own proof. A person who steps in joins the room as an
observer.
"""

from __future__ import annotations

from conch.agents.people import Person
from conch.app import App
from conch.bus.drafts import NUDGE, REDACTION, Draft
from conch.bus.peers import enter_as_itself
from conch.bus.stream import Message, append_messages
from conch.bus.topics import find_topic
from conch.config import Settings, check_length
from conch.errors import InvalidArgument
from conch.lean import Any, NamedTuple, json
from conch.members.membership import Kicked
from conch.retention.redaction import Redacted, check_secret, find_message, redact, without_secret
from conch.rooms.handoffs import Handoff, dump_handoff
from conch.rooms.room import Member, Room, Snapshot
from conch.scopes.overlaps import Reservation
from conch.storage.base import INDEX_LOCK, Transaction
from conch.turns.stick import Offer, find_target, offer_stick, with_status
from conch.turns.waiting import Takeover, force_stick

_PLEASE = "Please hand over the stick."
_LOOK_FIRST = "Look at what {name} has changed since the last handoff, then go on from there."


class Passed(NamedTuple):
    revoked: Member
    offer: Offer


class Steering:
    def __init__(self, app: App) -> None:
        self._rooms = app.rooms
        self._membership = app.membership
        self._reservations = app.reservations
        self._messages = app.messages
        self._settings = app.settings
        self._store = app.store

    def take(self, person: Person, room_id: str, reason: str) -> Takeover:
        """Take the stick from the agent that has it or is next, even if it still has time."""
        self._begin(person, room_id, reason)
        with self._rooms.change(person.caller, room_id) as (tx, snapshot):
            return force_stick(tx, snapshot, person, reason)

    def pass_for(
        self, person: Person, room_id: str, agent_id: str, to: str, reason: str, handoff: Any = None
    ) -> Passed:
        """Pass the stick on for the agent that has it or is next: take it and hand it over, in one step.

        Without a handoff, the recipient gets the reason and the advice to look at what was changed.
        """
        self._begin(person, room_id, reason)
        with self._rooms.change(person.caller, room_id) as (tx, snapshot):
            revoked = _require_stick(snapshot, agent_id)
            target = find_target(snapshot, person.caller, to)
            if target == revoked:
                message = f"to_agent_id {target.label} already has the stick or is next."
                raise InvalidArgument(message, field="to_agent_id")
            text = dump_handoff(handoff or _handoff_for(revoked, reason), self._settings.max_handoff_bytes)
            taken = snapshot.with_room(force_stick(tx, snapshot, person, reason).room)
            offer = offer_stick(tx, taken, "pass", target, text)
        return Passed(revoked, with_status(offer, taken, target, tx.heard))

    def nudge(self, person: Person, room_id: str, agent_id: str, text: str | None = None) -> Message:
        """Ask the agent that has the stick, or is next, to hand it over. Its next reply says so."""
        text = _PLEASE if text is None else text
        _require_text("text", text)
        check_length("text", text, self._settings.max_message_chars, "max_message_chars")
        topic_id = self._membership.enter(person.caller, room_id).topic_id
        with self._rooms.change(person.caller, room_id, topic_id) as (tx, snapshot):
            holder = _require_stick(snapshot, agent_id)
            return _tell(tx, topic_id, person, holder.name, text, NUDGE)

    def unreserve(self, person: Person, room_id: str, agent_id: str, scope: str, reason: str) -> Reservation:
        """End an agent's reservation, and tell the agent."""
        topic_id = self._begin(person, room_id, reason).topic_id
        ended = self._reservations.release_for(person, room_id, agent_id, scope, reason)
        text = f"I ended your reservation of {ended.spelled}: {reason}"
        with self._rooms.change(person.caller, room_id, topic_id) as (tx, _):
            _tell(tx, topic_id, person, ended.name, text, "message")
        return ended

    def kick(self, person: Person, room_id: str, agent_id: str, reason: str) -> Kicked:
        """End an agent's membership. Its reservations end, and its stick becomes free."""
        self._begin(person, room_id, reason)
        return self._membership.kick(person, room_id, agent_id, reason)

    def free_name(self, person: Person, topic_id: str, name: str) -> str:
        """Let any agent take a name on a topic. Returns the name: it may be given as a label."""
        return self._messages.free_name(topic_id, name, person.caller.label)

    def redact(self, person: Person, message_id: str, reason: str, secret: str | None = None) -> Redacted:
        """Remove the text of a message, and everything that repeats it, from the store, and say so on the topic."""
        _require_reason(reason, self._settings)
        check_secret(secret)
        reason = without_secret(reason, secret)
        with self._store.read() as tx:
            message = find_message(tx, message_id)
            is_open = find_topic(tx, message.topic_id).status == "open"
            room = tx.one("room_of_topic", topic_id=message.topic_id)
        if room and is_open:
            self._membership.enter(person.caller, room["room_id"])
        with self._store.write(message.topic_id, INDEX_LOCK) as tx:
            tx.take_time()
            redacted = redact(tx, person, message, reason, secret)
            if is_open:
                text = f"I redacted message #{message.seq}: {reason}"
                _tell(tx, message.topic_id, person, message.sender, text, REDACTION)
        return redacted

    def _begin(self, person: Person, room_id: str, reason: str) -> Room:
        _require_reason(reason, self._settings)
        return self._membership.enter(person.caller, room_id)


def _tell(tx: Transaction, topic_id: str, person: Person, name: str, text: str, message_type: str) -> Message:
    draft = Draft(text, message_type, metadata_json=json.dumps({"to": [name]}), field="text")
    peer = enter_as_itself(tx, topic_id, person.caller)
    return append_messages(tx, peer, [draft])[0].message


def _require_reason(reason: str, settings: Settings) -> None:
    _require_text("reason", reason)
    check_length("reason", reason, settings.max_reason_chars, "max_reason_chars")


def _require_text(field: str, text: str) -> None:
    if not text.strip():
        raise InvalidArgument(f"{field} must be non-empty.", field=field)


def _require_stick(snapshot: Snapshot, agent_id: str) -> Member:
    """The member, if it has the stick or is next."""
    member, expected = snapshot.member(agent_id), snapshot.find(snapshot.expected)
    if member != expected:
        does = "does" if snapshot.room.owner else "is next"
        where = f"{expected.label} {does}" if expected else "no agent does"
        message = f"agent {member.label} does not have the stick: {where}."
        raise InvalidArgument(message, field="agent", **snapshot.facts)
    return member


def _handoff_for(revoked: Member, reason: str) -> Handoff:
    status = f"A person passed the stick on for {revoked.label}, which wrote no handoff. The reason: {reason}"
    return {"status": status, "next_action": _LOOK_FIRST.format(name=revoked.label)}
