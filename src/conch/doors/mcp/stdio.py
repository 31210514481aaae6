"""Standard input and output as a wire: lines in, lines out, and a sign that says stop."""

from __future__ import annotations

import fcntl
import os
import select
import threading
from collections.abc import Iterator

_CHUNK = 65_536
_GONE = select.POLLERR | select.POLLHUP
_HALF_CLOSED = getattr(select, "POLLRDHUP", 0)
_LAST_CHANCE_MS = 250


def claim_standard_streams() -> tuple[int, int]:
    """Keep the wire to ourselves and return it as (input, output).

    From here on a stray print of ours, of a library or of a child process goes to standard error, and a child
    that reads its input gets the end of file instead of the client's messages.
    """
    wire = (_duplicate(0), _duplicate(1))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without standard error
        os.dup2(nothing, 1)
    os.close(nothing)
    return wire


def _duplicate(descriptor: int) -> int:
    """A private copy that children do not inherit and that is never one of the standard three."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


class StopSign:
    """Raised once, by a signal or by a thread that found the wire broken; seen by every poll that watches it."""

    def __init__(self) -> None:
        self.seen_by, self.raised_by = os.pipe()
        os.set_blocking(self.raised_by, False)

    def raise_(self) -> None:
        try:
            os.write(self.raised_by, b"\0")
        except OSError:  # full of earlier signs
            pass


class LineSplitter:
    """Cuts a stream of chunks into lines, in bounded memory."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._discarding = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """The lines that this chunk completes; None for one that is too long, as soon as that is known."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            yield from self._grow(piece)
            if not self._discarding:
                yield b"".join(self._parts)
            self._parts, self._size, self._discarding = [], 0, False
        yield from self._grow(rest)

    def _grow(self, piece: bytes) -> Iterator[None]:
        if self._discarding:
            return
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self._most_bytes:
            self._parts, self._discarding = [], True
            yield None


class Wire:
    """The two ends of one connection. One thread reads; any thread sends."""

    def __init__(self, descriptors: tuple[int, int], stop: StopSign, most_bytes: int) -> None:
        self._input, self._output = descriptors
        self._stop = stop
        self._splitter = LineSplitter(most_bytes)
        self._lock = threading.Lock()
        self._broken = False
        self._reading = _poll_for((self._input, select.POLLIN), (stop.seen_by, select.POLLIN), (self._output, 0))
        self._sending = _poll_for(
            (self._output, select.POLLOUT), (stop.seen_by, select.POLLIN), (self._input, _HALF_CLOSED)
        )
        self._last_chance = _poll_for((self._output, select.POLLOUT))

    def lines(self) -> Iterator[bytes | None]:
        """What the client sends, until it closes either end or the stop sign is raised. None: a line too long."""
        while self._readable():
            try:
                chunk = os.read(self._input, _CHUNK)
            except BlockingIOError:
                continue
            except OSError:  # a terminal that went away
                return
            yield from self._splitter.feed(chunk or b"\n")
            if not chunk:
                return

    def send(self, line: bytes) -> bool:
        """Write one whole line. False when it did not leave: the client is gone, or does not read while we end."""
        rest = memoryview(line + b"\n")
        with self._lock:
            while rest and not self._broken:
                rest = rest[self._write(rest[: select.PIPE_BUF]) :]
            return not rest

    def _readable(self) -> bool:
        for descriptor, events in self._reading.poll():
            if descriptor == self._stop.seen_by or (descriptor == self._output and events & _GONE):
                return False
        return True

    def _write(self, part: memoryview) -> int:
        """How much was written. A part this small never blocks on a pipe that says it can be written."""
        try:
            if self._writable():
                return os.write(self._output, part)
        except BlockingIOError:
            return 0
        except OSError:
            pass
        self._broken = True  # a line may be cut in half: nothing can follow it
        self._stop.raise_()
        return 0

    def _writable(self) -> bool:
        """Wait while the client does not read; once one of us wants to end, only for a moment more."""
        ready = [descriptor for descriptor, _ in self._sending.poll()]
        return self._output in ready or bool(self._last_chance.poll(_LAST_CHANCE_MS))


def _poll_for(*wanted: tuple[int, int]) -> select.poll:
    poll = select.poll()
    for descriptor, events in wanted:
        poll.register(descriptor, events)
    return poll
