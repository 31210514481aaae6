"""The stick in the hands of its owner: keeping it and handing it over. How an agent gets it is in `waiting.py`.

Every change re-reads the room inside its write transaction and checks there what the caller may do. At most one agent
owns the stick, because the room's row has one owner and every grant is a new turn with a new lease.
"""

from __future__ import annotations

from conch.agents.records import Caller
from conch.bells.base import Bell, seat_channel
from conch.bus.peers import present_name
from conch.config import Settings
from conch.errors import InvalidArgument, UnknownMember, UnknownRecipient
from conch.lean import Any, NamedTuple
from conch.notices.events import find_recipient, leave_handoff
from conch.rooms.handoffs import dump_handoff
from conch.rooms.log import append_event
from conch.rooms.presence import Lease, Rooms
from conch.rooms.room import Member, Room, Snapshot, renew, save_room
from conch.storage.base import Transaction


class Offer(NamedTuple):
    """The result of releasing or passing the stick."""

    room: Room
    recipient_status: str | None
    event_seq: int
    recipient: str = ""
    """The recipient's label; empty if the stick is free."""


class Turns:
    """What an owner does with the stick."""

    def __init__(self, bell: Bell, rooms: Rooms, settings: Settings) -> None:
        self._bell = bell
        self._rooms = rooms
        self._settings = settings

    # -- keeping it

    def heartbeat(self, caller: Caller, room_id: str, lease_id: str, expected_turn_id: int) -> Room:
        """Extend the lease. Even a lapsed lease can be extended until another agent takes over."""
        with self._rooms.change(caller, room_id, lease=Lease(lease_id, expected_turn_id)) as (tx, snapshot):
            return renew(tx, snapshot).room

    # -- letting go

    def release_stick(self, caller: Caller, room_id: str, lease_id: str, expected_turn_id: int, handoff: Any) -> Offer:
        """Hand over to the next active member in sequence. If there is none, any member may claim the stick."""
        text = dump_handoff(handoff, self._settings.max_handoff_bytes)
        waiting: set[str] | None = None
        while True:
            with self._rooms.change(caller, room_id, lease=Lease(lease_id, expected_turn_id)) as (tx, snapshot):
                # Finding out who waits takes time, so it happens outside the transaction: the first round only
                # loads the members, the second hands over.
                if waiting is not None or snapshot.policy.release_order != "waiting_first":
                    to = next_in_sequence(snapshot, waiting or set())
                    offer = _offer(tx, snapshot, "release", to, text)
                    break
            waiting = {member.agent_id for member in snapshot.members if self._is_waiting(snapshot, member)}
        return _with_status(offer, snapshot, to, tx.heard)

    def pass_stick(
        self,
        caller: Caller,
        room_id: str,
        lease_id: str,
        expected_turn_id: int,
        to_agent_id: str,
        handoff: Any,
    ) -> Offer:
        """Hand over to one chosen active member, by agent_id or name; the sequence goes on from there."""
        text = dump_handoff(handoff, self._settings.max_handoff_bytes)
        with self._rooms.change(caller, room_id, lease=Lease(lease_id, expected_turn_id)) as (tx, snapshot):
            target = _find_target(snapshot, caller, present_name(tx, snapshot.room.topic_id, to_agent_id))
            offer = _offer(tx, snapshot, "pass", target, text)
        return _with_status(offer, snapshot, target, tx.heard)

    def _is_waiting(self, snapshot: Snapshot, member: Member) -> bool:
        return self._bell.hears(seat_channel(snapshot.room.room_id, member.agent_id))


def next_in_sequence(snapshot: Snapshot, waiting: set[str]) -> Member | None:
    """The next active member after the owner. Members that are waiting now come first."""
    place = snapshot.members.index(snapshot.member(snapshot.room.owner or ""))
    others = snapshot.members[place + 1 :] + snapshot.members[:place]
    # A stable sort: the members that wait keep their order, and so do the others.
    others.sort(key=lambda member: member.agent_id not in waiting)
    return next((member for member in others if snapshot.is_active(member)), None)


def _offer(tx: Transaction, snapshot: Snapshot, kind: str, to: Member | None, handoff_json: str) -> Offer:
    if to is not None:
        tx.call(seat_channel(snapshot.room.room_id, to.agent_id))  # the recipient wakes before others
    event, room = append_event(
        tx,
        snapshot.room,
        kind,
        by=snapshot.room.owner,
        to=to.agent_id if to else None,
        handoff_json=handoff_json,
        details={"sequence_index": to.ordinal} if to else None,
    )
    room = room._replace(claim_expires_at=snapshot.later(snapshot.policy.claim_ttl_ms) if to else None)
    save_room(tx, room)
    leave_handoff(tx, snapshot, to, event)
    return Offer(room, None, event.event_seq)


def _with_status(offer: Offer, snapshot: Snapshot, to: Member | None, is_waiting: bool) -> Offer:
    """Add the recipient's status: `waiting`, `present` (seen within two heartbeats) or `away`."""
    if to is None:
        return offer
    present = snapshot.seen_within(to, 2 * snapshot.policy.heartbeat_interval_ms)
    status = "waiting" if is_waiting else "present" if present else "away"
    return offer._replace(recipient_status=status, recipient=to.label)


def _find_target(snapshot: Snapshot, caller: Caller, text: str) -> Member:
    try:
        target = find_recipient(snapshot, text)
    except UnknownRecipient:  # this tool has its own code for that, below
        target = None
    if target is None or not snapshot.is_active(target):
        message = f"{text[:80]!r} is not an active member of the room, so the stick cannot be passed to it."
        raise UnknownMember(message, field="to_agent_id", to_agent_id=text)
    if target.agent_id == caller.agent_id:
        raise InvalidArgument("to_agent_id is you. Keep working, or name another member.", field="to_agent_id")
    return target
