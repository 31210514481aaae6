"""The commands about reservations and notices."""

from __future__ import annotations

import os

from conch.agents.records import label
from conch.doors.cli.context import Context
from conch.doors.cli.output import Report, as_report, local_moments, moment_text
from conch.errors import ConchError
from conch.host.paths import parse_scope, respell
from conch.lean import TYPE_CHECKING, Any
from conch.tools import scopes_view
from conch.tools.replies import Delivery, Object, Reply
from conch.tools.text import MARGIN, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conch.notices.events import ProtocolEvent
    from conch.scopes.overlaps import Held, Reservation


# What happened to the reader of a notice, where the label of its type leaves that out.
_TO_YOU = {"HANDOFF": "Passed to you", "INCURSION": "Ran into your reservation"}


def from_here(context: Context, scope: str | None, field: str = "scope") -> str | None:
    """Resolve a scope against the working directory, as a shell user expects.

    The check happens here, so that an error shows what the user typed.
    """
    if scope is None or not scope.strip():
        return scope
    root = context.room.room.canonical_path
    return respell(scope, parse_scope(scope, root, field, _folder_within(root)).path)


def _folder_within(root: str) -> str | None:
    """The working directory if it is inside the workspace; None if it is outside or deleted."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        return None
    return here if os.path.join(here, "").startswith(os.path.join(root, "")) else None


# -- reservations


def reserve(context: Context) -> Report:
    return as_report(_reserve(context, from_here(context, context.options.scope)))


def reserve_all(context: Context) -> Report:
    """Reserve all the scopes or none: if one is refused, those before it are taken back."""
    granted: list[Reply] = []

    def take_back() -> None:
        for reply in reversed(granted):
            reply.delivery.not_sent()

    try:
        for scope in _all_from_here(context):
            granted.append(_reserve(context, scope))
    except ConchError:
        take_back()
        raise
    text = "\n".join(as_report(reply).text for reply in granted)
    return Report({"reservations": [reply.data for reply in granted]}, text, delivery=Delivery(not_sent=take_back))


def _all_from_here(context: Context) -> list[str | None]:
    """The scopes of a command. A bad one is refused before anything changes."""
    scopes: list[str] = context.options.scope
    empty = [scope for scope in scopes if not scope.strip()]
    return [*empty[:1]] or [from_here(context, scope) for scope in scopes]  # the tool refuses an empty one


def _reserve(context: Context, scope: str | None) -> Reply:
    options = context.options
    context.session.is_bounded = True
    return context.room_tool(
        "scopes.scope_reserve",
        scope=scope,
        ttl_minutes=options.ttl,
        takeover_stale=options.takeover_stale,
        bead_id=options.bead,
    )


def release(context: Context) -> Report:
    return as_report(context.room_tool("scopes.scope_release", scope=from_here(context, context.options.scope)))


def release_all(context: Context) -> Report:
    """Release all the scopes or none."""
    scopes = _all_from_here(context)
    if len(scopes) == 1:
        reply = context.room_tool("scopes.scope_release", scope=scopes[0])
        return Report({"reservations": [reply.data["reservation"]]}, reply.text)
    released = context.app.reservations.release(context.caller, context.room_id, *map(str, scopes))
    data = {"reservations": [scopes_view.reservation(each) for each in released]}
    return Report(data, "\n".join(map(scopes_view.released_line, released)))


def status(context: Context) -> Report:
    from conch.doors.cli.paging import page, rows  # reserving is frequent and needs neither pages nor tables

    options = context.options
    if options.scope is not None:
        return _overlapping(context, from_here(context, options.scope, "path"))
    found = context.app.reservations.list_reservations(
        context.caller, context.room_id, options.all, options.after, rows(context)
    )
    return page(context, found, reservations, lambda each: each.reservation_id)


def _overlapping(context: Context, path: str | None) -> Report:
    from conch.doors.cli.paging import page, rows

    caller = context.caller
    found = context.app.reservations.check(caller, context.room_id, path or "", context.options.after, rows(context))

    def render(few: Sequence[Held]) -> Report:
        lines = [local_moments(scopes_view.overlap_line(held)) for held in few] or ["The path is not reserved."]
        return Report({"overlaps": [scopes_view.overlap(held, caller.agent_id) for held in few]}, "\n".join(lines))

    return page(context, found, render, lambda held: held.reservation.reservation_id)


def reservations(found: Sequence[Reservation]) -> Report:
    listed = [scopes_view.reservation(each) for each in found]
    return Report({"reservations": listed}, _table(listed) if listed else "Nothing is reserved.")


def _table(found: list[Object]) -> str:
    from conch.doors.cli.tables import table

    cells = [
        (
            _scope(r),
            label(r["agent_id"], r["name"]),
            r["liveness"],
            r["state"],
            local_moments(r["expires_at"]),
            r.get("bead_id", "-"),
        )
        for r in found
    ]
    return table(("SCOPE", "BY", "LIVENESS", "STATE", "UNTIL", "BEAD"), cells, margin=MARGIN)


def _scope(reservation: Object) -> str:
    """The scope as it was given, and its path if the scope does not show it."""
    path = reservation.get("path")
    return f"{reservation['scope']} ({path})" if path else str(reservation["scope"])


# -- notices


def send(context: Context) -> Report:
    options = context.options
    return as_report(
        context.room_tool(
            "scopes.event_send",
            event_type=options.type,
            to_agent=options.to,
            payload=_payload(options),
            bead_id=options.bead,
            scope=from_here(context, options.scope),
        )
    )


def _payload(options: Any) -> Object:
    """All given options. The tool refuses those that do not belong to the type."""
    names = ("subject", "summary", "next_action", "blocker", "requested_action", "urgency")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.type == "BLOCKED":
        given.setdefault("urgency", "medium")
    return given | ({"requires_ack": False} if options.no_ack else {})


def inbox(context: Context) -> Report:
    from conch.doors.cli.paging import with_more

    options = context.options
    context.session.is_bounded = options.limit is None
    given = {"state": options.state, "limit": options.limit, "bead_id": options.bead, "after": options.after}
    found = context.room_tool("scopes.event_inbox", **given)
    text = "\n".join(map(_notice, found.shown)) or "No notices for you."
    return Report(found.data, with_more(text, found.data.get("cursor")), delivery=found.delivery)


def _notice(event: ProtocolEvent) -> str:
    kind = event.event_type
    what = _TO_YOU.get(kind) or scopes_view.LABELS.get(kind, kind)
    state = scopes_view.LABELS.get(event.state, event.state)
    head = f"{event.event_id} {what}, from {event.sender}, {moment_text(event.created_at)}: {state}"
    head += f", {event.times} times, last {moment_text(event.latest_at)}" if event.times > 1 and event.latest_at else ""
    about = {"scope": event.scope, "bead": event.bead_id, **scopes_view.said(event)}
    return "\n".join([one_line(head), *scopes_view.labelled_lines(about, " " * 4)])


def seen(context: Context) -> Report:
    return _mark(context, "seen")


def accept(context: Context) -> Report:
    return _mark(context, "accepted")


def _mark(context: Context, mark: str) -> Report:
    return as_report(context.tool("scopes.event_mark", event_id=context.options.event, mark=mark))
