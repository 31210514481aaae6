"""The stick: waiting for it, claiming it, keeping it, handing it on, and taking it over.

Every change re-reads the room inside its write transaction and checks there who may do what; at most one agent
owns the stick because the row has one owner and every grant is a new turn with a new lease.
"""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

from conch import presence
from conch.agents import Caller
from conch.bells.base import LINGER_SECONDS, Bell, Ear, room_channel, seat_channel
from conch.calls import Call
from conch.clock import MILLISECOND, SECOND
from conch.config import Settings, check_length
from conch.errors import (
    InvalidArgument,
    RoomClosed,
    StaleLease,
    StoreUnavailable,
    StoreUncertain,
    TakeoverNotAvailable,
    TurnMismatch,
    UnknownMember,
)
from conch.handoffs import Handoff, dump_handoff
from conch.ids import new_lease
from conch.protocol import accept_handoff, leave_handoff, reopen_handoff
from conch.roomlog import append_event, find_event, latest_grant
from conch.rooms import Member, Room, Snapshot, save_room
from conch.storage.base import Store, Transaction

REPORT_EVERY_SECONDS = 4.0
RETRY_SECONDS = 0.5
LOOKS_PER_SECOND = 200  # of all who wait in one room


class Wait(NamedTuple):
    """How a wait ended: `your_turn`, `takeover_available`, `closed` or `not_yet`."""

    status: str
    snapshot: Snapshot
    reason: str | None = None
    handoff: Handoff | None = None
    from_agent_id: str | None = None
    claimed_from: Room | None = None
    """The room before a fresh claim, for giving it back."""


class Offer(NamedTuple):
    """What became of a stick that was let go."""

    room: Room
    recipient_status: str | None
    event_seq: int


class Takeover(NamedTuple):
    room: Room
    revoked: str | None


class Turns:
    def __init__(self, store: Store, bell: Bell, settings: Settings) -> None:
        self._store = store
        self._bell = bell
        self._settings = settings

    # -- waiting

    def wait_for_turn(
        self,
        caller: Caller,
        room_id: str,
        cursor: int | None = None,
        max_wait_ms: int | None = None,
        call: Call | None = None,
    ) -> Wait:
        """Claim the stick as soon as it is the caller's; otherwise say, in time, why not.

        A cursor asks to return as soon as the log has something newer.
        """
        call = call or Call()
        found = self._look(caller, room_id, call)
        longest = found.snapshot.policy.wait_for_turn_max_wait_ms
        budget = (longest if max_wait_ms is None else min(max_wait_ms, longest)) / 1_000
        if _is_settled(found, cursor) or budget <= 0:
            return found
        deadline = time.monotonic() + budget
        with self._bell.listen(room_channel(room_id), announce=seat_channel(room_id, caller.agent_id)) as ear:
            call.wake_with(ear.wake)
            try:
                return self._wait(caller, room_id, cursor, deadline, call, ear, len(found.snapshot.members))
            finally:
                call.wake_with(None)

    def _wait(
        self, caller: Caller, room_id: str, cursor: int | None, deadline: float, call: Call, ear: Ear, crowd: int
    ) -> Wait:
        reported = 0.0
        while True:
            now = time.monotonic()
            try:
                if ear.called:  # by name: no need to look first whether there is anything to claim
                    found = self._settle(caller, room_id, call)
                elif now >= deadline:
                    found = self._look(caller, room_id, call)
                else:
                    found = self._look_again(caller, room_id, cursor, call)
            except (StoreUnavailable, StoreUncertain):
                if now >= deadline:
                    raise
                ear.wait(min(deadline - now, RETRY_SECONDS))  # a server that restarts: whoever waits can wait for it
                continue
            if _is_settled(found, cursor) or now >= deadline:
                return found
            if now - reported >= REPORT_EVERY_SECONDS:
                call.report(describe(found.snapshot))
                reported = now
            expected = found.snapshot.find(found.snapshot.expected)
            ear.watch(expected.process if expected else None)
            ear.wait(min(deadline - now, self._patience(found.snapshot)), _linger(crowd))

    def current_holder(self, room_id: str) -> tuple[float, str]:
        """For how many seconds it has been somebody's move, and whose (both names)."""
        with self._store.read() as tx:
            snapshot = Snapshot.load(tx, room_id, self._settings.policy)
            room = snapshot.room
            event = latest_grant(tx, room) if room.owner else find_event(tx, room.pending_handoff_event_seq)
        member = snapshot.find(snapshot.expected)
        who = f"{member.agent_id} ({member.name})" if member else "nobody"
        return (snapshot.now - event.created_at) / SECOND if event else 0.0, who

    def _patience(self, snapshot: Snapshot) -> float:
        """How long to sleep at the most: until a lease or claim lapses, or until the bell is not to be trusted."""
        patience = self._bell.recheck_seconds(snapshot.policy.wait_for_turn_poll_ms / 1_000)
        patience = min(patience, presence.renewal_ms(snapshot.policy) / 1_000)
        lapse = snapshot.room.lease_expires_at or snapshot.room.claim_expires_at
        if lapse is not None and lapse > snapshot.now:
            patience = min(patience, (lapse - snapshot.now) / SECOND + 0.001)
        return patience

    def _look_again(self, caller: Caller, room_id: str, cursor: int | None, call: Call) -> Wait:
        """As `_look`, but whoever has to go on waiting has seen only two members: a whole crowd does this often."""
        call.check()
        with self._store.read() as tx:
            snapshot = Snapshot.glimpse(tx, room_id, caller.agent_id, self._settings.policy)
            found = self._judge(tx, snapshot, caller)
        member = presence.require_living_member(snapshot, caller)
        if _is_settled(found, cursor) or presence.is_due(snapshot, member, caller):
            return self._look(caller, room_id, call)
        return found

    def _look(self, caller: Caller, room_id: str, call: Call) -> Wait:
        """One look at the room, and the claim if it is due. Only a change opens a write transaction."""
        call.check()
        with self._store.read() as tx:
            snapshot = Snapshot.load(tx, room_id, self._settings.policy)
            found = self._judge(tx, snapshot, caller)
        member = presence.require_living_member(snapshot, caller)
        if found.status == "your_turn" or presence.is_due(snapshot, member, caller):
            return self._settle(caller, room_id, call)
        return found

    def _settle(self, caller: Caller, room_id: str, call: Call) -> Wait:
        with self._store.write(room_id) as tx:
            snapshot = Snapshot.load(tx, room_id, self._settings.policy)
            presence.require_living_member(snapshot, caller)
            snapshot = presence.touch(tx, snapshot, caller)
            found = self._judge(tx, snapshot, caller)
            call.check()  # a cancelled wait claims nothing
            if found.status != "your_turn":
                return found
            if found.reason == "already_owner":
                return found._replace(snapshot=self._renew(tx, snapshot))
            return self._claim(tx, found, caller)

    def _judge(self, tx: Transaction, snapshot: Snapshot, caller: Caller) -> Wait:
        """What the room has for this caller right now."""
        room = snapshot.room
        if room.state == "closed":
            return Wait("closed", snapshot)
        if room.owner == caller.agent_id:
            grant = latest_grant(tx, room)
            received = find_event(tx, grant.details.get("handoff_event_seq")) if grant else None
            return _your_turn(snapshot, "already_owner", received)
        if room.state == "idle" or room.reserved_for == caller.agent_id:
            pending = find_event(tx, room.pending_handoff_event_seq)
            passed = pending is not None and pending.event_type == "pass"
            reason = "open_claim" if room.state == "idle" else "direct_pass" if passed else "sequence"
            return _your_turn(snapshot, reason, pending)
        if snapshot.may_take_over(caller.agent_id, self._prior_owner(tx, room)):
            return Wait("takeover_available", snapshot, snapshot.takeover_reason)
        return Wait("not_yet", snapshot)

    def _claim(self, tx: Transaction, found: Wait, caller: Caller) -> Wait:
        room = found.snapshot.room
        _, claimed = append_event(
            tx,
            room,
            "claim",
            by=found.from_agent_id,
            to=caller.agent_id,
            turn_id=room.turn_id + 1,
            reason=found.reason,
            details={"handoff_event_seq": room.pending_handoff_event_seq},
        )
        claimed = self._granted(found.snapshot, claimed)
        save_room(tx, claimed)
        accept_handoff(tx, found.snapshot, room.pending_handoff_event_seq, caller.agent_id)
        return found._replace(snapshot=found.snapshot.with_room(claimed), claimed_from=room)

    def give_back(self, caller: Caller, wait: Wait) -> None:
        """Undo a claim whose news could not be delivered: the stick is on offer again, as it was before."""
        before, claimed = wait.claimed_from, wait.snapshot.room
        if before is None:
            return
        with self._store.write(claimed.room_id) as tx:
            snapshot = Snapshot.load(tx, claimed.room_id, self._settings.policy)
            room = snapshot.room
            # A lease that was renewed since has reached its holder some other way.
            if (room.lease_id, room.lease_expires_at) != (claimed.lease_id, claimed.lease_expires_at):
                return
            _, room = append_event(
                tx,
                room,
                "return",
                by=caller.agent_id,
                to=before.reserved_for,
                reason="the claim could not be delivered",
                details={"handoff_event_seq": before.pending_handoff_event_seq},
            )
            save_room(tx, room._replace(claim_expires_at=before.claim_expires_at))
            reopen_handoff(tx, snapshot, before.pending_handoff_event_seq, before.reserved_for)

    # -- keeping it

    def heartbeat(self, caller: Caller, room_id: str, lease_id: str, expected_turn_id: int) -> Room:
        """Extend the lease, also one that has lapsed, as long as nobody has taken over."""
        with self._store.write(room_id) as tx:
            snapshot = self.fenced(tx, caller, room_id, lease_id, expected_turn_id)
            return self._renew(tx, snapshot).room

    def fenced(self, tx: Transaction, caller: Caller, room_id: str, lease_id: str, expected_turn_id: int) -> Snapshot:
        """The room, for the holder of its current lease only: `turn_mismatch` before `stale_lease`."""
        snapshot = Snapshot.load(tx, room_id, self._settings.policy)
        room = snapshot.room
        if room.state == "closed":
            raise RoomClosed(f"Room {room_id} is closed; its log stays readable.", room_id=room_id)
        if expected_turn_id != room.turn_id:
            message = (
                f"Turn {expected_turn_id} is over; the room is at turn {room.turn_id}. Stop and read the room's state."
            )
            raise TurnMismatch(message, **_facts(snapshot))
        if (room.owner, room.lease_id) != (caller.agent_id, lease_id):
            raise StaleLease("The supplied lease is no longer current for this room.", **_facts(snapshot))
        if presence.is_gone(snapshot.member(caller.agent_id), caller):
            raise StaleLease("The process that holds this lease is gone; others may take over.", **_facts(snapshot))
        return presence.touch(tx, snapshot, caller)

    def _renew(self, tx: Transaction, snapshot: Snapshot) -> Snapshot:
        room = snapshot.room
        later = _later(snapshot, snapshot.policy.owner_lease_ttl_ms)
        # Always another moment than before, even if the clock stands still: `give_back` goes by it.
        room = room._replace(lease_expires_at=later + (later == room.lease_expires_at))
        tx.run(
            "extend_lease",
            room_id=room.room_id,
            lease_id=room.lease_id,
            lease_expires_at=room.lease_expires_at,
            now=snapshot.now,
        )
        return snapshot.with_room(room)

    # -- letting go

    def release_stick(self, caller: Caller, room_id: str, lease_id: str, expected_turn_id: int, handoff: Any) -> Offer:
        """Hand over to the next active member in sequence, or to whoever comes first when there is none."""
        text = dump_handoff(handoff, self._settings.max_handoff_bytes)
        with self._store.write(room_id) as tx:
            snapshot = self.fenced(tx, caller, room_id, lease_id, expected_turn_id)
            return self._offer(tx, snapshot, "release", self._next_in_sequence(snapshot), text)

    def pass_stick(
        self,
        caller: Caller,
        room_id: str,
        lease_id: str,
        expected_turn_id: int,
        to_agent_id: str,
        handoff: Any,
    ) -> Offer:
        """Hand over to one chosen active member; the sequence goes on from there."""
        text = dump_handoff(handoff, self._settings.max_handoff_bytes)
        with self._store.write(room_id) as tx:
            snapshot = self.fenced(tx, caller, room_id, lease_id, expected_turn_id)
            if to_agent_id == caller.agent_id:
                message = "to_agent_id is you; keep working, or name another member."
                raise InvalidArgument(message, field="to_agent_id")
            target = snapshot.find(to_agent_id)
            if target is None or not snapshot.is_active(target):
                message = "pass_stick target must be an active room member."
                raise UnknownMember(message, field="to_agent_id", to_agent_id=to_agent_id)
            return self._offer(tx, snapshot, "pass", target, text)

    def _next_in_sequence(self, snapshot: Snapshot) -> Member | None:
        owner = snapshot.member(snapshot.room.owner or "")
        place = snapshot.members.index(owner)
        others = snapshot.members[place + 1 :] + snapshot.members[:place]
        if snapshot.policy.release_order == "waiting_first":
            others.sort(key=lambda member: not self._is_waiting(snapshot, member))
        return next((member for member in others if snapshot.is_active(member)), None)

    def _offer(self, tx: Transaction, snapshot: Snapshot, kind: str, to: Member | None, handoff_json: str) -> Offer:
        if to is not None:
            tx.ring(seat_channel(snapshot.room.room_id, to.agent_id))  # the recipient hears it before the others
        event, room = append_event(
            tx,
            snapshot.room,
            kind,
            by=snapshot.room.owner,
            to=to.agent_id if to else None,
            handoff_json=handoff_json,
            details={"sequence_index": to.ordinal} if to else None,
        )
        room = room._replace(claim_expires_at=_later(snapshot, snapshot.policy.claim_ttl_ms) if to else None)
        save_room(tx, room)
        leave_handoff(tx, snapshot, to, event)
        return Offer(room, self._recipient_status(snapshot, to), event.event_seq)

    def _recipient_status(self, snapshot: Snapshot, member: Member | None) -> str | None:
        """`waiting` right now, `present` (seen within two heartbeats), or `away`."""
        if member is None:
            return None
        if self._is_waiting(snapshot, member):
            return "waiting"
        return "present" if snapshot.seen_within(member, 2 * snapshot.policy.heartbeat_interval_ms) else "away"

    def _is_waiting(self, snapshot: Snapshot, member: Member) -> bool:
        return self._bell.hears(seat_channel(snapshot.room.room_id, member.agent_id))

    # -- taking over

    def takeover_stick(self, caller: Caller, room_id: str, expected_turn_id: int, reason: str) -> Takeover:
        """Take the stick from an owner or recipient that failed; only when the room says so, and on the record."""
        check_length("reason", reason, self._settings.max_reason_chars, "max_reason_chars")
        with self._store.write(room_id) as tx:
            snapshot = Snapshot.load(tx, room_id, self._settings.policy)
            room = snapshot.room
            presence.require_living_member(snapshot, caller)
            snapshot = presence.touch(tx, snapshot, caller)
            self._require_takeover(tx, snapshot, caller, expected_turn_id)
            _, taken = append_event(
                tx,
                room,
                "takeover",
                by=snapshot.expected,
                to=caller.agent_id,
                turn_id=room.turn_id + 1,
                reason=reason,
                details={"cause": snapshot.takeover_reason},
            )
            taken = self._granted(snapshot, taken)
            save_room(tx, taken)
            accept_handoff(tx, snapshot, room.pending_handoff_event_seq, caller.agent_id)
            return Takeover(taken, snapshot.expected)

    def takeover_is_open(self, caller: Caller, snapshot: Snapshot) -> bool:
        """Whether `takeover_stick` would succeed for this caller right now."""
        if snapshot.find(caller.agent_id) is None:
            return False
        with self._store.read() as tx:
            return snapshot.may_take_over(caller.agent_id, self._prior_owner(tx, snapshot.room))

    def _require_takeover(self, tx: Transaction, snapshot: Snapshot, caller: Caller, expected_turn_id: int) -> None:
        room = snapshot.room
        if room.state == "closed":
            raise RoomClosed(f"Room {room.room_id} is closed; its log stays readable.", room_id=room.room_id)
        if expected_turn_id != room.turn_id:
            message = f"Turn {expected_turn_id} is over; the room is at turn {room.turn_id}. Read the room's state."
            raise TurnMismatch(message, **_facts(snapshot))
        if not snapshot.may_take_over(caller.agent_id, self._prior_owner(tx, room)):
            why, message = _why_not(snapshot, caller)
            raise TakeoverNotAvailable(message, reason=why, reserved_for=room.reserved_for, **_facts(snapshot))

    def _prior_owner(self, tx: Transaction, room: Room) -> str | None:
        """Who wrote the handoff that waits to be claimed."""
        pending = find_event(tx, room.pending_handoff_event_seq)
        return pending.from_agent_id if pending else None

    # -- what a grant looks like

    def _granted(self, snapshot: Snapshot, room: Room) -> Room:
        return room._replace(
            lease_id=new_lease(), lease_expires_at=_later(snapshot, snapshot.policy.owner_lease_ttl_ms)
        )


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    """What a refusal tells of the room; asking for the state looks at processes, so only a refusal pays for it."""
    room = snapshot.room
    return {"current_owner": room.owner, "current_turn_id": room.turn_id, "room_state": snapshot.state}


def describe(snapshot: Snapshot) -> str:
    """One line for somebody who waits: whose move it is, and until when."""
    room = snapshot.room
    member = snapshot.find(snapshot.expected)
    if member is None:
        return f"Room {room.canonical_path} is {snapshot.state}."
    who = f"{member.agent_id} ({member.name})"
    lapse = room.lease_expires_at if room.owner else room.claim_expires_at
    left = max(0, (lapse or snapshot.now) - snapshot.now) // SECOND
    what = "holds the stick" if room.owner else "is next and has not claimed yet"
    return f"{who} {what}; others may take over in {left // 60} min {left % 60} s unless it answers."


def _linger(crowd: int) -> float:
    """How long to leave a ring for everybody alone: at random, so that all of them together look at a bounded rate."""
    share = int.from_bytes(os.urandom(2), "big") / 2**15
    return max(LINGER_SECONDS, share * crowd / LOOKS_PER_SECOND)


def _later(snapshot: Snapshot, milliseconds: int) -> int:
    return snapshot.now + milliseconds * MILLISECOND


def _is_settled(found: Wait, cursor: int | None) -> bool:
    news = cursor is not None and found.snapshot.room.last_event_seq > cursor
    return news or found.status != "not_yet"


def _your_turn(snapshot: Snapshot, reason: str, event: Any) -> Wait:
    if event is None:
        return Wait("your_turn", snapshot, reason)
    return Wait("your_turn", snapshot, reason, event.handoff, event.from_agent_id)


def _why_not(snapshot: Snapshot, caller: Caller) -> tuple[str, str]:
    if snapshot.expected is None:
        return "not_owned", "Nobody holds the stick; call wait_for_turn to claim it."
    if snapshot.expected == caller.agent_id:
        return "your_own_turn", "It is your own turn; call wait_for_turn to claim or keep the stick."
    if snapshot.takeover_reason is None:
        return "not_timed_out", f"{snapshot.expected} still has time; wait_for_turn says when takeover opens."
    return "prior_owner", "You let go of the stick last; another active member may take over before you."
