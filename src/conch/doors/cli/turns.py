"""The commands of whoever holds the stick, or takes it: release, pass, take, close."""

from __future__ import annotations

from conch.config import check_length
from conch.doors.cli.context import Context, find_member
from conch.doors.cli.guardian import keep_lease, lease_text
from conch.doors.cli.handoffs import read_handoff
from conch.doors.cli.output import Report
from conch.errors import ConchError, StaleLease
from conch.lean import Any
from conch.tools import fields
from conch.tools.replies import NOTHING_FOLLOWS, Delivery
from conch.tools.schema import check_arguments

_Lease = dict[str, Any]

_REASON = fields.takes(reason=fields.TEXT)


def release(context: Context) -> Report:
    lease = _own_lease(context)
    result = context.tool("turns.release_stick", **lease, handoff=read_handoff(context.options))
    return Report(result.data, result.text)


def pass_stick(context: Context) -> Report:
    lease = _own_lease(context)
    snapshot = context.room
    others = [member for member in snapshot.members if member.agent_id != context.caller.agent_id]
    named = context.present_name(context.options.to, snapshot.room.topic_id)
    to = find_member(others, named, "to_agent_id")
    result = context.tool("turns.pass_stick", **lease, to_agent_id=to, handoff=read_handoff(context.options))
    return Report(result.data, result.text)


def take(context: Context) -> Report:
    room_id = context.room_id
    turn_id = context.room.room.turn_id
    data = context.tool(
        "turns.takeover_stick", room_id=room_id, expected_turn_id=turn_id, reason=context.options.reason
    ).data
    text = (
        f"The stick is yours (turn {data['turn_id']}), taken from {data['revoked']}. {lease_text(context, data)}\n"
        "There is no handoff for you: read `conch events` before you work."
    )
    return Report(data, text, delivery=Delivery(sent=lambda: keep_lease(context, data)))


def close(context: Context) -> Report:
    """End the room: with the stick in hand, or with one that is free to take."""
    room_id, reason = context.room_id, context.options.reason
    check_arguments("conch close", _REASON, {"reason": reason})  # before a free stick is claimed for nothing
    check_length("reason", reason or "", context.app.settings.max_reason_chars, "max_reason_chars")
    lease, claim = _lease_or_claim(context, room_id)
    try:
        closed = context.tool("admin.close_room", **lease, reason=reason)
    except ConchError:
        claim.not_sent()
        raise
    return Report(closed.data, closed.text)


def _lease_or_claim(context: Context, room_id: str) -> tuple[_Lease, Delivery]:
    """The lease of the holder, or of a claim made just now and its delivery, to take that back."""
    if context.room.room.owner == context.caller.agent_id:
        return _own_lease(context), NOTHING_FOLLOWS
    result = context.tool("turns.wait_for_turn", room_id=room_id, max_wait_ms=0)
    data = result.data
    if data["status"] != "your_turn":
        raise StaleLease("Only the holder of the stick can close the room; `conch wait` for it first.", **data)
    return {"room_id": room_id, "lease_id": data["lease_id"], "expected_turn_id": data["turn_id"]}, result.delivery


def _own_lease(context: Context) -> _Lease:
    """What the holder must show; on the command line it is looked up instead of remembered."""
    snapshot = context.room
    room, caller_id = snapshot.room, context.caller.agent_id
    if room.owner != caller_id:
        message = f"You ({caller_id}) do not hold the stick; `conch wait` for it first."
        facts = {"current_owner": room.owner, "current_turn_id": room.turn_id, "room_state": snapshot.state}
        raise StaleLease(message, **facts)
    return {"room_id": room.room_id, "lease_id": room.lease_id, "expected_turn_id": room.turn_id}
