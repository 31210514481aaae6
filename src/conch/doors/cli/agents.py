"""The commands around agents, reservations and notices."""

from __future__ import annotations

import os
from collections.abc import Callable

from conch.agents.identity import load_caller
from conch.doors.cli.context import Context
from conch.doors.cli.output import Report, indented, one_line, table
from conch.errors import UnknownRoom
from conch.host.paths import parse_scope
from conch.members.registration import find_agent, itself
from conch.tools import notices
from conch.tools.registry import Result
from conch.typed import Any

Object = dict[str, Any]
Handler = Callable[[Context], Report]

MARGIN = " " * 4
ANYWHERE = "*"


def register(context: Context) -> Report:
    result = _tool(context, "agent_register", name=context.options.name, role=context.options.role)
    return Report(result.data, result.text)


def adopt(context: Context) -> Report:
    scope = _from_here(context, context.options.scope)
    result = _tool(context, "agent_adopt", name=context.options.name, scope=ANYWHERE if scope is None else scope)
    return Report(result.data, result.text)


def heartbeat(context: Context) -> Report:
    result = _tool(context, "agent_heartbeat")
    return Report(result.data, result.text)


def list_agents(context: Context) -> Report:
    data = _tool(context, "agent_list").data
    rows = [(a["name"], a["agent_id"], a["role"] or "-", a["liveness"], a["last_seen_at"]) for a in data["agents"]]
    return Report(data, table(("NAME", "AGENT", "ROLE", "LIVENESS", "LAST SEEN"), rows))


def show(context: Context) -> Report:
    room_id, caller = context.room_id(), context.session.caller()
    agents = context.app.registration.list_agents(caller, room_id)
    named = context.options.name and _present_name(context, context.options.name)
    agent = find_agent(agents, named) if named else itself(agents, caller)
    found = context.app.reservations.list_reservations(caller, room_id)
    own = [notices.reservation(each) for each in found if each.agent_id == agent.agent_id]
    data = {**notices.agent(agent), "reservations": own}
    return Report(data, f"{notices.agent_line(agent)}\n{_reservations(own)}")


# -- reservations


def _from_here(context: Context, scope: str | None, field: str = "scope") -> str | None:
    """What is typed in a folder of the workspace is meant from there, as in every other command of a shell.

    It is checked here already, so that a refusal speaks of what was typed.
    """
    if scope is None or not scope.strip():
        return scope
    root = context.snapshot(context.room_id()).room.canonical_path
    return os.path.join(".", parse_scope(scope, root, field, _folder_within(root)).path)


def _folder_within(root: str) -> str | None:
    """The working directory, if it is in the workspace; None elsewhere, and where it has been deleted."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        return None
    return here if os.path.join(here, "").startswith(os.path.join(root, "")) else None


def reserve(context: Context) -> Report:
    options = context.options
    result = _tool(
        context,
        "scope_reserve",
        scope=_from_here(context, options.scope),
        ttl_minutes=options.ttl,
        takeover_stale=options.takeover_stale,
        bead_id=options.bead,
    )
    return Report(result.data, result.text)


def release(context: Context) -> Report:
    result = _tool(context, "scope_release", scope=_from_here(context, context.options.scope))
    return Report(result.data, result.text)


def status(context: Context) -> Report:
    options = context.options
    if options.scope is not None:
        result = _tool(context, "scope_check", path=_from_here(context, options.scope, "path"))
        return Report(result.data, result.text)
    data = _tool(context, "scope_list", include_ended=options.all).data
    return Report(data, _reservations(data["reservations"]))


def _reservations(found: list[Object]) -> str:
    if not found:
        return "Nothing is reserved."
    rows = [(r["scope"], r["name"], r["liveness"], r["state"], r["expires_at"], r["bead_id"] or "-") for r in found]
    return table(("SCOPE", "BY", "LIVENESS", "STATE", "UNTIL", "BEAD"), rows)


# -- notices


def send(context: Context) -> Report:
    options = context.options
    result = _tool(
        context,
        "event_send",
        event_type=options.type,
        to_agent=options.to,
        payload=_payload(options),
        bead_id=options.bead,
        scope=_from_here(context, options.scope),
    )
    return Report(result.data, result.text)


def _payload(options: Any) -> Object:
    """Everything that was given, so that what does not belong to this type is refused and not lost."""
    names = ("subject", "summary", "next_action", "blocker", "requested_action", "urgency")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.type == "BLOCKED":
        given.setdefault("urgency", "medium")
    return given | ({"requires_ack": False} if options.no_ack else {})


def inbox(context: Context) -> Report:
    data = _tool(context, "event_inbox", state=context.options.state, limit=context.options.limit).data
    lines = [_notice(event) for event in data["events"]]
    return Report(data, "\n".join(lines) or "Nothing waits for you.")


def _notice(event: Object) -> str:
    label = notices.LABELS.get(event["event_type"], event["event_type"])
    state = notices.LABELS.get(event["state"], event["state"])
    head = f"{event['id']} {label}, from {event['from_agent'] or 'conch'}, {event['created_at']}: {state}"
    about = {"scope": event["scope"], "bead": event["bead_id"], **event["payload"]}
    lines = [indented(f"{name}: {value}", MARGIN) for name, value in about.items() if value is not None]
    return "\n".join([one_line(head), *lines])


def _mark(mark: str) -> Handler:
    def handler(context: Context) -> Report:
        result = context.tool("event_mark", event_id=context.options.event, mark=mark)
        return Report(result.data, result.text)

    return handler


# -- who speaks


def _tool(context: Context, name: str, /, **arguments: Any) -> Result:
    return context.tool(name, room_id=context.room_id(), **arguments)


def _home_topic(context: Context) -> str | None:
    """Where the room here is, whose names are meant; None where no room is."""
    try:
        return context.app.membership.get_state(None, context.room_id()).room.topic_id
    except UnknownRoom:
        return None


def _present_name(context: Context, text: str) -> str:
    """What whoever had this name in the room here is called now."""
    topic_id = _home_topic(context)
    return text if topic_id is None else context.present_name(text, topic_id)


def _speaking(handler: Handler) -> Handler:
    """The same command as the agent that `--agent` names."""

    def speaking(context: Context) -> Report:
        if context.options.agent is not None:
            named = _present_name(context, context.options.agent)
            context.session.speak_as(load_caller(context.app.store, named, _home_topic(context)))
        return handler(context)

    return speaking


_HANDLERS: dict[str, Handler] = {
    "register": register,
    "adopt": adopt,
    "heartbeat": heartbeat,
    "list": list_agents,
    "show": show,
    "send": send,
    "inbox": inbox,
    "seen": _mark("seen"),
    "accept": _mark("accepted"),
    "reserve": reserve,
    "release": release,
    "status": status,
}
COMMANDS = {f"agent {name}": _speaking(handler) for name, handler in _HANDLERS.items()}
