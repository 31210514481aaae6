"""`conch wait`: until the stick is ours, and meanwhile who holds it."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

from conch.bells.base import room_channel, seat_channel
from conch.bells.waits import FOREVER, Pause, wait_for
from conch.calls import Call, retry_interrupted
from conch.doors.cli.context import Context
from conch.doors.cli.guardian import keep_lease, lease_text
from conch.doors.cli.handoffs import handoff_text
from conch.doors.cli.interruptions import Interruptions, exit_status
from conch.doors.cli.output import Report, duration, failure, shortened, write
from conch.errors import Cancelled, StoreInterrupted, StoreUnavailable
from conch.lean import Any, Self
from conch.tools.replies import Delivery, Reply
from conch.tools.text import one_line
from conch.turns.waiting import Move

_TICK_SECONDS = 1.0  # the clock of a line that moves


def wait(context: Context) -> Report:
    """Block until the stick is ours. Interrupted or cut off, it leaves the stick where it is."""
    room_id = context.room_id
    limit = FOREVER if context.options.timeout is None else context.options.timeout
    line = _StatusLine()
    call = Call(line.tick if line.moves else None, every=_TICK_SECONDS)
    interruptions = Interruptions(call)
    try:
        result = retry_interrupted(lambda: _wait(context, room_id, limit, call, line))
        if call.cancelled:
            result.delivery.not_sent()
            return _interrupted(interruptions)
    except Cancelled:
        return _interrupted(interruptions)
    except StoreInterrupted as lost:  # the command must not run again: it would not know of a signal taken by now
        raise StoreUnavailable(lost.message, **lost.details) from lost
    if result.data["status"] != "your_turn":
        return _not_ours(result)._replace(printing=interruptions.raised)
    return Report(
        result.data,
        _your_turn_text(context, result.data),
        printing=interruptions.raised,
        delivery=Delivery(sent=lambda: keep_lease(context, result.data), not_sent=result.delivery.not_sent),
    )


def _wait(context: Context, room_id: str, seconds: float, call: Call, line: _StatusLine) -> Reply:
    """Look whenever the bell rings or the holder's process ends, and else only when no bell would tell.

    One ear for the whole wait: whoever lets go of the stick must find us waiting at every moment.
    """

    def look(pause: Pause) -> Reply | None:
        reply = context.tool("turns.wait_for_turn", call, room_id=room_id, max_wait_ms=0)
        if reply.data["status"] != "not_yet" or pause.is_last:
            return reply
        move = context.app.claims.current_move(room_id)
        line.show(move)
        pause.process, pause.seconds = move.process, move.patience
        return None

    bell, seat = context.app.bell, seat_channel(room_id, context.caller.agent_id)
    with line:
        reply = wait_for(bell, [room_channel(room_id)], look, seconds, call, announce=seat, has_answered=False)
    assert reply is not None  # the last look returns one
    return reply


class _StatusLine:
    """Who holds the stick and for how long: a line that moves on a terminal, a new line per holder elsewhere."""

    def __init__(self) -> None:
        self.moves = sys.stderr.isatty()
        self._holder: tuple[Any, ...] = ()
        self._since = 0.0
        self._name = ""

    def show(self, move: Move) -> None:
        """Tell whose move it is, where that is news or the line moves."""
        holder = (move.room.turn_id, move.room.owner, move.room.reserved_for)
        if holder != self._holder:
            self._holder, self._name = holder, move.who
            self._since = time.monotonic() - move.seconds
            if not self.moves:
                self._print(self._text() + "\n")
        self.tick()

    def tick(self, _: str = "") -> None:
        """The same, a little later. The clock on the screen asks nobody for the time."""
        if self.moves and self._holder:
            self._print(f"\r\x1b[K{shortened(self._text(), _width() - 1)}")

    def _text(self) -> str:
        verb = "holds the stick" if self._holder[1] else "is next, but has not claimed the stick,"
        return one_line(f"{self._name} {verb} for {duration(time.monotonic() - self._since)}")

    def _print(self, text: str) -> None:
        try:
            write(sys.stderr, text)
        except OSError:  # nobody watches; the waiting goes on
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.moves and self._holder:
            self._print("\r\x1b[K")


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80


def _interrupted(interruptions: Interruptions) -> Report:
    message = "Interrupted; the stick stays where it is."
    return failure("cancelled", message, {}, status=exit_status(interruptions.number or 0))


def _not_ours(result: Reply) -> Report:
    data = result.data
    holder = data.get("current_owner") or data.get("reserved_for")
    message = {
        "not_yet": f"Not yet: {holder} has the move.",
        "takeover_available": f"{holder} does not answer ({data.get('reason')}); `conch take --reason ...` is open.",
        "closed": "The room is closed; `conch join` opens a new one.",
    }[data["status"]]
    return failure(data["status"], message, data)


def _your_turn_text(context: Context, data: dict[str, Any]) -> str:
    head = f"Your turn (turn {data['turn_id']}, {data['reason']}). {lease_text(context, data)}"
    return f"{head}\n{handoff_text(data['handoff'], data['from_agent_id'])}"
