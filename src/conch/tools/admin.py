"""The group `admin`: five tools that manage a room."""

from __future__ import annotations

from conch.calls import Call
from conch.config import POLICY_SETTINGS, Setting
from conch.tools import fields
from conch.tools import turns_view as view
from conch.tools.registry import Tool, grouped
from conch.tools.replies import Object, Reply
from conch.tools.session import Session


def append_note(session: Session, given: Object, call: Call) -> Reply:
    event = session.app.membership.append_note(session.caller(), given["room_id"], given["note"])
    data = {"room_id": event.room_id, "event_seq": event.event_seq, "event_id": event.event_id}
    return Reply(data, f"Added the note as event {event.event_seq}.")


def leave_path(session: Session, given: Object, call: Call) -> Reply:
    caller = session.caller()
    room = session.app.membership.leave_path(caller, given["room_id"])
    session.own.leave_room(room)
    data = {"room_id": room.room_id, "agent_id": caller.agent_id, "state": room.state}
    return Reply(data, f"Left room {room.room_id}.")


def close_room(session: Session, given: Object, call: Call) -> Reply:
    room = session.app.membership.close_room(
        session.caller(), given["room_id"], given["lease_id"], given["expected_turn_id"], given.get("reason")
    )
    session.own.leave_room(room)
    return Reply(
        {"room_id": room.room_id, "state": room.state}, f"Room {room.room_id} is closed. Its log can still be read."
    )


def reorder_members(session: Session, given: Object, call: Call) -> Reply:
    snapshot = session.app.membership.reorder_members(session.caller(), given["room_id"], given["order"])
    budget = session.budget()
    members = view.list_members(snapshot, snapshot.roll.shown(limit=view.most_members(budget)), budget)
    data = {"room_id": snapshot.room.room_id, **members.data}
    return Reply(data, f"The order is now:\n{members.text}", next=members.next)


def set_room_policy(session: Session, given: Object, call: Call) -> Reply:
    snapshot = session.app.membership.set_room_policy(session.caller(), given["room_id"], given["policy"])
    policy = snapshot.policy._asdict()
    text = "\n".join(f"{name}={value}" for name, value in policy.items())
    return Reply({"room_id": snapshot.room.room_id, "policy": policy}, text)


# The names of the other durations explain themselves.
_DURATIONS = {
    "claim_ttl_ms": "Time to claim an offered stick.",
    "wait_for_turn_poll_ms": "Time between polls, without a bell.",
    "presence_ttl_ms": "Time a silent member stays active.",
}


def _policy_value(setting: Setting) -> Object:
    if setting.choices:
        return {"enum": [*setting.choices, None]}
    meaning = _DURATIONS.get(setting.name)
    return {"type": ["integer", "null"], **({"description": meaning} if meaning else {})}


def _policy_schema() -> Object:
    return {"type": "object", "properties": {setting.name: _policy_value(setting) for setting in POLICY_SETTINGS}}


_ORDER: Object = {
    "type": "array",
    "items": {"type": "string"},
    "description": "The agent_ids of the members that come first. The others keep their order, after them.",
}

TOOLS = grouped(
    "admin",
    Tool(
        append_note,
        "Add a note",
        "Add a note to a room's log, whether or not you hold the stick. The stick stays where it is.",
        fields.takes({"note": fields.TEXT}, room_id=fields.ROOM_ID),
        fields.WRITES,
    ),
    Tool(
        leave_path,
        "Leave a room",
        "Stop being a member of a room. If you hold the stick, release or pass it first.",
        fields.takes(room_id=fields.ROOM_ID),
        fields.DESTROYS,
    ),
    Tool(
        close_room,
        "Close a room",
        "Close a room for all its members; only its owner can. Joining the path again opens a new room.",
        fields.takes(reason=fields.TEXT, **fields.FENCED),
        fields.DESTROYS,
    ),
    Tool(
        reorder_members,
        "Reorder the members",
        "Set the order in which members get the stick.",
        fields.takes({"order": _ORDER}, room_id=fields.ROOM_ID),
        fields.REPEATABLE,
    ),
    Tool(
        set_room_policy,
        "Set a room's policy",
        "Change a room's timing (in milliseconds), release_order or guard. null restores a default.",
        fields.takes({"policy": _policy_schema()}, room_id=fields.ROOM_ID),
        fields.REPEATABLE,
    ),
)
