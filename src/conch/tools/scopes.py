"""The group `scopes`: agents and their liveness, reservations of paths, and notices."""

from __future__ import annotations

from functools import partial

from conch.calls import Call
from conch.errors import InvalidArgument
from conch.notices.events import MARKS, SENDABLE, STATES, URGENCIES, ProtocolEvent
from conch.scopes.reservations import LONGEST_TTL, SHORTEST_TTL, TTL_MINUTES
from conch.tools import fields
from conch.tools import scopes_view as view
from conch.tools.registry import Tool, grouped
from conch.tools.replies import NOTHING_FOLLOWS, Delivered, Delivery, Object, QueuedDelivery, Reply, known, undone_by
from conch.tools.session import Session
from conch.tools.text import one_line

_MOST_EVENTS = 500
_FEW_EVENTS = 50
_AFTER_INBOX = (
    "With `event_mark`, accept those you take on, and mark the others as seen. Those with requires_ack stay in your "
    "mail until you accept them."
)


def agent_register(session: Session, given: Object, call: Call) -> Reply:
    agent = session.app.registration.register(
        session.caller(), given["room_id"], given.get("name"), given.get("role"), by_command=session.is_command
    )
    session.rename(agent.name)  # later calls of this connection use the new name
    return Reply(view.agent(agent), f"You are {view.agent_line(agent)}.")


def agent_adopt(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    caller, room_id = session.caller(), given["room_id"]
    adopted = session.app.adoption.adopt(caller, room_id, given["name"], given["scope"], call=call)
    session.rename(adopted.agent.name)
    data = {**view.agent(adopted.agent), "event": view.envelope(adopted.event)}
    now = f"You are now {adopted.agent.label}. You have its reservations and notices."
    text = f"{now} {one_line(adopted.evidence.summary)}"
    following = "Call `event_inbox` to read the notices, and go on with the unfinished work."
    if adopted.stick_held_by is not None:
        data["stick_held_by"] = adopted.stick_held_by
        following = f"It held the stick: call `wait_for_turn`, then `takeover_stick` to continue its turn. {following}"
    give_back = partial(session.app.adoption.give_back, caller, room_id, adopted.moved)
    delivery = undone_by(give_back, unread=partial(give_back, unread=True), read=adopted.moved.read)
    return Reply(data, text, delivery, next=following)


def agent_heartbeat(session: Session, given: Object, call: Call) -> Reply:
    agent = session.app.registration.heartbeat(session.caller(), given["room_id"])
    return Reply(view.agent(agent), f"{agent.label} is {agent.liveness}.")


def agent_list(session: Session, given: Object, call: Call) -> Reply:
    budget, after = session.budget(), fields.parse_cursor("after", given.get("after"))
    place = -1 if after is None else after
    agents = session.app.registration.list_agents(session.caller(), given["room_id"], place, budget.rows)
    page = budget.fill(agents, view.agent, lambda agent: f"- {view.agent_line(agent)}")
    cursor = page.cursor([agent.ordinal for agent in agents])
    data = known(agents=page.counted, has_more=page.has_more, cursor=cursor)
    return Reply(data, page.text("No agent is in this room."), next=page.next(cursor))


def scope_reserve(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    grant = session.app.reservations.reserve(
        session.caller(),
        given["room_id"],
        given["scope"],
        given.get("ttl_minutes", TTL_MINUTES),
        given.get("takeover_stale", False),
        given.get("bead_id"),
        call,
    )
    taken = session.budget().fill(grant.taken_over, view.reservation, view.taken_line)
    data = {
        "reservation": view.reservation(grant.reservation),
        "renewed": grant.renewed,
        "taken_over": taken.objects,
        "taken_over_count": len(grant.taken_over),
        "warnings": grant.warnings,
    }
    withdraw, text = partial(session.app.reservations.withdraw, session.caller(), grant), view.grant_text(grant, taken)
    delivery = undone_by(withdraw, unread=partial(withdraw, unread=True), read=grant.read)
    return Reply(data, text, delivery, next=view.after_grant(grant))


def scope_release(session: Session, given: Object, call: Call) -> Reply:
    reservation = session.app.reservations.release(session.caller(), given["room_id"], given["scope"])[0]
    return Reply({"reservation": view.reservation(reservation)}, view.released_line(reservation))


def scope_list(session: Session, given: Object, call: Call) -> Reply:
    budget, after = session.budget(), given.get("after")
    found = session.app.reservations.list_reservations(
        session.caller(), given["room_id"], given.get("include_ended", False), after, budget.rows
    )
    page = budget.fill(found, view.reservation, lambda each: f"- {view.reservation_line(each)}")
    cursor = page.cursor([each.reservation_id for each in found])
    data = known(reservations=page.counted, has_more=page.has_more, cursor=cursor)
    return Reply(data, page.text("Nothing is reserved."), next=page.next(cursor))


def scope_check(session: Session, given: Object, call: Call) -> Reply:
    caller, budget, after = session.caller(), session.budget(), given.get("after")
    field = _scope_field(given)
    found = session.app.reservations.check(caller, given["room_id"], given[field], after, budget.rows, field)
    page = budget.fill(found, lambda held: view.overlap(held, caller.agent_id), view.overlap_line)
    cursor = page.cursor([held.reservation.reservation_id for held in found])
    data = known(overlaps=page.objects, has_more=page.has_more, cursor=cursor)
    following = page.next(cursor, view.after_check(found, caller.agent_id))
    return Reply(data, page.text("The path is not reserved."), next=following)


def _scope_field(given: Object) -> str:
    """The field with the scope to check. `path` is its older name."""
    found = [field for field in ("scope", "path") if field in given]
    if len(found) != 1:
        message = (
            "scope is required, or path, its older name."
            if not found
            else "Give scope or path, not both: they mean the same."
        )
        raise InvalidArgument(message, field="scope")
    return found[0]


def event_send(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    event, warnings = session.app.notices.send(
        session.caller(),
        given["room_id"],
        given["event_type"],
        given["to_agent"],
        given["payload"],
        given.get("bead_id"),
        given.get("scope"),
    )
    again = f" You sent it before, and {event.recipient} has not read it yet." if event.times > 1 else ""
    text = f"{event.event_type} {event.event_id} sent to {event.recipient}.{again}"
    sent = view.envelope(event)
    del sent["payload"]  # the sender has just written it
    return Reply({"event": sent, "warnings": warnings}, text)


def event_inbox(session: Session, given: Object, call: Call) -> Reply:
    state = given.get("state")
    states = [state] if state in STATES else list(STATES) if state == "all" else [s for s in STATES if s != "accepted"]
    limit, after = given.get("limit", _FEW_EVENTS), given.get("after")
    # One more than wanted shows whether there are more.
    room_id, bead_id = given["room_id"], given.get("bead_id")
    events = session.app.notices.inbox(session.caller(), room_id, states, limit + 1, after, bead_id)
    page = session.budget().fill(events, view.envelope, view.event_text, limit)
    cursor = page.cursor([event.event_id for event in events])
    data = known(events=page.counted, has_more=page.has_more, cursor=cursor)
    is_open = any(event.state != "accepted" for event in events)
    following = page.next(cursor, _AFTER_INBOX if is_open else "")
    shown = events[: page.length]
    delivered = Delivered(ids=tuple(event.event_id for event in shown))
    text, showing = page.text("No notices for you."), _showing(session, shown)
    return Reply(data, text, showing, next=following, delivered=delivered, shown=shown)


def _showing(session: Session, events: list[ProtocolEvent]) -> Delivery:
    """Hooks, listeners and mail do not repeat these. They stay unread until they are marked."""
    store, unread = session.app.store, [event for event in events if event.state == "unread"]
    if not unread:
        return NOTHING_FOLLOWS
    from conch.notices.delivery import News, mark_shown, mark_unshown  # the other tools here do not need it

    news = News(session.caller().agent_id, [], [], unread, has_more=False, to_all=False, store=len(store.replacements))
    show, unshow = partial(mark_shown, store, news), partial(mark_unshown, store, news)
    return QueuedDelivery(session.replies, "notices", sent=show, retracted=unshow)


def event_mark(session: Session, given: Object, call: Call) -> Reply:
    event = session.app.notices.mark(session.caller(), given["event_id"], given["mark"])
    delivered = Delivered(ids=(event.event_id,))
    return Reply({"event": view.envelope(event)}, f"{event.event_id} is {event.state}.", delivered=delivered)


_NAME: Object = {"type": "string", "maxLength": fields.LONGEST_ID}
_EVENT_TYPE: Object = {"type": "string", "enum": list(SENDABLE), "is_open": True}  # the domain says why not
_PAYLOAD: Object = {
    "type": "object",
    "properties": {
        "subject": {"type": "string"},
        "summary": {"type": "string", "description": "What is done."},
        "next_action": {"type": "string", "description": "What the recipient should do."},
        "blocker": {"type": "string", "description": "What stops you."},
        "requested_action": {"type": "string", "description": "What you need from the recipient."},
        "urgency": {"type": "string", "enum": list(URGENCIES)},
        "requires_ack": {"type": "boolean", "description": "Default true. BLOCKED must always be accepted."},
    },
    "description": " ".join(f"{name} needs {', '.join(needed)}." for name, needed in SENDABLE.items()),
}

TOOLS = grouped(
    "scopes",
    Tool(
        agent_register,
        "Register a name",
        "Take a name and a role in your room.",
        fields.takes(
            name={**_NAME, "description": "a-z, 0-9 and hyphens. Default: the generated one."},
            role={"type": "string", "minLength": 1, "maxLength": 64, "description": "What you do, such as reviewer."},
            room_id=fields.ROOM_ID,
        ),
        fields.REPEATABLE,
    ),
    Tool(
        agent_adopt,
        "Resume an identity",
        "Take over the name, reservations and notices of an agent that is gone. It must have left work in progress, or "
        "uncommitted files of its own.",
        fields.takes(
            {"name": {**fields.AGENT, "description": "The agent that is gone."}, "scope": fields.SCOPE},
            room_id=fields.ROOM_ID,
        ),
        fields.WRITES,
    ),
    Tool(
        agent_heartbeat,
        "Stay active",
        "Show that you are still working, so that no other agent takes over your reservations.",
        fields.takes(room_id=fields.ROOM_ID),
        fields.REPEATABLE,
    ),
    Tool(
        agent_list,
        "List agents",
        "List the agents of a room: name, role, liveness.",
        fields.takes(room_id=fields.ROOM_ID, after=fields.AFTER),
        fields.READS,
    ),
    Tool(
        scope_reserve,
        "Reserve files",
        "Reserve a file or directory before you change it. Reserve it again to renew. Refused while another agent "
        "has reserved any part of it.",
        fields.takes(
            {"scope": fields.SCOPE},
            ttl_minutes={
                "type": "integer",
                "minimum": SHORTEST_TTL,
                "maximum": LONGEST_TTL,
                "description": f"Default {TTL_MINUTES}.",
            },
            takeover_stale=fields.flag("Take it from owners that are stale or evicted."),
            bead_id=fields.BEAD_ID,
            room_id=fields.ROOM_ID,
        ),
        fields.REPEATABLE,
    ),
    Tool(
        scope_release,
        "Release files",
        "Release what you reserved.",
        fields.takes({"scope": fields.SCOPE}, room_id=fields.ROOM_ID),
        fields.WRITES,
    ),
    Tool(
        scope_list,
        "List reservations",
        "List who has reserved what.",
        fields.takes(
            include_ended=fields.flag("List ended reservations too."), room_id=fields.ROOM_ID, after=fields.AFTER
        ),
        fields.READS,
    ),
    Tool(
        scope_check,
        "Check a path",
        "List the reservations that a scope overlaps. Changes nothing.",
        fields.takes(
            scope=fields.SCOPE,
            path={**fields.PATH, "description": "The same as scope."},
            room_id=fields.ROOM_ID,
            after=fields.AFTER,
        ),
        fields.READS,
    ),
    Tool(
        event_send,
        "Send a notice",
        "Send a notice to a member: HANDOFF gives it work, BLOCKED asks it for help.",
        fields.takes(
            {"event_type": _EVENT_TYPE, "to_agent": fields.AGENT, "payload": _PAYLOAD},
            bead_id=fields.BEAD_ID,
            scope=fields.SCOPE,
            room_id=fields.ROOM_ID,
        ),
        fields.WRITES,
    ),
    Tool(
        event_inbox,
        "Read your notices",
        "List your notices, the most urgent first.",
        fields.takes(
            state={"type": "string", "enum": [*STATES, "all"], "description": "Default: all but accepted ones."},
            bead_id=fields.BEAD_ID,
            limit=fields.limit(_MOST_EVENTS, _FEW_EVENTS),
            room_id=fields.ROOM_ID,
            after=fields.AFTER,
        ),
        fields.READS,
    ),
    Tool(
        event_mark,
        "Mark a notice",
        "Mark one of your notices. accepted means that you take it on.",
        fields.takes(
            {
                "event_id": {**fields.AGENT, "description": "The id of the notice."},
                "mark": {"type": "string", "enum": list(MARKS)},
            }
        ),
        fields.REPEATABLE,
    ),
)
