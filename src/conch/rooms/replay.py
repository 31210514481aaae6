"""Replays a room's log: what its events lead to, one after another.

Old events can be pruned. A checkpoint then says what they had led to, and a replay starts there.
"""

from __future__ import annotations

from collections.abc import Iterator

from conch.agents.records import is_person
from conch.errors import StoreCorrupt
from conch.lean import NamedTuple, json
from conch.rooms.log import PAGE, Event, project, to_event
from conch.rooms.room import Room
from conch.storage.base import Transaction

# What the log decides. Leases and deadlines are not in the log, so they cannot be compared.
REPLAYED = (
    "owner",
    "reserved_for",
    "pending_handoff_event_seq",
    "turn_id",
    "state",
    "sequence_index",
    "policy_json",
    "last_event_seq",
)
# What a replay raises at damaged JSON, or JSON without what `project` needs.
UNREADABLE = (StoreCorrupt, KeyError, TypeError, AttributeError, ValueError)


class Seat(NamedTuple):
    """A member's place, when it joined, and whether the place is one in the sequence."""

    ordinal: int
    joined_at: int
    takes_turns: bool


class Replay(NamedTuple):
    """A room and its members' seats after some of its events."""

    room: Room
    members: dict[str, Seat]


def start_replay(tx: Transaction, room: Room) -> tuple[int, Replay]:
    """The last event that was pruned, and what the pruned events had led to."""
    checkpoint = tx.one("find_checkpoint", room_id=room.room_id)
    if checkpoint is None:
        return 0, Replay(_fresh(room), {})
    kept = json.loads(checkpoint["replay_json"])
    replayed = {field: kept["room"][field] for field in REPLAYED}
    members = {agent_id: Seat(*seat) for agent_id, seat in kept["members"].items()}
    return checkpoint["event_seq"], Replay(_fresh(room)._replace(**replayed), members)


def save_checkpoint(tx: Transaction, replay: Replay) -> None:
    """Save what the events of a replay led to, before these events are deleted."""
    room = replay.room
    kept = {"room": {field: getattr(room, field) for field in REPLAYED}, "members": replay.members}
    event_seq = room.last_event_seq
    tx.run("set_checkpoint", room_id=room.room_id, event_seq=event_seq, replay_json=json.dumps(kept), now=tx.now)


def events_of(tx: Transaction, room_id: str, after: int, page: int = PAGE) -> Iterator[Event]:
    """The events after one, read page by page."""
    while rows := tx.all("events_after", room_id=room_id, after=after, limit=page):
        yield from (to_event(row) for row in rows)
        after = rows[-1]["event_seq"]


def follow(replay: Replay, event: Event) -> Replay:
    """The room and its members after one more event."""
    follow_members(replay.members, event)
    return replay._replace(room=project(replay.room, event))


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


def follow_members(members: dict[str, Seat], event: Event) -> None:
    agent_id = str(event.from_agent_id)
    if event.event_type == "join":
        asks = event.details.get("takes_turns", False)  # only people have to ask
        seat = members.setdefault(agent_id, Seat(event.details["ordinal"], event.created_at, not is_person(agent_id)))
        members[agent_id] = seat._replace(takes_turns=seat.takes_turns or asks)
    elif event.event_type == "leave":
        members.pop(agent_id, None)
    elif event.event_type == "kick":
        members.pop(str(event.to_agent_id), None)
    elif event.event_type == "reorder":
        for ordinal, member in enumerate(event.details["order"]):
            members[member] = members[member]._replace(ordinal=ordinal)
