"""What a wipe would destroy, and deleting one room with everything that belongs to it."""

from __future__ import annotations

from conch.bells.base import room_channel, topic_channel
from conch.lean import NamedTuple
from conch.rooms.presence import Rooms
from conch.rooms.room import Member, Snapshot
from conch.storage.base import INDEX_LOCK, Store

# A row is deleted before the rows that it refers to.
_ROOM_ROWS = (
    *("forget_progress", "forget_vectors", "forget_words"),  # the next search indexes the messages that are left
    *("erase_answers", "erase_questions", "erase_addressees", "erase_messages", "erase_marks"),
    *("erase_cursors", "erase_topic_names"),
    *("erase_peers", "erase_numbers", "erase_registrations", "erase_reservations", "erase_notices", "erase_activity"),
    *("erase_checkpoint", "erase_log", "erase_members", "erase_room", "erase_topic", "note_erased"),
)


class Holder(NamedTuple):
    """An agent that holds the stick of a room and is not known to be gone."""

    room: Snapshot
    member: Member


class Doomed(NamedTuple):
    """What a wipe would destroy."""

    rooms: list[Snapshot]
    messages: int

    @property
    def holders(self) -> list[Holder]:
        owners = [(room, room.find(room.room.owner)) for room in self.rooms]
        return [Holder(room, owner) for room, owner in owners if owner is not None and not room.is_gone(owner)]


def survey(store: Store, rooms: Rooms, room_id: str | None = None) -> Doomed:
    """What a wipe of the store, or of one room, would destroy now."""
    if room_id is not None:
        found = rooms.get_state(None, room_id)
        with store.read() as tx:
            row = tx.one("count_messages_of", topic_id=found.room.topic_id)
        return Doomed([found], row["total"] if row else 0)
    everything = rooms.all_rooms()
    with store.read() as tx:
        row = tx.one("count_messages")
    return Doomed(everything, row["total"] if row else 0)


def erase_room(store: Store, doomed: Snapshot) -> None:
    """Delete a room, its log, its reservations and notices, and its home topic. Its members stay known as agents."""
    room = doomed.room
    with store.write(room.room_id, room.topic_id, INDEX_LOCK) as tx:
        tx.take_time()
        for statement in _ROOM_ROWS:
            tx.run(statement, room_id=room.room_id, topic_id=room.topic_id)
        tx.ring(room_channel(room.room_id), topic_channel(room.topic_id))
