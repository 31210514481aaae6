"""What a tool returns, and what happens once the door knows whether the reply reached the caller."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic

from conch.calls import retry_interrupted
from conch.lean import Any, Lock, NamedTuple

Object = dict[str, Any]
Task = Callable[[], None]
Told = frozenset[str]
"""The names of facts, such as `turn_id`, or `room.turn_id` for one of the object `room`."""


def known(**facts: Any) -> Object:
    """The facts without nulls. A reply has nulls only where a specification asks for them."""
    return {name: value for name, value in facts.items() if value is not None}


# Replies of one batch may wait for each other. After this time a call goes on, and may return messages a second time.
_LONGEST_SECONDS = 1.0
_MOST_REMEMBERED = 20  # replies


class Settled:
    """Lets a thread wait until a reply is settled. Every reply has one, so it must be cheaper than an Event."""

    def __init__(self) -> None:
        self._is_set = False
        self._unsettled = Lock()
        self._unsettled.acquire()

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            self._unsettled.release()

    def wait(self, seconds: float) -> None:
        if self._unsettled.acquire(timeout=seconds):
            self._unsettled.release()  # for the next one that waits


class ReplyQueue:
    """The replies of one connection that are on their way out, by their subject: the id of a topic or of a room.

    A client may read a reply and call again before we know that the reply has left. So the next call that depends on it
    waits until we know.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._unsettled: dict[str, Settled] = {}

    def wait(self, subject: str) -> None:
        """Wait until the last reply about a subject is settled."""
        with self._lock:
            unsettled = self._unsettled.get(subject)
        if unsettled is not None:
            unsettled.wait(_LONGEST_SECONDS)

    def unsettled(self) -> list[Settled]:
        """The replies that are not settled yet, for `wait_for`."""
        if not self._unsettled:  # as almost always
            return []
        with self._lock:
            return list(self._unsettled.values())

    def wait_for(self, replies: list[Settled]) -> None:
        """Wait until these replies are settled, for a moment in all: a client may leave many of them unread."""
        if not replies:
            return
        deadline = monotonic() + _LONGEST_SECONDS
        for reply in replies:
            reply.wait(max(0.0, deadline - monotonic()))

    def enter(self, subject: str) -> tuple[Task, Task]:
        """Make later calls wait for a new reply. Returns two tasks: wait for the reply before it, settle this one."""
        mine = Settled()
        with self._lock:
            before = self._unsettled.get(subject)
            self._unsettled[subject] = mine

        def wait() -> None:
            if before is not None:
                before.wait(_LONGEST_SECONDS)

        def settle() -> None:
            mine.set()
            with self._lock:
                if self._unsettled.get(subject) is mine:  # a later reply may have replaced it
                    del self._unsettled[subject]

        return wait, settle


def _nothing() -> None:
    pass


class Delivery:
    """What happens after a reply was sent, or could not be sent.

    A door calls `sent` after it wrote the reply, or `not_sent` if it could not. Later it calls `read` or `unread`, if
    it learns whether the client reads the reply. If the client cancels a call while its reply is on the way, the client
    ignores that reply, so the door then calls `retracted` as well.
    """

    def __init__(
        self,
        *,
        sent: Task = _nothing,
        not_sent: Task = _nothing,
        retracted: Task | None = None,
        unread: Task | None = None,
        read: Task = _nothing,
    ) -> None:
        """`unread` is the same as `retracted` unless it is given. `read` is quick and never fails."""
        self._sent = sent
        self._not_sent = not_sent
        self._retracted = retracted
        self._unread = unread or retracted
        self.read = read

    def sent(self) -> None:
        self._follow(self._sent)

    def not_sent(self) -> None:
        self._follow(self._not_sent)

    def _follow(self, task: Task) -> None:
        retry_interrupted(task)  # if this fails, the door may try again
        self._sent = self._not_sent = _nothing  # each succeeds at most once, and may hold large data

    @property
    def is_retractable(self) -> bool:
        return self._retracted is not None

    def retracted(self, later: Callable[[Task], None]) -> None:
        """Undo what the reply brought. That may take time, so `later` runs it on another thread."""
        self._undo(self._retracted, later)

    def unread(self, later: Callable[[Task], None]) -> None:
        """The same for a reply that the client has left unread for too long."""
        self._undo(self._unread, later)

    def _undo(self, task: Task | None, later: Callable[[Task], None]) -> None:
        if task is not None:
            later(partial(retry_interrupted, task))


def undone_by(undo: Callable[[], object], unread: Task | None = None, read: Task = _nothing) -> Delivery:
    """The delivery of a reply that brings something, which `undo` takes back if the reply does not arrive."""

    def task() -> None:
        undo()

    return Delivery(not_sent=task, retracted=task, unread=unread, read=read)


class QueuedDelivery(Delivery):
    """A delivery of a reply about a topic or a room. Later calls about that may wait for it."""

    def __init__(
        self,
        queue: ReplyQueue,
        subject: str,
        *,
        sent: Task,
        not_sent: Task = _nothing,
        retracted: Task | None = None,
        unread: Task | None = None,
        read: Task = _nothing,
    ) -> None:
        super().__init__(sent=sent, not_sent=not_sent, retracted=retracted, unread=unread, read=read)
        self._queue = queue
        self._subject = subject
        _, self._settle = queue.enter(subject)

    def _follow(self, task: Task) -> None:
        try:
            super()._follow(task)
        finally:
            self._settle()

    def _undo(self, task: Task | None, later: Callable[[Task], None]) -> None:
        if task is None:
            return
        wait, settle = self._queue.enter(self._subject)

        def take_back() -> None:
            try:
                wait()
                retry_interrupted(task)
            finally:
                settle()

        later(take_back)


NOTHING_FOLLOWS = Delivery()


class Delivered(NamedTuple):
    """What a reply brings that would otherwise be mail."""

    topic_id: str = ""
    through: int = 0
    """All messages of the topic up to this one."""
    returned: tuple[tuple[int, str], ...] = ()
    """The numbers of those that others sent, each with its message_id if it is to this agent. Empty: not known."""
    seqs: tuple[int, ...] = ()
    """Single messages of the topic."""
    ids: tuple[str, ...] = ()
    """Questions and notices."""


NOTHING_DELIVERED = Delivered()


class Brought:
    """Messages that replies of one connection have brought although its cursors do not pass them.

    Mail does not repeat them. A new connection begins without them, so the oldest may be forgotten as well.
    """

    def __init__(self) -> None:
        self._replies: list[Delivered] = []

    def add(self, delivered: Delivered) -> None:
        if delivered.seqs or delivered.ids:
            self._replies = [*self._replies[1 - _MOST_REMEMBERED :], delivered]

    def drop(self, delivered: Delivered) -> None:
        self._replies = [each for each in self._replies if each is not delivered]

    def messages(self, now: Delivered) -> set[tuple[str, int]]:
        """The topic and the number of each message, with those that are brought now."""
        if not self._replies and not now.seqs:  # as almost always
            return set()
        return {(each.topic_id, seq) for each in [*self._replies, now] for seq in each.seqs}

    def questions(self) -> tuple[str, ...]:
        """The ids of the questions, of which only the number is still mail."""
        if not self._replies:
            return ()
        return tuple([question_id for each in self._replies for question_id in each.ids])


class Reply(NamedTuple):
    """The facts as an object and as a text, and what happens after delivery.

    A harness shows a model one of the two, or both. `next` is for both: what the caller can do now. Mail does not count
    what the reply has `delivered`.
    """

    data: Object
    text: str
    delivery: Delivery = NOTHING_FOLLOWS
    is_error: bool = False
    next: str = ""
    delivered: Delivered = NOTHING_DELIVERED
    shown: Any = None
    """The values that it shows, for a door that has its own words for them."""
    told: Told | None = None
    """The facts of the object that the text always has. None: not known."""
