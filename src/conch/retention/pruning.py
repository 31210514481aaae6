"""Deletes what is old and done with: `conch db prune`, and `CONCH_RETENTION_DAYS`.

Nothing that is open, unread or unaccepted goes. Messages of a topic and events of a room go oldest first, so that what
is left has no gaps. `topic_seq.pruned_seq` and `room_checkpoints` say where it begins.

Every step is one short transaction that leaves a sound store. So a process may be killed at any moment, and other
writers wait for one step at most.
"""

from __future__ import annotations

from collections.abc import Callable

from conch.bells.base import activity_channel, agent_channel, room_channel, seat_channel, topic_channel
from conch.bus.stream import indexed_addressees
from conch.clock import DAY
from conch.lean import NamedTuple
from conch.retention.leavers import Leavers
from conch.rooms.replay import UNREADABLE, events_of, follow, save_checkpoint, start_replay
from conch.rooms.room import load_room
from conch.rooms.verify import object_to
from conch.search.fulltext import forget_words
from conch.search.words import LONGEST_TEXT
from conch.storage.base import INDEX_LOCK, Row, Store, Transaction

_STEP = 100  # messages, events or other rows in one transaction: a few milliseconds
_LOCK = "retention"
_LEAST_LIFE = 7 * DAY  # an agent that was seen within a week still wants what it has not read
# A row is deleted before the rows that it refers to.
_TOPIC_ROWS = ("erase_marks", "erase_cursors", "erase_topic_names", "erase_peers", "erase_numbers", "erase_progress")
_ROOM_ROWS = (
    *("erase_registrations", "erase_reservations", "erase_notices", "erase_activity", "erase_checkpoint"),
    *("erase_log", "erase_members", "erase_room"),
)


class Pruned(NamedTuple):
    """How much was deleted, or would be."""

    rooms: int = 0
    topics: int = 0
    messages: int = 0
    events: int = 0
    reservations: int = 0
    notices: int = 0
    members: int = 0
    agents: int = 0


class _Span(NamedTuple):
    """A topic or a room whose rows after `pruned` and up to `through` can go. `last` is its last row."""

    name: str
    pruned: int
    through: int
    last: int


class Pruning:
    """Finds what is older than `age` and can be deleted, and deletes it."""

    def __init__(self, store: Store, age: int, between: Callable[[], object] = lambda: None) -> None:
        """`between` is called between two steps, when no lock is held."""
        with store.read() as tx:
            now = tx.now
        self._store = store
        self.cutoff = now - age
        # Even with a short age, no agent loses messages over a long weekend.
        self._alive_since = now - max(age, _LEAST_LIFE)
        self._between = between
        self._leavers = Leavers(store, self._alive_since, between)

    def survey(self) -> Pruned:
        """How much can go. Nothing is changed."""
        with self._store.read() as tx:
            tx.take_time()
            topics, rooms = self._topics(tx), self._rooms(tx)
            gone = {span.name for span in topics if span.through == span.last}
            left = self._leavers.survey(tx, [span.name for span in rooms])
            ended = sum(map(len, self._ended(tx, "reservations_to_prune", rooms)))
            return Pruned(
                members=left.members,
                agents=left.agents,
                rooms=len(self._closed(tx, "closed_rooms_to_erase", gone)),
                topics=len(self._closed(tx, "closed_topics_to_erase", gone)),
                messages=sum(span.through - span.pruned for span in topics),
                events=sum(_count(tx, span) for span in rooms),
                reservations=ended + sum(row["total"] for row in tx.all("rooms_with_lapsed", cutoff=self.cutoff)),
                notices=sum(map(len, self._ended(tx, "notices_to_prune", rooms))),
            )

    def run(self) -> Pruned:
        """Delete it, step by step. Rooms, topics and agents come last, when nothing is left in them or of them."""
        with self._store.read() as tx:
            room_ids = [row["room_id"] for row in tx.all("rooms_with_checkpoints")]
        lapsed = self._prune_lapsed()  # first, because they keep their owners and closed rooms from going
        members = self._leavers.remove_members(room_ids)
        with self._store.read() as tx:
            tx.take_time()
            topics, rooms = self._topics(tx), self._rooms(tx)
        messages = sum(self._prune_messages(span) for span in topics)
        events = sum(self._prune_events(span) for span in rooms)
        with self._store.read() as tx:
            tx.take_time()
            reservations = list(self._ended(tx, "reservations_to_prune", rooms))
            notices = list(self._ended(tx, "notices_to_prune", rooms))
            wakes = list(self._ended(tx, "wakes_to_prune", rooms))
            gone = {span.name for span in self._topics(tx) if span.through == span.last}
            closed_rooms = self._closed(tx, "closed_rooms_to_erase", gone)
            closed_topics = self._closed(tx, "closed_topics_to_erase", gone)
        for ids in wakes:
            self._prune_ended("prune_activity", ids)
        return Pruned(
            members=members,
            messages=messages,
            events=events,
            reservations=lapsed + sum(self._prune_ended("prune_reservations", ids) for ids in reservations),
            notices=sum(self._prune_ended("prune_notices", ids) for ids in notices),
            rooms=sum(self._erase(row) for row in closed_rooms),
            topics=sum(self._erase(row) for row in closed_topics),
            agents=self._leavers.forget_agents(),
        )

    # -- what can go

    def _topics(self, tx: Transaction) -> list[_Span]:
        """Every topic, and how far it can be pruned: up to its first message that is young, unread or not done with."""
        return [self._topic(tx, row) for row in tx.all("topics_with_numbers")]

    def _topic(self, tx: Transaction, row: Row) -> _Span:
        topic_id, pruned, last = row["topic_id"], row["pruned_seq"], row["last_seq"]
        given = {"topic_id": topic_id, "cutoff": self.cutoff, "after": pruned}
        found = [
            tx.one("first_young", **given),
            tx.one("first_unread", alive_since=self._alive_since, through=last, **given),
        ]
        if row["status"] == "open":  # on a closed topic, an old question no longer waits
            found.append(tx.one("first_pending", **given))
        place = min([last + 1, *(each["seq"] for each in found if each and each["seq"] is not None)])
        while (split := tx.one("first_split_question", place=place, **given)) and split["seq"] is not None:
            place = split["seq"]
        return _Span(topic_id, pruned, max(pruned, place - 1), last)

    def _rooms(self, tx: Transaction) -> list[_Span]:
        """Every room, and how far its log can be pruned: up to the first event that is young or that the room needs."""
        spans = []
        for row in tx.all("rooms_with_checkpoints"):
            kept = tx.one("first_kept_event", room_id=row["room_id"], after=row["pruned"], cutoff=self.cutoff)
            assert kept is not None  # the last event is always kept
            spans.append(_Span(row["room_id"], row["pruned"], kept["event_seq"] - 1, row["last_event_seq"]))
        return spans

    def _ended(self, tx: Transaction, statement: str, rooms: list[_Span]) -> list[list[str]]:
        """The ids of what has ended, some at a time. A notice stays as long as the handoff that it is about."""
        through = {span.name: span.through for span in rooms}
        after, found = 0, []
        while rows := tx.all(statement, after=after, cutoff=self.cutoff, most=_STEP):
            after = rows[-1]["number"]
            ids = [row["subject_id"] for row in rows if (row["handoff_event_seq"] or 0) <= through[row["room_id"]]]
            found += [ids] if ids else []
        return found

    def _closed(self, tx: Transaction, statement: str, gone: set[str]) -> list[Row]:
        rows = tx.all(statement, cutoff=self.cutoff, alive_since=self._alive_since)
        return [row for row in rows if row["topic_id"] in gone]

    # -- deleting it

    def _prune_messages(self, span: _Span) -> int:
        after = span.pruned
        while after < span.through:
            self._between()
            through = min(after + _STEP, span.through)
            with self._store.write(span.name, INDEX_LOCK) as tx:
                if not self._may_prune(tx, span.name, after, through):
                    break
                _delete_messages(tx, span.name, after, through)
            after = through
        return after - span.pruned

    def _may_prune(self, tx: Transaction, topic_id: str, after: int, through: int) -> bool:
        """Whether nobody has pruned further, or set a cursor back, since the topic was looked at."""
        now = tx.one("topic_numbers", topic_id=topic_id)
        given = {"topic_id": topic_id, "cutoff": self.cutoff, "alive_since": self._alive_since, "through": through}
        unread = tx.one("first_unread", **given)
        return now is not None and now["pruned_seq"] == after and (unread is None or unread["seq"] is None)

    def _prune_events(self, span: _Span) -> int:
        total = 0
        while count := self._prune_some_events(span):
            total += count
        return total

    def _prune_some_events(self, span: _Span) -> int:
        """Stops before an event that cannot have happened: `conch db verify` must still find it."""
        self._between()
        count = 0
        with self._store.write(span.name) as tx:
            after, replay = start_replay(tx, load_room(tx, span.name))
            try:
                for event in events_of(tx, span.name, after, _STEP):
                    if event.event_seq > span.through or object_to(replay, event) is not None or count == _STEP:
                        break
                    replay, count = follow(replay, event), count + 1
            except UNREADABLE:
                return 0
            if count:
                save_checkpoint(tx, replay)
                tx.run("prune_events", room_id=span.name, through=replay.room.last_event_seq)
                tx.run("note_erased")
        return count

    def _prune_lapsed(self) -> int:
        """Delete the reservations that expired, and that nobody has renewed, ended or replaced since."""
        with self._store.read() as tx:
            room_ids = [row["room_id"] for row in tx.all("rooms_with_lapsed", cutoff=self.cutoff)]
        return sum(map(self._prune_lapsed_of, room_ids))

    def _prune_lapsed_of(self, room_id: str) -> int:
        total = 0
        while True:
            self._between()
            with self._store.write(room_id) as tx:  # so that no agent renews one meanwhile
                rows = tx.all("lapsed_reservations", room_id=room_id, cutoff=self.cutoff, most=_STEP)
                if not rows:
                    return total
                total += _delete_ended(tx, "prune_reservations", [row["subject_id"] for row in rows])

    def _prune_ended(self, statement: str, ids: list[str]) -> int:
        self._between()
        with self._store.write(_LOCK) as tx:
            return _delete_ended(tx, statement, ids)

    def _erase(self, row: Row) -> int:
        """Delete what is left of a closed room with its home topic, or of a closed topic."""
        self._between()
        locks = [row["room_id"]] if row["room_id"] else []
        with self._store.write(*locks, row["topic_id"], INDEX_LOCK) as tx:
            numbers = tx.one("topic_numbers", topic_id=row["topic_id"])
            if numbers is None or numbers["pruned_seq"] < numbers["last_seq"]:
                return 0
            for statement in (*_TOPIC_ROWS, *(_ROOM_ROWS if row["room_id"] else ()), "erase_topic", "note_erased"):
                tx.run(statement, room_id=row["room_id"] or "", topic_id=row["topic_id"])
        return 1


def _count(tx: Transaction, span: _Span) -> int:
    row = tx.one("count_events", room_id=span.name, after=span.pruned, through=span.through)
    return row["total"] if row else 0


def _delete_ended(tx: Transaction, statement: str, ids: list[str]) -> int:
    """Delete these rows, and their lines in the timeline. A wake has only such lines."""
    count = tx.count(statement, subjects=ids)
    tx.run("prune_activity", subjects=ids)
    tx.run("note_erased")
    return count


def _delete_messages(tx: Transaction, topic_id: str, after: int, through: int) -> None:
    span = {"topic_id": topic_id, "after": after, "through": through}
    rows = tx.all("messages_to_prune", longest=LONGEST_TEXT, **span)
    forget_words(tx, topic_id, rows)
    for kind in tx.all("vector_kinds", topic_id=topic_id):
        tx.run("prune_vectors", model=kind["kind"].removeprefix("vectors:"), **span)
    addressees = sorted(set().union(*(indexed_addressees(row["metadata_json"]) for row in rows)))
    if addressees:
        tx.run("prune_addressees", addressees=addressees, topic_id=topic_id, through=through)
    for statement in ("prune_answers", "prune_questions", "prune_messages"):
        tx.run(statement, **span)
    for statement in ("raise_cursors", "raise_progress", "note_pruned"):
        tx.run(statement, topic_id=topic_id, through=through)
    tx.run("note_erased")


def idle_channels(store: Store, cutoff: int) -> list[str]:
    """The bells that nobody waits for any more: of closed rooms and topics, and of agents not seen for a long time."""
    with store.read() as tx:
        rooms, topics = tx.all("closed_seats"), tx.all("closed_topics")
        agents = tx.all("agents_unseen", cutoff=cutoff)
    channels = {topic_channel(row["topic_id"]) for row in topics}
    for row in rooms:
        channels |= {room_channel(row["room_id"]), activity_channel(row["room_id"])}
        channels.add(seat_channel(row["room_id"], row["agent_id"]))
    return sorted(channels | {agent_channel(row["agent_id"]) for row in agents})
