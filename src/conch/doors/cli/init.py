"""`conch init`: who a session is in its room, decided by a person, by an option, or not at all."""

from __future__ import annotations

import sys

from conch.doors.cli.context import Context
from conch.doors.cli.output import Report, one_line, write
from conch.errors import DecisionNeeded, RoomClosed
from conch.members.adoption import Candidate
from conch.members.registration import check_name, find_agent, itself
from conch.typed import Any


def init(context: Context) -> Report:
    options = context.options
    place = _place(context)
    _check_names(context, place)
    room_id = context.tool("join_path", context_path=place).data["room_id"]
    if options.adopt is not None:
        return _adopt(context, room_id, options.adopt)
    if options.register is not None:
        return _register(context, room_id, options.register, "The name was chosen.")
    caller = context.session.caller()
    agent = itself(context.app.registration.list_agents(caller, room_id), caller)
    if agent.is_registered:
        return _report(agent.agent_id, agent.name, "continued", "You are registered here already.")
    candidates = context.app.adoption.candidates(caller, room_id)
    if not candidates:
        return _register(context, room_id, None, "Nobody who is gone has left unfinished work here.")
    if options.non_interactive or sys.stdin is None or not sys.stdin.isatty():
        raise _undecided(candidates)
    return _ask(context, room_id, candidates)


def _place(context: Context) -> str:
    """Where the room to join is: that of `--room`, which must be open, or the one here."""
    if context.options.room is None:
        return context.path()
    room = context.snapshot(context.room_id()).room
    if room.state == "closed":
        raise RoomClosed(f"Room {room.room_id} is closed; its log stays readable.", room_id=room.room_id)
    return room.canonical_path


def _check_names(context: Context, place: str) -> None:
    """Nobody joins a room only to be refused there, as far as that can be told from outside."""
    register, adopt = context.options.register, context.options.adopt
    if register is not None:
        check_name(register)
    if adopt is not None:
        room = next((found.room for found in context.app.membership.list_rooms(place)), None)
        agents = context.app.registration.list_agents(None, room.room_id) if room else []
        find_agent(agents, context.present_name(adopt, room.topic_id) if room else adopt)


def _adopt(context: Context, room_id: str, name: str) -> Report:
    data = context.tool("agent_adopt", room_id=room_id, name=name, scope="*").data
    payload = data["event"]["payload"]
    return _report(data["agent_id"], data["name"], "adopted", f"{payload['resume_reason']}: {payload['evidence']}")


def _register(context: Context, room_id: str, name: str | None, reason: str) -> Report:
    data = context.tool("agent_register", room_id=room_id, name=name).data
    return _report(data["agent_id"], data["name"], "registered", reason)


def _report(agent_id: str, name: str, action: str, reason: str) -> Report:
    data = {"agent_id": agent_id, "name": name, "action": action, "reason": reason}
    return Report(data, f"You are {name} ({agent_id}), {action}. {one_line(reason)}")


def _undecided(candidates: list[Candidate]) -> DecisionNeeded:
    """The first in the room's sequence is recommended: whoever asks again gets the same answer."""
    first = candidates[0]
    recommendation = f"conch init --adopt {first.agent.name}"
    reason = f"{first.evidence.reason}: {first.evidence.summary}"
    message = (
        f"{first.agent.name} is gone and left unfinished work. {first.evidence.summary} Resume it with "
        f"`{recommendation}`, or begin afresh with `conch init --register NAME`."
    )
    details: dict[str, Any] = {
        "recommendation": recommendation,
        "reason": reason,
        "candidates": [
            {"agent_id": c.agent.agent_id, "name": c.agent.name, "reason": c.evidence.reason,
             "evidence": c.evidence.summary} for c in candidates
        ],
    }  # fmt: skip
    return DecisionNeeded(message, **details)


def _ask(context: Context, room_id: str, candidates: list[Candidate]) -> Report:
    for candidate in candidates:
        question = f"{candidate.agent.name} is gone and left unfinished work. {candidate.evidence.summary} Resume it?"
        write(sys.stderr, f"{one_line(question)} [y/N] ")
        answer = sys.stdin.readline()
        if not answer:  # whoever ends the input has decided nothing
            raise _undecided(candidates)
        if answer.strip().lower() in ("y", "yes"):
            return _adopt(context, room_id, candidate.agent.agent_id)
    return _register(context, room_id, None, "You chose to begin afresh.")


COMMANDS = {"init": init}
