"""The commands around rooms and their members."""

from __future__ import annotations

import os
from typing import Any

from conch.agents import explain
from conch.clock import SECOND
from conch.doors.cli.context import Context
from conch.doors.cli.output import Report, table
from conch.errors import InvalidArgument
from conch.rooms import Snapshot
from conch.signals import gather_signals
from conch.tools import shapes, texts


def rooms(context: Context) -> Report:
    caller_id = context.session.caller().agent_id
    membership, options = context.app.membership, context.options
    found = membership.all_rooms() if options.all else membership.list_rooms(context.session.path(options.path))
    data = {"rooms": [shapes.path_room(snapshot, caller_id) for snapshot in found]}
    if not found:
        return Report(data, "No room here yet; `conch join` makes one.")
    rows = [
        (s.state, str(s.room.turn_id), s.expected or "-", str(len(s.members)), s.room.room_id, s.room.canonical_path)
        for s in found
    ]
    return Report(data, table(("STATE", "TURN", "STICK", "MEMBERS", "ROOM", "PATH"), rows))


def join(context: Context) -> Report:
    options = context.options
    result = context.tool("join_path", context_path=options.path, force_new=options.force_new)
    data = result.data
    lines = [
        f"You are {data['agent_id']} ({data['name']}).",
        f"{'Made' if data['created'] else 'Joined'} {data['room_id']} at {data['canonical_path']}.",
        *(f"Warning: {warning['message']}" for warning in data["warnings"]),
        "Next: `conch wait`.",
    ]
    return Report(data, "\n".join(lines))


def state(context: Context) -> Report:
    room_id = context.room_id()
    snapshot = context.snapshot(room_id)
    data = context.tool("get_room_state", room_id=room_id).data
    takeover = f"\nTakeover is open ({snapshot.takeover_reason})." if data["takeover"]["reason"] else ""
    return Report(data, f"{texts.room_line(snapshot)}\n\n{_members(snapshot)}{takeover}")


def _members(snapshot: Snapshot) -> str:
    def role(agent_id: str) -> str:
        if agent_id == snapshot.room.owner:
            return "owner"
        return "next" if agent_id == snapshot.room.reserved_for else ""

    rows = [
        (
            role(m.agent_id),
            m.agent_id,
            m.name,
            "active" if snapshot.is_active(m) else "inactive",
            snapshot.life(m.agent_id),
            _ago(snapshot.now - m.last_seen_at),
        )
        for m in snapshot.members
    ]
    return table(("", "AGENT", "NAME", "PRESENCE", "PROCESS", "SEEN"), rows)


def _ago(microseconds: int) -> str:
    minutes, seconds = divmod(max(0, microseconds) // SECOND, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min ago" if hours else f"{minutes} min {seconds:02d} s ago"


def events(context: Context) -> Report:
    options = context.options
    arguments: dict[str, Any] = {"room_id": context.room_id(), "after": options.after, "limit": options.limit}
    result = context.tool("get_room_events", **arguments)
    return Report(result.data, result.text)


def note(context: Context) -> Report:
    result = context.tool("append_note", room_id=context.room_id(), note=context.options.text)
    return Report(result.data, result.text)


def leave(context: Context) -> Report:
    result = context.tool("leave_path", room_id=context.room_id())
    return Report(result.data, result.text)


def reorder(context: Context) -> Report:
    room_id = context.room_id()
    snapshot = context.snapshot(room_id)
    order = [context.member_id(snapshot, text) for text in context.options.order]
    result = context.tool("reorder_members", room_id=room_id, order=order)
    return Report(result.data, result.text)


def policy(context: Context) -> Report:
    room_id = context.room_id()
    values = dict(_policy_value(text) for text in context.options.values)
    if values:
        result = context.tool("set_room_policy", room_id=room_id, policy=values)
        return Report(result.data, result.text)
    effective = context.snapshot(room_id).policy._asdict()
    return Report({"room_id": room_id, "policy": effective}, "\n".join(f"{n}={v}" for n, v in effective.items()))


def _policy_value(text: str) -> tuple[str, int | str | None]:
    name, separator, value = text.partition("=")
    if not separator:
        raise InvalidArgument(f"{text!r} must look like NAME=VALUE.", field="policy")
    if not value:
        return name, None
    return name, int(value) if value.isascii() and value.isdecimal() else value


def whoami(context: Context) -> Report:
    if context.options.explain:
        return _explanation(context)
    caller = context.session.caller()
    process = caller.process
    data = {
        "agent_id": caller.agent_id,
        "name": caller.name,
        "session_kind": caller.session_kind,
        "display_name": caller.display_name,
        "process": process._asdict() if process else None,
    }
    return Report(data, f"{caller.agent_id} ({caller.name})")


def _explanation(context: Context) -> Report:
    data = explain(context.app.store, gather_signals("cli", os.environ, None))
    rows = [
        ("*" if s["wins"] else "", s["kind"], s["value"], s["source"], s["linked_to"] or "-", s["standing"])
        for s in data["signals"]
    ]
    headings = ("", "SIGNAL", "VALUE", "SEEN IN", "LINKED TO", "STANDING")
    return Report(data, f"{table(headings, rows)}\n\n{data['agent_id']}: {data['reason']}")


COMMANDS = {
    "rooms": rooms,
    "join": join,
    "state": state,
    "events": events,
    "note": note,
    "leave": leave,
    "reorder": reorder,
    "policy": policy,
    "whoami": whoami,
}
