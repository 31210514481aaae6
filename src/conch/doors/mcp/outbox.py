"""What goes to the client: lines that wait to be written, and how much of the output the client has read."""

from __future__ import annotations

import fcntl
import os
import select
import sys
import termios
import threading
from collections import deque
from collections.abc import Callable
from stat import S_ISFIFO, S_ISSOCK

Placed = Callable[[int], None]
"""Learns where a line will end in the output, before it is written. See `Outbox.read_through`."""

Settled = Callable[[bool], None]
"""Learns whether a line that had to wait was written."""

_MOST_WAITING = 4 * 1024 * 1024
"""Bytes that may wait for a client that does not read. Beyond that, the server stops reading requests."""

_LAST_CHANCE_MS = 250  # a client that is about to read still gets its last reply


class _Line:
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
        self._patience_ms = 0
        self._room = select.poll()
        self._room.register(output, select.POLLOUT)
        self._unread = _unread_meter(output)

    @property
    def is_full(self) -> bool:
        return self._accepted - self._written > _MOST_WAITING

    def send(self, line: bytes, placed: Placed | None = None, settled: Settled | None = None) -> bool | None:
        """Write a line, and return whether it was written.

        None: there is no room, so the line waits, and `settled` is called later, on another thread.
        """
        data = line + b"\n"
        with self._lock:
            self._accepted += len(data)
            if placed is not None:
                placed(self._accepted)
            had_room = not self.is_waiting
            written = self._write(data) if had_room else 0
            self._written += written
            if written == len(data):  # as almost always
                return True
            new = _Line(memoryview(data)[written:], settled)
            self._lines.append(new)
            done = self._write_all()
        if had_room and self.is_waiting:
            self._wake()
        if not done or done[-1] is not new:
            _settle(done)
            return None
        _settle(done[:-1])
        return not new.rest

    def flush(self) -> None:
        """Write what waits, as far as there is room."""
        with self._lock:
            done = self._write_all()
        _settle(done)

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
        """Up to where the client has read the output. What the system cannot tell counts as read."""
        with self._lock:
            return self._written - self._unread()

    def _write_all(self) -> list[_Line]:
        """Call under the lock. Returns the lines that are done: written whole, or lost because the client is gone."""
        done: list[_Line] = []
        while self._lines and (written := self._write(self._lines[0].rest)):
            self._written += written
            self._lines[0].rest = self._lines[0].rest[written:]
            if not self._lines[0].rest:
                done.append(self._lines.popleft())
        if self._broken:
            done += self._lines
            self._lines.clear()
        self.is_waiting = bool(self._lines)
        return done

    def _write(self, rest: bytes | memoryview) -> int:
        """Write a part, small enough to never block where there is room. Returns 0 if there is none."""
        try:
            if not self._broken and self._room.poll(self._patience_ms):
                return os.write(self._output, rest[: select.PIPE_BUF])
            if not self._patience_ms:
                return 0
        except BlockingIOError:
            if not self._patience_ms:
                return 0
        except OSError:
            pass
        if not self._broken:
            self._broken = True  # the line may be cut in half, so nothing can follow it
            self._on_break()
        return 0


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
