"""The tool of the group `turns` that reads what happened in a room: its log, or its whole timeline."""

from __future__ import annotations

from conch.calls import Call
from conch.notices.timeline import parse_place, read_timeline
from conch.rooms import log
from conch.tools import fields, timeline_view
from conch.tools import turns_view as view
from conch.tools.registry import Tool, grouped
from conch.tools.replies import Object, Reply
from conch.tools.session import Session

MOST_EVENTS = 500
_FEW_EVENTS = 50


def get_room_events(session: Session, given: Object, call: Call) -> Reply:
    return _timeline(session, given) if given.get("all") or "bead_id" in given else _log(session, given)


def _log(session: Session, given: Object) -> Reply:
    after = fields.parse_cursor("after", given.get("after"))
    session.app.rooms.visit(session.caller(), given["room_id"])  # reading the log also keeps a member active
    found = log.list_events(session.app.store, given["room_id"], after, given.get("limit", _FEW_EVENTS))
    # The latest events are needed most. Those after a cursor come in order, so that the next page continues.
    order = -1 if after is None else 1
    page = session.budget().fill(found.events[::order], view.room_event, view.event_line)
    is_cut = after is not None and page.has_more
    cursor = found.events[page.length - 1].event_seq if is_cut else found.cursor
    is_rest = found.has_older or (after is None and page.has_more)
    return _reply(page.objects[::order], page.lines[::order], str(cursor), is_cut or found.has_more, is_rest)


def _timeline(session: Session, given: Object) -> Reply:
    """The same for everything that happened. Its cursor is a place in the timeline; a number of the log works too."""
    after = given.get("after")
    place = parse_place("after", None if after is None else str(after))
    store, limit, bead_id = session.app.store, given.get("limit", _FEW_EVENTS), given.get("bead_id")
    session.app.rooms.visit(session.caller(), given["room_id"])
    found = read_timeline(store, given["room_id"], place, limit, bead_id)
    order = -1 if after is None else 1
    page = session.budget().fill(found.entries[::order], timeline_view.brief, timeline_view.line)
    is_cut = after is not None and page.has_more
    reached = found.entries[page.length - 1].place if is_cut else found.place
    is_rest = found.has_older or (after is None and page.has_more)
    return _reply(page.objects[::order], page.lines[::order], str(reached), is_cut or found.has_more, is_rest)


def _reply(events: list[Object], lines: list[str], cursor: str, has_more: bool, has_older: bool) -> Reply:
    text = "\n".join(lines) or "No events."
    data = {"events": events, "cursor": cursor, "has_more": has_more, **({"has_older": True} if has_older else {})}
    following = f'There is more: call again with after="{cursor}".' if has_more else ""
    if has_older:
        following = "These are the latest. To read all, call again with after=0."
    return Reply(data, f"{text}\ncursor={cursor}", next=following)


TOOLS = grouped(
    "turns",
    Tool(
        get_room_events,
        "Read a room's log",
        "Get a room's latest claims, handoffs, takeovers and notes, or those after a cursor, oldest first.",
        fields.takes(
            room_id=fields.ROOM_ID,
            after=fields.PLACE,
            limit=fields.limit(MOST_EVENTS, _FEW_EVENTS),
            all=fields.flag("Include messages, reservations, notices and resumptions."),
            bead_id={**fields.BEAD_ID, "description": "Only entries for this work item."},
        ),
        fields.READS,
    ),
)
