"""Verifies rooms: replays every event of the log and compares the result with the stored row.

The replay also checks that every event could follow the events before it: only an owner lets go of the stick, no turn
starts before the last one has ended, and only members act.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from conch.lean import Any
from conch.rooms.log import GRANTS, HANDOFFS, Event
from conch.rooms.replay import REPLAYED, UNREADABLE, Replay, Seat, events_of, follow, start_replay
from conch.rooms.room import Room
from conch.storage.base import Problem, Row, Transaction

_ENDINGS = (*HANDOFFS, "return", "close")  # only the owner can do these
_OTHERS = ("join", "leave", "kick", "decline", "resume", "reorder", "policy", "note")
_WITH_RECIPIENT = ("decline", "resume", "kick")  # of the others
_MOST_PER_ROOM = 20


def verify_rooms(tx: Transaction) -> tuple[int, list[Problem]]:
    """Replay all rooms. Returns the number of rooms, and what is wrong with their logs and rows."""
    rooms = [Room(**row) for row in tx.all("all_rooms")]
    return len(rooms), [problem for room in rooms for problem in islice(_verify(tx, room), _MOST_PER_ROOM)]


def _verify(tx: Transaction, room: Room) -> Iterator[Problem]:
    try:
        after, replay = start_replay(tx, room)
        for event in events_of(tx, room.room_id, after):
            objection = object_to(replay, event)
            if objection is not None:
                yield _event_problem(event, objection)
            replay = follow(replay, event)
    except UNREADABLE as problem:
        # Damaged JSON, or JSON without what `project` needs. The rest of the log cannot be replayed.
        sentence = f"The log of room {room.room_id} cannot be replayed: {problem}"
        yield Problem("row", "room_events", sentence, {"room_id": room.room_id})
        return
    yield from _compare_room(room, replay.room)
    yield from _compare_members(tx, room, replay.members)


# -- whether an event can follow the events before it


def object_to(replay: Replay, event: Event) -> str | None:
    """Why an event cannot be what happened next; None if it can."""
    before, last = event.previous_seq, replay.room.last_event_seq
    place = f"it came after event {before}, but now the one before it is {last}" if before != last else None
    return _object_to_kind(replay, event) or place


def _object_to_kind(replay: Replay, event: Event) -> str | None:
    room, kind = replay.room, event.event_type
    if kind not in (*GRANTS, *_ENDINGS, *_OTHERS):
        return f"it is of an unknown type, {kind}"
    if room.state == "closed":
        return "the room was closed before"
    turn_id = room.turn_id + (kind in GRANTS)
    if event.turn_id != turn_id:
        return f"it belongs to turn {event.turn_id}, but it is in turn {turn_id}"
    if kind not in HANDOFFS and event.handoff is not None:
        return "it has a handoff"
    if kind in (*_OTHERS, "close") and kind not in _WITH_RECIPIENT and event.to_agent_id is not None:
        return f"it is addressed to {event.to_agent_id}"
    if kind in GRANTS:
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
    if event.event_type in HANDOFFS and not isinstance(event.handoff, dict):
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
        return "the owner of the stick cannot leave" if agent_id == room.owner else None
    if event.event_type == "note":
        return None if isinstance(event.details.get("note"), str) else "it has no text"
    if event.event_type == "kick":
        return None if event.to_agent_id in members else f"{event.to_agent_id} is not a member"
    if event.event_type in ("decline", "resume"):
        is_free = event.event_type == "decline" and event.to_agent_id is None
        if not is_free and event.to_agent_id not in members:
            return f"{event.to_agent_id} is not a member"
        return None if agent_id == room.reserved_for else f"the stick was not reserved for {agent_id}"
    if event.event_type == "reorder":
        return None if sorted(event.details["order"]) == sorted(members) else "its order does not match the members"
    return None


def _event_problem(event: Event, objection: str) -> Problem:
    sentence = (
        f"Event {event.event_seq} ({event.event_type}) of room {event.room_id} cannot follow the events before it: "
        f"{objection}. An event is missing, was added or was changed."
    )
    return Problem("row", "room_events", sentence, {"room_id": event.room_id, "event_seq": event.event_seq})


# -- comparing the replay with what is stored


def _compare_room(room: Room, replayed: Room) -> Iterator[Problem]:
    for field in REPLAYED:
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
        f"The {field} of room {room.room_id} is {_spell(stored)}, but according to its log it is {_spell(replayed)}."
    )
    row: Row = {"room_id": room.room_id, "canonical_path": room.canonical_path}
    return Problem("row", table, sentence, {**row, "field": field, "stored": stored, "replayed": replayed})


def _spell(value: Any) -> str:
    return "not set" if value is None else str(value)
