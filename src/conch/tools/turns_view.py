"""How rooms, turns and a room's log look: as objects for programs, and as text for models."""

from __future__ import annotations

from conch.clock import to_iso
from conch.lean import TYPE_CHECKING, Any, NamedTuple
from conch.tools.fields import parse_cursor
from conch.tools.replies import Object
from conch.tools.text import MARGIN, behind_margin, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conch.rooms.handoffs import Handoff
    from conch.rooms.log import Event
    from conch.rooms.room import Member, Room, Snapshot
    from conch.tools.pages import Budget
    from conch.turns.waiting import Wait


def path_room(snapshot: Snapshot, caller_id: str | None, members: Sequence[Member] = ()) -> Object:
    """A room as an object for this caller, with the members that the reply lists."""
    room = snapshot.room
    return {
        "room_id": room.room_id,
        "canonical_path": room.canonical_path,
        "topic_id": room.topic_id,
        "members": [member.agent_id for member in members],
        "sequence_index": room.sequence_index,
        "owner": room.owner,
        "reserved_for": room.reserved_for,
        "pending_handoff_event_seq": room.pending_handoff_event_seq,
        "turn_id": room.turn_id,
        # The lease is the key to the stick, so only the owner sees it.
        "lease_id": room.lease_id if room.owner == caller_id else None,
        "lease_expires_at": to_iso(room.lease_expires_at),
        "claim_expires_at": to_iso(room.claim_expires_at),
        "state": snapshot.state,
        "updated_at": to_iso(room.updated_at),
    }


def _room_member(snapshot: Snapshot, member: Member) -> Object:
    process = member.process
    return {
        "agent_id": member.agent_id,
        "name": member.name,
        "ordinal": member.ordinal,
        "joined_at": to_iso(member.joined_at),
        "last_seen_at": to_iso(member.last_seen_at),
        "status": "active" if snapshot.is_active(member) else "inactive",
        "process": snapshot.life(member.agent_id),
        "host_id": process.host_id if process else None,
        "pid": process.pid if process else None,
        "process_started_at": process.started_at if process else None,
        "session_kind": member.session_kind,
        "display_name": member.display_name,
    }


class Members(NamedTuple):
    """The members of a room that fit into a reply, and how many are not listed because they are gone."""

    listed: list[Member]
    data: Object
    text: str


def list_members(snapshot: Snapshot, shown: list[Member], budget: Budget, after: str | None = None) -> Members:
    """The page of the shown members that follows a place in the sequence."""
    place = parse_cursor("after", after)
    found = shown if place is None else [member for member in shown if member.ordinal > place]
    # A member's id is also in the room, so it counts twice.
    page = budget.fill(
        found, lambda each: _room_member(snapshot, each), lambda each: each.agent_id + _member_line(snapshot, each)
    )
    gone, cursor = len(snapshot.members) - len(shown), page.cursor([member.ordinal for member in found], after)
    lines = [_member_line(snapshot, member) for member in found[: page.length]]
    if page.has_more:
        lines.append(f'There are more members: call get_room_state with after="{cursor}".')
    if gone:
        lines.append(f"{gone} more are gone.")
    data = {"members": page.objects, "members_gone": gone, "has_more": page.has_more, "cursor": cursor}
    return Members(found[: page.length], data, "\n".join(lines))


def takeover(snapshot: Snapshot, can_take_over: bool) -> Object:
    return {"available": can_take_over, "reason": snapshot.takeover_reason}


def room_event(event: Event) -> Object:
    return {
        "event_seq": event.event_seq,
        "event_id": event.event_id,
        "room_id": event.room_id,
        "turn_id": event.turn_id,
        "event_type": event.event_type,
        "from_agent_id": event.from_agent_id,
        "to_agent_id": event.to_agent_id,
        "handoff": event.handoff,
        "reason": event.reason,
        "details": event.details,
        "created_at": to_iso(event.created_at),
    }


def lease(room: Room) -> Object:
    """What its owner needs to keep the stick and to hand it over."""
    return {
        "room_id": room.room_id,
        "turn_id": room.turn_id,
        "lease_id": room.lease_id,
        "lease_expires_at": to_iso(room.lease_expires_at),
    }


def expectation(room: Room) -> Object:
    """Who holds the stick or is next, and until when."""
    return {
        "current_owner": room.owner,
        "reserved_for": room.reserved_for,
        "lease_expires_at": to_iso(room.lease_expires_at),
        "claim_expires_at": to_iso(room.claim_expires_at),
    }


def your_turn(wait: Wait) -> Object:
    room = wait.snapshot.room
    return {
        "status": "your_turn",
        **lease(room),
        "handoff": wait.handoff,
        "from_agent_id": wait.from_agent_id,
        "reason": wait.reason,
    }


def takeover_available(wait: Wait) -> Object:
    room = wait.snapshot.room
    data = {
        "status": "takeover_available",
        "room_id": room.room_id,
        "turn_id": room.turn_id,
        "room_state": wait.snapshot.state,
        "reason": wait.reason,
        "cursor": str(room.last_event_seq),
    }
    # Only the agent that failed to answer is named: either the owner or the recipient.
    absent = {"current_owner": room.owner, "reserved_for": room.reserved_for}
    return data | {name: agent_id for name, agent_id in absent.items() if agent_id}


# -- as text for models


def room_line(snapshot: Snapshot) -> str:
    room = snapshot.room
    if room.owner:
        holder = f", owner {room.owner}"
    elif room.reserved_for:
        holder = f", reserved for {room.reserved_for}"
    else:
        holder = ""
    place = one_line(room.canonical_path)
    return f"{room.room_id} at {place}: {snapshot.state}, turn {room.turn_id}{holder}"


def _member_line(snapshot: Snapshot, member: Member) -> str:
    presence = "active" if snapshot.is_active(member) else "inactive"
    return f"- {member.agent_id} ({member.name}), {presence}, last seen {to_iso(member.last_seen_at)}"


def your_turn_text(wait: Wait) -> str:
    room = wait.snapshot.room
    head = f"your_turn ({wait.reason}): turn_id={room.turn_id} lease_id={room.lease_id} room_id={room.room_id}"
    return f"{head}\n{_handoff_text(wait.handoff, wait.from_agent_id)}"


def takeover_text(wait: Wait) -> str:
    room = wait.snapshot.room
    return (
        f"takeover_available ({wait.reason}): {wait.snapshot.expected} does not answer. To take the stick: "
        f"takeover_stick(room_id={room.room_id}, expected_turn_id={room.turn_id}, reason=...)."
    )


def _handoff_text(handoff: Handoff | None, author: str | None) -> str:
    if handoff is None:
        return "There is no handoff: you are the first to work here, or the owner before you wrote none."
    return f"Handoff from {author}:\n{_handoff_lines(handoff)}"


def _handoff_lines(handoff: Handoff, margin: str = "") -> str:
    """Each part after its label, with a margin before further lines, so that no text can pose as ours."""
    parts = [("status", handoff["status"]), ("next_action", handoff["next_action"])]
    parts += [("artifact", artifact_text(artifact)) for artifact in handoff.get("artifacts", ())]
    parts += [("open question", question) for question in handoff.get("open_questions", ())]
    parts += [("do not", rule) for rule in handoff.get("do_not", ())]
    return "\n".join(behind_margin(text, margin + MARGIN, first=f"{margin}{label}: ") for label, text in parts)


def artifact_text(artifact: dict[str, Any]) -> str:
    lines = artifact.get("lines")
    place = artifact["path"] + (f":{lines[0]}-{lines[1]}" if lines else "")
    note = artifact.get("note")
    return f"{place} ({artifact['role']})" + (f": {note}" if note else "")


def event_line(event: Event) -> str:
    """An event on one line, with its handoff below."""
    line = behind_margin(event_sentence(event), first=f"#{event.event_seq} {to_iso(event.created_at)} ")
    return line if event.handoff is None else f"{line}\n{_handoff_lines(event.handoff, MARGIN)}"


def event_sentence(event: Event, names: Mapping[str, str] | None = None) -> str:
    """Who did what, by agent_id or by the given names. It has more than one line only if an agent wrote more."""
    names = names or {}
    by, to = event.from_agent_id or "nobody", event.to_agent_id
    who, whom = names.get(by, by), names.get(to, to) if to else None
    # Later entries show only the name, so the first one connects it to the agent_id.
    newcomer = who if who == by else f"{who} ({by})"
    order = (names.get(agent_id, agent_id) for agent_id in event.details.get("order", ()))
    return {
        "join": f"{newcomer} joined" + (" (agent_id_override)" if event.details.get("agent_id_override") else ""),
        "leave": f"{who} left",
        "claim": f"{whom} claimed turn {event.turn_id} ({event.reason})",
        "release": f"{who} released the stick to {whom or 'the first agent to claim it'}",
        "pass": f"{who} passed the stick to {whom}",
        "return": f"{who} gave the stick back: {event.reason}",
        "resume": f"{whom} resumed {who}: the stick reserved for {who} is now reserved for {whom}",
        "takeover": f"{whom} took over turn {event.turn_id} from {who}: {event.reason}",
        "note": f"{who} noted: {event.details.get('note')}",
        "reorder": f"{who} reordered the members: {', '.join(order)}",
        "policy": f"{who} set the policy to {event.details.get('policy')}",
        "close": f"{who} closed the room" + (f": {event.reason}" if event.reason else ""),
    }.get(event.event_type, f"{event.event_type} by {who}")
