"""The bell: how one process tells another that something changed.

A ring is only a hint: the waiter then looks at the table. A waiter first listens, then looks, then sleeps, so that it
cannot miss a change between the look and the sleep. `waits.py` has this loop for everything that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType

from conch.host.processes import Process
from conch.ids import digest
from conch.lean import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from conch.bells.sleepers import Sleeper

LINGER_SECONDS = 0.05
_CHANGES = tuple(f"changes-{number}" for number in range(64))

Wake = Callable[[], None]
Stop = Callable[[], None]


def room_channel(room_id: str) -> str:
    """All agents that wait in a room listen to this channel."""
    return f"room-{room_id}"


def activity_channel(room_id: str) -> str:
    """Watchers of a room listen to this channel; agents that wait for the stick do not."""
    return f"activity-{room_id}"


def seat_channel(room_id: str, agent_id: str) -> str:
    """One member's own channel in a room. A waiting member announces it. The stick's recipient is rung here first."""
    return f"seat-{room_id}-{agent_id}"


def topic_channel(topic_id: str) -> str:
    """All agents that wait for messages on a topic listen to this channel."""
    return f"topic-{topic_id}"


def directory_channel() -> str:
    """Watchers of the list of rooms listen to this channel. It is rung when a topic, and so when a room, is created."""
    return "directory"


def change_channel(locks: tuple[str, ...]) -> str:
    """Rung by the store itself after every change, whatever was changed. `locks` are those of the change.

    There are several such channels, because on PostgreSQL writers that test one channel at the same time take each
    other for listeners.
    """
    return _CHANGES[hash(locks) % len(_CHANGES)]


def change_channels() -> tuple[str, ...]:
    """Pages, which show everything, listen to these channels."""
    return _CHANGES


def agent_channel(agent_id: str) -> str:
    """An agent that listens hears on this channel that a notice has come for it, or that it has joined a topic."""
    return f"agent-{agent_id}"


def notification(channel: str) -> str:
    """The channel's name in PostgreSQL, which allows 63 plain characters."""
    return f"conch_{digest(channel)}"


class Ear(Protocol):
    """One waiter's end of the bell. One thread uses it; any thread can wake it."""

    called: bool
    """The announced channel was rung before or during the last `linger`, so the ring was for this waiter alone."""
    ended: bool
    """A watched process has ended. The waiter sets this back before it looks."""

    def wait(self, seconds: float) -> bool:
        """Sleep until a ring, the end of a watched process, `wake` or the timeout. Returns False on timeout."""

    def linger(self, seconds: float) -> None:
        """After a ring of a shared channel, sleep on, so that a crowd does not slow down the recipient.

        A ring of the announced channel, the end of a watched process and `wake` end this at once.
        """

    def watch(self, *processes: Process | None) -> None:
        """Also wake when one of these ends, because a dead process cannot ring. Replaces those watched before."""

    def wake(self) -> None:
        """End the current or next `wait` at once; safe from any thread."""

    def leave(self) -> None:
        """Let others see that nobody waits here any more. `close` does it, too."""

    def close(self) -> None:
        """Listen no longer. Any thread may do it, once no `wait` is left."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Bell(Protocol):
    """One per process."""

    def recheck_seconds(self, poll_seconds: float) -> float:
        """How long a waiter may sleep without a ring: long if this bell is reliable, else `poll_seconds`."""

    def ring(self, channels: Iterable[str]) -> None:
        """Wake the listeners of these channels, in this order. Never raises: a lost ring only delays a waiter."""

    def listen(self, *channels: str, announce: str | None = None) -> Ear:
        """Listen to these channels and `announce`.

        While the ear is open, `hears(announce)` is true in every process.
        """

    def hears(self, channel: str) -> bool:
        """Whether any living process announces this channel right now."""

    def forget(self, channels: Iterable[str]) -> None:
        """Drop what these channels have left behind. A later `listen` creates it again."""

    def close(self) -> None: ...


class Watcher(Protocol):
    """Watches channels and processes for all ears of this process.

    It calls only `wake` functions, which never block, on a thread of its own or on one that sleeps here.
    """

    def watch_channel(self, channel: str, wake: Wake) -> Stop:
        """Call `wake` at every ring from now on. `channel` is a path if the bell uses files, else a name.

        OSError if the channel cannot be watched.
        """

    def watch_process(self, process: Process, wake: Wake) -> Stop | None:
        """Call `wake` once when this process ends. None if it cannot be watched or has already ended."""

    def sleep(self, sleeper: Sleeper, seconds: float) -> None:
        """Sleep until the sleeper is woken or the time is up, or for a shorter time."""

    def close(self) -> None:
        """End the thread and close every descriptor. A `Stop` called later does nothing."""
