"""What a model reads: the important thing first, briefly, and nothing twice."""

from __future__ import annotations

from collections.abc import Mapping

from conch.clock import to_iso
from conch.rooms.handoffs import Handoff
from conch.rooms.log import Event
from conch.rooms.room import Snapshot
from conch.typed import Any


def room_line(snapshot: Snapshot) -> str:
    room = snapshot.room
    if room.owner:
        holder = f", owner {room.owner}"
    elif room.reserved_for:
        holder = f", reserved for {room.reserved_for}"
    else:
        holder = ""
    return f"{room.room_id} at {room.canonical_path}: {snapshot.state}, turn {room.turn_id}{holder}"


def member_lines(snapshot: Snapshot) -> str:
    lines = [
        f"- {member.agent_id} ({member.name}), {'active' if snapshot.is_active(member) else 'inactive'}, "
        f"last seen {to_iso(member.last_seen_at)}"
        for member in snapshot.members
    ]
    return "\n".join(lines)


def handoff_text(handoff: Handoff | None, author: str | None) -> str:
    if handoff is None:
        return "There is no handoff: nobody has worked here before you, or they did not write one."
    lines = [
        f"Handoff from {author}:",
        f"status: {handoff['status']}",
        f"next_action: {handoff['next_action']}",
    ]
    lines += [f"artifact: {artifact_text(artifact)}" for artifact in handoff.get("artifacts", ())]
    lines += [f"open question: {question}" for question in handoff.get("open_questions", ())]
    lines += [f"do not: {rule}" for rule in handoff.get("do_not", ())]
    return "\n".join(map(behind_margin, lines))


def artifact_text(artifact: dict[str, Any]) -> str:
    lines = artifact.get("lines")
    place = artifact["path"] + (f":{lines[0]}-{lines[1]}" if lines else "")
    note = artifact.get("note")
    return f"{place} ({artifact['role']})" + (f": {note}" if note else "")


def event_line(event: Event) -> str:
    """One event on one line, its handoff below it."""
    line = f"#{event.event_seq} {to_iso(event.created_at)} {behind_margin(event_sentence(event))}"
    if event.handoff is None:
        return line
    below = handoff_text(event.handoff, event.from_agent_id).partition("\n")[2]
    return f"{line}\n  {behind_margin(below)}"


def event_sentence(event: Event, names: Mapping[str, str] | None = None) -> str:
    """Who did what, by agent_id or by the names given; of more than one line only where somebody wrote so."""
    names = names or {}
    by, to = event.from_agent_id or "nobody", event.to_agent_id
    who, whom = names.get(by, by), names.get(to, to) if to else None
    newcomer = who if who == by else f"{who} ({by})"
    order = (names.get(agent_id, agent_id) for agent_id in event.details.get("order", ()))
    return {
        "join": f"{newcomer} joined" + (" (agent_id_override)" if event.details.get("agent_id_override") else ""),
        "leave": f"{who} left",
        "claim": f"{whom} claimed turn {event.turn_id} ({event.reason})",
        "release": f"{who} released to {whom or 'whoever comes first'}",
        "pass": f"{who} passed to {whom}",
        "return": f"{who} gave the stick back: {event.reason}",
        "resume": f"{whom} resumed {who}: the stick that waited for it can be claimed",
        "takeover": f"{whom} took over turn {event.turn_id} from {who}: {event.reason}",
        "note": f"{who} noted: {event.details.get('note')}",
        "reorder": f"{who} reordered the members: {', '.join(order)}",
        "policy": f"{who} set the policy to {event.details.get('policy')}",
        "close": f"{who} closed the room" + (f": {event.reason}" if event.reason else ""),
    }.get(event.event_type, f"{event.event_type} by {who}")


def behind_margin(text: str) -> str:
    """The words of one agent must not pass for a line of ours."""
    return text.replace("\n", "\n  ")
