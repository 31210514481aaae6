"""Calls between their request and their reply. Cancelling a call after its reply was sent undoes its effect."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial

from conch.calls import Call
from conch.doors.mcp.protocol import INTERNAL_ERROR, INVALID_REQUEST, Id, Refusal, encode
from conch.tools.replies import NOTHING_FOLLOWS, Delivery, Object, Task

_MOST_AT_ONCE = 256
"""Each call in flight holds a thread. This limit stops a client that never reads from starting more and more."""

_MOST_RETRACTABLE = 64
"""How many sent replies we can still take back. A client ignores a reply that arrives after it cancelled the call."""


class Batch:
    """The replies to one JSON-RPC array. They are sent together once all of them are ready."""

    def __init__(self) -> None:
        self.calls: list[PendingCall] = []
        self.unfinished = 0


class PendingCall:
    """One request that waits for its reply. Only `PendingCalls` changes it, and only under its lock."""

    def __init__(self, request_id: Id | None, batch: Batch | None) -> None:
        self.request_id = request_id
        self.batch = batch
        self.call = Call()
        self.cancelled = False
        self.reply = b""
        self.delivery: Delivery | None = None
        """The delivery of the reply, once the reply is ready."""


class PendingCalls:
    """Calls that wait for their reply. `send` writes a line and returns whether it was sent; `later` runs a task."""

    def __init__(self, send: Callable[[bytes], bool], later: Callable[[Callable[[], None]], None]) -> None:
        self._send = send
        self._later = later
        self._lock = threading.Lock()
        self._by_id: dict[Id, PendingCall] = {}
        self._retractable: dict[Id, Delivery] = {}

    def begin(self, request_id: Id, batch: Batch | None, token: Id | None) -> PendingCall:
        """Register a call, so that the client can cancel it. With a token, the client gets progress reports."""
        pending = PendingCall(request_id, batch)
        if token is not None:
            pending.call = Call(_Progress(token, pending, self._send).report)
        with self._lock:
            if request_id in self._by_id:
                raise Refusal(INVALID_REQUEST, "Invalid request: another request with this id is in flight.")
            if len(self._by_id) >= _MOST_AT_ONCE:
                raise Refusal(INTERNAL_ERROR, f"Too many requests in flight: at most {_MOST_AT_ONCE} are allowed.")
            self._by_id[request_id] = pending
            self._join(pending)
        return pending

    def hold(self, batch: Batch) -> PendingCall:
        """Add to a batch a part that cannot be cancelled: a quick reply, or one that keeps the batch open."""
        pending = PendingCall(None, batch)
        with self._lock:
            self._join(pending)
        return pending

    def finish(self, pending: PendingCall, reply: bytes, delivery: Delivery = NOTHING_FOLLOWS) -> None:
        """Send the reply, alone or with its batch. Then run what follows: `sent` or `not_sent` of its delivery."""
        with self._lock:
            cancelled = pending.cancelled
            if not cancelled:
                pending.reply, pending.delivery = reply, delivery
            leaving = self._leaving_with(pending)
        # Outside the lock: sending blocks while the client does not read, and tasks may use the store.
        if cancelled:
            run_quietly(delivery.not_sent)
        if leaving:
            left = self._send(_line(leaving, pending.batch))
            for one in leaving:
                if one.delivery is not None:
                    run_quietly(one.delivery.sent if left else one.delivery.not_sent)

    def cancel(self, request_id: Id) -> None:
        """Cancel a call for the client. A reply that was sent already is taken back. Unknown ids are ignored."""
        with self._lock:
            pending = self._by_id.pop(request_id, None)
            left = self._retractable.pop(request_id, None) if pending is None else None
            waiting = self._cancel(pending) if pending is not None else None
        if pending is not None:
            pending.call.cancel()
        if waiting is not None:
            self._run_later(waiting.not_sent)
        if left is not None:
            left.retracted(self._run_later)

    def cancel_all(self) -> None:
        """Cancel every call, because the connection ends. Replies that are being sent right now still go out."""
        with self._lock:
            calls = list(self._by_id.values())
            self._by_id.clear()
            waiting = [self._cancel(pending) for pending in calls]
        for pending in calls:
            pending.call.cancel()
        for delivery in waiting:
            if delivery is not None:
                self._run_later(delivery.not_sent)

    def _join(self, pending: PendingCall) -> None:
        if pending.batch is not None:
            pending.batch.calls.append(pending)
            pending.batch.unfinished += 1

    def _cancel(self, pending: PendingCall) -> Delivery | None:
        """Call under the lock. Returns the delivery of a reply that only waited for its batch, for `not_sent`."""
        pending.cancelled = True
        delivery, pending.delivery = pending.delivery, None
        return delivery

    def _run_later(self, task: Task) -> None:
        try:
            self._later(partial(run_quietly, task))
        except RuntimeError:  # no thread left: do it here, although that delays the connection
            run_quietly(task)

    def _leaving_with(self, pending: PendingCall) -> list[PendingCall]:
        """Call under the lock. Returns the calls to send now; from here on they cannot be cancelled."""
        together = [pending]
        if pending.batch is not None:
            pending.batch.unfinished -= 1
            together = [] if pending.batch.unfinished else pending.batch.calls
        leaving = [one for one in together if not one.cancelled and one.reply]
        for one in leaving:
            if one.request_id is not None:
                self._by_id.pop(one.request_id, None)
                self._keep_retractable(one.request_id, one.delivery)
        return leaving

    def _keep_retractable(self, request_id: Id, delivery: Delivery | None) -> None:
        self._retractable.pop(request_id, None)
        if delivery is not None and delivery.is_retractable:
            self._retractable[request_id] = delivery
            if len(self._retractable) > _MOST_RETRACTABLE:
                del self._retractable[next(iter(self._retractable))]  # the oldest: a dict keeps its order


class _Progress:
    """Reports the progress of a call to the client, with the client's token."""

    def __init__(self, token: Id, pending: PendingCall, send: Callable[[bytes], bool]) -> None:
        self._token = token
        self._pending = pending
        self._send = send
        self._count = 0

    def report(self, text: str) -> None:
        if self._pending.cancelled:
            return
        self._count += 1
        params: Object = {"progressToken": self._token, "progress": self._count, "message": text}
        self._send(encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))


def run_quietly(task: Task) -> None:
    """Run what follows a call. A failure goes to the log, because the call has ended already."""
    try:
        task()
    except Exception:
        sys.excepthook(*sys.exc_info())


def _line(leaving: list[PendingCall], batch: Batch | None) -> bytes:
    if batch is None:
        return leaving[0].reply
    return b"[" + b",".join(pending.reply for pending in leaving) + b"]"
