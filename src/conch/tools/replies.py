"""What a handler returns, and what follows once its door knows whether that reached the caller."""

from __future__ import annotations

from collections.abc import Callable

from conch.calls import retry_interrupted
from conch.lean import Any, Lock, NamedTuple, threading

Object = dict[str, Any]
Task = Callable[[], None]

_LONGEST_SECONDS = 1.0  # replies that leave together may wait for each other; then the same comes twice


class Queue:
    """Replies on their way out, by topic, of one connection.

    A client can have read a reply, and ask again, before we know that it has left. So the next call about the same
    topic waits until that is known.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._unsettled: dict[str, threading.Event] = {}

    def wait(self, topic_id: str) -> None:
        """Until the last reply about a topic is settled."""
        with self._lock:
            unsettled = self._unsettled.get(topic_id)
        if unsettled is not None:
            unsettled.wait(_LONGEST_SECONDS)

    def enter(self, topic_id: str) -> tuple[Task, Task]:
        """From now on others wait for this one. Returns how to wait for the one before it, and how to settle it."""
        mine = threading.Event()
        with self._lock:
            before = self._unsettled.get(topic_id)
            self._unsettled[topic_id] = mine

        def wait() -> None:
            if before is not None:
                before.wait(_LONGEST_SECONDS)

        def settle() -> None:
            mine.set()
            with self._lock:
                if self._unsettled.get(topic_id) is mine:
                    del self._unsettled[topic_id]

        return wait, settle


def _nothing() -> None:
    pass


class Delivery:
    """What follows from the fate of one reply.

    A door calls `sent` once the reply was written, or `not_sent` when it could not be. It calls `retracted` too where
    a cancellation crossed the reply on its way, because the client throws such a reply away.
    """

    def __init__(self, *, sent: Task = _nothing, not_sent: Task = _nothing) -> None:
        self._sent = sent
        self._not_sent = not_sent

    def sent(self) -> None:
        self._follow(self._sent)

    def not_sent(self) -> None:
        self._follow(self._not_sent)

    def _follow(self, task: Task) -> None:
        self._sent = self._not_sent = _nothing  # it happens once, and what it needed may be large
        retry_interrupted(task)

    @property
    def is_retractable(self) -> bool:
        return False

    def retracted(self, later: Callable[[Task], None]) -> None:
        """Begin to take back what was sent; `later` runs the rest of it on a thread that may wait."""


class QueuedDelivery(Delivery):
    """The same for a reply about a topic, which later calls wait for."""

    def __init__(self, queue: Queue, topic_id: str, *, sent: Task, retracted: Task | None) -> None:
        super().__init__(sent=sent)
        self._queue = queue
        self._topic_id = topic_id
        self._retracted = retracted
        _, self._settle = queue.enter(topic_id)

    def _follow(self, task: Task) -> None:
        try:
            super()._follow(task)
        finally:
            self._settle()

    @property
    def is_retractable(self) -> bool:
        return self._retracted is not None

    def retracted(self, later: Callable[[Task], None]) -> None:
        if self._retracted is None:
            return
        task, (wait, settle) = self._retracted, self._queue.enter(self._topic_id)

        def take_back() -> None:
            try:
                wait()
                retry_interrupted(task)
            finally:
                settle()

        later(take_back)


NOTHING_FOLLOWS = Delivery()


class Reply(NamedTuple):
    """An object for programs, a short text for models, and what follows from its delivery."""

    data: Object
    text: str
    delivery: Delivery = NOTHING_FOLLOWS
    is_error: bool = False
