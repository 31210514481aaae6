"""The TCP connections of `conch serve`. Each costs a descriptor, so their number and their silence are bounded.

Anyone on this machine can connect, even without the token. So a connection must soon send a request, and a client must
go on reading its reply. If there are too many connections, the one that has waited longest for a request is closed.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import sys

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from conch.lean import Any

OUTPUT = "conch.output"  # in the state of a request: the `Output` of its connection

_HEAD_SECONDS = 10.0  # for the head of a request
_READ_SECONDS = 60.0  # for a client that has stopped reading, while more than 64 KB wait for it
_MOST_DESCRIPTORS = 16_384
_SAID_SECONDS = 60.0
_LACKS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def most_connections() -> int:
    """Half of the descriptors that this process may have, after raising their number as far as that helps."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    now, most = (_MOST_DESCRIPTORS if each == resource.RLIM_INFINITY else each for each in (now, most))
    wanted = min(most, _MOST_DESCRIPTORS)
    if now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return wanted // 2


class ConnectionTrouble:
    """Reports what goes wrong in the event loop: at most once a minute if the system has no room for a connection."""

    def __init__(self) -> None:
        self._said_at = -_SAID_SECONDS

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        problem = context.get("exception")
        if not isinstance(problem, OSError) or problem.errno not in _LACKS:
            loop.default_exception_handler(context)
        elif loop.time() - self._said_at >= _SAID_SECONDS:
            self._said_at = loop.time()
            print(f"conch: no further connection can be accepted for now: {problem.strerror}.", file=sys.stderr)


class Output:
    """What one connection sends, and whether its client reads it."""

    def __init__(self) -> None:
        self.reset = asyncio.Event()
        """Set when the client has closed the connection without reading all of it."""
        self.size = 0
        """The bytes of all replies so far, without those of HTTP."""
        self.is_late = False
        """The client has left a reply unread for too long, so it cannot read those after it either."""


class PatientConnection(H11Protocol):
    """One connection, which is closed if its client keeps the server waiting."""

    _silent_since = 0.0
    _deadline: asyncio.TimerHandle | None = None

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._output = Output()
        super().__init__(config, server_state, {**app_state, OUTPUT: self._output}, _loop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._silent_since = self.loop.time()
        self._make_room()
        self._limit_silence()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_silence()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._silent_since = self.loop.time()
        self._limit_silence()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        if isinstance(exc, ConnectionResetError):
            self._output.reset.set()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._forget_deadline()
        self._deadline = self.loop.call_later(_READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_deadline()
        self._limit_silence()

    @property
    def is_silent(self) -> bool:
        """It has sent no request, or none since its last reply."""
        return self.cycle is None or self.cycle.response_complete

    def _limit_silence(self) -> None:
        if not self.is_silent or self.transport.is_closing():
            self._forget_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(_HEAD_SECONDS, self.transport.abort)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _make_room(self) -> None:
        """Close the connection that has been silent for longest, if there are too many."""
        opened: list[Any] = [each for each in self.connections if not each.transport.is_closing()]
        if self.limit_concurrency is not None and len(opened) >= self.limit_concurrency:
            silent = [each for each in opened if each.is_silent and each is not self]
            if silent:
                min(silent, key=lambda each: each._silent_since).transport.abort()
