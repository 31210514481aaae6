"""Everything that happens in a store, in all rooms and on all topics, for readers that must miss nothing.

The sources are those of the timeline: the log, the messages and the activity. Each numbers its rows in one sequence for
the whole store. Writers of different rooms can commit in another order than their numbers say. So a mark is a place
below which no row can appear any more. A reader that goes on from a mark misses nothing, but may see a row again.
"""

from __future__ import annotations

from conch.bells.base import activity_channel, directory_channel, room_channel, topic_channel
from conch.clock import MINUTE
from conch.lean import NamedTuple
from conch.notices.timeline import Entry, Place, merge_rows, to_entry, with_protocol
from conch.storage.base import Row, Store, Transaction

_PAGE = 500
_MOST_UNCERTAIN = 5_000  # rows among which a missing number may still appear
_MOST_RUNG = 300  # rooms, and topics
_LONGEST_WRITE = 1 * MINUTE  # a number that is missing after this time was never committed
_LAST = ("last_events", "last_messages", "last_activity")


class News(NamedTuple):
    """A page of what happened."""

    entries: list[Entry]
    """By time. The place of each is the mark to go on from after it."""
    reached: Place
    """Where the next page begins."""
    mark: Place
    """Where a reader can begin again later."""
    has_more: bool


def find_end(store: Store) -> Place:
    """The mark of this moment: what happens later comes after it."""
    with store.read() as tx:
        return Place(*(_last_certain(tx.all(statement, limit=_MOST_UNCERTAIN)[::-1], tx.now) for statement in _LAST))


def read_news(store: Store, after: Place, mark: Place) -> News | None:
    """What happened after a place. A reader that began at `mark` has reached `after`; at first, the two are equal.

    None if the store does not reach that far: the place is of another store, or the last rows were deleted.
    """
    with store.read() as tx:
        if any(given > _last(tx, statement) for given, statement in zip(after, _LAST, strict=True)):
            return None
        sources = (
            tx.all("feed_events", after=after.log, limit=_PAGE),
            tx.all("feed_messages", after=after.messages, limit=_PAGE),
            tx.all("feed_activity", after=after.activity, limit=_PAGE),
        )
        reached, marks, entries = list(after), list(mark), list[Entry]()
        for row in merge_rows(sources):
            source = 0 if "event_seq" in row else 1 if "seq" in row else 2
            number = row["event_seq"] if source == 0 else row["number"]
            if marks[source] == reached[source]:
                marks[source] = _next(marks[source], number, tx.now - row["created_at"])
            reached[source] = number
            entries.append(to_entry(row)._replace(place=Place(*marks)))
        has_more = any(len(rows) == _PAGE for rows in sources)
        return News(with_protocol(tx, entries), Place(*reached), Place(*marks), has_more)


def all_channels(store: Store) -> frozenset[str]:
    """The bells of the rooms and topics, to be rung when the whole store is replaced."""
    with store.read() as tx:
        rooms = tx.all("latest_open_rooms", limit=_MOST_RUNG)
        topics = tx.all("latest_open_topics", limit=_MOST_RUNG)
    inside = {make(room["room_id"]) for room in rooms for make in (room_channel, activity_channel)}
    spoken = {topic_channel(each["topic_id"]) for each in [*rooms, *topics]}
    return frozenset({directory_channel()} | inside | spoken)


def _last(tx: Transaction, statement: str) -> int:
    row = tx.one(statement, limit=1)
    return row["number"] if row else 0


def _last_certain(rows: list[Row], now: int) -> int:
    """The last number before the first one that is missing and may still come."""
    mark = rows[0]["number"] - 1 if len(rows) == _MOST_UNCERTAIN else 0
    for row in rows:
        following = _next(mark, row["number"], now - row["created_at"])
        if following == mark:
            break
        mark = following
    return mark


def _next(mark: int, number: int, age: int) -> int:
    """The mark after a row, unless a number between the two may still come."""
    return number if number == mark + 1 or age >= _LONGEST_WRITE else mark
