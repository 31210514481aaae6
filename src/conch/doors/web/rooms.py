"""What the pages read about rooms: the list, one room, its timeline."""

from __future__ import annotations

from conch.doors.web.views import room_view, timeline_page
from conch.doors.web.work import Desk
from conch.errors import ConchError, InvalidArgument
from conch.members.adoption import Candidate
from conch.notices.timeline import Place, parse_place, read_timeline
from conch.overview.survey import Survey, has_gone, survey
from conch.rooms.room import Snapshot
from conch.tools import fields
from conch.tools.replies import Object

_MOST_ROOMS = 200
_MOST_ENTRIES = 200
_FEW_ENTRIES = 50
_ROOM = {"room_id": fields.ROOM_ID}
_CURSOR: Object = {"type": "string", "maxLength": 60}

LIST = fields.takes(all={"type": "boolean"})
ONE = fields.takes(_ROOM)
TIMELINE = fields.takes(
    _ROOM,
    before=_CURSOR,
    after=_CURSOR,
    limit=fields.limit(_MOST_ENTRIES, _FEW_ENTRIES),
    bead=fields.BEAD_ID,
)


class RoomPages:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._app = desk.app

    def list_rooms(self, given: Object) -> Object:
        """Every room, what is wrong first, then the latest."""
        found = [each for each in self._app.rooms.all_rooms() if given.get("all") or each.room.state != "closed"]
        found.sort(key=lambda each: -each.room.updated_at)
        surveys = [self._survey(each, []) for each in found[:_MOST_ROOMS]]
        surveys.sort(key=lambda each: not each.troubles)
        viewer_id = self._desk.viewer_id()
        return {"rooms": [room_view(each, viewer_id) for each in surveys], "has_more": len(found) > _MOST_ROOMS}

    def show(self, given: Object) -> Object:
        snapshot = self._app.rooms.get_state(None, given["room_id"])
        return {"room": room_view(self._survey(snapshot, self._left(snapshot)), self._desk.viewer_id())}

    def _survey(self, snapshot: Snapshot, left: list[Candidate]) -> Survey:
        app = self._app
        return survey(app.store, app.bell, app.rooms, snapshot.room.room_id, self._desk.viewer_id(), left)

    def _left(self, snapshot: Snapshot) -> list[Candidate]:
        """What members that are gone have left. If that cannot be found out, the rest is still worth showing."""
        if not has_gone(snapshot):
            return []
        try:
            return self._app.adoption.candidates(self._desk.person.caller(), snapshot.room.room_id)
        except (ConchError, OSError):
            return []

    def timeline(self, given: Object) -> Object:
        """A page of the timeline: the latest entries, or those before or after a cursor."""
        before, after = _place("before", given.get("before")), _place("after", given.get("after"))
        if before is not None and after is not None:
            raise InvalidArgument("Give before or after, not both.", field="after")
        limit, bead_id = given.get("limit", _FEW_ENTRIES), given.get("bead")
        page = read_timeline(self._app.store, given["room_id"], after, limit, bead_id, before)
        return timeline_page(page, after is not None, after)


def _place(field: str, text: str | None) -> Place | None:
    place = parse_place(field, text)
    if isinstance(place, int):
        raise InvalidArgument(f"{field} must be a cursor from an earlier reply.", field=field)
    return place
