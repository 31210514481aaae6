"""How rooms, turns and a room's log look: as objects for programs, and as text for models."""

from __future__ import annotations

from conch.clock import to_iso
from conch.lean import TYPE_CHECKING, Any, NamedTuple
from conch.rooms.room import MOST_COUNTED, at_least
from conch.tools.replies import Object, Reply, known
from conch.tools.text import MARGIN, behind_margin, one_line, with_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conch.rooms.handoffs import Handoff
    from conch.rooms.log import Event
    from conch.rooms.room import Member, Room, Shown, Snapshot
    from conch.tools.pages import Budget
    from conch.turns.waiting import Takeover, Wait


_SMALLEST_ROW = 32  # bytes; no line of a command is shorter
_SMALLEST_MEMBER = 192  # bytes of its object and its line; two dates alone are half of that
_MOST_IDS = 50  # of the members of one room in a list of rooms; `get_room_state` lists all of them


def path_room(snapshot: Snapshot, caller_id: str | None, members: Sequence[Member] | None = None) -> Object:
    """A room as an object for this caller, with the ids of its first members unless the reply lists them beside it."""
    room = snapshot.room
    return {
        "room_id": room.room_id,
        "canonical_path": room.canonical_path,
        "topic_id": room.topic_id,
        **({} if members is None else _ids(members)),
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


def _ids(members: Sequence[Member]) -> Object:
    left_out = len(members) - _MOST_IDS
    ids = [member.agent_id for member in members[:_MOST_IDS]]
    return {"members": ids, "members_more": left_out} if left_out > 0 else {"members": ids}


def _room_member(snapshot: Snapshot, member: Member) -> Object:
    return {
        "agent_id": member.agent_id,
        "name": member.name,
        "kind": member.kind,
        "ordinal": member.ordinal,
        "joined_at": to_iso(member.joined_at),
        "last_seen_at": to_iso(member.last_seen_at),
        "status": _presence(snapshot, member),
    }


def _presence(snapshot: Snapshot, member: Member) -> str:
    return "active" if snapshot.is_active(member) else "inactive"


class Members(NamedTuple):
    """The members of a room that fit into a reply, and how many are not listed because they are gone."""

    listed: list[Member]
    data: Object
    text: str
    next: str


def most_members(budget: Budget, printed_bytes: int = 0) -> int:
    """How many members to read for a page: one more than can fit. A command has no limit, but prints one page."""
    if budget.is_limited or not printed_bytes:
        return budget.rows_of(_SMALLEST_MEMBER)
    return printed_bytes // _SMALLEST_ROW + 2


_STATE_TOLD = frozenset(
    (
        *("room.room_id", "room.canonical_path", "room.turn_id", "room.state", "room.updated_at"),
        *("members", "members_gone"),
    )
)


def room_state(snapshot: Snapshot, shown: Shown, can_take_over: bool, agent_id: str, budget: Budget) -> Reply:
    """A room as one of its agents sees it."""
    room, line = path_room(snapshot, agent_id), room_line(snapshot)
    budget.spend(room, line, room)  # its text has all its facts, too
    members = list_members(snapshot, shown, budget)
    data = {"room": room, **members.data, "takeover": takeover(snapshot, can_take_over)}
    following = members.next or (TAKE_OVER if can_take_over else _after_look(snapshot, agent_id))
    return Reply(data, f"{line}\n{members.text}", next=following, told=_STATE_TOLD)


def list_members(snapshot: Snapshot, shown: Shown, budget: Budget) -> Members:
    """The leading members that fit into a reply."""
    found, gone = shown
    as_text = _whole_member_line if budget.is_limited else _member_line  # people know agents by their labels
    page = budget.fill(
        found,
        lambda each: _room_member(snapshot, each),
        lambda each: as_text(snapshot, each),
        told=_MEMBER_TOLD,
    )
    lines = page.lines
    data: Object = {"members": page.counted, "has_more": page.has_more}
    more = ""
    if page.has_more:
        data["cursor"] = page.cursor([member.ordinal for member in found])
        more = f'There are more members: call `get_room_state` with after="{data["cursor"]}".'
    if gone:
        data["members_gone"] = min(gone, MOST_COUNTED)
        lines = [*lines, f"members_gone={at_least(gone)}: not listed, because they hold nothing."]
    return Members(found[: page.length], data, "\n".join(lines), more)


def takeover(snapshot: Snapshot, can_take_over: bool) -> Object:
    return known(available=can_take_over, reason=snapshot.takeover_reason)


def room_event(event: Event) -> Object:
    return known(
        event_seq=event.event_seq,
        event_id=event.event_id,
        turn_id=event.turn_id,
        event_type=event.event_type,
        from_agent_id=event.from_agent_id,
        to_agent_id=event.to_agent_id,
        handoff=event.handoff,
        reason=event.reason,
        details=known(**event.details) or None,
        created_at=to_iso(event.created_at),
    )


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
    return known(
        current_owner=room.owner,
        reserved_for=room.reserved_for,
        lease_expires_at=to_iso(room.lease_expires_at),
        claim_expires_at=to_iso(room.claim_expires_at),
    )


def your_turn(wait: Wait) -> Object:
    room = wait.snapshot.room
    return {
        "status": "your_turn",
        **lease(room),
        "handoff": wait.handoff,
        "from_agent_id": wait.from_agent_id,
        "reason": wait.reason,
    }


def last_handoff(event: Event | None) -> Object | None:
    """The last handoff in the room, for an agent that took over; None if no agent has handed over yet."""
    if event is None:
        return None
    return {"event_seq": event.event_seq, "from_agent_id": event.from_agent_id, "handoff": event.handoff}


def note(event: Event) -> Object:
    return {
        "event_seq": event.event_seq,
        "from_agent_id": event.from_agent_id,
        "note": event.details.get("note"),
        "created_at": to_iso(event.created_at),
    }


def takeover_available(wait: Wait) -> Object:
    room = wait.snapshot.room
    return known(
        status="takeover_available",
        room_id=room.room_id,
        turn_id=room.turn_id,
        room_state=wait.snapshot.state,
        reason=wait.reason,
        cursor=str(room.last_event_seq),
        # Only the agent that failed to answer is named: either the owner or the recipient.
        current_owner=room.owner,
        reserved_for=room.reserved_for,
    )


# -- as text for models


def room_line(snapshot: Snapshot) -> str:
    room = snapshot.room
    if room.owner:
        holder = f", owner {snapshot.who(room.owner)}"
    elif room.reserved_for:
        holder = f", reserved for {snapshot.who(room.reserved_for)}"
    else:
        holder = ""
    place = one_line(room.canonical_path)
    changed = f"updated_at={to_iso(room.updated_at)}"
    return f"{room.room_id} at {place}: {snapshot.state}, turn_id={room.turn_id}{holder}, {changed}"


_MEMBER_TOLD = frozenset(("agent_id", "name", "kind", "ordinal", "joined_at", "last_seen_at", "status"))


def _member_line(snapshot: Snapshot, member: Member) -> str:
    who = with_name(member.label, "name", member.name)
    joined, seen = to_iso(member.joined_at), to_iso(member.last_seen_at)
    return f"- {who}, {member.kind}, {_presence(snapshot, member)}, joined {joined}, last seen {seen}"


def _whole_member_line(snapshot: Snapshot, member: Member) -> str:
    line = _member_line(snapshot, member)
    return f"{line}\n{MARGIN}agent_id={one_line(member.agent_id)} ordinal={member.ordinal}"


TURN_TOLD = frozenset(("status", "reason", "turn_id", "lease_id", "room_id", "handoff"))


def your_turn_text(wait: Wait) -> str:
    room = wait.snapshot.room
    head = f"your_turn ({wait.reason}): turn_id={room.turn_id} lease_id={room.lease_id} room_id={room.room_id}"
    return f"{head}\n{_handoff_text(wait.handoff, wait.author)}"


def takeover_text(wait: Wait) -> str:
    return f"takeover_available ({wait.reason}): {wait.snapshot.who(wait.snapshot.expected)} does not answer."


# -- what to do next

_CLAIM = "The stick is reserved for you: call `wait_for_turn` to claim it."
TAKE_OVER = "Call `takeover_stick` with this turn_id as expected_turn_id and a reason, or wait longer."


def after_claim(wait: Wait) -> str:
    seconds = wait.snapshot.policy.heartbeat_interval_ms // 1_000
    first = "Read the handoff and open its artifacts, then work. " if wait.handoff else "Work now. "
    return f"{first}Call `heartbeat` every {seconds} s. Call `release_stick` or `pass_stick` before you stop."


def _after_look(snapshot: Snapshot, caller_id: str) -> str:
    """What an agent that has looked at the room can do."""
    if snapshot.room.state == "closed":
        return "Call `join_path` to open a new room here."
    if snapshot.find(caller_id) is None:
        return "Call `join_path` to join this room."
    if snapshot.room.owner == caller_id:
        return "You hold the stick: work, then call `release_stick` or `pass_stick`."
    is_reserved = snapshot.room.reserved_for == caller_id
    return _CLAIM if is_reserved else "Call `wait_for_turn` to get the stick."


def after_join(snapshot: Snapshot, caller_id: str) -> str:
    """What an agent that has joined can do. One that comes back may hold the stick."""
    if snapshot.room.owner == caller_id:
        return "You hold the stick: call `wait_for_turn` to go on with your turn."
    if snapshot.room.reserved_for == caller_id:
        return _CLAIM
    return "Call `wait_for_turn`, and change nothing shared before your_turn."


def taken_text(taken: Takeover) -> str:
    last = taken.last_handoff
    head = f"The stick is yours. You took it from {taken.loser}."
    if last is None or last.handoff is None:
        return head
    author = f"The last handoff, from {last.who(last.from_agent_id)} (event_seq={last.event_seq}):"
    return f"{head} {author}\n{handoff_lines(last.handoff)}"


def after_takeover(taken: Takeover, has_more: bool) -> str:
    """What an agent that took over should do first."""
    ending = "Call `release_stick` or `pass_stick` before you stop."
    if taken.last_handoff is None:
        return f"No agent has handed over yet: call `get_room_events` before you work. {ending}"
    older = f' For all notes, call `get_room_events` with after="{taken.since}".' if has_more else ""
    return f"Look at what has changed since the last handoff, then go on from there.{older} {ending}"


def _handoff_text(handoff: Handoff | None, author: str) -> str:
    if handoff is None:
        return "There is no handoff. Either you are the first to work here, or the last owner wrote none."
    return f"Handoff from {author}:\n{handoff_lines(handoff)}"


def handoff_lines(handoff: Handoff, margin: str = "") -> str:
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
    return line if event.handoff is None else f"{line}\n{handoff_lines(event.handoff, MARGIN)}"


def event_sentence(event: Event) -> str:
    """Who did what. It has more than one line only if an agent wrote more."""
    who, whom = event.who(event.from_agent_id), event.who(event.to_agent_id)
    order = map(event.who, event.details.get("order", ()))
    return {
        "join": f"{who} joined{_how_joined(event)}",
        "leave": f"{who} left",
        "kick": f"{who} ended the membership of {whom}: {event.reason}",
        "claim": f"{whom} claimed turn {event.turn_id} ({event.reason})",
        "release": f"{who} released the stick to {whom if event.to_agent_id else 'the first agent to claim it'}",
        "pass": f"{who} passed the stick to {whom}",
        "return": f"conch took the stick back from {who}: {event.reason}",
        "decline": f"{who} stopped waiting, so the stick is {f'reserved for {whom}' if event.to_agent_id else 'free'}",
        "resume": f"{whom} resumed {who}: the stick reserved for {who} is now reserved for {whom}",
        "takeover": f"{whom} {_how_taken(event)} turn {event.turn_id} from {who}: {event.reason}",
        "note": f"{who} noted: {event.details.get('note')}",
        "reorder": f"{who} reordered the members: {', '.join(order)}",
        "policy": f"{who} set the policy to {_policy_words(event)}",
        "close": f"{who} closed the room" + (f": {event.reason}" if event.reason else ""),
    }.get(event.event_type, f"{event.event_type} by {who}")


def _policy_words(event: Event) -> str:
    chosen = event.details.get("policy") or {}
    return ", ".join(f"{name}={value}" for name, value in chosen.items()) or "the defaults"


def _how_joined(event: Event) -> str:
    if event.details.get("takes_turns"):
        return " the sequence"
    return " (agent_id_override)" if event.details.get("agent_id_override") else ""


def _how_taken(event: Event) -> str:
    return "took by force" if event.is_forced else "took over"
