"""The commands about agents: who is calling, their names, and adopting the work of an agent that is gone."""

from __future__ import annotations

import os
from contextlib import suppress

from conch.agents.identity import explain
from conch.agents.records import label
from conch.agents.scripts import find_script, is_script, script_named
from conch.agents.signals import gather_signals
from conch.doors.cli.consent import answers_yes, may_ask
from conch.doors.cli.context import Context
from conch.doors.cli.output import Report, as_report, local_moments, moment_text
from conch.doors.cli.paging import page, rows
from conch.doors.cli.scopes import from_here, reservations
from conch.doors.cli.tables import table
from conch.errors import AdoptionRejected, AgentNotFound, ConchError, DecisionNeeded, RoomClosed, UnknownRoom, some_of
from conch.lean import TYPE_CHECKING, Any, NamedTuple
from conch.members.adoption import NO_EVIDENCE, Candidate
from conch.members.names import check_name, check_new_name, no_agent
from conch.tools import scopes_view
from conch.tools.fields import parse_cursor
from conch.tools.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conch.members.names import Agent
    from conch.rooms.room import Room
    from conch.scopes.overlaps import Reservation

_ANYWHERE = "*"
_CONNECTIONS = (
    "Each open MCP connection of your process is one agent, unless a session id says otherwise. The next connection "
    "continues the agent of the one that ended last, if the client's name is the same."
)
_SEVERAL_CONNECTIONS = (
    "Your process has several open MCP connections, each with an agent of its own. No session id says which of them "
    "runs this command. So the commands of your process are an agent of their own. To act as one of the others, set "
    "CONCH_AGENT_ID to its agent_id."
)


def register(context: Context) -> Report:
    name, role = context.options.name, context.options.role
    room_id, hint = _room_to_register_in(context), ""
    if _act_as_script(context, room_id, name):
        hint = f" With `--agent {name}`, the commands of any process act as it."
    report = as_report(context.tool("scopes.agent_register", room_id=room_id, name=name, role=role))
    return report._replace(text=report.text + hint)


def _room_to_register_in(context: Context) -> str:
    """The room here. A script that registers a name creates it, as `conch init --register` does."""
    try:
        return context.room_id
    except UnknownRoom:
        if context.options.room is not None or not _is_named_script(context, context.options.name):
            raise
    return _open_room(context, context.path(), context.options.name)


def _open_room(context: Context, place: str, name: str) -> str:
    """Create a room for the script of this name. The agent behind its process, if there is one, does not join."""
    check_new_name(name)
    return context.app.membership.open_room(place)


def _is_named_script(context: Context, name: str | None) -> bool:
    speaks_for = getattr(context.options, "agent", None)
    return name is not None and speaks_for is None and is_script(gather_signals("cli", os.environ, None))


def _act_as_script(context: Context, room_id: str, name: str | None) -> bool:
    """If a script runs this command, act from now on as the script of this name, and join the room as it.

    Returns whether that script is a member now.
    """
    if name is None or not _is_named_script(context, name):
        return False
    check_name(name)
    caller, room = context.caller, context.app.rooms.get_state(None, room_id)
    is_free = room.roll.named(name) is None
    if is_free:  # before joining, so that a refused script leaves no member behind
        earlier = find_script(context.app.store, room_id, name) or caller.agent_id
        context.app.registration.require_free(earlier, room_id, name)
    script = script_named(context.app.store, caller, room_id, name, is_free)
    if is_free and room.find(script.agent_id) is None:
        context.app.membership.join_path(script, room.room.canonical_path, limit=1)
    context.session.speak_as(script)
    return is_free or room.find(script.agent_id) is not None


def adopt(context: Context) -> Report:
    scope = from_here(context, context.options.scope)
    reply = context.room_tool(
        "scopes.agent_adopt", name=context.options.name, scope=_ANYWHERE if scope is None else scope
    )
    data = reply.data
    evidence = one_line(data["event"]["payload"]["evidence"])
    stick = "It held the stick: `conch take` takes it over. " if "stick_held_by" in data else ""
    text = (
        f"You are now {label(data['agent_id'], data['name'])}. You have its reservations and notices. "
        f"{evidence} {stick}`conch agent inbox` shows the notices."
    )
    return Report(data, text, delivery=reply.delivery)


def heartbeat(context: Context) -> Report:
    return as_report(context.room_tool("scopes.agent_heartbeat"))


def list_agents(context: Context) -> Report:
    room_id, place = context.room_id, parse_cursor("after", context.options.after)
    first = -1 if place is None else place
    found = context.app.registration.list_agents(context.caller, room_id, first, rows(context))
    return page(context, found, _agents, lambda agent: agent.ordinal)


def _agents(found: Sequence[Agent]) -> Report:
    agents = [scopes_view.agent(each) for each in found]
    cells = [
        (
            label(a["agent_id"], a["name"]),
            a["kind"],
            a.get("role", "-"),
            a["liveness"],
            local_moments(a["last_seen_at"]),
        )
        for a in agents
    ]
    return Report({"agents": agents}, table(("AGENT", "KIND", "ROLE", "LIVENESS", "LAST SEEN"), cells))


def show(context: Context) -> Report:
    room_id, caller = context.room_id, context.caller
    # First, because it records that the caller was seen.
    found = context.app.reservations.list_reservations(caller, room_id, after=context.options.after)
    named = context.options.name and context.name_here(context.options.name)
    registration = context.app.registration
    agent = registration.find(room_id, named) if named else registration.find_itself(caller, room_id)
    line = local_moments(scopes_view.agent_line(agent))

    def render(own: Sequence[Reservation]) -> Report:
        listed = reservations(own)
        return Report({**scopes_view.agent(agent), **(listed.data or {})}, f"{line}\n{listed.text}")

    own = [each for each in found if each.agent_id == agent.agent_id]
    return page(context, own, render, lambda each: each.reservation_id)


# -- who is calling


def whoami(context: Context) -> Report:
    if context.options.explain:
        return _explanation(context)
    caller = context.caller
    process, name = caller.process, _name_here(context)
    data = {
        "agent_id": caller.agent_id,
        "name": name,
        "session_kind": caller.session_kind,
        "display_name": caller.display_name,
        "process": process._asdict() if process else None,
    }
    return Report(data, f"{label(caller.agent_id, name)} ({caller.agent_id})")


def _name_here(context: Context) -> str:
    """The caller's name in the room of the working directory; outside any room, its general name."""
    caller = context.caller
    try:
        rooms = context.app.rooms.list_rooms(os.getcwd())
    except (OSError, ConchError):  # an agent has a name outside any room, too
        rooms = []
    member = rooms[0].find(caller.agent_id) if rooms else None
    return member.name if member else caller.name


def _explanation(context: Context) -> Report:
    data = explain(context.app.store, gather_signals("cli", os.environ, None))
    signals = data["signals"]
    rows = [("*" if s["wins"] else "", s["kind"], s["source"], s["standing"], s["linked_to"] or "-") for s in signals]
    headings = ("", "SIGNAL", "SEEN IN", "STANDING", "LINKED TO")
    who = "a new agent" if data["is_new"] else label(data["agent_id"], data["name"])
    verdict = f"You are {who} ({data['agent_id']}). {one_line(data['reason'])}."
    seen = table(headings, rows, below=[s["value"] for s in signals])
    return Report(data, "\n\n".join([verdict, seen, *_explain_connections(data)]))


def _explain_connections(data: dict[str, Any]) -> list[str]:
    """How the MCP connections of the caller's process decide which agent a command acts as."""
    served = data["connections"]
    if not served:
        return []
    states = {True: "open", False: "ended"}
    rows = [
        (states[each["is_open"]], each["client_name"] or "-", label(each["agent_id"], each["name"]), each["agent_id"])
        for each in served
    ]
    note = _SEVERAL_CONNECTIONS if data["is_ambiguous"] else _CONNECTIONS
    return [table(("CONNECTION", "CLIENT", "AGENT", "AGENT_ID"), rows), note]


# -- `conch init`: an option or a person decides who a session is in its room


class _Choice(NamedTuple):
    """Whom a session resumes, or why it starts under a name of its own."""

    resumes: str | None
    confirmed: bool = False
    """A person agreed to resume it without evidence."""
    reason: str = ""


def init(context: Context) -> Report:
    place = _place(context)
    room = next((found.room for found in context.app.rooms.list_rooms(place)), None)
    choice = _choose(context, room)  # before joining, so that a refused or undecided session leaves no member behind
    room_id = _enter(context, place, room)
    if choice.resumes is not None:
        return _resume(context, room_id, choice.resumes, choice.confirmed)
    if context.options.register is None:
        agent = context.app.registration.find_itself(context.caller, room_id)
        if agent.is_registered:
            return _report(agent.agent_id, agent.name, "continued", "You were already registered here.")
    return _begin(context, room_id, context.options.register, choice.reason)


def _place(context: Context) -> str:
    """The path of the room to join: that of `--room`, which must be open, or `--path`, or the working directory."""
    if context.options.room is None:
        return context.path()
    room = context.room.room
    if room.state == "closed":
        raise RoomClosed(f"Room {room.room_id} is closed. You can still read its log.", room_id=room.room_id)
    return room.canonical_path


def _choose(context: Context, room: Room | None) -> _Choice:
    """What the options say, else what a person decides if there is unfinished work."""
    register, adopt = context.options.register, context.options.adopt
    if adopt is not None:
        return _Choice(adopt, confirmed=_must_confirm(context, room, adopt))
    if register is not None:
        if room is None:
            check_new_name(register)
        check_name(register)
        return _Choice(None, reason="You chose this name.")
    candidates = _candidates(context, room) if room else []
    if not candidates:
        return _Choice(None, reason="No unfinished work was found here.")
    if not _may_ask(context):
        raise _undecided(candidates)
    return _ask(candidates)


def _candidates(context: Context, room: Room) -> list[Candidate]:
    """The agents that the caller could resume. One that is already registered here continues instead."""
    caller = context.caller
    with suppress(AgentNotFound):
        if context.app.registration.find_itself(caller, room.room_id).is_registered:
            return []
    return context.app.adoption.candidates(caller, room.room_id)


def _enter(context: Context, place: str, room: Room | None) -> str:
    """Join the room and return its id. A script joins as the script of the name that it registers."""
    name = context.options.register
    if name is not None and _is_named_script(context, name):
        room_id = room.room_id if room else _open_room(context, place, name)
        if _act_as_script(context, room_id, name):
            return room_id
    if room is not None and name is not None:
        context.app.registration.require_free(context.caller.agent_id, room.room_id, name)
    return str(context.tool("turns.join_path", context_path=place).data["room_id"])


def _must_confirm(context: Context, room: Room | None, name: str) -> bool:
    """Whether there is no evidence, but a person at the terminal wants to resume the agent anyway.

    Raises AdoptionRejected or AgentNotFound if nobody can resume it, or if the person does not say yes.
    """
    if room is None:
        raise no_agent(name, [])
    try:
        context.app.adoption.examine(context.caller, room.room_id, name, _ANYWHERE)
        return False
    except AdoptionRejected as refusal:
        if refusal.details["reason"] != NO_EVIDENCE or not _may_ask(context):
            raise
        if not _confirms(context, room.room_id, refusal):
            raise AdoptionRejected("You did not say yes, so nothing was changed.", **refusal.details) from None
        return True


def _resume(context: Context, room_id: str, name: str, confirmed: bool) -> Report:
    adopted = context.app.adoption.adopt(context.caller, room_id, name, _ANYWHERE, confirmed)
    agent, evidence = adopted.agent, adopted.evidence
    report = _report(agent.agent_id, agent.name, "adopted", f"{evidence.reason}: {evidence.summary}")
    now = f"You are now {agent.label}. You have its reservations and notices."
    return report._replace(text=f"{now} {one_line(evidence.summary)}")


def _may_ask(context: Context) -> bool:
    return not context.options.non_interactive and may_ask()


def _confirms(context: Context, room_id: str, refusal: AdoptionRejected) -> bool:
    """Ask a person whether to resume an agent without evidence, with what is known about it."""
    name = refusal.details["name"]
    agent = context.app.registration.find(room_id, name)
    found = context.app.reservations.list_reservations(context.caller, room_id)
    scopes = some_of([each.scope for each in found if each.agent_id == agent.agent_id])
    known = [
        refusal.message,
        (f"Its role was {agent.role}. " if agent.role else "")
        + f"It was last seen at {moment_text(agent.last_seen_at)}.",
        f"It still reserves {scopes}." if scopes else "It reserves nothing.",
    ]
    return answers_yes(one_line(f"{' '.join(known)} Resume {agent.label} anyway?")) is True


def _begin(context: Context, room_id: str, name: str | None, reason: str) -> Report:
    _act_as_script(context, room_id, name)
    data = context.tool("scopes.agent_register", room_id=room_id, name=name).data
    return _report(data["agent_id"], data["name"], "registered", reason)


def _report(agent_id: str, name: str, action: str, reason: str) -> Report:
    data = {"agent_id": agent_id, "name": name, "action": action, "reason": reason}
    return Report(data, f"You are {label(agent_id, name)}. {one_line(reason)}")


def _undecided(candidates: list[Candidate]) -> DecisionNeeded:
    """Recommends the first in the room's sequence, so that asking again gives the same answer."""
    first = candidates[0]
    recommendation = f"conch init --adopt {first.agent.name}"
    reason = f"{first.evidence.reason}: {first.evidence.summary}"
    message = (
        f"{first.agent.label} is gone and left unfinished work. {first.evidence.summary} Resume it with "
        f"`{recommendation}`, or start fresh with `conch init --register NAME`."
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


def _ask(candidates: list[Candidate]) -> _Choice:
    for candidate in candidates:
        facts = f"{candidate.agent.label} is gone and left unfinished work. {candidate.evidence.summary}"
        answer = answers_yes(one_line(f"{facts} Resume it?"))
        if answer is None:
            raise _undecided(candidates)
        if answer:
            return _Choice(candidate.agent.agent_id)
    return _Choice(None, reason="You chose to start fresh.")
