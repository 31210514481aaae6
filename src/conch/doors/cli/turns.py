"""The commands for taking turns: wait, release, pass, take and close."""

from __future__ import annotations

from contextlib import suppress

from conch.agents.records import is_person
from conch.bells.base import room_channel, seat_channel
from conch.bells.waits import FOREVER, Pause, wait_for
from conch.calls import Call, retry_interrupted
from conch.config import check_length
from conch.doors.cli.consent import require_yes
from conch.doors.cli.context import Context, find_member, nameable
from conch.doors.cli.guardian import keep_lease, lease_text
from conch.doors.cli.handoffs import handoff_text, read_handoff
from conch.doors.cli.interruptions import Interruptions
from conch.doors.cli.output import Report, as_report, failure
from conch.doors.cli.statusline import TICK_SECONDS, StatusLine
from conch.errors import (
    ConchError,
    InvalidArgument,
    StaleLease,
    some_of,
)
from conch.lean import Any
from conch.rooms.presence import explain_loss
from conch.rooms.room import Room
from conch.tools import fields
from conch.tools.replies import NOTHING_FOLLOWS, Delivery, Reply
from conch.tools.schema import check_arguments
from conch.tools.text import one_line
from conch.turns.waiting import Awaited

_Lease = dict[str, Any]

_REASON = fields.takes(reason=fields.TEXT)

# -- `conch wait`


def wait(context: Context) -> Report:
    """Wait until the caller gets the stick. An interrupted wait does not change who has it."""
    room_id = context.room_id
    limit = FOREVER if context.options.timeout is None else context.options.timeout
    line = StatusLine()
    call = Call(line.tick if line.moves else None, every=TICK_SECONDS)
    interruptions = Interruptions(call)
    result = interruptions.wait(lambda: retry_interrupted(lambda: _wait(context, room_id, limit, call, line)))
    if result is None:
        _stop_taking_part(context)
        return interrupted(interruptions)
    if result.data["status"] != "your_turn":
        _stop_taking_part(context)
        return not_ours(result)._replace(printing=interruptions.raised)
    return Report(
        result.data,
        your_turn_text(context, result),
        printing=interruptions.raised,
        delivery=Delivery(sent=lambda: keep_lease(context, result.data), not_sent=lambda: _give_back(context, result)),
    )


def _give_back(context: Context, result: Reply) -> None:
    result.delivery.not_sent()
    _stop_taking_part(context)


def _stop_taking_part(context: Context) -> None:
    """A person takes part only while the command waits. The stick may have been offered in its last moment."""
    if is_person(context.caller.agent_id):
        with suppress(ConchError):  # the offer then lapses by itself
            context.app.turns.decline(context.caller, context.room_id, context.caller.agent_id)


def _wait(context: Context, room_id: str, seconds: float, call: Call, line: StatusLine) -> Reply:
    """Look when the bell rings, when the holder's process ends, and when a time limit passes, which rings no bell.

    One ear listens for the whole wait, so that an agent that releases the stick always finds us waiting.
    """

    def look(pause: Pause) -> Reply | None:
        reply = context.tool("turns.wait_for_turn", call, room_id=room_id, max_wait_ms=0)
        if reply.data["status"] != "not_yet" or pause.is_last:
            return reply
        awaited = context.app.claims.awaited(room_id)
        _show(line, awaited)
        note.begin()
        pause.processes, pause.seconds = (awaited.process,), awaited.patience
        return None

    bell, seat = context.app.bell, seat_channel(room_id, context.caller.agent_id)
    note = context.app.claims.note_wait(context.caller, room_id)
    reply: Reply | None = None
    try:
        with line:
            reply = wait_for(bell, [room_channel(room_id)], look, seconds, call, announce=seat, has_answered=False)
    finally:
        if reply is None or reply.data["status"] == "not_yet":
            note.end()
    assert reply is not None  # the last look returns one
    return reply


def _show(line: StatusLine, awaited: Awaited) -> None:
    room = awaited.room
    sentence = "{} has held the stick for {}" if room.owner else "{} is next but has not claimed the stick for {}"
    line.show((room.turn_id, room.owner, room.reserved_for), awaited.who, awaited.seconds, sentence)


def interrupted(interruptions: Interruptions) -> Report:
    message = "Interrupted while waiting; `conch state` shows who holds the stick."
    return failure("cancelled", message, {}, status=interruptions.status)


def not_ours(result: Reply) -> Report:
    data, snapshot = result.data, result.shown.snapshot
    owner, holder = snapshot.room.owner, snapshot.who(snapshot.expected)
    message = {
        "not_yet": f"Not yet: {holder} {'holds the stick' if owner else 'is next'}.",
        "takeover_available": f"{holder} does not answer ({data.get('reason')}); `conch take --reason ...` takes over.",
        "closed": "The room is closed; `conch join` opens a new one.",
    }[data["status"]]
    return failure(data["status"], message, data)


def your_turn_text(context: Context, result: Reply) -> str:
    data = result.data
    head = f"Your turn (turn {data['turn_id']}, {data['reason']}). {lease_text(context, data)}"
    return f"{head}\n{handoff_text(data['handoff'], result.shown.author)}"


# -- the commands of the holder


def release(context: Context) -> Report:
    lease = _own_lease(context)
    return as_report(context.tool("turns.release_stick", **lease, handoff=read_handoff(context.options)))


def pass_stick(context: Context) -> Report:
    from conch.doors.cli import people

    options = context.options
    if (options.to is None) == (options.recipient is None):
        raise InvalidArgument("Name one agent to pass the stick to, as AGENT or with --to.", field="to")
    options.to = options.recipient if options.to is None else options.to
    if options.holder is not None:
        return people.pass_for(context)
    people.refuse_reason(context, "--for")
    lease = _own_lease(context)
    snapshot = context.room
    own = snapshot.member(context.caller.agent_id)
    named = context.present_name(context.options.to, snapshot.room.topic_id)
    # The start of a name can only mean another member. The caller's own whole name goes to the tool, which refuses it.
    others = [member for member in nameable(snapshot, named) if member != own]
    to = named if named in (own.name, own.agent_id) else find_member(others, named, "to_agent_id")
    return as_report(context.tool("turns.pass_stick", **lease, to_agent_id=to, handoff=read_handoff(context.options)))


def take(context: Context) -> Report:
    from conch.doors.cli import people

    if context.options.force:
        return people.take(context)
    room_id = context.room_id
    turn_id = context.room.room.turn_id
    taken = context.tool(
        "turns.takeover_stick", room_id=room_id, expected_turn_id=turn_id, reason=context.options.reason
    )
    delivery = Delivery(sent=lambda: keep_lease(context, taken.data), not_sent=taken.delivery.not_sent)
    return people.taken_report(context, taken.data, taken.shown)._replace(delivery=delivery)


def close(context: Context) -> Report:
    """End the room as the holder of the stick. A free stick is claimed first."""
    room_id, reason = context.room_id, context.options.reason
    check_arguments("conch close", _REASON, {"reason": reason})  # before it claims a free stick
    check_length("reason", reason or "", context.app.settings.max_reason_chars, "max_reason_chars")
    _require_consent(context)
    lease, claim = _lease_or_claim(context, room_id)
    try:
        closed = context.tool("admin.close_room", **lease, reason=reason)
    except ConchError:
        claim.not_sent()
        raise
    return Report(closed.data, closed.text)


def _require_consent(context: Context) -> None:
    """Ask before closing a room that other agents are in."""
    snapshot, own = context.room, context.caller.agent_id
    others = [each for each in snapshot.members if each.agent_id != own and snapshot.is_there(each)]
    if not others or snapshot.room.owner not in (None, own):  # the holder of the stick decides, so others are refused
        return
    names = some_of([one_line(each.label) for each in others])
    facts = f"{names} {'is' if len(others) == 1 else 'are'} in the room, too."
    require_yes(
        context.options, facts, "Close it for all of them?", "The room was not closed; add --yes to close it anyway."
    )


def _lease_or_claim(context: Context, room_id: str) -> tuple[_Lease, Delivery]:
    """The caller's lease, or a new claim with the delivery that can take it back."""
    if context.room.room.owner == context.caller.agent_id:
        return _own_lease(context), NOTHING_FOLLOWS
    result = context.tool("turns.wait_for_turn", room_id=room_id, max_wait_ms=0)
    data = result.data
    if data["status"] != "your_turn":
        raise StaleLease("Only the holder of the stick can close the room; run `conch wait` first.", **data)
    return {"room_id": room_id, "lease_id": data["lease_id"], "expected_turn_id": data["turn_id"]}, result.delivery


def _own_lease(context: Context) -> _Lease:
    """The caller's lease, looked up in the store: a command remembers nothing."""
    snapshot = context.room
    room, caller_id = snapshot.room, context.caller.agent_id
    if room.owner != caller_id:
        message = f"You ({context.caller.label}) do not hold the stick; run `conch wait` first."
        raise _explained(context, room, StaleLease(message, **snapshot.facts))
    return {"room_id": room.room_id, "lease_id": room.lease_id, "expected_turn_id": room.turn_id}


def _explained(context: Context, room: Room, refusal: StaleLease) -> StaleLease:
    with context.app.store.read() as tx:
        explain_loss(tx, room, context.caller, refusal)
    return refusal
