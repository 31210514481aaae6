"""Who held the stick when: the turns of a room as intervals."""

from __future__ import annotations

from conch.errors import EventNotFound
from conch.lean import Literal, NamedTuple
from conch.notices.timeline import Entry, to_entry, with_protocol
from conch.rooms.log import GRANTS, Event, to_event
from conch.rooms.room import load_room
from conch.storage.base import LAST, Store

_ENDINGS: dict[str, _Ending] = {
    "release": "released",
    "pass": "passed",
    "return": "returned",
    "kick": "kicked",
    "close": "closed",
}

_Ending = Literal["released", "passed", "taken_over", "returned", "kicked", "closed"]


class Turn(NamedTuple):
    """One agent's time with the stick."""

    begin: Event
    end: Event | None = None
    """None while the agent still has the stick."""

    @property
    def ending(self) -> _Ending | None:
        if self.end is None:
            return None
        return _ENDINGS.get(self.end.event_type, "taken_over")

    @property
    def has_died(self) -> bool:
        """Whether the agent's process ended before the turn did."""
        return self.end is not None and self.end.details.get("cause") in ("owner_gone", "recipient_gone")


class Turns(NamedTuple):
    turns: list[Turn]
    """Oldest first."""
    has_older: bool
    first_at: int | None
    """When the first turn of the room began."""


def read_turns(store: Store, room_id: str, since: int | None, until: int | None, limit: int) -> Turns:
    """The latest turns of a room that touch the time between two moments."""
    with store.read() as tx:
        load_room(tx, room_id)
        # A turn has at most two events, besides kicks of other members. The event before the first may have begun it.
        rows = tx.all("turn_events_until", room_id=room_id, until=LAST if until is None else until, limit=2 * limit + 1)
        if until is not None:  # how the last of them ended
            rows = [*tx.all("turn_event_after", room_id=room_id, until=until), *rows]
        first = tx.one("first_turn_at", room_id=room_id)
    found = _pair([to_event(row) for row in reversed(rows)])
    shown = [turn for turn in found if since is None or turn.end is None or turn.end.created_at >= since]
    if until is not None:
        shown = [turn for turn in shown if turn.begin.created_at <= until]
    is_cut = len(rows) > 2 * limit and len(shown) == len(found)
    return Turns(shown[-limit:], is_cut or len(shown) > limit, first["created_at"] if first else None)


def _pair(events: list[Event]) -> list[Turn]:
    turns: list[Turn] = []
    for event in events:
        if turns and turns[-1].end is None and _ends(event, turns[-1]):
            turns[-1] = turns[-1]._replace(end=event)
        if event.event_type in GRANTS:
            turns.append(Turn(event))
    return turns


def _ends(event: Event, turn: Turn) -> bool:
    if event.event_type == "kick":
        return event.to_agent_id == turn.begin.to_agent_id
    return event.event_type != "claim"


def read_entry(store: Store, room_id: str, event_seq: int) -> Entry:
    """One event of a room's log, with the notice that went with it."""
    with store.read() as tx:
        load_room(tx, room_id)
        row = tx.one("room_event", room_id=room_id, event_seq=event_seq)
        if row is None:
            raise EventNotFound(f"This room has no event {event_seq}.", field="event_seq")
        return with_protocol(tx, [to_entry(row)])[0]
