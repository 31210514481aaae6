"""The group `turns`: tools to join a room and to take, keep and hand over the stick."""

from __future__ import annotations

from conch.agents.records import label
from conch.calls import Call
from conch.clock import to_iso
from conch.rooms.handoffs import TEMPLATE
from conch.rooms.log import PAGE
from conch.tools import fields
from conch.tools import turns_view as view
from conch.tools.granting import granting, your_turn
from conch.tools.registry import Tool, grouped
from conch.tools.replies import NOTHING_FOLLOWS, Object, Reply, known
from conch.tools.session import Session
from conch.tools.text import MARGIN
from conch.turns.stick import Offer
from conch.turns.waiting import describe


def list_rooms(session: Session, given: Object, call: Call) -> Reply:
    caller, rooms, after = session.caller(), session.app.rooms, given.get("after")
    snapshots = rooms.list_rooms(session.path(given.get("context_path")), caller, after)
    page = session.budget().fill(
        list(zip(snapshots, [each.shown() for each in snapshots], strict=True)),
        lambda each: view.path_room(each[0], caller.agent_id, each[1].members),
        lambda each: f"- {view.room_line(each[0])}",
    )
    cursor = page.cursor([snapshot.room.room_id for snapshot in snapshots])
    is_in = any(snapshot.find(caller.agent_id) for snapshot in snapshots)
    following = page.next(cursor, "" if is_in else "Call `join_path` to join the room of your workspace.")
    data = known(rooms=page.objects, has_more=page.has_more, cursor=cursor)
    return Reply(data, page.text("There is no open room here."), next=following)


def join_path(session: Session, given: Object, call: Call) -> Reply:
    path = session.path(given.get("context_path"))
    caller = session.rejoin(given.get("agent_id_override"))
    budget = session.budget()
    most = view.most_members(budget, session.app.settings.max_reply_bytes)
    joined = session.app.membership.join_path(caller, path, given.get("force_new", False), most)
    snapshot = joined.snapshot
    session.own.join_room(snapshot.room)
    name = snapshot.member(caller.agent_id).name
    head = f"You are {label(caller.agent_id, name)}. {'Created' if joined.created else 'Joined'} room "
    head += view.room_line(snapshot)
    warnings = budget.warn(joined.warnings)
    room = view.path_room(snapshot, caller.agent_id)
    data = {
        "agent_id": caller.agent_id,
        "name": name,
        **{name: room.pop(name) for name in ("room_id", "canonical_path", "topic_id")},
        "created": joined.created,
        "room": room,
        "policy": snapshot.policy._asdict(),
        "handoff_template": TEMPLATE,
        "warnings": warnings,
    }
    budget.spend(data, data)  # as an object and as text
    members = view.list_members(snapshot, joined.shown, budget)
    lines = [
        head,
        members.text,
        f"Handoffs look like this:\n{view.handoff_lines(TEMPLATE, MARGIN)}",
    ]
    following = session.say(view.after_join(snapshot, caller.agent_id))
    following = following or "Call `scope_reserve` before you change files."
    listed = {name: value for name, value in members.data.items() if value is not False}
    return Reply({**data, **listed}, "\n".join(lines), next=f"{following} {members.next}".strip())


def wait_for_turn(session: Session, given: Object, call: Call) -> Reply:
    caller, claims = session.caller(), session.app.claims
    cursor = fields.parse_cursor("cursor", given.get("cursor"))
    patience = session.patience(call)
    wait = claims.wait_for_turn(caller, given["room_id"], cursor, given.get("max_wait_ms"), call, patience.survives_ms)
    if wait.status == "your_turn":
        return your_turn(session, wait)
    room = wait.snapshot.room
    if wait.status == "takeover_available":
        return Reply(view.takeover_available(wait), view.takeover_text(wait), next=view.TAKE_OVER, shown=wait)
    if wait.status == "closed":
        following = "Call `join_path` to open a new room here."
        closed = {"status": "closed", "room_id": room.room_id}
        return Reply(closed, f"Room {room.room_id} is closed.", next=following, shown=wait)
    data: Object = {
        "status": "not_yet",
        "room_id": room.room_id,
        "cursor": str(room.last_event_seq),
        "room_state": wait.snapshot.state,
        "turn_id": room.turn_id,
        **view.expectation(room),
    }
    return Reply(data, f"not_yet: {describe(wait.snapshot)}", next=patience.instead, shown=wait)


_HEARTBEAT_TOLD = frozenset(("room_id", "turn_id", "lease_id", "lease_expires_at"))


def heartbeat(session: Session, given: Object, call: Call) -> Reply:
    lease, delivery = (
        (session.caller(), given["room_id"], given["lease_id"], given["expected_turn_id"]),
        NOTHING_FOLLOWS,
    )
    if call.names_lease:
        room = session.app.turns.heartbeat(*lease)
    else:
        room, claim = session.app.claims.heartbeat(*lease, call)
        delivery = granting(session, room, claim) if claim else delivery
    data = view.lease(room)
    head = f"The stick is yours until {data['lease_expires_at']}. Each heartbeat extends that time."
    text = f"{head}\n{MARGIN}room_id={room.room_id} turn_id={room.turn_id} lease_id={room.lease_id}"
    return Reply(data, text, delivery, next="Call `heartbeat` again before lease_expires_at.", told=_HEARTBEAT_TOLD)


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
    data = known(
        room_id=room.room_id,
        state=room.state,
        reserved_for=room.reserved_for,
        recipient_status=offer.recipient_status,
        claim_expires_at=to_iso(room.claim_expires_at),
        event_seq=offer.event_seq,
    )
    text = f"The stick is reserved for {offer.recipient}, who is {offer.recipient_status}."
    if room.reserved_for is None:
        text = "Released. No other active member takes turns. The next member to wait gets the stick and your handoff."
    return Reply(data, text, next="Change nothing shared now. Call `wait_for_turn` for another turn.")


def takeover_stick(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    taken = session.app.claims.takeover_stick(
        session.caller(), given["room_id"], given["expected_turn_id"], given["reason"], call
    )
    last, budget = view.last_handoff(taken.last_handoff), session.budget()
    head = view.taken_text(taken)
    budget.spend(last, head)
    # The newest notes are needed most, so the oldest are left out.
    notes = budget.fill(taken.notes, view.note, view.event_line, PAGE, is_extra=last is not None)
    data = {**view.lease(taken.room), "revoked": taken.revoked, "last_handoff": last, "notes": notes.objects[::-1]}
    data |= {"has_more": True, "cursor": str(taken.since)} if notes.has_more else {}
    text, following = "\n".join([head, *notes.lines[::-1]]), view.after_takeover(taken, notes.has_more)
    return Reply(data, text, granting(session, taken.room, taken.claim), next=following, shown=taken)


def get_room_state(session: Session, given: Object, call: Call) -> Reply:
    caller, budget = session.caller(), session.budget()
    place = fields.parse_cursor("after", given.get("after"))
    after = -1 if place is None else place
    snapshot, shown = session.app.rooms.get_shown(caller, given["room_id"], view.most_members(budget), after)
    can_take_over = session.app.claims.takeover_is_open(caller, snapshot)
    return view.room_state(snapshot, shown, can_take_over, caller.agent_id, budget)


TOOLS = grouped(
    "turns",
    Tool(
        list_rooms,
        "List rooms",
        "List the rooms from a path up to its workspace root, with their state.",
        fields.takes(context_path=fields.PATH, after=fields.AFTER),
        fields.READS,
    ),
    Tool(
        join_path,
        "Join a workspace's room",
        "Join the room of your workspace. Call it first. Returns your name, room, topic, members and a handoff "
        "template.",
        fields.takes(
            context_path=fields.PATH,
            force_new=fields.flag("Create a nested room at exactly this path."),
            agent_id_override={**fields.AGENT, "description": "For tests only."},
        ),
        fields.REPEATABLE,
    ),
    Tool(
        wait_for_turn,
        "Wait for the stick",
        "Wait for the stick and claim it. Do shared work only after your_turn; read its handoff first. On not_yet, "
        "do what next says. On takeover_available, you may call `takeover_stick`.",
        fields.takes(
            room_id=fields.ROOM_ID,
            cursor={
                **fields.CURSOR,
                "description": "not_yet's cursor: a newer event ends the wait.",
            },
            max_wait_ms={
                "type": "integer",
                "minimum": 0,
                "maximum": fields.LARGEST,
                "description": "0: do not wait.",
            },
        ),
        fields.REPEATABLE,
    ),
    Tool(
        heartbeat,
        "Keep the stick",
        "Extend your lease every few minutes while you work. On stale_lease or turn_mismatch, stop: the "
        "stick is no longer yours.",
        fields.takes(**fields.FENCED),
        fields.REPEATABLE,
    ),
    Tool(
        release_stick,
        "Release the stick",
        "Hand the stick to the next member. The handoff must say truthfully what you did and what to do next.",
        fields.takes({"handoff": fields.HANDOFF}, **fields.FENCED),
        fields.WRITES,
    ),
    Tool(
        pass_stick,
        "Pass the stick",
        "Hand the stick to an active member of your choice.",
        fields.takes({"to_agent_id": fields.AGENT, "handoff": fields.SHORT_HANDOFF}, **fields.FENCED),
        fields.WRITES,
    ),
    Tool(
        takeover_stick,
        "Take over the stick",
        "Take the stick from an owner or recipient that does not answer. Only after takeover_available.",
        fields.takes(
            {
                "expected_turn_id": {**fields.TURN_ID, "description": "The turn_id of takeover_available."},
                "reason": fields.TEXT,
            },
            room_id=fields.ROOM_ID,
        ),
        fields.DESTROYS,
    ),
    Tool(
        get_room_state,
        "Look at a room",
        "Get a room's owner, turn and members, and whether takeover is available.",
        fields.takes(room_id=fields.ROOM_ID, after=fields.AFTER),
        fields.READS,
    ),
)
