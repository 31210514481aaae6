"""Calls between their request and the moment when the client has read their reply.

A reply may bring something to the agent: the stick, messages, a reservation. That is taken back if the client cancels
the call while the reply is on its way, or does not read the reply.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from conch.calls import Call
from conch.doors.mcp.outbox import Outbox
from conch.doors.mcp.protocol import INTERNAL_ERROR, INVALID_REQUEST, Id, Refusal, encode
from conch.doors.mcp.workers import FollowUps, run_quietly
from conch.tools.replies import NOTHING_FOLLOWS, Delivery, Object
from conch.tools.text import one_line

_MOST_AT_ONCE = 256
"""Each call holds a thread, and later its reply. This limit stops a client that never reads from piling them up."""

_MOST_ANSWERED = 256
"""How many answered calls we remember, in case the client cancels them."""

_UNKNOWN = sys.maxsize
_LOOK_SECONDS = 1.0
_SHORT_SECONDS = 0.01
_PATIENCE_SECONDS = 10.0  # how long a reply may stay unread before it is taken back, however much else is read


class Batch:
    """The replies to one JSON-RPC array. They are sent together once all of them are ready."""

    def __init__(self) -> None:
        self.calls: list[PendingCall] = []
        self.unfinished = 0


class PendingCall:
    """One request that waits for its reply. Only `PendingCalls` changes it, and only under its lock."""

    __slots__ = ("batch", "brought", "call", "cancelled", "delivery", "is_over", "reply", "request_id", "work")

    def __init__(self, request_id: Id | None, batch: Batch | None) -> None:
        self.request_id = request_id
        self.batch = batch
        self.call = Call()
        self.cancelled = False
        self.work: Callable[[PendingCall], bytes] | None = None
        """What is still to be done. It holds the arguments of the call, which may be large."""
        self.brought = NOTHING_FOLLOWS
        """The delivery of what the tool returned, from the moment when it returned."""
        self.is_over = False
        self.reply = b""
        self.delivery: Delivery | None = None
        """The delivery of the reply, once the reply is ready."""

    def do_work(self) -> bytes | None:
        """Do the work and return the reply. None if it was begun before: it is never done twice."""
        if self.work is None:
            return None
        work, self.work = self.work, None
        return work(self)


class _Answered:
    """A call whose reply was given to the outbox, and may have to be taken back."""

    __slots__ = ("delivery", "end", "is_over", "request_id", "since")

    def __init__(self, request_id: Id, delivery: Delivery) -> None:
        self.request_id = request_id
        self.delivery = delivery
        self.since = time.monotonic()
        self.end = _UNKNOWN
        """Where the reply ends in the output. It is known before the reply is written."""
        self.is_over = False
        """It was cancelled and taken back."""


class PendingCalls:
    """The calls of one connection."""

    def __init__(self, outbox: Outbox, follow_ups: FollowUps) -> None:
        self._outbox = outbox
        self._follow_ups = follow_ups
        self._later = follow_ups.add
        self._lock = threading.Lock()
        self._by_id: dict[Id, PendingCall] = {}
        self._unwritten = 0  # calls in `_by_id`, and those whose reply waits in the outbox
        self._running = 0  # calls that have a thread; a cancelled one may need a moment to end
        self._answered: dict[Id, _Answered] = {}
        self._unread: deque[_Answered] = deque()  # those that can be taken back and may still be unread
        self._look_at = 0.0
        self._late_through = 0  # until the client has read this far, all that it leaves unread is late
        self._cancels_late = False

    @property
    def is_busy(self) -> bool:
        """Whether `take_back_unread` may soon have something to do."""
        return bool(self._running or self._unread)

    def begin(self, request_id: Id, batch: Batch | None, token: Id | None) -> PendingCall:
        """Register a call, so that the client can cancel it. With a token, the client gets progress reports."""
        pending = PendingCall(request_id, batch)
        if token is not None:
            pending.call = Call(_Progress(token, pending, self._outbox).report)
        with self._lock:
            if request_id in self._by_id:
                raise Refusal(INVALID_REQUEST, "Invalid request: another request with this id is in flight.")
            if self._unwritten >= _MOST_AT_ONCE or self._running >= 2 * _MOST_AT_ONCE:
                message = f"Too many requests in flight: at most {_MOST_AT_ONCE} are allowed. Read the replies first."
                raise Refusal(INTERNAL_ERROR, message)
            self._by_id[request_id] = pending
            self._unwritten += 1
            self._running += 1
            if batch is not None:
                self._join(pending, batch)
        return pending

    def hold(self, batch: Batch) -> PendingCall:
        """Add to a batch a part that cannot be cancelled: a quick reply, or one that keeps the batch open."""
        pending = PendingCall(None, batch)
        with self._lock:
            self._join(pending, batch)
        return pending

    def finish(self, pending: PendingCall, reply: bytes, delivery: Delivery = NOTHING_FOLLOWS) -> None:
        """Send the reply, alone or with its batch. Then run what follows: `sent` or `not_sent` of its delivery.

        After MemoryError, call it again.
        """
        with self._lock:
            self._note_over(pending)
            cancelled = pending.cancelled
            if not cancelled:
                pending.reply, pending.delivery = reply, delivery
            leaving = self._leaving_with(pending)
            answered = [self._note_answered(one) for one in leaving if one.request_id is not None]
        # Outside the lock, because tasks may use the store.
        if cancelled:
            self._follow_ups.run(delivery.not_sent)
        if leaving:
            line = _line(leaving, pending.batch)
            written = self._outbox.send(line, answered, partial(self._written_late, leaving, len(answered)))
            if written is None:
                self._count_unwritten(len(answered))
            else:
                self._follow(leaving, written)

    def cancel(self, request_id: Id) -> None:
        """Cancel a call for the client. Unknown ids are ignored.

        A client that cancels a call just as the reply arrives ignores the reply, so what it brought is taken back. But
        some clients cancel every call after they have read its reply. We cannot tell the two apart the first time; from
        the second time on, a cancellation of a reply that was read takes nothing back.
        """
        with self._lock:
            pending = self._by_id.pop(request_id, None)
            if pending is not None:
                self._unwritten -= 1
                waiting = self._cancel(pending)
            else:
                answered = self._answered.pop(request_id, None)
        if pending is not None:
            pending.call.cancel()
            if waiting is not None:
                self._later(waiting.not_sent)
        elif answered is not None:
            was_read = answered.end <= self._outbox.may_have_read_through()
            if not (was_read and self._cancels_late):
                answered.is_over = True
                answered.delivery.retracted(self._later)
            self._cancels_late = self._cancels_late or was_read

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
                self._later(delivery.not_sent)

    def take_back_unread(self, patience: float = _PATIENCE_SECONDS) -> None:
        """Take back the replies that the client has left unread for too long. Call it now and then."""
        if not self._unread:
            return
        now = time.monotonic()
        if patience and now < self._look_at:  # looking at every request would slow it down
            return
        self._look_at = now + _LOOK_SECONDS
        for answered in self._pop_unread(self._outbox.read_through(), now - patience):
            answered.delivery.unread(self._later)

    def are_unread(self, seconds: float) -> bool:
        """Whether replies that can be taken back are still unread after this time, or will never be read."""
        deadline = time.monotonic() + seconds
        while self._has_unread() and not self._outbox.is_gone:
            if time.monotonic() > deadline:
                return True
            time.sleep(_SHORT_SECONDS)
        return self._has_unread()

    def _has_unread(self) -> bool:
        if not self._unread:
            return False
        read_through = self._outbox.read_through()
        with self._lock:
            return any(each.end > read_through and not each.is_over for each in self._unread)

    def _pop_unread(self, read_through: int, before: float) -> list[_Answered]:
        """Forget the replies that were read. Returns those that have waited since `before`, and forgets them too.

        A client that leaves a reply unread cannot read the replies after it either, so these are then late as well.
        """
        late: list[_Answered] = []
        with self._lock:
            looked, self._unread = [each for each in self._unread if not each.is_over], deque()
            for answered in looked:
                if answered.end <= read_through:
                    answered.delivery.read()
                elif answered.since > before and (answered.end == _UNKNOWN or read_through >= self._late_through):
                    self._unread.append(answered)
                else:
                    late.append(answered)
                    if answered.end != _UNKNOWN:
                        self._late_through = answered.end
                    if self._answered.get(answered.request_id) is answered:
                        del self._answered[answered.request_id]
        return late

    def _join(self, pending: PendingCall, batch: Batch) -> None:
        batch.calls.append(pending)
        batch.unfinished += 1

    def _cancel(self, pending: PendingCall) -> Delivery | None:
        """Call under the lock. Returns the delivery of a reply that only waited for its batch, for `not_sent`."""
        pending.cancelled = True
        delivery, pending.delivery = pending.delivery, None
        return delivery

    def _note_over(self, pending: PendingCall) -> None:
        """Call under the lock."""
        if not pending.is_over:
            pending.is_over = True
            self._running -= pending.request_id is not None
            if pending.batch is not None:
                pending.batch.unfinished -= 1

    def _leaving_with(self, pending: PendingCall) -> list[PendingCall]:
        """Call under the lock. Returns the calls to send now; from here on they cannot be cancelled."""
        together = [pending]
        if pending.batch is not None:
            together = [] if pending.batch.unfinished else pending.batch.calls
        leaving = [one for one in together if not one.cancelled and one.reply]
        for one in leaving:
            if one.request_id is not None and self._by_id.get(one.request_id) is one:
                del self._by_id[one.request_id]
                self._unwritten -= 1
        return leaving

    def _note_answered(self, one: PendingCall) -> _Answered:
        """Call under the lock, before the reply is sent: its cancellation may come at once."""
        assert one.request_id is not None and one.delivery is not None
        answered = _Answered(one.request_id, one.delivery)
        self._answered.pop(one.request_id, None)  # an id may be used again; the new entry is the newest
        self._answered[one.request_id] = answered
        if len(self._answered) > _MOST_ANSWERED:
            del self._answered[next(iter(self._answered))]  # the oldest: a dict keeps its order
        if one.delivery.is_retractable:
            self._unread.append(answered)
        return answered

    def _written_late(self, leaving: list[PendingCall], count: int, written: bool) -> None:
        self._count_unwritten(-count)
        self._later(partial(self._follow, leaving, written))

    def _follow(self, leaving: list[PendingCall], written: bool) -> None:
        for one in leaving:
            if one.delivery is None or one.delivery is NOTHING_FOLLOWS:
                continue
            if written:
                run_quietly(one.delivery.sent)  # if the cursor of a topic does not move, its messages come again
            else:
                self._follow_ups.run(one.delivery.not_sent)

    def _count_unwritten(self, count: int) -> None:
        with self._lock:
            self._unwritten += count


class _Progress:
    """Reports the progress of a call to the client, with the client's token."""

    def __init__(self, token: Id, pending: PendingCall, outbox: Outbox) -> None:
        self._token = token
        self._pending = pending
        self._outbox = outbox
        self._count = 0

    def report(self, text: str) -> None:
        if self._pending.cancelled or self._outbox.is_waiting:  # a client that does not read needs no more lines
            return
        self._count += 1
        params: Object = {"progressToken": self._token, "progress": self._count, "message": one_line(text)}
        self._outbox.send(encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))


def _line(leaving: list[PendingCall], batch: Batch | None) -> bytes:
    if batch is None:
        return leaving[0].reply
    return b"[" + b",".join(pending.reply for pending in leaving) + b"]"
