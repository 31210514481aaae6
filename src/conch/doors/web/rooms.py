"""What the pages read about rooms: the list, one room, its timeline."""

from __future__ import annotations

from collections.abc import Callable, Sized

from conch.clock import SECOND, parse_iso, to_iso
from conch.config import POLICY_SETTINGS
from conch.doors.web.leftovers import Leftovers
from conch.doors.web.requests import Desk
from conch.doors.web.sizes import Texts, count_fitting, fits
from conch.doors.web.views import (
    entry_view,
    item_view,
    notice_view,
    reservation_view,
    room_view,
    timeline_page,
    turn_view,
)
from conch.errors import InvalidArgument, no_cursor
from conch.members.adoption import Candidate
from conch.notices.timeline import Page, Place, only, parse_place, read_timeline
from conch.overseeing.items import list_items, read_item
from conch.overseeing.survey import FindEnd, Survey, leading, survey, survey_rooms
from conch.overseeing.talk import Asked, find_questions
from conch.overseeing.turns import read_entry, read_turns
from conch.tools import fields
from conch.tools.replies import Object, known

_MOST_ROOMS = 200
_MOST_ENTRIES = 200
_FEW_ENTRIES = 50
_ROOM = {"room_id": fields.ROOM_ID}
_MOST_TURNS = 500
_MOST_ITEMS = 500
_FEW_ITEMS = 100
_CURSOR: Object = {"type": "string", "maxLength": 60}
_TIME: Object = {"type": "string", "maxLength": 40}
_PAGE: Object = {"before": _CURSOR, "after": _CURSOR, "limit": fields.limit(_MOST_ENTRIES, _FEW_ENTRIES)}

LIST = fields.takes(all={"type": "boolean"})
ONE = fields.takes(_ROOM)
TIMELINE = fields.takes(_ROOM, **_PAGE, bead=fields.BEAD_ID, source={"type": "string", "enum": list(Place._fields)})
TURNS = fields.takes(_ROOM, **{"from": _TIME, "to": _TIME, "limit": fields.limit(_MOST_TURNS, _MOST_TURNS)})
EVENT = fields.takes({**_ROOM, "event_seq": {"type": "integer", "minimum": 0, "maximum": fields.LARGEST}})
ITEMS = fields.takes(limit=fields.limit(_MOST_ITEMS, _FEW_ITEMS))
ITEM = fields.takes({**_ROOM, "bead": fields.BEAD_ID}, **_PAGE)


class RoomPages:
    def __init__(self, desk: Desk, announce: Callable[[], None], find_end: FindEnd) -> None:
        """`announce` tells the pages to look again."""
        self._desk = desk
        self._find_end = find_end
        self._app = desk.app
        self._leftovers = Leftovers(self._find_left, announce)

    def list_rooms(self, given: Object) -> Object:
        """The rooms that changed last: those in trouble first, then the others. With `all`, closed ones too."""
        app, viewer_id = self._app, self._desk.viewer_id()
        surveys = survey_rooms(
            app.store,
            app.bell,
            app.rooms,
            viewer_id,
            _MOST_ROOMS + 1,
            self._find_end,
            even_closed=bool(given.get("all")),
        )
        shown = sorted(surveys[:_MOST_ROOMS], key=lambda each: not each.troubles)
        rooms = [_fitted(each, viewer_id, lambda: Texts(0)) for each in shown]
        fitting = count_fitting(rooms)
        return {"rooms": rooms[:fitting], "has_more": fitting < len(surveys)}

    def show(self, given: Object) -> Object:
        app, viewer_id = self._app, self._desk.viewer_id()
        snapshot = app.rooms.get_state(None, given["room_id"])
        left = self._leftovers.of(snapshot)
        found = survey(app.store, app.bell, app.rooms, snapshot.room.room_id, viewer_id, left, self._find_end)
        return {"room": _fitted(found, viewer_id, Texts)}

    def _find_left(self, room_id: str) -> list[Candidate]:
        return self._app.adoption.candidates(self._desk.caller(), room_id)

    def policy(self, given: Object) -> Object:
        """The room's time limits and rules, with what each means. Times are in milliseconds."""
        snapshot = self._app.rooms.get_state(None, given["room_id"])
        chosen, defaults = snapshot.policy._asdict(), self._app.settings.policy._asdict()
        settings = [
            known(
                name=each.name,
                about=each.about,
                value=chosen[each.name],
                default=defaults[each.name],
                choices=list(each.choices) or None,
            )
            for each in POLICY_SETTINGS
        ]
        return {"policy": settings}

    def timeline(self, given: Object) -> Object:
        """A page of the timeline: the latest entries, or those before or after a cursor; of one source, if given."""
        before, after = _place("before", given.get("before")), _place("after", given.get("after"))
        if before is not None and after is not None:
            raise InvalidArgument("Give before or after, not both.", field="after")
        if "source" in given:
            if after is not None:
                raise InvalidArgument("Give source or after, not both.", field="source")
            before = only(given["source"], before)
        page = self._read_timeline(given, after, before, given.get("limit", _FEW_ENTRIES))
        shown = timeline_page(page, self._questions(page), after)
        entries = shown["entries"] if after is not None else shown["entries"][::-1]
        fitting = count_fitting(entries)
        if fitting == len(entries):
            return shown
        page = self._read_timeline(given, after, before, fitting)  # again, for the cursors of a shorter page
        return timeline_page(page, self._questions(page), after)

    def _read_timeline(self, given: Object, after: Place | None, before: Place | None, limit: int) -> Page:
        return read_timeline(self._app.store, given["room_id"], after, limit, given.get("bead"), before)

    def turns(self, given: Object) -> Object:
        """Who held the stick when."""
        since, until = _moment("from", given.get("from")), _moment("to", given.get("to"))
        found = read_turns(self._app.store, given["room_id"], since, until, given.get("limit", _MOST_TURNS))
        is_owner_gone = self._app.rooms.get_state(None, given["room_id"]).state == "owner_gone"
        turns = [turn_view(each, each.has_died or (each.end is None and is_owner_gone)) for each in found.turns]
        return known(turns=turns, has_more=found.has_older, first_at=to_iso(found.first_at))

    def event(self, given: Object) -> Object:
        return {"entry": entry_view(read_entry(self._app.store, given["room_id"], given["event_seq"]))}

    # -- work items

    def items(self, given: Object) -> Object:
        return {"items": [item_view(each) for each in list_items(self._app.store, given.get("limit", _FEW_ITEMS))]}

    def item(self, given: Object) -> Object:
        """Everything about one work item: its timeline, reservations and notices."""
        parts = read_item(self._app.store, self._app.rooms, given["room_id"], given["bead"])
        viewer_id, texts = self._desk.viewer_id(), Texts()
        return {
            **self.timeline(given),
            "topic_id": self._app.rooms.visit(None, given["room_id"]).topic_id,
            "reservations": [reservation_view(each) for each in parts.reservations],
            "notices": [notice_view(each, viewer_id, texts) for each in parts.notices],
        }

    def _questions(self, page: Page) -> dict[str, Asked]:
        """What became of the questions on a page."""
        asked = [entry.row["message_id"] for entry in page.entries if entry.row.get("message_type") == "question"]
        if not asked:
            return {}
        with self._app.store.read() as tx:
            return find_questions(tx, asked)


def _fitted(found: Survey, viewer_id: str, new_texts: Callable[[], Texts]) -> Object:
    """A room that fits into one reply: all of it, or the leading members, reservations, problems and the like."""
    lists: tuple[Sized, ...] = (found.standings, found.reservations, found.troubles, found.questions, found.notices)
    number = max(len(each) for each in lists)
    while True:
        few = leading(found, number)._replace(notices=found.notices[:number])
        shown = room_view(few, viewer_id, new_texts())
        if number <= 1 or fits(shown):
            return shown
        number //= 2


def _place(field: str, text: str | None) -> Place | None:
    place = parse_place(field, text)
    if isinstance(place, int):
        raise no_cursor(field)
    return place


def _moment(field: str, text: str | None) -> int | None:
    """A moment in the form that replies have, such as 2026-01-31T12:00:00.000Z."""
    if text is None:
        return None
    seconds = parse_iso(text)
    if seconds is None:
        raise InvalidArgument(f"{field} must be a time such as 2026-01-31T12:00:00.000Z.", field=field)
    return int(seconds * SECOND)
