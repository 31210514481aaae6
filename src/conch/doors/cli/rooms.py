"""The commands about a room and its members."""

from __future__ import annotations

from collections.abc import Sequence

from conch.agents.records import is_person, label
from conch.clock import SECOND
from conch.doors.cli.command import parse_duration
from conch.doors.cli.context import Context, find_member, nameable
from conch.doors.cli.output import Report, as_report, short_duration
from conch.doors.cli.paging import after, page, rows
from conch.doors.cli.tables import table
from conch.errors import InvalidArgument
from conch.rooms.room import Member, Shown, Snapshot, at_least
from conch.tools import turns_view
from conch.tools.fields import parse_cursor
from conch.tools.replies import Object
from conch.tools.text import one_line

_WATCHING = "You only watch, so the stick does not come to you by itself. Run `conch wait` to take a turn."
_LONGEST_NUMBER = 18  # digits that fit into 64 bits


def rooms(context: Context) -> Report:
    caller, app = context.caller, context.app
    place = context.options.after
    if context.options.all:
        found = after(app.rooms.all_rooms(), _room_id, place)
    else:
        found = app.rooms.list_rooms(context.path(), caller, place)
    return page(context, found, lambda few: _rooms(few, caller.agent_id), _room_id)


def _room_id(snapshot: Snapshot) -> str:
    return snapshot.room.room_id


def _rooms(found: Sequence[Snapshot], caller_id: str) -> Report:
    pairs = [(s, s.shown()) for s in found]
    data = {"rooms": [turns_view.path_room(s, caller_id, listed.members) for s, listed in pairs]}
    if not found:
        return Report(data, "There is no open room here; `conch join` creates one.")
    cells = [
        (
            s.room.room_id,
            s.state,
            str(s.room.turn_id),
            at_least(len(listed.members) + s.roll.silent),
            s.who(s.expected) if s.expected else "-",
        )
        for s, listed in pairs
    ]
    headings = ("ROOM", "STATE", "TURN", "MEMBERS", "STICK")
    return Report(data, table(headings, cells, below=[s.room.canonical_path for s in found]))


def join(context: Context) -> Report:
    result = context.tool("turns.join_path", context_path=context.path(), force_new=context.options.force_new)
    data = result.data
    kind = _enter(context, data["room_id"])
    lines = [
        f"You are {label(data['agent_id'], data['name'])}.",
        f"{'Created' if data['created'] else 'Joined'} {data['room_id']} at {one_line(data['canonical_path'])}.",
        *(f"Warning: {one_line(warning['message'])}" for warning in data["warnings"]),
        _WATCHING if kind == "observer" else "Next: `conch wait`.",
    ]

    def render(members: Sequence[Object]) -> Report:
        return Report({**data, "members": [*members], "kind": kind}, "\n".join(lines))

    return page(context, data["members"], render, lambda member: member["ordinal"])  # `conch state` has the others


def _enter(context: Context, room_id: str) -> str:
    """Put a person into the sequence if `--take-turns` says so. Returns the kind of member that the caller is."""
    app, caller = context.app, context.caller
    if not is_person(caller.agent_id):  # an agent takes turns in any case
        return "agent"
    ask = app.membership.take_turns if context.options.take_turns else app.rooms.get_state
    return ask(caller, room_id).member(caller.agent_id).kind


def state(context: Context) -> Report:
    snapshot, caller = context.room, context.caller
    can_take_over = snapshot.takeover_reason is not None and context.app.claims.takeover_is_open(caller, snapshot)
    lines = [_room_text(snapshot, caller.agent_id)]
    if can_take_over:
        lines.append(f"You may take over ({snapshot.takeover_reason}): `conch take --reason ...`.")
    if snapshot.find(caller.agent_id) is None and snapshot.state != "closed":
        lines.append(f"You ({caller.label}) are not a member; `conch join` makes you one.")
    shown = _shown(context, snapshot)
    below = []
    if shown.gone:
        are = "is" if shown.gone == 1 else "are"
        below.append(f"{at_least(shown.gone)} more {are} gone; `conch state --all` lists them.")

    def render(members: Sequence[Member]) -> Report:
        listed = turns_view.list_members(snapshot, Shown([*members], shown.gone), context.session.budget())
        data = {
            "room": turns_view.path_room(snapshot, caller.agent_id, members),
            **listed.data,
            "takeover": turns_view.takeover(snapshot, can_take_over),
        }
        table_of_members = ["", _members(snapshot, members)] if members else []
        return Report(data, "\n".join([*lines, *table_of_members, *below]))

    return page(context, shown.members, render, lambda member: member.ordinal)


def _shown(context: Context, snapshot: Snapshot) -> Shown:
    """The members after `--after`. `--all` lists those that are gone and hold nothing, too."""
    place = parse_cursor("after", context.options.after)
    first = -1 if place is None else place
    if context.options.all:
        return Shown([member for member in snapshot.roll.everyone() if member.ordinal > first], 0)
    return snapshot.roll.shown(first, limit=rows(context))


def _room_text(snapshot: Snapshot, caller_id: str) -> str:
    """Where the stick is, and what the caller can do."""
    room = snapshot.room
    head = f"{one_line(room.canonical_path)}\n{room.room_id}: {snapshot.state}, turn {room.turn_id}"
    return f"{head}\n{_stick_text(snapshot, caller_id)}"


def _stick_text(snapshot: Snapshot, caller_id: str) -> str:
    room = snapshot.room
    if room.state == "closed":
        return "The room is closed; `conch join` opens a new one here."
    if room.owner:
        holder = "You hold" if room.owner == caller_id else f"{snapshot.who(room.owner)} holds"
        return f"{holder} the stick; the lease {_lapse(snapshot, room.lease_expires_at)}."
    if room.reserved_for:
        recipient = "you" if room.reserved_for == caller_id else snapshot.who(room.reserved_for)
        return f"The stick is reserved for {recipient}; the claim {_lapse(snapshot, room.claim_expires_at)}."
    return "The stick is free; `conch wait` claims it."


def _lapse(snapshot: Snapshot, moment: int | None) -> str:
    left = ((moment or snapshot.now) - snapshot.now) / SECOND
    return f"lapses in {short_duration(left)}" if left > 0 else f"lapsed {short_duration(-left)} ago"


def _members(snapshot: Snapshot, shown: Sequence[Member]) -> str:
    marks = {snapshot.room.owner: "owner", snapshot.room.reserved_for: "next"}
    cells = [
        (
            marks.get(m.agent_id, ""),
            m.label,
            m.kind,
            "active" if snapshot.is_active(m) else "inactive",
            snapshot.life(m.agent_id),
            short_duration((snapshot.now - m.last_seen_at) / SECOND) + " ago",
        )
        for m in shown
    ]
    return table(("", "AGENT", "KIND", "PRESENCE", "PROCESS", "SEEN"), cells)


def note(context: Context) -> Report:
    return as_report(context.tool("admin.append_note", room_id=context.room_id, note=context.options.text))


def leave(context: Context) -> Report:
    return as_report(context.tool("admin.leave_path", room_id=context.room_id))


def reorder(context: Context) -> Report:
    room_id = context.room_id
    order = [find_member(nameable(context.room, text), text, "order") for text in context.options.order]
    return as_report(context.tool("admin.reorder_members", room_id=room_id, order=order))


def policy(context: Context) -> Report:
    room_id = context.room_id
    values = dict(_policy_value(text) for text in context.options.values)
    if values:
        return as_report(context.tool("admin.set_room_policy", room_id=room_id, policy=values))
    effective = context.room.policy._asdict()
    return Report({"room_id": room_id, "policy": effective}, "\n".join(f"{n}={v}" for n, v in effective.items()))


def _policy_value(text: str) -> tuple[str, int | str | None]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise InvalidArgument(f"{text[:80]!r} must look like NAME=VALUE.", field="policy")
    if not value:
        return name, None
    length = parse_duration(value) if name.endswith("_ms") else None
    if length is not None:
        return name, round(length * 1_000)
    is_number = value.isascii() and value.isdecimal() and len(value) <= _LONGEST_NUMBER
    return name, int(value) if is_number else value
