"""The group `turns`: nine tools to join a room and to take, keep and hand over the stick."""

from __future__ import annotations

from conch.calls import Call
from conch.clock import to_iso
from conch.rooms import log
from conch.rooms.handoffs import TEMPLATE
from conch.tools import fields
from conch.tools import turns_view as view
from conch.tools.registry import Tool, grouped
from conch.tools.replies import Delivery, Object, Reply
from conch.tools.session import Session
from conch.tools.text import behind_margin
from conch.turns.stick import Offer
from conch.turns.waiting import describe

MOST_EVENTS = 500


def list_rooms(session: Session, given: Object, call: Call) -> Reply:
    caller = session.caller()
    snapshots = session.app.rooms.list_rooms(session.path(given.get("context_path")), caller)
    text = "\n".join(view.room_line(s) for s in snapshots) or "There is no open room here. join_path creates one."
    return Reply({"rooms": [view.path_room(s, caller.agent_id) for s in snapshots]}, text)


def join_path(session: Session, given: Object, call: Call) -> Reply:
    path = session.path(given.get("context_path"))
    caller = session.rejoin(given.get("agent_id_override"))
    joined = session.app.membership.join_path(caller, path, given.get("force_new", False))
    snapshot = joined.snapshot
    name = snapshot.member(caller.agent_id).name
    data = {
        "agent_id": caller.agent_id,
        "name": name,
        "room_id": snapshot.room.room_id,
        "canonical_path": snapshot.room.canonical_path,
        "topic_id": snapshot.room.topic_id,
        "created": joined.created,
        "room": view.path_room(snapshot, caller.agent_id),
        "members": view.room_members(snapshot),
        "policy": snapshot.policy._asdict(),
        "handoff_template": TEMPLATE,
        "warnings": joined.warnings,
    }
    heartbeat_seconds = snapshot.policy.heartbeat_interval_ms // 1_000
    lines = [
        f"You are {caller.agent_id} ({name}). {'Created' if joined.created else 'Joined'} room "
        + view.room_line(snapshot),
        view.member_lines(snapshot),
        f"Next: call wait_for_turn. Work only after your_turn, and call heartbeat every {heartbeat_seconds} s.",
        *(behind_margin(warning["message"], first="") for warning in joined.warnings),
    ]
    return Reply(data, "\n".join(lines))


def wait_for_turn(session: Session, given: Object, call: Call) -> Reply:
    caller, claims = session.caller(), session.app.claims
    cursor = fields.parse_cursor("cursor", given.get("cursor"))
    wait = claims.wait_for_turn(caller, given["room_id"], cursor, given.get("max_wait_ms"), call)
    if wait.status == "your_turn":
        # A claim that the client never hears about would block the room until its lease expires.
        delivery = Delivery(not_sent=lambda: claims.give_back(caller, wait))
        return Reply(view.your_turn(wait), view.your_turn_text(wait), delivery)
    if wait.status == "takeover_available":
        return Reply(view.takeover_available(wait), view.takeover_text(wait))
    room = wait.snapshot.room
    if wait.status == "closed":
        return Reply({"status": "closed", "room_id": room.room_id}, f"Room {room.room_id} is closed.")
    data = {
        "status": "not_yet",
        "room_id": room.room_id,
        "cursor": str(room.last_event_seq),
        "room_state": wait.snapshot.state,
        "turn_id": room.turn_id,
        **view.expectation(room),
    }
    return Reply(data, f"not_yet: {describe(wait.snapshot)} Call wait_for_turn again. cursor={room.last_event_seq}")


def heartbeat(session: Session, given: Object, call: Call) -> Reply:
    room = session.app.turns.heartbeat(session.caller(), given["room_id"], given["lease_id"], given["expected_turn_id"])
    data = view.lease(room)
    return Reply(data, f"The stick is yours until {data['lease_expires_at']}. Each heartbeat extends that time.")


def release_stick(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    return _offered(
        session.app.turns.release_stick(
            session.caller(), given["room_id"], given["lease_id"], given["expected_turn_id"], given["handoff"]
        )
    )


def pass_stick(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    return _offered(
        session.app.turns.pass_stick(
            session.caller(),
            given["room_id"],
            given["lease_id"],
            given["expected_turn_id"],
            given["to_agent_id"],
            given["handoff"],
        )
    )


def _offered(offer: Offer) -> Reply:
    room = offer.room
    data = {
        "room_id": room.room_id,
        "state": room.state,
        "reserved_for": room.reserved_for,
        "recipient_status": offer.recipient_status,
        "claim_expires_at": to_iso(room.claim_expires_at),
        "event_seq": offer.event_seq,
    }
    if room.reserved_for is None:
        return Reply(
            data, "Released. No other member is active. The next member to wait gets the stick and your handoff."
        )
    return Reply(data, f"The stick is reserved for {room.reserved_for}, who is {offer.recipient_status}.")


def takeover_stick(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    taken = session.app.claims.takeover_stick(
        session.caller(), given["room_id"], given["expected_turn_id"], given["reason"]
    )
    room = taken.room
    data = {**view.lease(room), "revoked": taken.revoked}
    text = (
        f"The stick is yours: turn_id={room.turn_id} lease_id={room.lease_id}. You took it from {taken.revoked}. "
        "There is no handoff for you, so call get_room_events before you work."
    )
    return Reply(data, text)


def get_room_state(session: Session, given: Object, call: Call) -> Reply:
    caller = session.caller()
    snapshot = session.app.rooms.get_state(caller, given["room_id"])
    can_take_over = session.app.claims.takeover_is_open(caller, snapshot)
    lines = [view.room_line(snapshot), view.member_lines(snapshot)]
    if can_take_over:
        lines.append(f"Takeover is available ({snapshot.takeover_reason}).")
    return Reply(view.room_state(snapshot, caller.agent_id, can_take_over), "\n".join(lines))


def get_room_events(session: Session, given: Object, call: Call) -> Reply:
    caller, app = session.caller(), session.app
    after = fields.parse_cursor("after", given.get("after"))
    app.rooms.get_state(caller, given["room_id"])  # reading the log also keeps a member active
    page = log.list_events(app.store, given["room_id"], after, given.get("limit", 50))
    text = "\n".join(view.event_line(event) for event in page.events) or "No events."
    more = " (more to read)" if page.has_more else ""
    return Reply(view.event_page(page), f"{text}\ncursor={page.cursor}{more}")


_MEMBER: Object = {**fields.AGENT_ID, "description": "An agent_id or a name."}

TOOLS = grouped(
    "turns",
    Tool(
        list_rooms,
        "List rooms",
        "List the rooms from a path up to its workspace root, with their state.",
        fields.takes(context_path=fields.PATH),
        fields.READS,
    ),
    Tool(
        join_path,
        "Join a workspace's room",
        "Join the room of a workspace (default: your root or working directory). Returns your agent_id, the room, "
        "its policy and a handoff template. Use the room_id and canonical_path that it returns.",
        fields.takes(
            context_path=fields.PATH,
            force_new={"type": "boolean", "description": "Create a nested room at exactly this path."},
            agent_id_override={**fields.AGENT_ID, "description": "For tests and debugging only."},
        ),
        fields.REPEATABLE,
    ),
    Tool(
        wait_for_turn,
        "Wait for the stick",
        "Wait for the stick and claim it. Do shared work only after your_turn; read its handoff first. On not_yet, "
        "call again. On takeover_available, you may call takeover_stick. If you already hold the stick, "
        "returns your lease.",
        fields.takes(
            {"room_id": fields.ROOM_ID},
            cursor={
                **fields.CURSOR,
                "description": "The cursor of an earlier not_yet. Ends the wait as soon as anything newer happens.",
            },
            max_wait_ms={
                "type": "integer",
                "minimum": 0,
                "maximum": fields.LARGEST,
                "description": "0 does not wait.",
            },
        ),
        fields.REPEATABLE,
    ),
    Tool(
        heartbeat,
        "Keep the stick",
        "Extend your lease while you work. On stale_lease or turn_mismatch, stop: the stick is no longer yours.",
        fields.takes(fields.FENCED),
        fields.REPEATABLE,
    ),
    Tool(
        release_stick,
        "Release the stick",
        "Hand the stick to the next member. The handoff must say truthfully what you did and what to do next.",
        fields.takes({**fields.FENCED, "handoff": fields.HANDOFF}),
        fields.WRITES,
    ),
    Tool(
        pass_stick,
        "Pass the stick",
        "Hand the stick to an active member of your choice, with a handoff as for release_stick.",
        fields.takes({**fields.FENCED, "to_agent_id": _MEMBER, "handoff": fields.HANDOFF}),
        fields.WRITES,
    ),
    Tool(
        takeover_stick,
        "Take over the stick",
        "Take the stick from an owner or recipient that does not answer. Only after takeover_available. "
        "Then call get_room_events.",
        fields.takes({"room_id": fields.ROOM_ID, "expected_turn_id": fields.TURN_ID, "reason": fields.TEXT}),
        fields.DESTROYS,
    ),
    Tool(
        get_room_state,
        "Look at a room",
        "Get a room's owner, turn and members, and whether takeover is available. Changes nothing.",
        fields.takes({"room_id": fields.ROOM_ID}),
        fields.READS,
    ),
    Tool(
        get_room_events,
        "Read a room's log",
        "Get a room's latest claims, handoffs, takeovers and notes, or those after a cursor, oldest first.",
        fields.takes(
            {"room_id": fields.ROOM_ID},
            after=fields.CURSOR,
            limit={"type": "integer", "minimum": 1, "maximum": MOST_EVENTS},
        ),
        fields.READS,
    ),
)
