"""How rooms, handoffs and events read on a terminal."""

from __future__ import annotations

import time

from conch.clock import SECOND
from conch.doors.cli.output import clean, indented, one_line
from conch.rooms.handoffs import Handoff
from conch.rooms.room import Snapshot
from conch.tools.texts import artifact_text

MARGIN = " " * 8
LABEL = 10


def who(snapshot: Snapshot, agent_id: str | None) -> str:
    """Both names of a member."""
    member = snapshot.find(agent_id)
    return f"{agent_id} ({member.name})" if member else str(agent_id)


def duration(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def local_time(moment: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment / SECOND))


def handoff_lines(handoff: Handoff) -> str:
    """One part per line behind its label; longer parts go on below, behind the same margin."""
    parts = [("status", handoff["status"]), ("next", handoff["next_action"])]
    parts += [("artifact", artifact_text(artifact)) for artifact in handoff.get("artifacts", ())]
    parts += [("question", question) for question in handoff.get("open_questions", ())]
    parts += [("do not", rule) for rule in handoff.get("do_not", ())]
    return "\n".join(labelled(label, text) for label, text in parts)


def labelled(label: str, text: str) -> str:
    first, newline, rest = clean(text.strip()).partition("\n")
    width = max(LABEL, len(label) + 1)
    below = MARGIN + " " * width
    return f"{MARGIN}{label:<{width}}{first}" + (f"\n{indented(rest, below)}" if newline else "")


def handoff_text(handoff: Handoff | None, author: str | None) -> str:
    if handoff is None:
        return "There is no handoff for you."
    return f"Handoff from {author}:\n{handoff_lines(handoff)}"


def room_text(snapshot: Snapshot, caller_id: str) -> str:
    """Where the stick is, and what the caller can do about it."""
    room = snapshot.room
    head = f"{one_line(room.canonical_path)}\n{room.room_id}: {snapshot.state}, turn {room.turn_id}"
    return f"{head}\n{_stick_text(snapshot, caller_id)}"


def _stick_text(snapshot: Snapshot, caller_id: str) -> str:
    room = snapshot.room
    if room.state == "closed":
        return "It is over; `conch join` opens a new room here."
    if room.owner:
        holder = "You hold" if room.owner == caller_id else f"{who(snapshot, room.owner)} holds"
        return f"{holder} the stick; the lease {_lapse(snapshot, room.lease_expires_at)}."
    if room.reserved_for:
        recipient = "you" if room.reserved_for == caller_id else who(snapshot, room.reserved_for)
        return f"The stick waits for {recipient}; the claim {_lapse(snapshot, room.claim_expires_at)}."
    return "The stick is free; `conch wait` takes it."


def _lapse(snapshot: Snapshot, moment: int | None) -> str:
    left = ((moment or snapshot.now) - snapshot.now) / SECOND
    return f"lapses in {duration(left)}" if left > 0 else f"lapsed {duration(-left)} ago"
