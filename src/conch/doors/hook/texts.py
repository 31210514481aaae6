"""What hooks say to a model. Text of other agents never begins a line."""

from __future__ import annotations

from conch.agents.records import Caller
from conch.lean import TYPE_CHECKING
from conch.rooms.room import Snapshot
from conch.tools.text import one_line

if TYPE_CHECKING:
    from conch.scopes.guard import Objection
    from conch.scopes.overlaps import Reservation

FEW = 5
ABANDONED = "The session of the holder ended before it handed over. Any member may take over."


# -- before an edit


def refusal(objections: list[Objection], whose: str) -> str:
    return "\n".join(
        [
            "conch refused this change, because another agent works there:",
            *map(_objection, objections),
            "Change nothing there, and do not work around this with another tool. Work on other files, ask the holder "
            "with `ask`, or wait: `scope_check` says when a file is free, `wait_for_turn` gets the stick.",
            *_subagent(whose),
        ]
    )


def caution(objections: list[Objection], whose: str) -> str:
    return "\n".join(
        [
            "conch warns you: another agent works there.",
            *map(_objection, objections),
            "It got a notice of this change. Before you change more, ask it with `ask`, or work on other files.",
            *_subagent(whose),
        ]
    )


def _objection(objection: Objection) -> str:
    path, holder = one_line(objection.path), one_line(objection.holder)
    if not objection.scope:
        return f"- {path}: {holder} has held the stick since {objection.since}."
    scope = one_line(objection.scope)
    return f"- {path}: {holder} has reserved {scope} since {objection.since}, until {objection.until} at most."


def _subagent(whose: str) -> list[str]:
    return [f"You are a subagent: for conch you are {one_line(whose)}, like the agent that started you."] * bool(whose)


# -- the end of a reply


def held_stick(snapshot: Snapshot) -> str:
    return (
        "You still hold the stick. Call `release_stick` with a truthful status and a next_action, or `pass_stick`. If "
        "your work is not finished, go on."
    )


def hold_back(reasons: list[str]) -> str:
    listed = [f"- {reason}" for reason in reasons]
    return "\n".join(["Before you stop:", *listed, "conch says this only once. Stopping again is allowed."])


# -- the beginning


def introduction(snapshot: Snapshot, caller: Caller, reserved: list[Reservation]) -> str:
    """Five lines: who you are, the stick, the others, what is reserved, what to do."""
    room = snapshot.room
    member = snapshot.find(caller.agent_id)
    own = member.label if member else caller.label
    others = [m.label for m in snapshot.members if m.agent_id != caller.agent_id and snapshot.is_active(m)]
    return "\n".join(
        [
            f"conch: other agents may share this checkout. You are {one_line(own)} in room {room.room_id}.",
            _stick(snapshot, caller.agent_id),
            f"Other agents here: {_some(others)}.",
            f"Reserved: {_some([f'{each.spelled} ({each.label})' for each in reserved])}.",
            "Before you change files, call `wait_for_turn`, or reserve them with `scope_reserve`. The skill `conch` "
            "has the rules.",
        ]
    )


def _stick(snapshot: Snapshot, agent_id: str) -> str:
    room = snapshot.room
    if room.owner == agent_id:
        return f"You hold the stick (turn {room.turn_id})."
    if room.reserved_for == agent_id:
        return "The stick is reserved for you: call `wait_for_turn` to claim it and to read the handoff."
    if snapshot.takeover_reason is not None:
        return f"The stick can be taken over ({snapshot.takeover_reason}): call `takeover_stick` with a reason."
    if snapshot.expected is None:
        return "The stick is free."
    return f"{one_line(snapshot.who(snapshot.expected))} {'holds the stick' if room.owner else 'gets the stick next'}."


def _some(names: list[str]) -> str:
    shown = ", ".join(one_line(name) for name in names[:FEW])
    return shown + (" and more" if len(names) > FEW else "") if names else "none"
