"""The stick in the hands of its owner: keeping it and handing it over. How an agent gets it is in `waiting.py`.

Every change re-reads the room inside its write transaction and checks there what the caller may do. At most one agent
owns the stick, because the room's row has one owner and every grant is a new turn with a new lease.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import islice

from conch.agents.records import Caller
from conch.bells.base import Bell, seat_channel
from conch.bus.peers import present_name_in_room
from conch.clock import MILLISECOND
from conch.config import WAITING_FIRST, Policy, Settings
from conch.errors import ConchError, InvalidArgument, UnknownMember, UnknownRecipient
from conch.lean import Any, NamedTuple
from conch.notices.events import find_recipient, leave_handoff, readdress_handoff
from conch.rooms.handoffs import dump_handoff
from conch.rooms.log import append_event, expect_event, find_pending, prior_owner
from conch.rooms.presence import Lease, Rooms
from conch.rooms.room import (
    CHUNK,
    LARGE_CHUNK,
    LARGEST_CHUNK,
    Member,
    Room,
    Snapshot,
    expect_called,
    expect_walk,
    renew,
    save_room,
)
from conch.storage.base import Store, Transaction

_FEW = 5  # members that an error names
_FEW_MEMBERS = 8  # that the first release in a room reads: some of them may only watch


class Offer(NamedTuple):
    """The result of releasing or passing the stick."""

    room: Room
    recipient_status: str | None
    event_seq: int
    recipient: str = ""
    """The recipient's label; empty if the stick is free."""


class Turns:
    """What an owner does with the stick."""

    def __init__(self, store: Store, bell: Bell, rooms: Rooms, settings: Settings) -> None:
        self._store = store
        self._bell = bell
        self._rooms = rooms
        self._settings = settings
        self._asked: dict[str, bool] = {}
        """Whether the last release in a room had to know who waits. The next one will probably need the same."""

    # -- keeping it

    def heartbeat(self, caller: Caller, room_id: str, lease_id: str, expected_turn_id: int) -> Room:
        """Extend the lease. Even a lapsed lease can be extended until another agent takes over."""
        with self._rooms.change(caller, room_id, lease=Lease(lease_id, expected_turn_id)) as (tx, snapshot):
            return renew(tx, snapshot)

    def abandon(self, caller: Caller, room_id: str, note: str) -> None:
        """Let the lease lapse now, with a note, so that others may take over at once. The caller's session has ended.

        If the session goes on elsewhere, it may renew the lease until another agent takes over.
        """
        with self._rooms.change(caller, room_id) as (tx, snapshot):
            if snapshot.room.owner == caller.agent_id:
                _, room = append_event(tx, snapshot.room, "note", by=caller.agent_id, details={"note": note})
                save_room(tx, room._replace(lease_expires_at=tx.now))

    # -- letting go

    def release_stick(self, caller: Caller, room_id: str, lease_id: str, expected_turn_id: int, handoff: Any) -> Offer:
        """Hand over to the next active member in sequence. If there is none, any member may claim the stick.

        An observer is in the sequence only while it waits for the stick.
        """
        text = dump_handoff(handoff, self._settings.max_handoff_bytes)
        lease, waiting, is_server = Lease(lease_id, expected_turn_id), None, self._store.is_server
        asks = self._asked.get(room_id)
        while True:
            policy = self._rooms.policy(room_id)
            chunk = _chunk(policy, asks) if is_server else CHUNK
            ahead = partial(_expect_offer, caller.agent_id, policy, chunk)
            with self._rooms.change(caller, room_id, lease=lease, ahead=ahead) as (tx, snapshot):
                # Usually an agent is next. Otherwise this must find out who waits. If the transaction has not fetched
                # that ahead, finding out takes time, so a second round hands over.
                knows = waiting is not None or tx.hears(room_id) is not None
                candidates = _candidates(snapshot, chunk=chunk, is_cut=is_server and not knows)
                asked = [each for each in candidates if _must_ask(snapshot, each)]
                self._asked[room_id] = bool(asked)
                if waiting is None and (knows or not asked):
                    waiting = _hear(tx, snapshot, asked)
                if waiting is not None:
                    to = _choose(snapshot, candidates, waiting)
                    offer = offer_stick(tx, snapshot, "release", to, text)
                    break
            asks = True  # the second round fetches it ahead
            waiting = None if is_server else self._find_waiting(snapshot, asked)
        offer = with_status(offer, snapshot, to, tx.heard)
        if to is not None and not to.takes_turns and not tx.heard:  # it has stopped since
            with suppress(ConchError):  # the stick was released in any case
                offer = self.decline(caller, room_id, to.agent_id) or offer
        return offer

    def decline(self, caller: Caller, room_id: str, observer_id: str) -> Offer | None:
        """Offer a released stick to the next one, if it is reserved for an observer that has stopped waiting.

        An observer that was passed the stick by name keeps its time to claim it. None if there is nothing to decline.
        """
        with self._rooms.look(None, room_id) as (tx, snapshot):
            if not _is_declined(tx, snapshot, observer_id):
                return None
            asked = _candidates(snapshot, observer_id, prior_owner(tx, snapshot.room))
            waiting = _hear(tx, snapshot, asked) if tx.expect_hearing() else None
        if waiting is None:
            waiting = self._find_waiting(snapshot, asked)
        with self._rooms.change(caller, room_id) as (tx, snapshot):
            if not _is_declined(tx, snapshot, observer_id):
                return None
            candidates = _candidates(snapshot, observer_id, prior_owner(tx, snapshot.room))
            to = _choose(snapshot, candidates, waiting)
            offer = _offer_again(tx, snapshot, to)
        return with_status(offer, snapshot, to, tx.heard)

    def _find_waiting(self, snapshot: Snapshot, asked: list[Member]) -> set[str]:
        return {member.agent_id for member in asked if self._is_waiting(snapshot, member)}

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
        lease, ahead = Lease(lease_id, expected_turn_id), partial(_expect_pass, to_agent_id)

        def hand_over() -> tuple[Transaction, Snapshot, Member, Offer]:
            with self._rooms.change(caller, room_id, lease=lease, ahead=ahead) as (tx, snapshot):
                target = find_target(snapshot, caller, present_name_in_room(tx, room_id, to_agent_id))
                return tx, snapshot, target, offer_stick(tx, snapshot, "pass", target, text)

        tx, snapshot, target, offer = self._rooms.briefly(hand_over)
        return with_status(offer, snapshot, target, tx.heard)

    def _is_waiting(self, snapshot: Snapshot, member: Member) -> bool:
        return self._bell.hears(seat_channel(snapshot.room.room_id, member.agent_id))


def _expect_offer(agent_id: str, policy: Policy, chunk: int, tx: Transaction, room_id: str) -> None:
    expect_event(tx)
    if chunk > CHUNK:
        tx.expect_hearing()
    expect_walk(tx, room_id, agent_id, policy.presence_ttl_ms * MILLISECOND, chunk)


def _chunk(policy: Policy, asks: bool | None) -> int:
    """How many members a release reads at once. If it `asks` who waits, it needs more. None: it may have to ask."""
    if policy.release_order == WAITING_FIRST:
        return LARGEST_CHUNK
    return _FEW_MEMBERS if asks is None else LARGE_CHUNK if asks else CHUNK


def _hear(tx: Transaction, snapshot: Snapshot, asked: list[Member]) -> set[str] | None:
    """Which of these members wait; None if the transaction does not know."""
    heard = {each.agent_id: tx.hears(seat_channel(snapshot.room.room_id, each.agent_id)) for each in asked}
    return None if None in heard.values() else {agent_id for agent_id, waits in heard.items() if waits}


def _expect_pass(to_agent_id: str, tx: Transaction, room_id: str) -> None:
    expect_event(tx)
    expect_called(to_agent_id, tx, room_id)


def next_in_sequence(snapshot: Snapshot, waiting: set[str]) -> Member | None:
    """The next active member after the owner that takes turns, or that waits now.

    If the room prefers members that wait, they come first.
    """
    return _choose(snapshot, _candidates(snapshot), waiting)


def _candidates(snapshot: Snapshot, *passed_over: str | None, chunk: int = CHUNK, is_cut: bool = False) -> list[Member]:
    """The other active members in the order of their turns, up to the first that gets the stick even without waiting
    for it.

    They begin after the owner. If the owner is a person, who may have taken the stick by force, the sequence goes on
    where it was before. If `is_cut`, they end with the first that must be asked whether it waits.
    """
    owner = snapshot.find(snapshot.room.owner)
    place = owner.ordinal if owner and owner.kind == "agent" else snapshot.room.sequence_index
    found: list[Member] = []
    for member in snapshot.active_members(place, chunk):
        if member.agent_id not in (snapshot.room.owner, *passed_over):
            found.append(member)
            if is_cut or not _must_ask(snapshot, member):
                break
    return found


def _must_ask(snapshot: Snapshot, member: Member) -> bool:
    """Whether it depends on its waiting if this member gets the stick."""
    return _prefers_waiting(snapshot) or not member.takes_turns


def _prefers_waiting(snapshot: Snapshot) -> bool:
    return snapshot.policy.release_order == WAITING_FIRST


def _choose(snapshot: Snapshot, candidates: list[Member], waiting: set[str]) -> Member | None:
    taking_part = [member for member in candidates if member.takes_turns or member.agent_id in waiting]
    if _prefers_waiting(snapshot):
        # A stable sort: the members that wait keep their order, and so do the others.
        taking_part.sort(key=lambda member: member.agent_id not in waiting)
    return next(iter(taking_part), None)


def offer_stick(tx: Transaction, snapshot: Snapshot, kind: str, to: Member | None, handoff_json: str) -> Offer:
    """End the owner's turn. The stick is reserved for a member; without one, it is free."""
    if to is not None:
        tx.call(seat_channel(snapshot.room.room_id, to.agent_id))  # the recipient wakes before others
    event, room = append_event(
        tx,
        snapshot.room,
        kind,
        by=snapshot.room.owner,
        to=to.agent_id if to else None,
        handoff_json=handoff_json,
        details={"sequence_index": _place_after(snapshot, to)} if to else None,
    )
    room = room._replace(claim_expires_at=snapshot.later(snapshot.policy.claim_ttl_ms) if to else None)
    save_room(tx, room)
    leave_handoff(tx, snapshot, to, event)
    return Offer(room, None, event.event_seq)


def _is_declined(tx: Transaction, snapshot: Snapshot, observer_id: str) -> bool:
    """Whether a release, not a pass, has reserved the stick for this observer."""
    observer = snapshot.find(observer_id)
    if observer is None or observer.takes_turns or snapshot.room.reserved_for != observer_id:
        return False
    pending = find_pending(tx, snapshot.room)
    return pending is not None and pending.event_type == "release"


def _offer_again(tx: Transaction, snapshot: Snapshot, to: Member | None) -> Offer:
    room, until = snapshot.room, snapshot.later(snapshot.policy.claim_ttl_ms)
    if to is not None:
        tx.call(seat_channel(room.room_id, to.agent_id))
    place = {"sequence_index": to.ordinal} if to is not None and to.takes_turns else None
    event, room = append_event(tx, room, "decline", by=room.reserved_for, to=to.agent_id if to else None, details=place)
    room = room._replace(claim_expires_at=until if to else None)
    save_room(tx, room)
    readdress_handoff(tx, room.pending_handoff_event_seq, to)
    return Offer(room, None, event.event_seq)


def _place_after(snapshot: Snapshot, to: Member) -> int:
    """From where the sequence goes on: from the recipient, or from the agent before if the recipient only watches."""
    owner = snapshot.member(snapshot.room.owner or "")
    return next((member.ordinal for member in (to, owner) if member.takes_turns), snapshot.room.sequence_index)


def with_status(offer: Offer, snapshot: Snapshot, to: Member | None, is_waiting: bool) -> Offer:
    """Add the recipient's status: `waiting`, `present` (seen within two heartbeats) or `away`."""
    if to is None:
        return offer
    present = snapshot.seen_within(to, 2 * snapshot.policy.heartbeat_interval_ms)
    status = "waiting" if is_waiting else "present" if present else "away"
    return offer._replace(recipient_status=status, recipient=to.label)


def find_target(snapshot: Snapshot, caller: Caller, text: str) -> Member:
    try:
        target = find_recipient(snapshot, text)
    except UnknownRecipient:  # this tool has its own code for that, below
        target = None
    if target is None or not snapshot.is_active(target):
        message = f"{text[:80]!r} is not an active member of the room, so the stick cannot be passed to it."
        others = (each for each in snapshot.active_members() if each.agent_id != caller.agent_id)
        active = ", ".join(each.label for each in islice(others, _FEW))
        known = f"Active members: {active}." if active else "No other member is active."
        raise UnknownMember(f"{message} {known}", field="to_agent_id", to_agent_id=text)
    if target.agent_id == caller.agent_id:
        raise InvalidArgument("to_agent_id is you. Keep working, or name another member.", field="to_agent_id")
    return target
