"""What goes to the client: lines that wait to be written, and how much of the output the client has read."""

from __future__ import annotations

import fcntl
import os
import select
import sys
import termios
import threading
from collections import deque
from collections.abc import Callable, Sequence
from stat import S_ISFIFO, S_ISSOCK

from conch.lean import Protocol


class _Placed(Protocol):
    """Learns where its line will end in the output, before the line is written. See `Outbox.read_through`."""

    end: int


Settled = Callable[[bool], None]
"""Learns whether a line that had to wait was written."""

_MOST_WAITING = 4 * 1024 * 1024
"""Bytes that may wait for a client that does not read. Beyond that, the server stops reading requests."""

_LAST_CHANCE_MS = 250  # a client that is about to read still gets its last reply


class _Line:
    __slots__ = ("rest", "settled")

    def __init__(self, rest: memoryview, settled: Settled | None) -> None:
        self.rest = rest
        self.settled = settled


class Outbox:
    """Writes lines to the client, in order, and never waits for it. Any thread sends.

    A line that finds no room waits here. `wake` then tells the thread that polls the descriptors to call `flush` as
    soon as there is room.
    """

    def __init__(self, output: int, wake: Callable[[], None], broken: Callable[[], None]) -> None:
        self._output = output
        self._wake = wake
        self._on_break = broken
        self._lock = threading.Lock()
        self._lines: deque[_Line] = deque()
        self._accepted = 0  # bytes of all lines
        self._written = 0
        self._broken = False
        self.is_waiting = False
        """Lines wait, because the client does not read as fast as we write."""
        self._is_starved = False  # there was no memory to write
        self._patience_ms = 0
        self._room = select.poll()
        self._room.register(output, select.POLLOUT)
        self._unread = _unread_meter(output)
        self._is_socket = S_ISSOCK(os.fstat(output).st_mode)

    @property
    def is_full(self) -> bool:
        return self._accepted - self._written > _MOST_WAITING

    def send(self, line: bytes, placed: Sequence[_Placed] = (), settled: Settled | None = None) -> bool | None:
        """Write a line, and return whether it was written.

        None: there is no room, so the line waits, and `settled` is called later, on another thread. After MemoryError,
        nothing was sent.
        """
        new = _Line(memoryview(line + b"\n"), settled)
        with self._lock:
            end = self._accepted + len(new.rest)
            for each in placed:
                each.end = end
            self._lines.append(new)  # the last step that may raise MemoryError: from here on the line goes its way
            self._accepted = end
            had_room = not self.is_waiting
            done = self._write_all()
        if had_room and self.is_waiting:
            self._wake()
        is_done = bool(done) and done[-1] is new
        if len(done) > is_done:
            _settle(done[:-1] if is_done else done)
        return not new.rest if is_done else None

    def flush(self) -> bool:
        """Write what waits, as far as there is room. Returns False if there was not enough memory for that."""
        with self._lock:
            done = self._write_all()
            is_starved = self._is_starved
        _settle(done)
        return not is_starved

    def hurry(self) -> None:
        """Write what waits, because the connection ends. From now on no line waits longer than a moment."""
        self._patience_ms = _LAST_CHANCE_MS
        self.flush()

    @property
    def is_gone(self) -> bool:
        """Nothing will ever read the output again."""
        with self._lock:
            return any(events & (select.POLLERR | select.POLLHUP) for _, events in self._room.poll(0))

    def read_through(self) -> int:
        """How far the client has read the output, at least. What the system cannot tell counts as read."""
        with self._lock:
            return self._written - self._unread()

    def may_have_read_through(self) -> int:
        """How far the client may have read the output, at most."""
        with self._lock:
            unread = self._unread()
            return self._written - (min(unread, 1) if self._is_socket else unread)

    def _write_all(self) -> list[_Line]:
        """Call under the lock. Returns the lines that are done: written whole, or lost because the client is gone."""
        done: list[_Line] = []
        self._is_starved = False
        try:
            while self._lines and self._write(self._lines[0]):
                if not self._lines[0].rest:
                    done.append(self._lines[0])
                    self._lines.popleft()
        except MemoryError:
            self._is_starved = True  # what is left waits, as if there were no room
        if self._broken:
            done += self._lines
            self._lines.clear()
        self.is_waiting = bool(self._lines)
        return done

    def _write(self, line: _Line) -> bool:
        """Write a part, small enough to never block where there is room. Returns whether it made progress.

        What needs memory comes first. No part is written twice.
        """
        part, rest = line.rest[: select.PIPE_BUF], line.rest[select.PIPE_BUF :]
        through = self._written + len(part)
        if not part:
            return True  # there was no memory to note that it is done
        try:
            if not self._broken and self._room.poll(self._patience_ms):
                written = os.write(self._output, part)
                if written == len(part):
                    line.rest, self._written = rest, through
                else:
                    line.rest, self._written = line.rest[written:], self._written + written
                return written > 0
            if not self._patience_ms:
                return False
        except BlockingIOError:
            if not self._patience_ms:
                return False
        except OSError:
            pass
        if not self._broken:
            self._broken = True  # the line may be cut in half, so nothing can follow it
            self._on_break()
        return False


def _settle(done: list[_Line]) -> None:
    for line in done:
        if line.settled is not None:
            line.settled(not line.rest)


def _unread_meter(output: int) -> Callable[[], int]:
    """A function that returns how many bytes of the output are unread, or more. 0 where the system cannot tell.

    Linux knows it for pipes and local sockets. For a socket it counts the memory that holds the bytes.
    """
    mode = os.fstat(output).st_mode
    if sys.platform != "linux" or not (S_ISFIFO(mode) or S_ISSOCK(mode)):
        return lambda: 0
    request = termios.FIONREAD if S_ISFIFO(mode) else termios.TIOCOUTQ

    def unread() -> int:
        try:
            return int.from_bytes(fcntl.ioctl(output, request, bytes(4)), sys.byteorder)
        except OSError:
            return 0

    return unread
