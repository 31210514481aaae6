"""How the timeline of a room looks: as objects for programs, and as sentences for people."""

from __future__ import annotations

from conch.agents.records import label as agent_label
from conch.clock import to_iso
from conch.host.paths import spell
from conch.notices.timeline import Entry, Page
from conch.tools.replies import Object, known
from conch.tools.scopes_view import LABELS, envelope, labelled_lines
from conch.tools.text import MARGIN, behind_margin
from conch.tools.turns_view import event_sentence, handoff_lines, room_event

_LABELS = {
    **LABELS,
    "join": "Joined",
    "leave": "Left",
    "kick": "Ended a membership",
    "claim": "Claimed",
    "release": LABELS["HANDOFF"],
    "pass": LABELS["HANDOFF"],
    "return": "Taken back",
    "decline": "Given back",
    "resume": LABELS["RESUME"],
    "takeover": "Took over",
    "note": "Noted",
    "reorder": "Reordered",
    "policy": "Set the policy",
    "close": "Closed",
    "reserved": "Reserved",
    "renewed": "Renewed",
    "released": "Released",
    "expired": "Ended",
    "registered": "Registered",
    "wake": "Woken",
}
# What a model needs to know of a notice whose words it reads elsewhere.
_OF_A_NOTICE = ("id", "event_type", "bead_id", "state", "seen_at", "accepted_at")


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
        return known(event_type="message", **{name: row[name] for name in names}, **common)
    details = known(**entry.details)
    if "expires_at" in details:  # stored in microseconds
        details["expires_at"] = to_iso(details["expires_at"])
    about = {"event_type": row["kind"], "agent_id": row["agent_id"], "name": row["agent_name"]}
    subject_id = None if entry.protocol else row["subject_id"]  # the id of the protocol event itself
    return known(**about, subject_id=subject_id, details=details or None, **common)


def brief(each: Entry) -> Object:
    """An entry for a model. A handoff, or the notice that a mark is about, does not come a second time in it."""
    found = entry(each)
    if each.protocol is None or (each.event is None and each.kind != "mark"):
        return found
    notice = {name: value for name, value in found["protocol_event"].items() if name in _OF_A_NOTICE and value}
    subject = each.protocol.payload.get("subject") if each.kind == "mark" else None
    return {**found, "protocol_event": {**notice, **({"payload": {"subject": subject}} if subject else {})}}


def label(entry: Entry) -> str:
    """What kind of entry it is, in a word or two."""
    if entry.kind == "message":
        return "Said"
    kind = entry.event.event_type if entry.event else entry.row["kind"]
    return _LABELS.get(kind, kind)


def line(entry: Entry) -> str:
    """An entry for a model: its time, label and sentence, and below it the handoff or what the notice says."""
    head = behind_margin(sentence(entry), first=f"- {to_iso(entry.created_at)} {label(entry)}: ")
    if entry.event is not None and entry.event.handoff:
        return f"{head}\n{handoff_lines(entry.event.handoff, MARGIN)}"
    if entry.kind == "protocol" and entry.protocol is not None and "subject" in entry.protocol.payload:
        return "\n".join([head, *labelled_lines(entry.protocol.payload, MARGIN)])
    return head


def sentence(entry: Entry) -> str:
    """Who did what. It has more than one line only if an agent wrote more than one."""
    if entry.event is not None:
        return event_sentence(entry.event)
    row, details = entry.row, entry.details
    if entry.kind == "message":
        sender = agent_label(row["sender_agent_id"], row["sender"])
        return f"{sender} said ({row['message_type']}): {row['content_markdown']}"
    agent_id, who = row["agent_id"], agent_label(row["agent_id"], row["agent_name"])
    if entry.kind == "reservation":
        scope = spell(details["scope"], details.get("path"))
        if row["kind"] == "expired":
            return f"the reservation of {scope} by {_owner(details)} ended when {who} reserved an overlapping path"
        if row["kind"] == "released" and "reason" in details:
            return f"{who} ended the reservation of {scope} by {_owner(details)}: {details['reason']}"
        return f"{who} {row['kind']} {scope}"
    if entry.kind == "agent":
        role = f", {details['role']}" if details.get("role") else ""
        renamed = f" as {who}" if details["former_name"] != row["agent_name"] else ""
        return f"{agent_label(agent_id, details['former_name'])} registered{renamed}{role}"
    if entry.kind == "wake":
        why = f" ({details['why']})" if details["why"] else ""
        return f"wake of {who}: {details['state']}{why}"
    return _notice(entry)


def _owner(details: Object) -> str:
    """The owner of a reservation that another agent, or a person, has ended."""
    return agent_label(details.get("owner_agent_id"), details["owner"])


def _notice(entry: Entry) -> str:
    event = entry.protocol
    if event is None:
        return f"{entry.row['kind']} {entry.row['subject_id']}"
    payload, row = event.payload, entry.row
    who = agent_label(row["agent_id"], row["agent_name"])
    recipient = agent_label(entry.details.get("to_agent_id", event.to_agent_id), event.to_agent)
    if entry.kind == "mark":
        about = payload.get("subject", LABELS[event.event_type])
        return f"{who} {label(entry)}: {about} ({event.event_id})"
    if event.event_type == "INCURSION":
        return (
            f"{who} {label(entry)} a reservation of {recipient} "
            f"({payload['owner_liveness']}, {payload['incursion_kind']}) at {spell(event.scope or '.')}. "
            f"{payload['resolution_hint']}"
        )
    if event.event_type == "RESUME":
        former = entry.details.get("prior_name")
        renamed = f", now called {agent_label(payload['prior_session_agent'], former)}" if former else ""
        prior = agent_label(payload["prior_session_agent"], payload["adopted_agent"])
        return f"{who} {label(entry)} the work of {prior}{renamed} ({payload['resume_reason']}). {payload['evidence']}"
    to = recipient if event.event_type == "HANDOFF" else f"from {recipient}"
    return f"{event.sender} {label(entry)} {to}: {payload['subject']} ({event.event_id})"
