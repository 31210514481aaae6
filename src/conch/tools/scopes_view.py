"""How agents, reservations and notices look: as objects for programs, and as text for models."""

from __future__ import annotations

from conch.clock import to_iso
from conch.lean import TYPE_CHECKING
from conch.notices.events import VERSION
from conch.scopes.overlaps import Held, Reservation, holder
from conch.tools.replies import Object, known
from conch.tools.text import MARGIN, behind_margin, one_line

if TYPE_CHECKING:
    from conch.members.names import Agent
    from conch.notices.events import ProtocolEvent
    from conch.scopes.reservations import Grant
    from conch.tools.pages import Page


LABELS = {
    "HANDOFF": "Passed to",
    "BLOCKED": "Needs input",
    "INCURSION": "Ran into",
    "RESUME": "Resumed",
    "seen": "Seen",
    "accepted": "Accepted",
}

_NAMES = ("owner_agent", "incoming_agent")  # the hint of an incursion says who they are


def agent(agent: Agent) -> Object:
    return known(
        agent_id=agent.agent_id,
        name=agent.name,
        kind=agent.kind,
        role=agent.role,
        liveness=agent.liveness,
        last_seen_at=to_iso(agent.last_seen_at),
    )


def agent_line(agent: Agent) -> str:
    role = f", {one_line(agent.role)}" if agent.role else ""
    return f"{agent.label}, {agent.kind}{role}: {agent.liveness}, last seen {to_iso(agent.last_seen_at)}"


def reservation(reservation: Reservation) -> Object:
    return known(
        reservation_id=reservation.reservation_id,
        **reservation.place,
        agent_id=reservation.agent_id,
        name=reservation.name,
        liveness=reservation.liveness,
        bead_id=reservation.bead_id,
        state=reservation.state,
        created_at=to_iso(reservation.created_at),
        expires_at=to_iso(reservation.expires_at),
    )


def released_line(reservation: Reservation) -> str:
    return f"Released {one_line(reservation.spelled)}."


def reservation_line(reservation: Reservation) -> str:
    state = f"until {to_iso(reservation.expires_at)}" if reservation.is_active else reservation.state
    return f"{one_line(reservation.spelled)} by {reservation.label} ({reservation.liveness}), {state}"


def overlap(held: Held, caller_id: str) -> Object:
    return {**holder(held), "yours": held.reservation.agent_id == caller_id}


def after_check(found: list[Held], caller_id: str) -> str:
    if any(held.reservation.agent_id != caller_id for held in found):
        return "Work on other files, or ask the owner to release these."
    return "" if found else "Call `scope_reserve` before you change it."


def overlap_line(held: Held) -> str:
    return f"- {held.kind}: {reservation_line(held.reservation)}"


def taken_line(taken: Reservation) -> str:
    return f"Taken over from {taken.label}: {one_line(taken.spelled)}."


def grant_text(grant: Grant, taken: Page) -> str:
    verb = "Renewed" if grant.renewed else "Reserved"
    lines = [f"{verb} {one_line(grant.reservation.spelled)} until {to_iso(grant.reservation.expires_at)}."]
    lines += taken.lines
    if taken.has_more:
        lines.append(f"{len(grant.taken_over)} were taken over in all.")
    return "\n".join(lines)


def after_grant(grant: Grant) -> str:
    change = "Change the files now."
    if grant.holder_is_silent:
        change = "Look at what the holder of the stick has left, then change the files."
    elif grant.stick_held:
        change = "Coordinate with the holder of the stick, then change the files."
    return f"{change} Call `scope_release` when you are done."


def envelope(event: ProtocolEvent) -> Object:
    """A protocol event in its stable format, whether its recipient has seen or accepted it, and how often it came."""
    repeated = {"times": event.times, "latest_at": to_iso(event.latest_at)} if event.times > 1 else {}
    marks = known(seen_at=to_iso(event.seen_at), accepted_at=to_iso(event.accepted_at))
    return {
        "id": event.event_id,
        "version": VERSION,
        "event_type": event.event_type,
        "project_root": event.project_root,
        "bead_id": event.bead_id,
        "from_agent": event.from_agent,
        "to_agent": event.to_agent,
        "scope": event.scope,
        "created_at": to_iso(event.created_at),
        "payload": event.payload,
        "state": event.state,
        **marks,
        **repeated,
    }


def event_text(event: ProtocolEvent) -> str:
    """The whole notice: a model that reads only text must be able to act on it."""
    again = f", {event.times} times, last at {to_iso(event.latest_at)}" if event.times > 1 else ""
    head = f"{event.event_id} {event.event_type} from {event.sender}, {event.state}{again}"
    about = {"scope": event.scope, "bead_id": event.bead_id, **said(event)}
    return "\n".join([head, *labelled_lines(about, MARGIN)])


def said(event: ProtocolEvent) -> Object:
    """What a notice says, without the names of its sender and its recipient."""
    return {name: value for name, value in event.payload.items() if name not in _NAMES}


def labelled_lines(about: Object, margin: str) -> list[str]:
    """Each value after its name. Its further lines have a wider margin, so that no text can pose as ours."""
    return [
        behind_margin(str(value), margin * 2, first=f"{margin}{one_line(name)}: ")
        for name, value in about.items()
        if value is not None and not isinstance(value, bool)  # `tell` adds those
    ]
