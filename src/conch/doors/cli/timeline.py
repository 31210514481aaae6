"""`conch events`: the room's timeline, and new entries as they come."""

from __future__ import annotations

import sys
from collections.abc import Callable

from conch.bells.base import activity_channel, room_channel, topic_channel
from conch.bells.waits import FOREVER, Pause, wait_for
from conch.calls import Call
from conch.clock import to_local
from conch.doors.cli.context import Context
from conch.doors.cli.handoffs import MARGIN, handoff_lines, labelled
from conch.doors.cli.output import Report, clean, give_up, moment_text, write
from conch.doors.cli.paging import fitting, with_more
from conch.lean import json
from conch.notices.timeline import Entry, Page, Place, parse_place, read_timeline
from conch.rooms.presence import renewal_ms
from conch.tools import fields, timeline_view
from conch.tools.history import MOST_EVENTS
from conch.tools.schema import check_arguments
from conch.tools.scopes_view import LABELS
from conch.tools.text import behind_margin

_LIMITS = fields.takes(
    after={"type": "string"},
    limit={"type": "integer", "minimum": 1, "maximum": MOST_EVENTS},
    bead_id=fields.BEAD_ID,
)
_FEW_EVENTS = 50
_NOT_SHOWN = ("subject", "requires_ack")


def events(context: Context) -> Report:
    options = context.options
    room_id = context.room_id
    limit = _FEW_EVENTS if options.limit is None else options.limit
    check_arguments("conch events", _LIMITS, {"after": options.after, "limit": limit, "bead_id": options.bead})
    place = parse_place("after", options.after)
    topic_id = context.room.room.topic_id  # checks that the room exists, and counts as activity

    def read(after: Place | int | None) -> Page:
        return read_timeline(context.app.store, room_id, after, limit, options.bead)

    page = read(place)
    if options.follow:
        return _follow(context, page, read, (room_channel(room_id), activity_channel(room_id), topic_channel(topic_id)))
    return _fitted(context, page, is_latest=place is None)


def _fitted(context: Context, found: Page, *, is_latest: bool) -> Report:
    """The entries that fit: the latest ones, or the first after the cursor."""

    def leave(number: int) -> Page:
        if number == len(found.entries):
            return found
        if is_latest:
            return found._replace(entries=found.entries[-number:], has_older=True)
        return Page(found.entries[:number], found.entries[number - 1].place, has_more=True)

    def render(number: int) -> Report:
        few = leave(number)
        return Report(timeline_view.page(few), _page_text(few, is_latest))

    return render(fitting(context, len(found.entries), render))


def _follow(context: Context, page: Page, read: Callable[[Place], Page], channels: tuple[str, ...]) -> Report:
    """Print until the room is closed, the reader leaves, or the user interrupts."""
    call = Call()
    call.renew_with(context.session.stay_active)

    def look(pause: Pause) -> Page | None:
        nonlocal page
        while (page := read(page.place)).entries:
            _print(page, context.options.json)
        return page if page.is_closed else None

    try:
        _print(page, context.options.json)
        wait_for(context.app.bell, channels, look, FOREVER, call, renewal=renewal_ms(context.app.settings) / 1_000)
    except OSError as problem:
        return Report(None, "", status=give_up(problem), is_printed=True)
    return Report(None, "", is_printed=True)


def _print(page: Page, as_json: bool) -> None:
    for entry in page.entries:
        write(sys.stdout, (json.dumps(timeline_view.entry(entry)) if as_json else _entry_text(entry, to_local)) + "\n")


def _page_text(page: Page, is_latest: bool) -> str:
    """A page of entries, and how to see the next one."""
    if not page.entries:
        return "No entries yet." if is_latest else "No entries since then."
    width = max(len(moment_text(entry.created_at)) for entry in page.entries)
    lines = [_entry_text(entry, lambda moment: moment_text(moment).ljust(width)) for entry in page.entries]
    if is_latest and page.has_older:
        lines.append("There are older ones: with --after 0, the same command starts with the oldest.")
    return with_more("\n".join(lines), str(page.place) if page.has_more else None)


def _entry_text(entry: Entry, tell: Callable[[int], str]) -> str:
    """One entry: a line, and its details below."""
    number = str(entry.event.event_seq) if entry.event else ""
    first = f"{number:>4}  {tell(entry.created_at)}  "
    head, below = behind_margin(timeline_view.sentence(entry), MARGIN, first), []
    if entry.event and entry.event.handoff:
        below += [_recipient_text(entry), handoff_lines(entry.event.handoff)]
    elif entry.kind == "protocol" and entry.protocol and "subject" in entry.protocol.payload:
        payload = entry.protocol.payload
        below += [labelled(name, str(value)) for name, value in payload.items() if name not in _NOT_SHOWN]
    return clean("\n".join(line for line in [head, *below] if line))


def _recipient_text(entry: Entry) -> str:
    """The recipient of a handoff, and whether it has accepted."""
    if entry.protocol is None:
        return ""
    state = LABELS.get(entry.protocol.state, "not seen yet")
    return labelled(LABELS["HANDOFF"], f"{entry.protocol.recipient or 'the next agent to claim'} ({state})")
