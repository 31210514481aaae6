"""The calls of tools that come over HTTP: each one, its reply on the way out, and the client that waits for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from starlette.types import Message, Scope, Send

from conch.calls import Call
from conch.doors.web.connections import OUTPUT, Output
from conch.doors.web.tcp import Address, unread_bytes
from conch.errors import StoreError
from conch.lean import Lock
from conch.tools.replies import Delivery, Reply, Task

TROUBLES = (StoreError, MemoryError, OSError)
"""What passes: the store does not answer, or the system has run out of something."""
MOST_CALLS = 256  # of one agent, as for `conch mcp`


class ReplyWriter:
    """Passes on a reply, reports when it is written, and ends it if the server stops in the middle of a stream."""

    def __init__(
        self, send: Send, about_to_write: Callable[[int], Awaitable[None]], written: Callable[[], Awaitable[None]]
    ) -> None:
        self._send = send
        self._about_to_write = about_to_write
        self._written = written
        self._is_open = False

    async def __call__(self, message: Message) -> None:
        if message.get("body"):
            await self._about_to_write(len(message["body"]))
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        self._is_open = True
        await self._send({**message, "more_body": True} if is_last else message)
        if is_last:
            await self._written()
            await self.end()

    async def end(self) -> None:
        if self._is_open:
            self._is_open = False
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class Caller:
    """The client that waits for one HTTP reply. If it goes away, the reply is lost."""

    def __init__(self, scope: Scope) -> None:
        self.client: Address = tuple(scope.get("client") or ("", 0))
        self.server: Address = tuple(scope.get("server") or ("", 0))
        self.output: Output = scope.get("state", {}).get(OUTPUT) or Output()
        self.begins_at = 0
        """The size of the output before the reply."""
        self.is_unread = False
        """The client had read nothing of the reply when we looked last."""
        self.is_gone = False
        self.gets_reply = False
        self.run: Run | None = None

    def start(self, run: Run) -> None:
        self.run = run
        if self.is_gone:
            run.abandon()

    def look(self) -> bool | None:
        """Whether the client has read nothing of the reply yet; None if the system cannot tell now.

        After a reset, only the last look knows that.
        """
        if not self.output.reset.is_set():
            unread = unread_bytes(self.client, self.server)
            if unread is None:
                return None
            self.is_unread = unread >= self.output.size - self.begins_at
        return self.is_unread

    def leave(self) -> None:
        self.is_gone = True
        if self.run is not None:
            self.run.abandon()


class AnsweredCalls:
    """The latest calls of one MCP session that were answered."""

    def __init__(self) -> None:
        self._answered: OrderedDict[object, tuple[Delivery, Caller]] = OrderedDict()
        self._cancels_late = False

    def note(self, request_id: object, delivery: Delivery, caller: Caller) -> None:
        self._answered.pop(request_id, None)
        self._answered[request_id] = delivery, caller
        while len(self._answered) > MOST_CALLS:
            self._answered.popitem(last=False)

    def cancel(self, request_id: object) -> Delivery | None:
        """The delivery to take back. Of cancellations of replies that were read, only the first counts, because some
        clients cancel every call after they have read its reply. See `PendingCalls.cancel`.
        """
        if request_id not in self._answered:
            return None
        delivery, caller = self._answered.pop(request_id)
        was_read, knew = not caller.look(), self._cancels_late
        self._cancels_late = knew or was_read
        return None if was_read and knew else delivery


class Run:
    """One call of a tool on a thread. What it brings is taken back if nobody waits for it any more."""

    def __init__(
        self,
        act: Callable[[Call], Reply],
        session: object,
        report: Callable[[str], None] | None,
        request: tuple[str, object],
        postpone: Callable[[Task], None],
    ) -> None:
        """`postpone` does later what the store does not let us do now. Any thread may call it."""
        self.session = session
        self.request = request
        """The MCP session and the id of the request."""
        self.settled = anyio.Event()
        self._act = act
        self._postpone = postpone
        self._call = Call(report)
        self._lock = Lock()
        self._is_abandoned = False
        self._is_lost = False
        self._reply: Reply | None = None

    @property
    def has_replied(self) -> bool:
        """Whether there is a reply that is not settled yet."""
        return self._reply is not None and not self.settled.is_set()

    def work(self) -> Reply:
        reply = self._act(self._call)
        with self._lock:
            if not self._is_abandoned:
                self._reply = reply
                return reply
        self._deliver(reply, False)
        return reply

    def settle(self, has_arrived: bool) -> Delivery | None:
        """Returns the delivery of a reply that has arrived."""
        reply, is_there = self._reply, has_arrived and not self._is_lost
        assert reply is not None
        self._deliver(reply, is_there)
        return reply.delivery if is_there else None

    def lose(self) -> None:
        """Stop the call. If it has a reply already, the client gets an error instead."""
        self._is_lost = True
        self.abandon()

    def abandon(self) -> None:
        """Stop the call. A reply that is on its way is settled by the connection that carries it."""
        with self._lock:
            if self._is_abandoned or self._reply is not None:
                return
            self._is_abandoned = True
        self._call.cancel()

    def _deliver(self, reply: Reply, has_arrived: bool) -> None:
        with suppress(Exception):  # if this fails, a lease that nobody uses lapses by itself
            try:
                reply.delivery.sent() if has_arrived else reply.delivery.not_sent()
            except TROUBLES:
                if not has_arrived:  # otherwise a cursor did not move, and its messages come again
                    self._postpone(reply.delivery.not_sent)
