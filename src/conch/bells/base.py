"""The bell: how one process tells another that something changed.

A ring is a hint, never the truth: after it the waiter looks at the table. A waiter listens first, looks second and
sleeps third, so that nothing can change unheard between the look and the sleep. `waits.py` does so for everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType

from conch.host.processes import Process
from conch.ids import digest
from conch.lean import Protocol, Self

LINGER_SECONDS = 0.05

Wake = Callable[[], None]
Stop = Callable[[], None]


def room_channel(room_id: str) -> str:
    """Everybody who waits in a room hears this one."""
    return f"room-{room_id}"


def activity_channel(room_id: str) -> str:
    """Watchers of a room hear this one; agents that wait for the stick do not wake for it."""
    return f"activity-{room_id}"


def seat_channel(room_id: str, agent_id: str) -> str:
    """One member's own channel in one room: rung first for a recipient, and its sign of waiting right now."""
    return f"seat-{room_id}-{agent_id}"


def topic_channel(topic_id: str) -> str:
    """Everybody who waits for messages on a topic hears this one."""
    return f"topic-{topic_id}"


def notification(channel: str) -> str:
    """A channel's name for a server that allows 63 plain characters."""
    return f"conch_{digest(channel)}"


class Ear(Protocol):
    """One waiter's end of the bell. Used by one thread, woken from any."""

    called: bool
    """Whether the announced channel was rung since the last `wait` but one: there is something for this waiter."""

    def wait(self, seconds: float, linger: float = LINGER_SECONDS) -> bool:
        """Sleep until a ring, the end of the watched process, `wake` or the timeout; True unless the timeout.

        A ring of the announced channel ends it at once; one of a shared channel up to `linger` seconds later, so that
        a crowd does not get in the way of the one who was called.
        """

    def watch(self, process: Process | None) -> None:
        """Also wake when this process ends (replaces the one watched before). Nobody rings for the dead."""

    def wake(self) -> None:
        """End the current or next `wait` at once; safe from any thread."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Bell(Protocol):
    """One per process."""

    def recheck_seconds(self, poll_seconds: float) -> float:
        """How long a waiter may sleep before it looks again unasked: long where rings are heard, else the poll."""

    def ring(self, channels: Iterable[str]) -> None:
        """Wake the listeners of these channels, in this order. Never raises: a lost ring costs a recheck."""

    def listen(self, *channels: str, announce: str | None = None) -> Ear:
        """Hear these channels and `announce`; while the ear is open, `hears(announce)` is true everywhere."""

    def hears(self, channel: str) -> bool:
        """Whether a living process somewhere announces this channel right now."""

    def close(self) -> None: ...


class Watcher(Protocol):
    """What wakes the ears of a process: one thread that watches channels and processes for all of them.

    One per process. Its thread only calls `wake`s, which never block.
    """

    def watch_channel(self, channel: str, wake: Wake) -> Stop:
        """Wake at every ring from now on; a channel is a file's path where files are rung, else its name.

        OSError if that cannot be promised.
        """

    def watch_process(self, process: Process, wake: Wake) -> Stop | None:
        """Wake once when this process ends; None if that cannot be promised, or it has ended already."""

    def close(self) -> None:
        """End the thread and close every descriptor. A `Stop` called later does nothing."""
