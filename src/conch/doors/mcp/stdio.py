"""Standard input and output as a wire: lines in, lines out, and a stop sign that ends both."""

from __future__ import annotations

import fcntl
import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO

from conch.doors.mcp.outbox import Outbox
from conch.lean import NamedTuple

_CHUNK = 65_536
_RESERVE = 2 * 1024 * 1024  # bytes of address space. A `bytearray` would write to them, and so use memory
_SMALL_CHUNK = 256  # Python has memory for this few bytes even when the system has none
_KEPT = 1_024  # bytes at each end of a line that is given up
_GONE = select.POLLERR | select.POLLHUP
_HALF_CLOSED = getattr(select, "POLLRDHUP", 0)  # macOS has none
_READ_ONLY = (select.POLLIN, 0)
_TICK_MS = 2_000
_SHORT_SECONDS = 0.05
_WAKE = b"w"  # no signal has this number


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
    """A pipe that wakes the poll of the wire. A signal or a broken wire tells it to stop; `wake` only wakes it."""

    def __init__(self) -> None:
        self.seen_by, self.raised_by = os.pipe()
        os.set_blocking(self.seen_by, False)
        os.set_blocking(self.raised_by, False)
        self._raised = False

    def raise_(self) -> None:
        self._write(b"\0")

    def wake(self) -> None:
        self._write(_WAKE)

    @property
    def is_raised(self) -> bool:
        """Whether to stop. Forgets what only woke the poll."""
        try:
            self._raised = self._raised or bool(os.read(self.seen_by, _SMALL_CHUNK).strip(_WAKE))
        except OSError:  # nothing is there
            pass
        return self._raised

    def _write(self, sign: bytes) -> None:
        try:
            os.write(self.raised_by, sign)
        except OSError:  # the pipe is full of earlier signs
            pass


class Cut(NamedTuple):
    """A line that was not kept, because it is too long or there is no memory for it: how it begins and ends.

    It comes twice: as soon as the line is given up, without its end, and when it has ended.
    """

    head: bytes
    tail: bytes | None


Line = bytes | Cut


class LineSplitter:
    """Splits a stream of chunks into lines, in bounded memory. MemoryError loses nothing of the stream."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._chunk: bytes | bytearray = b""
        self._place, self._end = 0, 0  # what is left of the chunk
        self._parts: list[bytes] = []
        self._size = 0
        self._cut: Cut | None = None  # while the line is given up

    def feed(self, chunk: bytes | bytearray, size: int) -> None:
        """Go on with the first `size` bytes of a chunk. It must not change until `lines` has ended."""
        self._chunk, self._place, self._end = chunk, 0, size

    def lines(self) -> Iterator[Line]:
        """The lines that the chunk completes, and those that it makes too long. After MemoryError, call it again."""
        while self._place < self._end:
            newline = self._chunk.find(b"\n", self._place, self._end)
            if newline >= 0 and not self._size and newline - self._place <= self._most_bytes:  # as almost always
                line = bytes(memoryview(self._chunk)[self._place : newline])
                self._place = newline + 1
                yield line
                continue
            self._grow(self._end if newline < 0 else newline)
            if self._size > self._most_bytes:
                yield from self.discard()
            if newline >= 0:
                yield from self._finish(newline + 1)

    def discard(self) -> Iterator[Cut]:
        """Give up the line that is being read, if there is one."""
        if self._size and self._cut is None:
            head, tail = _ends(self._parts)
            begun, self._cut = Cut(head, None), Cut(head, tail)
            self._parts.clear()
            yield begun

    def _finish(self, place: int) -> Iterator[Line]:
        line: bytes | None = None
        if self._cut is None:
            try:
                line = b"".join(self._parts)
            except MemoryError:
                yield from self.discard()
        ended = self._cut if line is None else line
        self._parts.clear()
        self._size, self._cut, self._place = 0, None, place
        if ended is not None:
            yield ended

    def _grow(self, place: int) -> None:
        """Add what comes before this place to the line. What needs memory is done first, so it can be done again."""
        piece = bytes(memoryview(self._chunk)[self._place : place])
        if self._cut is not None:
            self._cut = self._cut._replace(tail=_ends([self._cut.tail or b"", piece])[1])
        elif piece:
            size = self._size + len(piece)
            self._parts.append(piece)
            self._size = size
        self._place = place


def _ends(parts: list[bytes]) -> tuple[bytes, bytes]:
    """The first and the last bytes of these parts together. It needs little memory, however long they are."""
    head = tail = b""
    for part in parts:
        if len(head) >= _KEPT:
            break
        head += part[: _KEPT - len(head)]
    for part in reversed(parts):
        if len(tail) >= _KEPT:
            break
        tail = part[-(_KEPT - len(tail)) :] + tail
    return head, tail


class Wire:
    """The two ends of one connection. One thread at a time reads, and writes what had to wait; any thread sends."""

    def __init__(self, descriptors: tuple[int, int], stop: StopSign, most_bytes: int) -> None:
        self._input, self._output = descriptors
        self._stop = stop
        self.watched = {self._input: select.POLLIN, stop.seen_by: select.POLLIN, self._output: 0}
        """The descriptors that a call in progress must not keep waiting. All of them also report that they broke."""
        self.wake = stop.wake
        self._splitter = LineSplitter(most_bytes)
        self._source = FileIO(self._input, closefd=False)
        self._buffer = bytearray(_CHUNK)  # made in advance, so that reading needs no memory
        self._reserve: bytes | None = bytes(_RESERVE)
        self.outbox = Outbox(self._output, stop.wake, stop.raise_)
        self._poll = select.poll()
        self._poll.register(stop.seen_by, select.POLLIN)
        self._wanted: tuple[int, int] | None = None  # at first nothing is registered
        self._has_ended = False

    def lines(self, rest: Callable[[], bool]) -> Iterator[Line]:
        """The client's lines, until it closes either end or the stop sign is raised.

        It calls `rest` before it waits for more. If that returns True, it waits at most two seconds, and then yields
        an empty line. Another thread may go on with new `lines` while `rest` runs, or after it has raised an exception.
        """
        while not self._has_ended and (readable := self._wait(rest)) is not None:
            if not readable:
                yield b""
                continue
            try:
                size = self._source.readinto(self._buffer)
            except MemoryError:  # nothing was read
                self.wait_for_memory()
                continue
            except OSError:  # a terminal that went away
                return
            if size is None:  # another process has read it
                continue
            self._has_ended = not size
            yield from self._split(size, rest)
            if 0 < size < _CHUNK:
                self._refill()  # not before: handling the lines may need the memory

    def _split(self, size: int, rest: Callable[[], bool]) -> Iterator[Line]:
        if size:
            self._splitter.feed(self._buffer, size)
        else:
            self._splitter.feed(b"\n", 1)  # the end of input also ends the last line
        while True:
            try:
                yield from self._splitter.lines()
                return
            except MemoryError:
                if not self.wait_for_memory():
                    return
            try:
                rest()
                yield from self._splitter.discard()  # this line may be what uses up the memory
            except MemoryError:
                pass

    def wait_for_memory(self) -> bool:
        """Make room and wait a moment, while other calls end. Returns whether to try again."""
        self.spare_memory()
        try:
            time.sleep(_SHORT_SECONDS)
            self.outbox.flush()
            return not self._stop.is_raised
        except MemoryError:
            return True

    def spare_memory(self) -> None:
        """Free the memory that was set aside, because there is no other."""
        self._reserve = None

    def _refill(self) -> None:
        """Set memory aside again once there is some: without any, the server could not even read."""
        if self._reserve is None:
            with suppress(MemoryError):
                self._reserve = bytes(_RESERVE)

    def _wait(self, rest: Callable[[], bool]) -> bool | None:
        """Wait until there is something to do. Returns whether there is input, or None if the connection ends."""
        while True:
            try:
                return self._look(rest)
            except MemoryError:  # the next poll reports again what there is to do
                self.wait_for_memory()

    def _look(self, rest: Callable[[], bool]) -> bool | None:
        is_full = self._choose() if self.outbox.is_waiting or self._wanted != _READ_ONLY else False
        readable = False
        for descriptor, events in self._poll.poll(_TICK_MS if rest() else None):
            if descriptor == self._stop.seen_by and self._stop.is_raised:
                return None
            if descriptor == self._output:
                if events & _GONE:
                    return None
                if not self.outbox.flush():
                    raise MemoryError
            if descriptor == self._input:
                readable = True
                if is_full:  # the client has closed its end without reading our replies
                    self.outbox.hurry()
        return readable

    def _choose(self) -> bool:
        """Poll for what can be done: no reading while the outbox is full, no writing while it is empty."""
        is_full = self.outbox.is_full
        wanted = (_HALF_CLOSED if is_full else select.POLLIN, select.POLLOUT if self.outbox.is_waiting else 0)
        if wanted != self._wanted:
            self._poll.register(self._input, wanted[0])
            self._poll.register(self._output, wanted[1])
            self._wanted = wanted  # last: after MemoryError this is done again
        return is_full
