"""A room's history in one order: turns and notes, the messages of its home topic, reservations and protocol events.

It merges three sources: the log, the messages and the activity. Each numbers its own rows in commit order. A place in
the timeline is a place in each source, so that reading on from it neither misses nor repeats an entry.

The log and the activity name agents as they were called at the time. A message shows its sender's present name.
"""

from __future__ import annotations

from heapq import merge

from conch.errors import InvalidArgument, LimitExceeded
from conch.lean import Any, NamedTuple, json
from conch.notices.events import MARKS, ProtocolEvent, to_protocol_event
from conch.rooms.log import Event, to_event
from conch.rooms.room import Room, load_room
from conch.storage.base import LAST, Row, Store, Transaction

_LONGEST_NUMBER = 16
_TURNS = ("claim", "release", "pass", "return", "decline", "resume", "takeover")
_RESERVATIONS = ("reserved", "renewed", "released", "expired")


class Place(NamedTuple):
    """How far each source was read."""

    log: int = 0
    messages: int = 0
    activity: int = 0

    def __str__(self) -> str:
        return ".".join(map(str, self))


_END = Place(LAST, LAST, LAST)


class Entry(NamedTuple):
    """One entry of the timeline. Its kind decides which fields are filled."""

    kind: str
    """`turn`, `note`, `room`, `message`, `reservation`, `protocol`, `mark`, `agent` or `wake`."""
    created_at: int
    event: Event | None = None
    row: Row = {}
    details: dict[str, Any] = {}
    protocol: ProtocolEvent | None = None
    """The notice that was sent or marked, or that went with a released or passed stick."""
    place: Place = Place()
    """Where to go on after this entry, if it was read after a place."""


class Page(NamedTuple):
    entries: list[Entry]
    place: Place
    has_more: bool
    is_closed: bool = False
    has_older: bool = False
    """Whether there are entries before the latest ones."""
    start: Place = Place()
    """The place before the first entry, if these are the latest entries before a place."""


def parse_place(field: str, text: str | None) -> Place | int | None:
    """A place that an earlier read returned, or the number of an event in the room's log."""
    if text is None:
        return None
    numbers = text.split(".")
    if any(len(number) > _LONGEST_NUMBER for number in numbers):
        raise LimitExceeded(f"{field} has more than {_LONGEST_NUMBER} digits.", field=field, limit=_LONGEST_NUMBER)
    if len(numbers) not in (1, 3) or not all(number.isascii() and number.isdecimal() for number in numbers):
        raise InvalidArgument(f"{field} must be a cursor from an earlier reply, or 0.", field=field)
    return Place(*map(int, numbers)) if len(numbers) == 3 else int(text)


def only(source: str, before: Place | None) -> Place:
    """A place for `before` that limits a page to one source: for the others, it is their beginning."""
    return Place()._replace(**{source: getattr(before or _END, source)})


def read_timeline(
    store: Store,
    room_id: str,
    after: Place | int | None,
    limit: int,
    bead_id: str | None = None,
    before: Place | None = None,
) -> Page:
    """Entries, oldest first: those after a place or after an event of the log; without `after`, the latest.

    With `before`, the latest of those up to the `start` of another page.

    With `bead_id`, only those about this work item: its reservations, its notices, and the handoffs of agents that
    had reserved files for it.
    """
    with store.read() as tx:
        room = load_room(tx, room_id)
        place = _place_of(tx, room, after) if isinstance(after, int) else after
        if place is None:
            page = _latest(tx, room, before or _END, limit, bead_id)
        else:
            page = _after(tx, room, place, limit, bead_id)
        return page._replace(entries=with_protocol(tx, page.entries), is_closed=room.state == "closed")


def _place_of(tx: Transaction, room: Room, event_seq: int) -> Place:
    """The place of an event of the log: what the other sources held when it happened."""
    row = tx.one("moment_in_log", room_id=room.room_id, event_seq=event_seq)
    moment = row["moment"] if row else None
    if moment is None:  # the room's log has no event that early
        return Place(event_seq)
    messages = tx.one("home_messages_before", topic_id=room.topic_id, moment=moment)
    activity = tx.one("activity_before", room_id=room.room_id, moment=moment)
    assert messages is not None and activity is not None
    return Place(event_seq, messages["reached"], activity["reached"])


def _after(tx: Transaction, room: Room, after: Place, limit: int, bead_id: str | None) -> Page:
    # Each source alone might fill the page, and one row more shows whether there is another page.
    room_id, most = room.room_id, limit + 1
    if bead_id is None:
        sources = (
            tx.all("events_after", room_id=room_id, after=after.log, limit=most),
            tx.all("messages_after", topic_id=room.topic_id, after=after.messages, limit=most),
            tx.all("activity_after", room_id=room_id, after=after.activity, limit=most),
        )
    else:
        about = {"room_id": room_id, "bead_id": bead_id, "limit": most}
        sources = (
            tx.all("item_events_after", after=after.log, **about),
            [],  # messages have no work item
            tx.all("item_activity_after", after=after.activity, **about),
        )
    merged, entries = merge_rows(sources), list[Entry]()
    for row in merged[:limit]:
        after = _reached(after, [row])
        entries.append(to_entry(row)._replace(place=after))
    return Page(entries, after, len(merged) > limit)


def _latest(tx: Transaction, room: Room, through: Place, limit: int, bead_id: str | None) -> Page:
    """The latest entries among those up to a place."""
    room_id, most = room.room_id, limit + 1
    if bead_id is None:
        sources = (
            tx.all("latest_events", room_id=room_id, through=through.log, limit=most),
            tx.all("latest_messages", topic_id=room.topic_id, through=through.messages, limit=most),
            tx.all("latest_activity", room_id=room_id, through=through.activity, limit=most),
        )
    else:
        about = {"room_id": room_id, "bead_id": bead_id, "limit": most}
        sources = (
            tx.all("latest_item_events", through=through.log, **about),
            [],
            tx.all("latest_item_activity", through=through.activity, **about),
        )
    merged = merge_rows((sources[0][::-1], sources[1][::-1], sources[2][::-1]))
    entries, older = [to_entry(row) for row in merged[-limit:]], merged[:-limit]
    reached, start = _reached(Place(), merged), _reached(Place(), older)
    return Page(entries, reached, has_more=False, has_older=bool(older), start=start)


def merge_rows(sources: tuple[list[Row], list[Row], list[Row]]) -> list[Row]:
    """Sorted by time. Each source keeps its own order even if clocks disagree."""
    return list(merge(*sources, key=lambda row: row["created_at"]))


def _reached(place: Place, rows: list[Row]) -> Place:
    for row in rows:  # each source has its own name for its numbers
        if "event_seq" in row:
            place = place._replace(log=row["event_seq"])
        elif "seq" in row:
            place = place._replace(messages=row["seq"])
        else:
            place = place._replace(activity=row["number"])
    return place


def to_entry(row: Row) -> Entry:
    if "event_seq" in row:
        event = to_event(row)
        kind = "turn" if event.event_type in _TURNS else "note" if event.event_type == "note" else "room"
        return Entry(kind, event.created_at, event)
    if "seq" in row:
        return Entry("message", row["created_at"], row=row)
    details = json.loads(row["details_json"]) if row["details_json"] else {}
    return Entry(_activity_kind(row["kind"]), row["created_at"], row=row, details=details)


def _activity_kind(kind: str) -> str:
    if kind in _RESERVATIONS:
        return "reservation"
    if kind == "wake":
        return "wake"
    return "mark" if kind in MARKS else "agent" if kind == "registered" else "protocol"


def with_protocol(tx: Transaction, entries: list[Entry]) -> list[Entry]:
    """The entries, with the protocol event filled in where an entry is about one."""
    seqs = [entry.event.event_seq for entry in entries if entry.event and entry.event.handoff]
    ids = [entry.row["subject_id"] for entry in entries if entry.kind in ("protocol", "mark")]
    rows = tx.all("protocol_events_of_handoffs", event_seqs=seqs) if seqs else []
    rows += tx.all("protocol_events_by_id", event_ids=ids) if ids else []
    # An entry knows its notice by the notice's id, or by the event_seq of the handoff.
    found = {row[key]: to_protocol_event(row) for row in rows for key in ("event_id", "handoff_event_seq")}
    return [entry._replace(protocol=found.get(_subject(entry))) for entry in entries]


def _subject(entry: Entry) -> Any:
    """The key of the protocol event that an entry is about: its id or its handoff's event_seq; 0 if there is none."""
    return entry.event.event_seq if entry.event else entry.row.get("subject_id") or 0
