"""The ids that a call may leave out, because the connection has only one of them: its room, its topic and its turn.

A default is only what the caller could have written itself. Every check is the same as for ids that are given, so a
turn that is over is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from conch.errors import Advice, InvalidArgument, some_of
from conch.lean import TYPE_CHECKING
from conch.tools import fields
from conch.tools.replies import Object, ReplyQueue, Task

if TYPE_CHECKING:
    from conch.rooms.room import Room


class OwnIds:
    """The rooms and topics that one connection has joined, and the last turn that it received in each room."""

    def __init__(self, replies: ReplyQueue, find: Callable[[Iterable[str], Iterable[str]], set[str]]) -> None:
        """`find` returns those of these rooms and topics that the store has."""
        self._replies = replies
        self._find = find
        self._is_doubtful = False
        self._lost: set[str] = set()
        """The rooms and topics that the store does not have. A later restore may bring them back."""
        self._rooms: dict[str, Room] = {}  # by path: a closed room and the next one at its path are not two
        self._topics: dict[str, None] = {}
        self._turns: dict[str, Room] = {}

    def doubt_all(self) -> None:
        """Forget the turns, because the store was replaced. The new one may have the same rooms and topics."""
        self._turns = {}
        self._is_doubtful = True

    def _present(self, is_asked: bool = False) -> list[Room]:
        """The rooms that the store has. After a replacement it is asked until it has them all, or a room is joined."""
        if self._is_doubtful or is_asked:
            rooms, topics = [room.room_id for room in [*self._rooms.values()]], [*self._topics]
            self._lost = {*rooms, *topics} - self._find(rooms, topics)
            self._is_doubtful = bool(self._lost)
        return [room for room in [*self._rooms.values()] if room.room_id not in self._lost]

    def join_room(self, room: Room) -> None:
        for lost in [each for each in [*self._rooms.values()] if each.room_id in self._lost]:
            self.leave_room(lost)
        for topic_id in self._lost:
            self._topics.pop(topic_id, None)
        self._rooms[room.canonical_path] = room

    def leave_room(self, room: Room) -> None:
        self._rooms.pop(room.canonical_path, None)

    @property
    def room(self) -> Room | None:
        """The room of this connection, if it has joined only one."""
        rooms = self._present()
        return rooms[0] if len(rooms) == 1 else None

    def join_topic(self, topic_id: str) -> None:
        self._topics[topic_id] = None

    def receiving(self, room: Room) -> Task:
        """The task that remembers a turn, to run once its reply was sent. It does nothing if the store was replaced."""
        return partial(self._turns.__setitem__, room.room_id, room)

    def lose_turn(self, room: Room) -> bool:
        """Forget a turn whose reply did not arrive. False if the connection knows none, or a later one."""
        known = self._turns.get(room.room_id)
        if known is None or known.lease_id != room.lease_id:
            return False
        del self._turns[room.room_id]
        return True

    def complete(self, properties: Object, given: Object) -> Object:
        """The arguments with the ids that were left out. InvalidArgument names an id that is not clear."""
        completed = dict(given)
        if "room_id" in properties and "room_id" not in given:
            completed["room_id"] = self._room_id()
        # Some tools have a field of this name that means something else when it is left out.
        if properties.get("topic_id") is fields.TOPIC_ID and "topic_id" not in given:
            completed["topic_id"] = self._topic_id()
        if "lease_id" in properties:
            missing = [name for name in ("lease_id", "expected_turn_id") if name not in given]
            if missing:
                turn = self._turn(completed["room_id"], missing[0])
                completed = {"lease_id": turn.lease_id, "expected_turn_id": turn.turn_id, **completed}
        return completed

    def _room_id(self) -> str:
        rooms = self._present()
        if len(rooms) > 1:  # no other query would notice that the store was replaced since
            rooms = self._present(is_asked=True)
        if len(rooms) == 1:
            return rooms[0].room_id
        if not rooms:
            message = "room_id is required, because this connection has joined no room."
            raise InvalidArgument(message, Advice("join_room"), field="room_id")
        names = some_of([f"{room.room_id} ({room.canonical_path})" for room in rooms])
        message = f"room_id is required, because this connection has joined several rooms: {names}."
        raise InvalidArgument(message, field="room_id")

    def _present_topics(self, is_asked: bool = False) -> list[str]:
        rooms, joined = self._present(is_asked), [each for each in [*self._topics] if each not in self._lost]
        return list(dict.fromkeys([*(room.topic_id for room in rooms), *joined]))

    def _topic_id(self) -> str:
        topics = self._present_topics()
        if len(topics) > 1:
            topics = self._present_topics(is_asked=True)
        if len(topics) == 1:
            return topics[0]
        if not topics:
            message = "topic_id is required, because this connection has joined no topic and no room."
            raise InvalidArgument(message, Advice("join_first"), field="topic_id")
        message = f"topic_id is required, because this connection has joined several topics: {some_of(topics)}."
        raise InvalidArgument(message, field="topic_id")

    def _turn(self, room_id: str, field: str) -> Room:
        self._replies.wait(room_id)  # the reply that brings the turn may be on its way out, or be taken back right now
        turn = self._turns.get(room_id)
        if turn is None:
            message = f"{field} is required, because this connection has not received a turn in room {room_id}."
            raise InvalidArgument(message, Advice("keep_stick"), field=field)
        return turn
