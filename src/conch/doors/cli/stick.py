"""The commands around the stick: wait, release, pass, take."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from typing import Any

from conch.calls import Call
from conch.doors.cli.context import Context
from conch.doors.cli.guardian import start_guardian
from conch.doors.cli.output import Report, one_line
from conch.errors import Cancelled, ConchError, InvalidHandoff, StaleLease
from conch.handoffs import Handoff
from conch.tools.registry import Result

ARTIFACT = re.compile(r"(?P<path>.+?)(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?(?:=(?P<role>\w+))?")
TICK_MS = 1_000
FOREVER = float("inf")


def wait(context: Context) -> Report:
    """Block until the stick is ours. Interrupted or cut off, it leaves the stick where it is."""
    room_id = context.room_id()
    limit = FOREVER if context.options.timeout is None else context.options.timeout
    call = Call()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: call.cancel())
    result = _wait(context, room_id, time.monotonic() + limit, call)
    status = result.data["status"]
    if call.cancelled:
        if result.undo is not None:
            result.undo()
        raise Cancelled("Interrupted; the stick stays where it is.")
    if status == "your_turn":
        return Report(result.data, result.text, None, lambda: start_guardian(context, result.data), result.undo)
    return Report(result.data, result.text, {"code": status, "message": result.text})


def _wait(context: Context, room_id: str, deadline: float, call: Call) -> Result:
    """Ask again and again; the short rounds are for the clock on the screen, the bell ends them early."""
    screen = StatusLine(context)
    try:
        while True:
            left_ms = int(min(max(0.0, deadline - time.monotonic()) * 1_000, TICK_MS))
            result = context.tool("wait_for_turn", call, room_id=room_id, max_wait_ms=left_ms)
            if result.data["status"] != "not_yet" or time.monotonic() >= deadline:
                return result
            screen.show(room_id, result.data)
    finally:
        screen.clear()


class StatusLine:
    """Who holds the stick and for how long: a line that moves on a terminal, a new line per holder elsewhere."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._moves = sys.stderr.isatty()
        self._holder: tuple[Any, ...] = ()
        self._since = 0.0
        self._name = ""

    def show(self, room_id: str, state: dict[str, Any]) -> None:
        holder = (state["turn_id"], state["current_owner"], state["reserved_for"])
        if holder != self._holder:
            self._holder = holder
            held, self._name = self._context.app.turns.current_holder(room_id)
            self._since = time.time() - held
            if not self._moves:
                print(self._text(), file=sys.stderr, flush=True)
        if self._moves:
            print(f"\r\x1b[K{self._text()}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._moves and self._holder:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _text(self) -> str:
        seconds = max(0, int(time.time() - self._since))
        verb = "holds the stick" if self._holder[1] else "is next"
        return one_line(f"waiting: {self._name} {verb}, for {seconds // 60} min {seconds % 60:02d} s so far")


def release(context: Context) -> Report:
    lease = _own_lease(context)
    result = context.tool("release_stick", **lease, handoff=_handoff(context.options))
    return Report(result.data, result.text)


def pass_stick(context: Context) -> Report:
    lease = _own_lease(context)
    to = context.member_id(context.snapshot(lease["room_id"]), context.options.to)
    result = context.tool("pass_stick", **lease, to_agent_id=to, handoff=_handoff(context.options))
    return Report(result.data, result.text)


def take(context: Context) -> Report:
    room_id = context.room_id()
    turn_id = context.snapshot(room_id).room.turn_id
    result = context.tool("takeover_stick", room_id=room_id, expected_turn_id=turn_id, reason=context.options.reason)
    return Report(result.data, result.text, None, lambda: start_guardian(context, result.data))


def close(context: Context) -> Report:
    """End the room: with the stick in hand, or with one that is free to take."""
    result = context.tool("wait_for_turn", room_id=context.room_id(), max_wait_ms=0)
    if result.data["status"] != "your_turn":
        raise StaleLease("Only the holder of the stick can close the room; `conch wait` for it first.", **result.data)
    lease = {"lease_id": result.data["lease_id"], "expected_turn_id": result.data["turn_id"]}
    try:
        closed = context.tool("close_room", room_id=result.data["room_id"], **lease, reason=context.options.reason)
    except ConchError:
        if result.undo is not None:
            result.undo()
        raise
    return Report(closed.data, closed.text)


def _own_lease(context: Context) -> dict[str, Any]:
    """What the holder must show; on the command line it is looked up instead of remembered."""
    snapshot = context.snapshot(context.room_id())
    room, caller_id = snapshot.room, context.session.caller().agent_id
    if room.owner != caller_id:
        message = f"You ({caller_id}) do not hold the stick; `conch wait` for it first."
        facts = {"current_owner": room.owner, "current_turn_id": room.turn_id, "room_state": snapshot.state}
        raise StaleLease(message, **facts)
    return {"room_id": room.room_id, "lease_id": room.lease_id, "expected_turn_id": room.turn_id}


def _handoff(options: Any) -> Handoff:
    if options.handoff is not None:
        return _read_handoff(options.handoff)
    parts = {
        "status": options.status,
        "next_action": options.next_action,
        "artifacts": [_artifact(text) for text in options.artifact],
        "open_questions": options.question,
        "do_not": options.do_not,
    }
    return {name: value for name, value in parts.items() if value not in (None, [])}


def _read_handoff(path: str) -> Handoff:
    try:
        if path == "-":
            handoff = json.load(sys.stdin)
        else:
            with open(path, encoding="utf-8") as file:
                handoff = json.load(file)
    except (OSError, ValueError, RecursionError) as problem:
        raise InvalidHandoff(f"--handoff {path}: {problem}", field="handoff") from None
    if not isinstance(handoff, dict):
        raise InvalidHandoff("handoff must be an object with status and next_action.", field="handoff")
    return handoff


def _artifact(text: str) -> dict[str, Any]:
    """`PATH`, `PATH:10-42`, `PATH=review` or `PATH:10-42=review`."""
    match = ARTIFACT.fullmatch(text)
    if match is None:
        raise InvalidHandoff(f"--artifact {text!r} must look like PATH[:A-B][=ROLE].", field="artifacts")
    artifact: dict[str, Any] = {"path": match["path"], "role": match["role"] or "examine"}
    if match["first"]:
        artifact["lines"] = [int(match["first"]), int(match["last"] or match["first"])]
    return artifact


COMMANDS = {"wait": wait, "release": release, "pass": pass_stick, "take": take, "close": close}
