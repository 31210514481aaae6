"""A room's append-only log, and the room row as its projection.

Every change of a room is an event. `project` computes the row after an event. The domains write both in one
transaction, and `verify.py` replays the log to prove that they agree.
"""

from __future__ import annotations

from conch.agents.records import label
from conch.bells.base import room_channel
from conch.errors import Advice, StoreCorrupt
from conch.ids import new_id
from conch.lean import Any, NamedTuple, json
from conch.rooms.handoffs import Handoff, load_handoff
from conch.rooms.room import Room, load_room
from conch.storage.base import LAST, Query, Row, Store, Transaction

FORCED = "forced"  # the cause of a takeover by a person while the owner or the recipient still had time
GRANTS = ("claim", "takeover")  # someone gets the stick
HANDOFFS = ("release", "pass")  # its owner hands it over
PAGE = 500  # events per query, so that a long log never has to fit into memory


class Event(NamedTuple):
    event_seq: int
    event_id: str
    room_id: str
    turn_id: int
    event_type: str
    from_agent_id: str | None
    from_agent: str | None
    to_agent_id: str | None
    to_agent: str | None
    handoff: Handoff | None
    reason: str | None
    details: dict[str, Any]
    created_at: int
    previous_seq: int

    @property
    def is_forced(self) -> bool:
        """Whether a person took the stick from an agent that still had time."""
        return self.details.get("cause") == FORCED

    @property
    def names(self) -> dict[str, str]:
        """The names that the agents of this event had when it happened, by agent_id."""
        known = [(self.from_agent_id, self.from_agent), (self.to_agent_id, self.to_agent)]
        known += zip(self.details.get("order", ()), self.details.get("names", ()), strict=False)
        return {agent_id: name for agent_id, name in known if agent_id is not None and name is not None}

    def who(self, agent_id: str | None) -> str:
        """What people called an agent of this event when it happened."""
        return label(agent_id, self.names.get(agent_id or ""))


def append_event(
    tx: Transaction,
    room: Room,
    event_type: str,
    *,
    by: str | None = None,
    to: str | None = None,
    turn_id: int | None = None,
    handoff_json: str | None = None,
    reason: str | None = None,
    details: dict[str, Any] | None = None,
) -> tuple[Event, Room]:
    """Write an event, with the names that its agents have now, and ring the bell of the room.

    Returns the event, without the names, and the room row after it. The caller saves that row.
    """
    columns: Row = {
        "event_seq": next_event_seq(tx),
        "event_id": new_id("evt"),
        "room_id": room.room_id,
        "turn_id": room.turn_id if turn_id is None else turn_id,
        "event_type": event_type,
        "from_agent_id": by,
        "to_agent_id": to,
        "handoff_json": handoff_json,
        "reason": reason,
        "details_json": json.dumps(details) if details else None,
        "created_at": tx.now,
        "previous_seq": room.last_event_seq,
    }
    tx.run("append_event", **columns)
    event = to_event({**columns, "from_agent": None, "to_agent": None})
    tx.ring(room_channel(room.room_id))  # rings after the commit
    return event, project(room, event)


def project(room: Room, event: Event) -> Room:
    """The room after an event. The log does not hold lease and claim deadlines; the caller adds them."""
    room = room._replace(last_event_seq=event.event_seq, updated_at=event.created_at)
    if event.event_type in GRANTS:
        granted = _without_owner(room)._replace(pending_handoff_event_seq=None)
        index = event.details.get("sequence_index", room.sequence_index)
        return granted._replace(state="owned", owner=event.to_agent_id, turn_id=event.turn_id, sequence_index=index)
    if event.event_type in HANDOFFS:
        index = event.details.get("sequence_index", room.sequence_index)
        return _offered(room, event, event.event_seq)._replace(sequence_index=index)
    if event.event_type == "return":  # a claim that was not delivered: offer the same handoff again
        return _offered(room, event, event.details.get("handoff_event_seq"))
    if event.event_type == "decline":  # an observer has stopped waiting: the same handoff goes to the next one
        return _offered(room, event, room.pending_handoff_event_seq)._replace(
            sequence_index=event.details.get("sequence_index", room.sequence_index)
        )
    if event.event_type == "resume":  # a stick reserved for the adopted agent goes to the agent that adopted it
        return room._replace(reserved_for=event.to_agent_id) if room.reserved_for == event.from_agent_id else room
    if event.event_type == "leave":  # a stick reserved for an agent that leaves becomes free
        return _without_owner(room) if room.reserved_for == event.from_agent_id else room
    if event.event_type == "kick":  # what the agent held is open to all, with the handoff that it went on from
        held = event.to_agent_id in (room.owner, room.reserved_for)
        handoff_event_seq = event.details.get("handoff_event_seq")
        return _without_owner(room)._replace(pending_handoff_event_seq=handoff_event_seq) if held else room
    if event.event_type == "reorder":
        return room._replace(sequence_index=event.details["sequence_index"])
    if event.event_type == "policy":
        return room._replace(policy_json=json.dumps(event.details["policy"], sort_keys=True))
    if event.event_type == "close":
        return _without_owner(room)._replace(state="closed")
    return room  # join, note


def _without_owner(room: Room) -> Room:
    return room._replace(
        state="idle",
        owner=None,
        reserved_for=None,
        lease_id=None,
        lease_expires_at=None,
        claim_expires_at=None,
    )


def _offered(room: Room, event: Event, handoff_event_seq: int | None) -> Room:
    room = _without_owner(room)._replace(pending_handoff_event_seq=handoff_event_seq)
    return room._replace(state="reserved", reserved_for=event.to_agent_id) if event.to_agent_id else room


def next_event_seq(tx: Transaction) -> int:
    row = tx.one("next_event")
    assert row is not None
    return int(row["event_seq"])


def expect_event(tx: Transaction) -> None:
    """Fetch ahead the number of the next event, if the transaction will probably append one."""
    tx.ahead("next_event")


def expect_pending(tx: Transaction, room_id: str) -> None:
    """Fetch ahead the pending handoff."""
    tx.ahead("pending_event", room_id=room_id)


def find_pending(tx: Transaction, room: Room) -> Event | None:
    """The release or pass whose handoff waits for the next owner, if there is one."""
    if room.pending_handoff_event_seq is None:
        return None
    row = tx.one("pending_event", room_id=room.room_id)
    return None if row is None else to_event(row)


def find_event(tx: Transaction, event_seq: int | None) -> Event | None:
    row = None if event_seq is None else tx.one("find_event", event_seq=event_seq)
    return None if row is None else to_event(row)


def latest_grant(tx: Transaction, room: Room) -> Event | None:
    """The claim or takeover that started the current turn."""
    row = tx.one("latest_grant", room_id=room.room_id, turn_id=room.turn_id)
    return None if row is None else to_event(row)


def expect_grant(tx: Transaction, room: Room) -> None:
    """Fetch ahead what `latest_grant` reads."""
    if room.owner:
        tx.ahead("latest_grant", room_id=room.room_id, turn_id=room.turn_id)


def latest_handoff(tx: Transaction, room_id: str) -> Event | None:
    """The last time that an owner released or passed the stick."""
    row = tx.one("latest_handoff", room_id=room_id)
    return None if row is None else to_event(row)


def latest_notes(tx: Transaction, room_id: str, after: int) -> list[Event]:
    """The notes after an event, newest first: a page, plus one note if there is another page."""
    return [to_event(row) for row in tx.all("latest_notes", room_id=room_id, after=after, limit=PAGE + 1)]


def prior_owner(tx: Transaction, room: Room) -> str | None:
    """The agent that wrote the pending handoff, if there is one."""
    pending = find_pending(tx, room)
    return pending.from_agent_id if pending else None


class EventPage(NamedTuple):
    events: list[Event]
    cursor: int
    has_more: bool
    has_older: bool = False
    """Whether there are events before the latest ones."""


def list_events(store: Store, room_id: str, after: int | None, limit: int) -> EventPage:
    """Events after a cursor, or the latest if there is no cursor. Oldest first."""
    latest: Query = ("latest_events", {"room_id": room_id, "through": LAST, "limit": limit + 1})
    following: Query = ("events_after", {"room_id": room_id, "after": after, "limit": limit})
    statement, given = latest if after is None else following
    with store.look() as tx:
        tx.ahead(statement, **given)
        room = load_room(tx, room_id)
        rows = tx.all(statement, **given)[:: -1 if after is None else 1]
    events = [to_event(row) for row in rows[-limit:]]
    cursor = events[-1].event_seq if events else max(after or 0, 0)  # an empty page keeps the caller's cursor
    return EventPage(events, cursor, cursor < room.last_event_seq, len(rows) > limit)


def to_event(row: Row) -> Event:
    """Load an event from its row. StoreCorrupt if its JSON is damaged."""
    try:
        handoff = load_handoff(row["handoff_json"])
        details = json.loads(row["details_json"]) if row["details_json"] else {}
    except ValueError:
        message = f"Event {row['event_seq']} of room {row['room_id']} is damaged and cannot be read."
        raise StoreCorrupt(message, Advice("verify_store"), event_seq=row["event_seq"]) from None
    return Event(
        event_seq=row["event_seq"],
        event_id=row["event_id"],
        room_id=row["room_id"],
        turn_id=row["turn_id"],
        event_type=row["event_type"],
        from_agent_id=row["from_agent_id"],
        from_agent=row["from_agent"],
        to_agent_id=row["to_agent_id"],
        to_agent=row["to_agent"],
        handoff=handoff,
        reason=row["reason"],
        details=details,
        created_at=row["created_at"],
        previous_seq=row["previous_seq"],
    )
