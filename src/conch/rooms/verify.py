"""Verifies rooms: replays every event of the log and compares the result with the stored row.

The replay also checks that every event could follow the events before it: only an owner lets go of the stick, no turn
starts before the last one has ended, and only members act.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from conch.agents.records import is_person
from conch.errors import StoreCorrupt
from conch.lean import Any, NamedTuple
from conch.rooms.log import PAGE, Event, project, to_event
from conch.rooms.room import Room
from conch.storage.base import Problem, Row, Transaction

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
_GRANTS = ("claim", "takeover")
_HANDOFFS = ("release", "pass")
_ENDINGS = (*_HANDOFFS, "return", "close")  # only the owner can do these
_OTHERS = ("join", "leave", "kick", "decline", "resume", "reorder", "policy", "note")
_WITH_RECIPIENT = ("decline", "resume", "kick")  # of the others
_MOST_PER_ROOM = 20


class Seat(NamedTuple):
    """A member's place, when it joined, and whether the place is one in the sequence."""

    ordinal: int
    joined_at: int
    takes_turns: bool


class Replay(NamedTuple):
    """A room and its members' seats after some of its events."""

    room: Room
    members: dict[str, Seat]


def verify_rooms(tx: Transaction) -> tuple[int, list[Problem]]:
    """Replay all rooms. Returns the number of rooms, and what is wrong with their logs and rows."""
    rooms = [Room(**row) for row in tx.all("all_rooms")]
    return len(rooms), [problem for room in rooms for problem in islice(_verify(tx, room), _MOST_PER_ROOM)]


def _verify(tx: Transaction, room: Room) -> Iterator[Problem]:
    replay = Replay(_fresh(room), {})
    try:
        for event in _events(tx, room.room_id):
            objection = object_to(replay, event)
            if objection is not None:
                yield _event_problem(event, objection)
            replay = replay._replace(room=project(replay.room, event))
            follow_members(replay.members, event)
    except (StoreCorrupt, KeyError, TypeError, AttributeError) as problem:
        # Damaged JSON, or JSON without what `project` needs. The rest of the log cannot be replayed.
        sentence = f"The log of room {room.room_id} cannot be replayed: {problem}"
        yield Problem("row", "room_events", sentence, {"room_id": room.room_id})
        return
    yield from _compare_room(room, replay.room)
    yield from _compare_members(tx, room, replay.members)


# -- whether an event can follow the events before it


def object_to(replay: Replay, event: Event) -> str | None:
    """Why an event cannot be what happened next; None if it can."""
    room, kind = replay.room, event.event_type
    if kind not in (*_GRANTS, *_ENDINGS, *_OTHERS):
        return f"it is of an unknown type, {kind}"
    if room.state == "closed":
        return "the room was closed before"
    turn_id = room.turn_id + (kind in _GRANTS)
    if event.turn_id != turn_id:
        return f"it belongs to turn {event.turn_id}, but it is in turn {turn_id}"
    if kind not in _HANDOFFS and event.handoff is not None:
        return "it has a handoff"
    if kind in (*_OTHERS, "close") and kind not in _WITH_RECIPIENT and event.to_agent_id is not None:
        return f"it is to {event.to_agent_id}"
    if kind in _GRANTS:
        return _object_to_grant(replay, event)
    if kind in _ENDINGS:
        return _object_to_ending(replay, event)
    return _object_to_others(replay, event)


def _object_to_grant(replay: Replay, event: Event) -> str | None:
    room, agent_id = replay.room, event.to_agent_id
    if agent_id not in replay.members:
        return f"{agent_id} is not a member"
    if event.event_type == "takeover":
        expected = room.owner or room.reserved_for
        return None if expected == event.from_agent_id and expected else "there was nothing to take over"
    if room.owner is not None:
        return f"{room.owner} has not let go of the stick"
    pending = room.pending_handoff_event_seq
    given = event.details.get("handoff_event_seq", pending)  # older versions did not say it
    if given != pending:
        return f"it goes on from event {given}, but the pending handoff is {_spell(pending)}"
    return None if room.reserved_for in (None, agent_id) else f"the stick was reserved for {room.reserved_for}"


def _object_to_ending(replay: Replay, event: Event) -> str | None:
    if event.from_agent_id is None or event.from_agent_id != replay.room.owner:
        return f"{event.from_agent_id} does not hold the stick"
    if event.event_type in _HANDOFFS and not isinstance(event.handoff, dict):
        return "it has no handoff"
    if event.to_agent_id is not None and event.to_agent_id not in replay.members:
        return f"{event.to_agent_id} is not a member"
    return None


def _object_to_others(replay: Replay, event: Event) -> str | None:
    room, members, agent_id = replay.room, replay.members, event.from_agent_id
    if event.event_type == "join":
        ordinal = event.details["ordinal"]
        taken = ordinal in (seat.ordinal for member, seat in members.items() if member != agent_id)
        moved = agent_id in members and members[agent_id].ordinal != ordinal
        return f"the place {ordinal} of {agent_id} is not free" if taken or moved else None
    if agent_id not in members:
        return f"{agent_id} is not a member"
    if event.event_type == "leave":
        return "its owner cannot leave" if agent_id == room.owner else None
    if event.event_type == "kick":
        return None if event.to_agent_id in members else f"{event.to_agent_id} is not a member"
    if event.event_type in ("decline", "resume"):
        is_free = event.event_type == "decline" and event.to_agent_id is None
        if not is_free and event.to_agent_id not in members:
            return f"{event.to_agent_id} is not a member"
        return None if agent_id == room.reserved_for else f"the stick was not reserved for {agent_id}"
    if event.event_type == "reorder":
        return None if sorted(event.details["order"]) == sorted(members) else "its order does not name every member"
    return None


def _event_problem(event: Event, objection: str) -> Problem:
    sentence = (
        f"Event {event.event_seq} ({event.event_type}) of room {event.room_id} cannot follow the events before it: "
        f"{objection}. An event is missing, was added or was changed."
    )
    return Problem("row", "room_events", sentence, {"room_id": event.room_id, "event_seq": event.event_seq})


# -- comparing the replay with what is stored


def _compare_room(room: Room, replayed: Room) -> Iterator[Problem]:
    for field in _REPLAYED:
        stored, logged = getattr(room, field), getattr(replayed, field)
        if stored != logged:
            yield _difference("path_rooms", room, field, stored, logged)


def _compare_members(tx: Transaction, room: Room, replayed: dict[str, Seat]) -> Iterator[Problem]:
    rows = tx.all("member_seats", room_id=room.room_id)
    stored = {row["agent_id"]: Seat(row["ordinal"], row["joined_at"], row["takes_turns"]) for row in rows}
    for agent_id in sorted({*stored, *replayed}, key=str):  # a member may be missing on either side
        seat, logged = stored.get(agent_id), replayed.get(agent_id)
        for field in Seat._fields:
            found, expected = getattr(seat, field, None), getattr(logged, field, None)
            if found != expected:
                yield _difference("room_members", room, f"{field} of member {agent_id}", found, expected)


def _difference(table: str, room: Room, field: str, stored: Any, replayed: Any) -> Problem:
    sentence = (
        f"The {field} of room {room.room_id} is {_spell(stored)}, but by the room's log it is {_spell(replayed)}."
    )
    row: Row = {"room_id": room.room_id, "canonical_path": room.canonical_path}
    return Problem("row", table, sentence, {**row, "field": field, "stored": stored, "replayed": replayed})


def _spell(value: Any) -> str:
    return "not set" if value is None else str(value)


# -- replaying


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
