"""How the timeline of a room looks: as objects for programs, and as sentences for people."""

from __future__ import annotations

from conch.clock import to_iso
from conch.host.paths import spell
from conch.notices.timeline import Entry, Page
from conch.tools.replies import Object
from conch.tools.scopes_view import LABELS, envelope
from conch.tools.turns_view import event_sentence, room_event


def page(page: Page) -> Object:
    return {
        "events": [entry(each) for each in page.entries],
        "cursor": str(page.place),
        "has_more": page.has_more,
    }


def entry(entry: Entry) -> Object:
    """One entry: the fields that all entries share, and those of its kind. An event of the log keeps its own format."""
    common: Object = {"kind": entry.kind, "label": label(entry)}
    if entry.protocol is not None:
        common["protocol_event"] = envelope(entry.protocol)
    if entry.event is not None:
        return {**room_event(entry.event), **common}
    common["created_at"] = to_iso(entry.created_at)
    row = entry.row
    if entry.kind == "message":
        names = ("message_id", "seq", "sender", "message_type", "reply_to", "content_markdown")
        return {"event_type": "message", **{name: row[name] for name in names}, **common}
    details = dict(entry.details)
    if "expires_at" in details:  # stored in microseconds
        details["expires_at"] = to_iso(details["expires_at"])
    about = {"event_type": row["kind"], "agent_id": row["agent_id"], "name": row["agent_name"]}
    return {**about, "subject_id": row["subject_id"], "details": details, **common}


def label(entry: Entry) -> str | None:
    """The short label that people see."""
    if entry.event is not None:
        return LABELS["HANDOFF"] if entry.event.handoff else None
    return LABELS.get(str(entry.row.get("kind"))) if entry.kind in ("protocol", "mark") else None


def sentence(entry: Entry) -> str:
    """Who did what. It has more than one line only if an agent wrote more than one."""
    if entry.event is not None:
        return event_sentence(entry.event, entry.event.names)
    row, details = entry.row, entry.details
    if entry.kind == "message":
        return f"{row['sender']} said ({row['message_type']}): {row['content_markdown']}"
    who = row["agent_name"]
    if entry.kind == "reservation":
        scope = spell(details["scope"])
        if row["kind"] == "expired":
            return f"the reservation of {scope} by {details['owner']} ended when {who} reserved an overlapping path"
        return f"{who} {row['kind']} {scope}"
    if entry.kind == "agent":
        role = f", {details['role']}" if details.get("role") else ""
        renamed = f" as {who}" if details["former_name"] != who else ""
        return f"{details['former_name']} registered{renamed}{role}"
    return _notice(entry)


def _notice(entry: Entry) -> str:
    event = entry.protocol
    if event is None:
        return f"{entry.row['kind']} {entry.row['subject_id']}"
    payload = event.payload
    if entry.kind == "mark":
        about = payload.get("subject", event.event_type)
        return f"{entry.row['agent_name']} {label(entry)}: {about} ({event.event_id})"
    if event.event_type == "INCURSION":
        return (
            f"INCURSION ({payload['incursion_kind']}): {payload['incoming_agent']} ran into a reservation of "
            f"{payload['owner_agent']} ({payload['owner_liveness']}) at {spell(event.scope or '.')}. "
            f"{payload['resolution_hint']}"
        )
    if event.event_type == "RESUME":
        former = entry.details.get("prior_name")
        renamed = f", now called {former}" if former else ""
        return (
            f"RESUME ({payload['resume_reason']}): {payload['adopted_agent']} continues the work of "
            f"{payload['prior_session_agent']}{renamed}. {payload['evidence']}"
        )
    to = event.to_agent if event.event_type == "HANDOFF" else f"from {event.to_agent}"
    return f"{event.from_agent} {label(entry)} {to}: {payload['subject']} ({event.event_id})"
