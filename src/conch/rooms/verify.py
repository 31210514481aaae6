"""Verifies rooms: replays every event of the log and compares the result with the stored row."""

from __future__ import annotations

from collections.abc import Iterator

from conch.errors import StoreCorrupt
from conch.lean import Any, NamedTuple
from conch.rooms.log import PAGE, Event, project, to_event
from conch.rooms.room import Room
from conch.storage.base import Store, Transaction

# What the log decides. Leases and deadlines are not in the log, so they cannot be compared.
_REPLAYED = (
    "owner",
    "reserved_for",
    "pending_handoff_event_seq",
    "turn_id",
    "state",
    "sequence_index",
    "policy_json",
    "last_event_seq",
)


class Difference(NamedTuple):
    room_id: str
    canonical_path: str
    what: str
    stored: Any
    replayed: Any


def verify_rooms(store: Store) -> tuple[int, list[Difference]]:
    """Replay all rooms. Returns the number of rooms, and every difference between a stored row and its replay."""
    with store.read() as tx:
        tx.take_time()
        rooms = [Room(**row) for row in tx.all("all_rooms")]
        return len(rooms), [difference for room in rooms for difference in _compare(tx, room)]


def _compare(tx: Transaction, room: Room) -> list[Difference]:
    replayed, members = _fresh(room), dict[str, int]()
    differences: list[tuple[str, Any, Any]] = []
    try:
        for event in _events(tx, room.room_id):
            # Every grant starts a new turn. A gap or a repetition means that events are missing or forged.
            if event.event_type in ("claim", "takeover") and event.turn_id != replayed.turn_id + 1:
                differences.append((f"turn_id of event {event.event_seq}", event.turn_id, replayed.turn_id + 1))
            replayed = project(replayed, event)
            _follow_members(members, event)
    except (StoreCorrupt, KeyError) as problem:  # damaged JSON, or a detail that `project` needs is missing
        differences.append(("log", str(problem), "events that can be replayed"))
        return [Difference(room.room_id, room.canonical_path, *difference) for difference in differences]
    differences += [(name, getattr(room, name), getattr(replayed, name)) for name in _REPLAYED]
    stored = {row["agent_id"]: row["ordinal"] for row in tx.all("room_members", room_id=room.room_id)}
    for agent_id in sorted({*stored, *members}):  # a member may be missing on either side
        differences.append((f"ordinal of member {agent_id}", stored.get(agent_id), members.get(agent_id)))
    return [Difference(room.room_id, room.canonical_path, *d) for d in differences if d[1] != d[2]]


def _fresh(room: Room) -> Room:
    """The room as it was created, before its first event."""
    return Room(
        room_id=room.room_id,
        canonical_path=room.canonical_path,
        topic_id=room.topic_id,
        sequence_index=0,
        owner=None,
        reserved_for=None,
        pending_handoff_event_seq=None,
        turn_id=0,
        lease_id=None,
        lease_expires_at=None,
        claim_expires_at=None,
        state="idle",
        policy_json="{}",
        last_event_seq=0,
        created_at=room.created_at,
        updated_at=room.created_at,
    )


def _events(tx: Transaction, room_id: str) -> Iterator[Event]:
    after = 0
    while rows := tx.all("events_after", room_id=room_id, after=after, limit=PAGE):
        yield from (to_event(row) for row in rows)
        after = rows[-1]["event_seq"]


def _follow_members(members: dict[str, int], event: Event) -> None:
    if event.event_type == "join":
        members[str(event.from_agent_id)] = event.details["ordinal"]
    elif event.event_type == "leave":
        members.pop(str(event.from_agent_id), None)
    elif event.event_type == "reorder":
        members.update({agent_id: ordinal for ordinal, agent_id in enumerate(event.details["order"])})
