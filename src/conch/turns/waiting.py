"""Getting the stick: waiting for it, claiming it as soon as the caller may, and taking it over."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from conch.agents.records import Caller, is_person
from conch.bells.base import LINGER_SECONDS, Bell, room_channel, seat_channel
from conch.bells.waits import Pause, wait_for
from conch.calls import Call, Latest, Telling
from conch.clock import SECOND
from conch.config import TURN_WAIT_MS, Settings, check_length
from conch.errors import Advice, TakeoverNotAvailable
from conch.host.processes import Process
from conch.ids import new_lease
from conch.lean import TYPE_CHECKING, Any, NamedTuple
from conch.notices.events import accept_handoff, reopen_handoff
from conch.rooms.handoffs import Handoff
from conch.rooms.log import (
    FORCED,
    Event,
    append_event,
    expect_event,
    expect_grant,
    expect_pending,
    find_event,
    find_pending,
    latest_grant,
    latest_handoff,
    latest_notes,
    prior_owner,
)
from conch.rooms.presence import Ahead, Lease, Rooms, admit, is_due, renewal_ms, require_turn
from conch.rooms.room import Room, Snapshot, look_surely, renew, save_room
from conch.rooms.waits import WaitNote
from conch.storage.base import Store, Transaction

if TYPE_CHECKING:
    from conch.agents.people import Person

LOOKS_PER_SECOND = 200  # of all waiting agents of a room together, after the bell has rung


class Claim(NamedTuple):
    """A new turn, with what `give_back` needs to undo it."""

    room: Room
    before: Room
    claimed_at: int
    handoff_event_seq: int | None
    """The handoff that the new owner goes on from."""
    reply: object
    """Identifies the reply that tells the agent of it."""
    telling: Telling

    def has_lease_of(self, room: Room) -> bool:
        """Whether nothing has used the lease since that shows that its owner knows it."""
        return room.lease_id == self.room.lease_id and self.telling.explains(room.lease_expires_at)

    def told_again(self, reply: object, room: Room) -> Claim:
        """The same claim for the reply of another call, which has renewed the lease in this room."""
        self.telling.again(reply, room.lease_expires_at)
        return self._replace(reply=reply)


class Wait(NamedTuple):
    """How a wait ended: `your_turn`, `takeover_available`, `closed` or `not_yet`."""

    status: str
    snapshot: Snapshot
    reason: str | None = None
    handoff: Handoff | None = None
    from_agent_id: str | None = None
    author: str = ""
    """The label of the agent that wrote the handoff."""
    claim: Claim | None = None
    """None if this wait claimed nothing."""


def _new_claim(room: Room, snapshot: Snapshot, received: int | None, reply: object) -> Claim:
    return Claim(room, snapshot.room, snapshot.now, received, reply, Telling(reply, room.lease_expires_at))


class _Attempts:
    """The claims that one call has made or tried to make. A commit in doubt may have stored any of them."""

    def __init__(self, undo: Callable[[Claim], bool], earlier: Callable[[], object] | None) -> None:
        self._undo = undo
        self.claims: list[Claim] = earlier.claims if isinstance(earlier, _Attempts) else []

    def note(self, claim: Claim) -> Claim:
        self.claims.append(claim)
        return claim

    def find(self, room: Room) -> Claim | None:
        """The claim that this lease is from."""
        return next((claim for claim in self.claims if claim.has_lease_of(room)), None)

    def __call__(self) -> None:
        for claim in self.claims:
            self._undo(claim)


class Takeover(NamedTuple):
    claim: Claim
    revoked: str | None
    loser: str
    """The label of the agent that lost the stick."""
    last_handoff: Event | None
    notes: list[Event]
    """Those since the last handoff, newest first."""

    @property
    def room(self) -> Room:
        return self.claim.room

    @property
    def since(self) -> int:
        """The event after which the notes come."""
        return self.last_handoff.event_seq if self.last_handoff else 0


class Awaited(NamedTuple):
    """Which agent a room is waiting for: the owner, or the recipient that has not claimed yet."""

    room: Room
    who: str
    """That agent's label."""
    process: Process | None
    seconds: float
    """How long the room has been waiting for it."""
    patience: float
    """How many seconds a waiter may sleep before it must look again without a bell."""


class Claims:
    """How an agent gets the stick. What its owner does with it is in `stick.py`."""

    def __init__(self, store: Store, bell: Bell, rooms: Rooms, settings: Settings) -> None:
        self._store = store
        self._bell = bell
        self._rooms = rooms
        self._settings = settings
        self._latest: Latest[Claim] = Latest()
        """The latest claim that this process made in each room, for other calls of the same agent."""

    def wait_for_turn(
        self,
        caller: Caller,
        room_id: str,
        cursor: int | None = None,
        max_wait_ms: int | None = None,
        call: Call | None = None,
        survives_ms: int = 0,
    ) -> Wait:
        """Claim the stick as soon as the caller may, or return before the time is up with the reason why not.

        With a cursor, the wait also ends as soon as the log has a newer event. A policy that was set limits the
        wait. The default limit suits any client; a client that survives longer waits can wait longer.
        """
        call = call or Call()
        found = self._look(caller, room_id, cursor, call)
        longest = found.snapshot.policy.wait_for_turn_max_wait_ms
        if longest == TURN_WAIT_MS:
            longest = max(longest, survives_ms)
        budget = (longest if max_wait_ms is None else min(max_wait_ms, longest)) / 1_000
        if _is_settled(found, cursor) or budget <= 0:
            return found
        crowd = self._rooms.count_members(room_id)  # every member may be waiting
        note = self.note_wait(caller, room_id)

        def look(pause: Pause) -> Wait | None:
            if pause.called:  # the stick was offered to this caller: claim it without reading first
                found = self._claim_or_renew(caller, room_id, call)
            else:
                found = self._look(caller, room_id, cursor, call, again=not pause.is_last)
            if _is_settled(found, cursor) or pause.is_last:
                return found
            self._prepare(pause, found.snapshot, crowd)
            note.begin()
            return None

        seat = seat_channel(room_id, caller.agent_id)
        try:
            found = wait_for(self._bell, [room_channel(room_id)], look, budget, call, announce=seat) or found
        finally:
            if found.status == "not_yet":
                note.end()
        return found

    def note_wait(self, caller: Caller, room_id: str) -> WaitNote:
        """Where to note that the caller waits."""
        return WaitNote(self._store, room_id, caller.agent_id)

    def _prepare(self, pause: Pause, snapshot: Snapshot, crowd: int) -> None:
        expected = snapshot.find(snapshot.expected)
        pause.processes = (expected.process,) if expected else ()  # if it ends, the wait looks at once
        pause.seconds = self._patience(snapshot)
        pause.linger = _linger(crowd)
        pause.progress = describe(snapshot)

    def look_for_offer(self, caller: Caller, room_id: str, call: Call, pause: Pause) -> Wait | None:
        """Claim the stick if it was offered to the caller, or find that the caller may take over.

        None if neither: then `pause` knows how long a listener may sleep. A free stick is an offer only if another
        agent's handoff waits with it.
        """

        def look() -> tuple[Snapshot, Wait | None]:
            with self._store.read() as tx:
                snapshot = self._rooms.load(tx, room_id)
                member, room = snapshot.find(caller.agent_id), snapshot.room
                if member is None or room.state == "closed":
                    return snapshot, None  # it has left the room since, or the room has ended
                if not member.takes_turns and room.reserved_for != member.agent_id:
                    return snapshot, None
                found = self._judge(tx, snapshot, caller)
                snapshot.look_around()  # `describe` and the views need it after the transaction
            return snapshot, found

        snapshot, found = look_surely(look)
        if found is None or found.status == "takeover_available":
            return found
        if found.status == "your_turn" and _is_offered(found, caller):
            found = self._claim_or_renew(caller, room_id, call)
            return found if found.claim is not None else None
        expected = snapshot.find(snapshot.expected)
        if expected and expected.agent_id != caller.agent_id:
            pause.processes = (*pause.processes, expected.process)  # a listener may wait in many rooms
        pause.seconds = min(pause.seconds, self._patience(snapshot))
        pause.progress = describe(snapshot)
        return None

    def awaited(self, room_id: str) -> Awaited:
        with self._store.read() as tx:
            snapshot = self._rooms.load(tx, room_id)
            room = snapshot.room
            event = latest_grant(tx, room) if room.owner else find_pending(tx, room)
            member, who = snapshot.find(snapshot.expected), snapshot.who(snapshot.expected)
        seconds = (snapshot.now - event.created_at) / SECOND if event else 0.0
        return Awaited(room, who, member.process if member else None, seconds, self._patience(snapshot))

    def _patience(self, snapshot: Snapshot) -> float:
        """The longest sleep: until a lease or claim lapses, or until the bell needs a re-check."""
        patience = self._bell.recheck_seconds(snapshot.policy.wait_for_turn_poll_ms / 1_000)
        patience = min(patience, renewal_ms(snapshot) / 1_000)
        lapse = snapshot.room.lease_expires_at or snapshot.room.claim_expires_at
        if lapse is not None and lapse > snapshot.now:
            patience = min(patience, (lapse - snapshot.now) / SECOND + 0.001)  # wake just after the lapse
        return patience

    def _look(self, caller: Caller, room_id: str, cursor: int | None, call: Call, *, again: bool = False) -> Wait:
        """Look at the room, and claim the stick if the caller may. Only a change opens a write transaction.

        Most looks are made `again` by a waiter that goes on waiting. They read only the two members that it needs.
        """
        call.check()
        ahead: Ahead = _expect_grant

        def look() -> tuple[Snapshot, Wait | None]:
            nonlocal ahead
            with self._store.look() as tx:
                expect_pending(tx, room_id)
                snapshot = self._rooms.load(tx, room_id, caller.agent_id)
                member = admit(tx, snapshot, caller, even_closed=True)
                # An owner renews its lease, and gets its handoff again there.
                found = None if snapshot.room.owner == caller.agent_id else self._judge(tx, snapshot, caller)
                if found is None and self._store.is_server:  # otherwise it would be read there, under the lock
                    ahead = partial(_expect_received, snapshot.room, latest_grant(tx, snapshot.room))
                if found is None or found.status == "your_turn" or is_due(snapshot, member, caller):
                    found = None
                elif _is_settled(found, cursor) or not again:
                    snapshot.look_around()
            return snapshot, found

        _, found = look_surely(look)
        return found or self._claim_or_renew(caller, room_id, call, ahead)

    def _claim_or_renew(self, caller: Caller, room_id: str, call: Call, ahead: Ahead | None = None) -> Wait:
        """Look again inside a write transaction. Claim the stick, or renew the lease if the caller already has it.

        Another wait of the same agent may have claimed it. The agent may not know of that claim, so this reply tells of
        it too.
        """
        with self._rooms.change(caller, room_id, even_closed=True, ahead=ahead or _expect_grant) as (tx, snapshot):
            found = self._judge(tx, snapshot, caller)
            call.check()  # a cancelled wait claims nothing
            if found.status != "your_turn":
                snapshot.look_around()
                return found
            call.undo = attempts = _Attempts(partial(self.give_back, caller), call.undo)
            if found.reason == "already_owner":
                # This call may have claimed it before, and could not know that.
                claim, room = attempts.find(snapshot.room) or self._find_made(snapshot.room), renew(tx, snapshot)
                claim = claim and claim.told_again(call.reply, room)
                found = found._replace(snapshot=snapshot.with_room(room), claim=claim)
            else:
                found = self._claim(tx, found, caller, call)
            if found.claim is not None:
                attempts.note(found.claim)
            return found

    def _judge(self, tx: Transaction, snapshot: Snapshot, caller: Caller) -> Wait:
        """The result if the wait ended now. Changes nothing."""
        room = snapshot.room
        if room.state == "closed":
            return Wait("closed", snapshot)
        if room.owner == caller.agent_id:
            grant = latest_grant(tx, room)
            received = find_event(tx, grant.details.get("handoff_event_seq")) if grant else None
            return _your_turn(snapshot, "already_owner", received)
        if room.state == "idle" or room.reserved_for == caller.agent_id:
            pending = find_pending(tx, room)
            passed = pending is not None and pending.event_type == "pass"
            reason = "open_claim" if room.state == "idle" else "direct_pass" if passed else "sequence"
            return _your_turn(snapshot, reason, pending)
        if snapshot.may_take_over(caller.agent_id, prior_owner(tx, room)):
            return Wait("takeover_available", snapshot, snapshot.takeover_reason)
        return Wait("not_yet", snapshot)

    def _claim(self, tx: Transaction, found: Wait, caller: Caller, call: Call) -> Wait:
        snapshot = found.snapshot
        received = snapshot.room.pending_handoff_event_seq
        details = {"handoff_event_seq": received}
        claimed = _grant(tx, snapshot, "claim", found.from_agent_id, caller.agent_id, found.reason, details)
        claim = _new_claim(claimed, snapshot, received, call.reply)
        self._latest.note(claimed.room_id, claim)
        return found._replace(snapshot=snapshot.with_room(claimed), claim=claim)

    def _find_made(self, room: Room) -> Claim | None:
        """The claim that this room's lease is from, if this process made it and its owner may not know of it."""
        claim = self._latest.get(room.room_id)
        return claim if claim and claim.has_lease_of(room) else None

    def heartbeat(
        self, caller: Caller, room_id: str, lease_id: str, turn_id: int, call: Call
    ) -> tuple[Room, Claim | None]:
        """Extend a lease that the caller did not name. So the call does not show that the caller knows of its turn.

        Returns the claim that the lease is from, if this process made it.
        """
        with self._rooms.change(caller, room_id, lease=Lease(lease_id, turn_id)) as (tx, snapshot):
            claim, room = self._find_made(snapshot.room), renew(tx, snapshot)
            if claim is not None:
                claim = claim.told_again(call.reply, room)
                call.undo = partial(self.give_back, caller, claim)
            return room, claim

    def note_known(self, room_id: str, lease_id: str) -> None:
        """Note that a caller has named a lease, so it knows of its turn."""
        claim = self._latest.get(room_id)
        if claim is not None and claim.room.lease_id == lease_id:
            claim.telling.know()

    def give_back(self, caller: Caller, claim: Claim, unread: bool = False) -> bool:
        """Undo a claim or a takeover whose reply was lost, or stays `unread`. Returns whether it was undone.

        It is kept if another reply may tell the caller of it, or if the caller knows of it; see `Telling`.
        The stick is offered again as before. It becomes free if it was taken from an owner, because that owner's lease
        must not come back to life. It also becomes free if the agent that it was offered to has left or is gone. The
        next owner gets the handoff that this owner had.
        """
        claim.telling.lose(claim.reply)
        if not claim.telling.is_lost(unread):
            return False
        return self._store.briefly(partial(self._give_back, caller, claim, unread))

    def _give_back(self, caller: Caller, claim: Claim, unread: bool) -> bool:
        before, claimed = claim.before, claim.room
        with self._rooms.undo(claimed.room_id, ahead=_expect_event) as (tx, snapshot):
            room = snapshot.room
            if not claim.has_lease_of(room) or not claim.telling.is_lost(unread):
                return False  # its owner has learned of the claim some other way, and keeps it
            offered_to = snapshot.find(before.reserved_for)
            to = None if offered_to is None or snapshot.is_gone(offered_to) else offered_to.agent_id
            _, room = append_event(
                tx,
                room,
                "return",
                by=caller.agent_id,
                to=to,
                reason="the claim could not be delivered",
                details={"handoff_event_seq": claim.handoff_event_seq},
            )
            save_room(tx, room._replace(claim_expires_at=before.claim_expires_at if to else None))
            reopen_handoff(tx, snapshot, before.pending_handoff_event_seq, to, claim.claimed_at)
        return True

    def takeover_stick(
        self, caller: Caller, room_id: str, expected_turn_id: int, reason: str, call: Call | None = None
    ) -> Takeover:
        """Take the stick from an owner or recipient that failed. The reason is recorded in the room's log."""
        check_length("reason", reason, self._settings.max_reason_chars, "max_reason_chars")
        return self._rooms.briefly(partial(self._take_over, caller, room_id, expected_turn_id, reason, call))

    def _take_over(
        self, caller: Caller, room_id: str, expected_turn_id: int, reason: str, call: Call | None
    ) -> Takeover:
        with self._rooms.change(caller, room_id, ahead=_expect_takeover) as (tx, snapshot):
            _require_takeover(tx, snapshot, caller, expected_turn_id)
            taken = _take(tx, snapshot, caller, reason, {"cause": snapshot.takeover_reason})
            self._latest.note(room_id, taken.claim)
            if call is not None:
                call.undo = partial(self.give_back, caller, taken.claim)
            return taken

    def takeover_is_open(self, caller: Caller, snapshot: Snapshot) -> bool:
        """Whether `takeover_stick` would succeed for this caller right now."""
        if snapshot.takeover_reason is None or snapshot.find(caller.agent_id) is None:
            return False  # usually, and without a transaction

        def look() -> tuple[Snapshot, bool]:
            with self._rooms.look(None, snapshot.room.room_id) as (tx, now):
                return now, now.may_take_over(caller.agent_id, prior_owner(tx, now.room))

        return look_surely(look)[1]


def force_stick(tx: Transaction, snapshot: Snapshot, person: Person, reason: str) -> Takeover:
    """Take the stick for a person from an agent that still has time. The sequence goes on after that agent."""
    revoked = snapshot.find(snapshot.expected)
    if revoked is None or revoked.agent_id == person.caller.agent_id:
        why, message, advice = _why_not(snapshot, person.caller)
        raise TakeoverNotAvailable(message, advice, reason=why, **snapshot.facts)
    return _take(tx, snapshot, person.caller, reason, {"cause": FORCED})


def _expect_event(tx: Transaction, room_id: str) -> None:
    expect_event(tx)


def _expect_grant(tx: Transaction, room_id: str) -> None:
    expect_event(tx)
    expect_pending(tx, room_id)


def _expect_received(room: Room, grant: Event | None, tx: Transaction, room_id: str) -> None:
    """Fetch ahead the handoff that the owner goes on from."""
    expect_grant(tx, room)
    received = grant.details.get("handoff_event_seq") if grant else None
    if received is not None:
        tx.ahead("find_event", event_seq=received)


def _expect_takeover(tx: Transaction, room_id: str) -> None:
    _expect_grant(tx, room_id)
    tx.ahead("latest_handoff", room_id=room_id)


def _take(tx: Transaction, snapshot: Snapshot, caller: Caller, reason: str, details: dict[str, Any]) -> Takeover:
    room_id = snapshot.room.room_id
    handoff = latest_handoff(tx, room_id)
    since = handoff.event_seq if handoff else 0
    details = {**details, "handoff_event_seq": since or None}
    revoked = snapshot.find(snapshot.expected)
    if revoked and revoked.takes_turns and is_person(caller.agent_id):  # after an agent's turn, its own place counts
        details["sequence_index"] = revoked.ordinal
    notes = latest_notes(tx, room_id, since)
    taken = _grant(tx, snapshot, "takeover", snapshot.expected, caller.agent_id, reason, details)
    claim = _new_claim(taken, snapshot, since or None, object())
    return Takeover(claim, snapshot.expected, snapshot.who(snapshot.expected), handoff, notes)


def _grant(
    tx: Transaction,
    snapshot: Snapshot,
    kind: str,
    by: str | None,
    to: str,
    reason: str | None,
    details: dict[str, Any],
) -> Room:
    """Start the next turn with a new lease. Its owner accepts the pending handoff."""
    room = snapshot.room
    _, owned = append_event(tx, room, kind, by=by, to=to, turn_id=room.turn_id + 1, reason=reason, details=details)
    until = snapshot.later(snapshot.policy.owner_lease_ttl_ms)
    owned = owned._replace(lease_id=new_lease(), lease_expires_at=until)
    save_room(tx, owned)
    accept_handoff(tx, snapshot, room.pending_handoff_event_seq, to)
    return owned


def _require_takeover(tx: Transaction, snapshot: Snapshot, caller: Caller, expected_turn_id: int) -> None:
    require_turn(snapshot, caller, expected_turn_id)
    if not snapshot.may_take_over(caller.agent_id, prior_owner(tx, snapshot.room)):
        why, message, advice = _why_not(snapshot, caller)
        facts = {"reserved_for": snapshot.room.reserved_for, **snapshot.facts}
        raise TakeoverNotAvailable(message, advice, reason=why, **facts)


def _why_not(snapshot: Snapshot, caller: Caller) -> tuple[str, str, Advice | None]:
    if snapshot.expected is None:
        return "not_owned", "No agent holds the stick.", Advice("claim_stick")
    if snapshot.expected == caller.agent_id:
        return "your_own_turn", "It is your own turn.", Advice("keep_stick")
    if snapshot.takeover_reason is None:
        return "not_timed_out", f"{snapshot.who(snapshot.expected)} still has time.", Advice("await_takeover")
    return "prior_owner", "You held the stick last, so another active member may take over first.", None


def describe(snapshot: Snapshot) -> str:
    """One line for a waiting agent: which agent it waits for, and how long that agent still has."""
    room = snapshot.room
    member = snapshot.find(snapshot.expected)
    if member is None:
        return f"Room {room.canonical_path} is {snapshot.state}."
    lapse = room.lease_expires_at if room.owner else room.claim_expires_at
    left = max(0, (lapse or snapshot.now) - snapshot.now) // SECOND
    what = "holds the stick" if room.owner else "is next and has not claimed yet"
    return f"{member.label} {what}; others may take over in {left // 60} min {left % 60} s unless it answers."


def _linger(crowd: int) -> float:
    """How long to wait after a ring before looking. Random, so that a crowd spreads its looks to LOOKS_PER_SECOND."""
    share = int.from_bytes(os.urandom(2), "big") / 2**15
    return max(LINGER_SECONDS, share * crowd / LOOKS_PER_SECOND)


def _is_settled(found: Wait, cursor: int | None) -> bool:
    news = cursor is not None and found.snapshot.room.last_event_seq > cursor
    return news or found.status != "not_yet"


def _is_offered(found: Wait, caller: Caller) -> bool:
    if found.reason == "open_claim":
        return found.handoff is not None and found.from_agent_id != caller.agent_id
    return found.reason != "already_owner"


def _your_turn(snapshot: Snapshot, reason: str, event: Event | None) -> Wait:
    if event is None:
        return Wait("your_turn", snapshot, reason)
    return Wait("your_turn", snapshot, reason, event.handoff, event.from_agent_id, event.who(event.from_agent_id))
