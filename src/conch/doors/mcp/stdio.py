"""Standard input and output as a wire: lines in, lines out, and a stop sign that ends both."""

from __future__ import annotations

import fcntl
import os
import select
import threading
from collections.abc import Iterator

_CHUNK = 65_536
_GONE = select.POLLERR | select.POLLHUP
_HALF_CLOSED = getattr(select, "POLLRDHUP", 0)  # macOS has none
_LAST_CHANCE_MS = 250  # a client that is about to read still gets its last reply


def claim_standard_streams() -> tuple[int, int]:
    """Move the wire to private descriptors and return them as (input, output).

    After this, a stray print of ours, a library or a child process goes to standard error. A child that reads its
    input gets the end of file instead of the client's messages.
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
    """A private copy. Children do not inherit it, and it is never one of the three standard descriptors."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


class StopSign:
    """A pipe that tells every poll to stop. A signal raises it, or a thread that found the wire broken."""

    def __init__(self) -> None:
        self.seen_by, self.raised_by = os.pipe()
        os.set_blocking(self.raised_by, False)

    def raise_(self) -> None:
        try:
            os.write(self.raised_by, b"\0")
        except OSError:  # the pipe is full of earlier signs
            pass


class LineSplitter:
    """Splits a stream of chunks into lines, in bounded memory."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._discarding = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """The lines that this chunk completes. None stands for a line as soon as it is too long."""
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
        """The client's lines, until it closes either end or the stop sign is raised. None: a line was too long."""
        while self._readable():
            try:
                chunk = os.read(self._input, _CHUNK)
            except BlockingIOError:
                continue
            except OSError:  # a terminal that went away
                return
            yield from self._splitter.feed(chunk or b"\n")  # the end of input also ends the last line
            if not chunk:
                return

    def send(self, line: bytes) -> bool:
        """Write one whole line. False if that failed: the client is gone, or does not read while we are ending."""
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
        """Write a part and return how much was written. A part is small enough to never block a writable pipe."""
        try:
            if self._writable():
                return os.write(self._output, part)
        except BlockingIOError:
            return 0
        except OSError:
            pass
        self._broken = True  # the line may be cut in half, so nothing can follow it
        self._stop.raise_()
        return 0

    def _writable(self) -> bool:
        """Wait until the client reads. Once either side is ending, wait only a moment longer."""
        ready = [descriptor for descriptor, _ in self._sending.poll()]
        return self._output in ready or bool(self._last_chance.poll(_LAST_CHANCE_MS))


def _poll_for(*wanted: tuple[int, int]) -> select.poll:
    poll = select.poll()
    for descriptor, events in wanted:
        poll.register(descriptor, events)
    return poll
