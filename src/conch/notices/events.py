"""Protocol events: notices that their recipient must see and accept.

A notice that repeats an unread one is not stored again; the first one counts how often it came. An agent can cause 60
new notices a minute for each recipient, not counting those of high urgency.

Agents send HANDOFF and BLOCKED. Only the system sends INCURSION and RESUME; it also writes a HANDOFF when an owner
releases or passes the stick. An event belongs to its recipient's `agent_id`. It keeps the names that the
agents had when it was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from conch.agents.records import Caller, label
from conch.bells.base import agent_channel
from conch.clock import MINUTE, SECOND
from conch.config import Settings
from conch.errors import (
    Advice,
    EventNotFound,
    InvalidArgument,
    LimitExceeded,
    MarkForbidden,
    RateLimited,
    UnknownRecipient,
    no_cursor,
    some_of,
)
from conch.host.paths import parse_scope, shown
from conch.ids import new_id
from conch.lean import Any, NamedTuple, json
from conch.notices import activity
from conch.rooms.handoffs import Handoff
from conch.rooms.log import Event
from conch.rooms.presence import Rooms
from conch.rooms.room import Member, Room, Snapshot, expect_called
from conch.storage.base import NOW, Row, Store, Transaction
from conch.warnings import Warnings

_Payload = dict[str, Any]

VERSION = "v1"
STATES = ("unread", "seen", "accepted")
MARKS = ("seen", "accepted")
_LONGEST_SUBJECT = 120
MOST_PER_MINUTE = 60
URGENCIES = ("low", "medium", "high")
_MOST_SHOWN = 50  # members that a refusal looks at
_FIRST, _MEDIUM, _LAST = range(3)
_PRIORITIES = {"high": _FIRST, "low": _LAST}  # a notice without an urgency counts as medium
SENDABLE = {
    "HANDOFF": ("subject", "summary", "next_action"),
    "BLOCKED": ("subject", "blocker", "requested_action", "urgency"),
}
_STORED = {
    **SENDABLE,
    "INCURSION": ("incursion_kind", "owner_agent", "incoming_agent", "owner_liveness", "resolution_hint"),
    "RESUME": ("resume_reason", "prior_session_agent", "adopted_agent", "evidence"),
}
_SYSTEM_ONLY = {
    "INCURSION": "the system records it when a reservation overlaps another",
    "RESUME": "the system records it when an identity is adopted",
}


class ProtocolEvent(NamedTuple):
    event_id: str
    room_id: str
    event_type: str
    project_root: str
    bead_id: str | None
    from_agent_id: str | None
    from_agent: str | None
    to_agent_id: str | None
    to_agent: str | None
    scope: str | None
    payload: _Payload
    state: str
    created_at: int
    seen_at: int | None
    accepted_at: int | None
    times: int
    latest_at: int | None
    """When it came again last, if it came more than once."""

    @property
    def sender(self) -> str:
        """What people call its sender."""
        return label(self.from_agent_id, self.from_agent or "conch")

    @property
    def recipient(self) -> str | None:
        """What people call its recipient; None if the next agent to claim the stick gets it."""
        return None if self.to_agent_id is None else label(self.to_agent_id, self.to_agent)


class Sent(NamedTuple):
    event: ProtocolEvent
    warnings: Warnings


class Posted(NamedTuple):
    event_id: str
    is_new: bool
    """False if it repeats a notice that its recipient has not read yet."""


class Notices:
    def __init__(self, store: Store, rooms: Rooms, settings: Settings) -> None:
        self._store = store
        self._rooms = rooms
        self._settings = settings

    def send(
        self,
        caller: Caller,
        room_id: str,
        event_type: str,
        to_agent: str,
        payload: _Payload,
        bead_id: str | None = None,
        scope: str | None = None,
    ) -> Sent:
        """Send an event to one member of the room, given by name or agent_id. RateLimited after too many."""
        from conch.bus.peers import present_name_in_room  # not at the top: reserving and handing over need neither
        from conch.host.beads import check_bead

        checked = _check_payload(event_type, payload, self._settings.max_handoff_bytes)
        root = self._rooms.root(room_id)
        within = None if scope is None else shown(scope, parse_scope(scope, root).path)
        warnings = check_bead(root, bead_id)

        def send() -> Callable[[], list[Row]]:
            with self._rooms.change(caller, room_id, ahead=partial(expect_called, to_agent)) as (tx, snapshot):
                sender = snapshot.member(caller.agent_id)
                recipient = find_recipient(snapshot, present_name_in_room(tx, room_id, to_agent))
                posted = post(tx, snapshot.room, event_type, checked, sender, recipient, sender, bead_id, within)
                if posted.is_new:
                    # An heir may get the notice later; the timeline keeps its first recipient.
                    first = {"to_agent_id": recipient.agent_id}
                    activity.record(tx, room_id, event_type, sender, posted.event_id, first)
                return tx.last("find_protocol_event", event_id=posted.event_id)

        (row,) = self._rooms.briefly(send)()
        return Sent(to_protocol_event(row), warnings)

    def inbox(
        self,
        caller: Caller,
        room_id: str,
        states: list[str],
        limit: int,
        after: str | None = None,
        bead_id: str | None = None,
    ) -> list[ProtocolEvent]:
        """The events sent to the caller, the most urgent and then the oldest first, after an event_id.

        With `bead_id`, only those about this work item.
        """
        given: Row = {"agent_id": caller.agent_id, "room_id": room_id, "priority": _FIRST, "number": 0, "limit": limit}
        given["bead_id"] = bead_id or ""  # no work item has an empty id

        def expect(tx: Transaction, room_id: str) -> None:
            for state in states if after is None else ():
                tx.ahead("inbox", state=state, **given)

        with self._rooms.look(caller, room_id, expect) as (tx, _):
            if after is not None:
                given["priority"], given["number"] = _position(tx, after)
            # The index has the events of each state in order, so that no query reads more than the limit.
            rows = [row for state in states for row in tx.all("inbox", state=state, **given)]
        rows.sort(key=lambda row: (row["priority"], row["number"]))
        return [to_protocol_event(row) for row in rows[:limit]]

    def mark(self, caller: Caller, event_id: str, mark: str) -> ProtocolEvent:
        """Mark a received event `seen` or `accepted`. `accepted` is final; marking again changes nothing."""
        with self._store.look() as tx:
            room_id = _load_received(tx, event_id, caller).room_id

        def expect(tx: Transaction, room_id: str) -> None:
            tx.ahead("find_protocol_event", event_id=event_id)

        with self._rooms.change(caller, room_id, even_closed=True, ahead=expect) as (tx, snapshot):
            event = _load_received(tx, event_id, caller)  # again under the lock: an adoption may have moved the event
            if event.state == "unread" or (mark == "accepted" and event.state != "accepted"):
                tx.run("mark_seen" if mark == "seen" else "mark_accepted", event_id=event_id, now=tx.now)
                activity.record(tx, room_id, mark, snapshot.member(caller.agent_id), event_id)
                accepted_at = tx.now if mark == "accepted" else None
                event = event._replace(state=mark, seen_at=event.seen_at or tx.now, accepted_at=accepted_at)
            return event


def _load_received(tx: Transaction, event_id: str, caller: Caller) -> ProtocolEvent:
    event = load_event(tx, event_id)
    if event.to_agent_id != caller.agent_id:
        reason = f"only its recipient, {event.recipient}, can" if event.recipient else "it has no recipient"
        message = f"You cannot mark notice {event_id}: {reason}."
        raise MarkForbidden(message, Advice("find_notices"), event_id=event_id, to_agent=event.to_agent)
    return event


def find_recipient(snapshot: Snapshot, text: str) -> Member:
    """Find a member by name, agent_id or label."""
    found = snapshot.called(text)
    if found is None:
        names = some_of([member.label for member in snapshot.roll.shown(limit=_MOST_SHOWN).members])
        message = f"{text[:80]!r} is not in room {snapshot.room.room_id}. Its members: {names}."
        raise UnknownRecipient(message, field="to_agent", to_agent=text[:80])
    return found


# -- checking the payload


def _check_payload(event_type: str, payload: _Payload, max_bytes: int) -> _Payload:
    """The payload with its defaults; InvalidArgument names the wrong field."""
    if event_type in _SYSTEM_ONLY:
        message = f"Agents cannot send {event_type}: {_SYSTEM_ONLY[event_type]}."
        raise InvalidArgument(message, field="event_type", reason="system_only")
    if event_type not in SENDABLE:
        raise InvalidArgument(f"event_type must be one of {', '.join(SENDABLE)}.", field="event_type")
    for name in SENDABLE[event_type]:
        _check_text(event_type, payload, name)
    for name in payload:
        if name not in (*SENDABLE[event_type], "requires_ack"):
            known = ", ".join((*SENDABLE[event_type], "requires_ack"))
            message = f"payload.{name[:80]} does not belong to {event_type}."
            raise InvalidArgument(message, Advice("fit_payload", {"known": known}), field=f"payload.{name[:80]}")
    _check_urgency(event_type, payload)
    checked = {**payload, "requires_ack": payload.get("requires_ack", True)}
    _check_ack(event_type, checked["requires_ack"])
    _check_size(checked, max_bytes)
    return checked


def _check_text(event_type: str, payload: _Payload, name: str) -> None:
    field, value = f"payload.{name}", payload.get(name)
    if value is None:
        raise InvalidArgument(f"{field} is required for {event_type}.", field=field)
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(f"{field} must be a non-empty string.", field=field)


def _check_urgency(event_type: str, payload: _Payload) -> None:
    if event_type == "BLOCKED" and payload["urgency"] not in URGENCIES:
        message = f"payload.urgency must be one of {', '.join(URGENCIES)}."
        raise InvalidArgument(message, field="payload.urgency")


def _check_ack(event_type: str, requires_ack: Any) -> None:
    if not isinstance(requires_ack, bool):
        raise InvalidArgument("payload.requires_ack must be true or false.", field="payload.requires_ack")
    if event_type == "BLOCKED" and not requires_ack:
        raise InvalidArgument(
            "payload.requires_ack must be left out for BLOCKED: the recipient must always accept it.",
            field="payload.requires_ack",
        )


def _check_size(payload: _Payload, max_bytes: int) -> None:
    size = len(json.dumps(payload, ensure_ascii=False).encode())
    if size > max_bytes:
        message = f"payload is {size} bytes long; at most {max_bytes} are allowed (CONCH_MAX_HANDOFF_BYTES)."
        raise LimitExceeded(message, field="payload", limit=max_bytes, actual=size)


# -- writing


def insert_event(
    tx: Transaction,
    room: Room,
    event_type: str,
    payload: _Payload,
    sender: activity.Named | None,
    recipient: activity.Named | None,
    bead_id: str | None = None,
    scope: str | None = None,
    handoff_event_seq: int | None = None,
    caused_by: str | None = None,
) -> str:
    """Store a new event; returns its id."""
    event_id = new_id("proto")
    tx.run(
        "insert_protocol_event",
        event_id=event_id,
        room_id=room.room_id,
        event_type=event_type,
        bead_id=bead_id,
        from_agent_id=sender.agent_id if sender else None,
        from_agent=sender.name if sender else None,
        to_agent_id=recipient.agent_id if recipient else None,
        to_agent=recipient.name if recipient else None,
        scope=scope,
        payload_json=json.dumps(payload, ensure_ascii=False),
        handoff_event_seq=handoff_event_seq,
        holder_id=sender.agent_id if sender and handoff_event_seq is not None else None,
        created_at=tx.now,
        caused_by=caused_by,
        priority=_priority(payload),
    )
    if recipient is not None and handoff_event_seq is None:  # the recipient of a stick is rung in its room
        tx.ring(agent_channel(recipient.agent_id))
    return event_id


def post(
    tx: Transaction,
    room: Room,
    event_type: str,
    payload: _Payload,
    sender: activity.Named | None,
    recipient: activity.Named,
    cause: activity.Named,
    bead_id: str | None = None,
    scope: str | None = None,
) -> Posted:
    """Store an event that an agent causes, or count it with the unread one that it repeats.

    RateLimited if the agent has caused too many for this recipient.
    """
    both = {"to_agent_id": recipient.agent_id, "caused_by": cause.agent_id}
    same = {"event_type": event_type, "room_id": room.room_id, "bead_id": bead_id, "scope": scope}
    text = json.dumps(payload, ensure_ascii=False)
    is_limited = _priority(payload) > _FIRST
    if is_limited:
        tx.ahead("earlier_protocol_event", now=NOW, **_flood(both))
    repeated = tx.one("unread_protocol_event", payload_json=text, **both, **same)
    if repeated is not None:
        tx.run("repeat_protocol_event", event_id=repeated["event_id"], now=tx.now)
        return Posted(repeated["event_id"], is_new=False)
    if is_limited:
        _refuse_flood(tx, recipient, both)
    new = insert_event(tx, room, event_type, payload, sender, recipient, bead_id, scope, caused_by=cause.agent_id)
    return Posted(new, is_new=True)


def _refuse_flood(tx: Transaction, recipient: activity.Named, both: Row) -> None:
    first = tx.one("earlier_protocol_event", now=tx.now, **_flood(both))
    if first is not None:
        seconds = -((tx.now - MINUTE - first["created_at"]) // SECOND)
        message = (
            f"{label(recipient.agent_id, recipient.name)} got {MOST_PER_MINUTE} notices from you in the last minute, "
            f"and more are not stored. Try again in {seconds} s."
        )
        raise RateLimited(message, limit=MOST_PER_MINUTE, retry_after_seconds=seconds)


def _flood(both: Row) -> Row:
    """What to ask for the `MOST_PER_MINUTE`th newest notice of a minute. If there is one, the limit is reached."""
    return {**both, "span": MINUTE, "skipped": MOST_PER_MINUTE - 1}


def _priority(payload: _Payload) -> int:
    """0 comes first in the inbox. Only BLOCKED has an urgency."""
    return _PRIORITIES.get(str(payload.get("urgency")), _MEDIUM)


def is_whole(event_type: str, payload: _Payload, priority: int) -> bool:
    """Whether a stored payload has what its type needs, and the event its priority."""
    return priority == _priority(payload) and all(name in payload for name in _STORED[event_type])


def leave_handoff(tx: Transaction, snapshot: Snapshot, to: Member | None, release: Event) -> None:
    """Write the HANDOFF notice for a released or passed stick."""
    assert release.handoff is not None
    payload = handoff_payload(release.handoff)
    sender = snapshot.find(snapshot.room.owner)
    # This is not recorded as activity, because the timeline already shows the release in the room's log.
    insert_event(tx, snapshot.room, "HANDOFF", payload, sender, to, handoff_event_seq=release.event_seq)


def handoff_payload(handoff: Handoff) -> _Payload:
    """The payload of the notice for a handoff."""
    return {
        "subject": str(handoff["status"]).strip().splitlines()[0][:_LONGEST_SUBJECT],
        "summary": handoff["status"],
        "next_action": handoff["next_action"],
        "requires_ack": True,
    }


def accept_handoff(tx: Transaction, snapshot: Snapshot, event_seq: int | None, agent_id: str) -> None:
    """Claiming the stick accepts its handoff, even if the handoff was meant for another agent."""
    if event_seq is None:  # not every turn starts with a handoff
        return
    member = snapshot.member(agent_id)
    given = {"event_seq": event_seq, "agent_id": agent_id, "name": member.name, "now": tx.now}
    activity.record_acceptance(tx, snapshot.room.room_id, given)
    tx.run("accept_handoff", **given)


def readdress_handoff(tx: Transaction, event_seq: int | None, to: Member | None) -> None:
    """Let the notice of a handoff wait for another agent."""
    given = {"agent_id": to.agent_id if to else None, "name": to.name if to else None}
    tx.run("offer_handoff", event_seq=event_seq, **given)


def reopen_handoff(
    tx: Transaction, snapshot: Snapshot, event_seq: int | None, agent_id: str | None, claimed_at: int
) -> None:
    """Undo `accept_handoff` for a claim that was not delivered: the notice waits for its recipient again.

    A notice that was accepted before the claim stays accepted.
    """
    if event_seq is not None:
        member = snapshot.find(agent_id)
        name = member.name if member else None
        tx.run("reopen_handoff", event_seq=event_seq, agent_id=agent_id, name=name, claimed_at=claimed_at)


# -- reading


def load_event(tx: Transaction, event_id: str) -> ProtocolEvent:
    row = tx.one("find_protocol_event", event_id=event_id)
    if row is None:
        message = f"There is no notice {event_id[:80]!r}."
        raise EventNotFound(message, Advice("find_notices"), field="event_id", event_id=event_id[:80])
    return to_protocol_event(row)


def _position(tx: Transaction, event_id: str) -> tuple[int, int]:
    """Where an event is in the inbox."""
    row = tx.one("find_protocol_event", event_id=event_id)
    if row is None:
        raise no_cursor()
    return row["priority"], row["number"]


def to_protocol_event(row: Row) -> ProtocolEvent:
    return ProtocolEvent(
        event_id=row["event_id"],
        room_id=row["room_id"],
        event_type=row["event_type"],
        project_root=row["canonical_path"],
        bead_id=row["bead_id"],
        from_agent_id=row["from_agent_id"],
        from_agent=row["from_agent"],
        to_agent_id=row["to_agent_id"],
        to_agent=row["to_agent"],
        scope=row["scope"],
        payload=json.loads(row["payload_json"]),
        state=row["state"],
        created_at=row["created_at"],
        seen_at=row["seen_at"],
        accepted_at=row["accepted_at"],
        times=row["times"],
        latest_at=row["latest_at"],
    )
