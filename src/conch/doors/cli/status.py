"""`conch status`: every member of a room at a glance. What is wrong comes first."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from conch.agents.records import label
from conch.clock import SECOND
from conch.doors.cli import terminal
from conch.doors.cli.context import Context
from conch.doors.cli.output import Report
from conch.doors.cli.paging import after, fitting, page, rows
from conch.doors.cli.tables import columns, shortened, wrapped
from conch.errors import ConchError
from conch.host.workspaces import below_home
from conch.lean import NamedTuple
from conch.members.adoption import Candidate
from conch.notices.events import ProtocolEvent
from conch.overseeing.survey import Question, Standing, Survey, Trouble, find_gone, leading, survey
from conch.rooms.room import Member, Snapshot, at_least
from conch.tools import overview_view
from conch.tools.replies import Delivered
from conch.tools.text import one_line

# Members are listed in this order, and those with the same sign in the order of the room's sequence.
_SIGNS = {
    "trouble": ("!", "!", "red"),
    "holding": ("\u25cf", "*", "green"),
    "next": ("\u25d0", "o", "yellow"),
    "waiting": ("\u25d0", "o", "yellow"),
    "asking": ("?", "?", "cyan"),
    "here": ("\u25cb", "-", "grey"),
    "watching": ("\u25cb", "-", "grey"),
    "gone": ("\u2717", "x", "red"),
}
_GAP = "  "
_WIDEST_HEAD = 80  # columns; on a wide terminal, the right end of the head stays near the rest
_NARROW = 60  # columns; below that, a line of three parts becomes three lines
_LONGEST_TEXT = 120  # characters of what an agent wrote
_TWO_DAYS_IN_HOURS = 48
_WHY = {
    "owner_gone": "has the stick and is gone",
    "owner_timeout": "has the stick and has let its lease lapse",
    "recipient_gone": "was given the stick and is gone",
    "claim_timeout": "was given the stick and has not claimed it",
}


class _Line(NamedTuple):
    """One line: a sign, a name, what it does, and at the right what a person can do about it."""

    sign: str
    who: str
    what: str
    hint: str = ""


def status(context: Context) -> Report:
    """One room, or with `--all` every open room. Looking makes nobody a member."""
    if context.options.all:
        found = [each for each in context.app.rooms.all_rooms() if each.room.state != "closed"]
    else:
        found = [context.room]
    surveys = [look(context, each) for each in found]
    surveys.sort(key=lambda each: not each.troubles)
    width = terminal.width()

    def render(few: Sequence[Survey]) -> Report:
        context.delivered = Delivered(ids=tuple(each.question_id for room in few for each in room.questions))
        text = "\n\n".join("\n".join(room_lines(each, width)) for each in few)
        data = {"rooms": [overview_view.room(each) for each in few]}
        return Report(data, text if few else "There is no open room; `conch join` creates one.")

    rest = after(surveys, _room_id, context.options.after)
    few = [_shortened(context, each, render) for each in rest[: rows(context)]]
    return page(context, few, render, _room_id)


def _room_id(found: Survey) -> str:
    return found.snapshot.room.room_id


def _shortened(context: Context, found: Survey, render: Callable[[Sequence[Survey]], Report]) -> Survey:
    """The room with as many members, reservations and troubles as fit into one reply."""
    most = max(len(found.standings), len(found.reservations), len(found.troubles), len(found.questions))
    return leading(found, fitting(context, most, lambda number: render([leading(found, number)])))


def look(context: Context, snapshot: Snapshot, candidates: list[Candidate] | None = None) -> Survey:
    """A room at a glance. Without `candidates`, this asks git what the members that are gone have left."""
    app, room_id = context.app, snapshot.room.room_id
    viewer_id = context.caller.agent_id
    if candidates is None:
        candidates = find_left(context, snapshot)
    return survey(app.store, app.bell, app.rooms, room_id, viewer_id, candidates)


def find_left(context: Context, snapshot: Snapshot) -> list[Candidate]:
    """What members that are gone have left. If that cannot be found out, the rest is still worth showing."""
    if not find_gone(snapshot):
        return []
    try:
        return context.app.adoption.candidates(context.caller, snapshot.room.room_id)
    except (ConchError, OSError):
        return []


# -- the lines of a room


def room_lines(found: Survey, width: int | None) -> list[str]:
    """A room for a person: the head, what is wrong, the members, the reservations."""
    members = [_standing_lines(found, each) for each in found.standings]
    members.sort(key=lambda lines: list(_SIGNS).index(lines[0].sign))
    lines = [*(_trouble_line(found, each) for each in found.troubles), *(line for each in members for line in each)]
    shown = [_head(found, width), *_laid_out(lines, width), *_reservation_lines(found, width)]
    if found.gone:
        are = "is" if found.gone == 1 else "are"
        silent = "silent or " if found.snapshot.roll.silent else ""
        text = f"{at_least(found.gone)} more {are} {silent}gone and left nothing; `conch state --all` lists them."
        shown += _dim(text, width)
    if found.left_out:
        rest = "`conch state`, `conch reservations` and `conch questions` have the rest."
        shown += _dim(f"Not shown: {_left_out(found)}. {rest}", width)
    if not found.standings:
        shown.append("Nobody is here.")
    return shown


def _left_out(found: Survey) -> str:
    return ", ".join(f"{number} {what if number != 1 else what[:-1]}" for what, number in found.left_out.items())


def _head(found: Survey, width: int | None) -> str:
    room = found.snapshot.room
    path = one_line(room.canonical_path)
    left = f"{_plain_name(os.path.basename(path)) or path}  {below_home(path)}"
    right = f"turn {room.turn_id}"
    if found.turn_since is not None:
        right += f", {_span(found.snapshot.now - found.turn_since)}"
    elif room.reserved_for is None:
        right += ", the stick is free"
    return terminal.mark(_spread(left, right, None if width is None else min(width, _WIDEST_HEAD)), "bold")


def _plain_name(name: str) -> str:
    """The name of a folder, in quotes if it could pass for a line of ours."""
    is_plain = name.isascii() and name.replace("-", "").replace("_", "").replace(".", "").isalnum()
    return name if is_plain or not name else _quoted(name)


def _standing_lines(found: Survey, standing: Standing) -> list[_Line]:
    who, now = _name_of(standing.member), found.snapshot.now
    unread = f"{standing.unread} unread from you" if standing.unread else ""
    asking = [_Line("asking", who, _asked(each, now), f'conch answer {each.seq} "..."') for each in standing.questions]
    if asking and standing.doing in ("here", "watching"):
        return asking
    return [_Line(standing.doing, who, _doing(found, standing), _adopt_hint(standing) or unread), *asking]


def _doing(found: Survey, standing: Standing) -> str:
    lasted = _span(found.snapshot.now - standing.since)
    if standing.doing == "holding":
        return f"has the stick: {_quoted(standing.work)}" if standing.work.strip() else "has the stick"
    if standing.doing == "next":
        return f"is next, has not claimed the stick for {lasted}"
    if standing.doing == "waiting":
        return f"waiting {lasted}{', next' if found.next == standing.member else ''}"
    if standing.doing == "gone":
        when = f", last seen {lasted} ago" if standing.is_last_seen else f" for {lasted}"
        return f"gone{when}{_left(standing.left)}"
    if standing.doing == "watching":
        return f"watches, last seen {lasted} ago"
    kind = ", a person who takes turns" if standing.member.kind == "person" else ""
    return f"here{kind}, last seen {lasted} ago"


def _left(candidate: Candidate | None) -> str:
    if candidate is None:
        return ""
    files = candidate.evidence.files
    if files:
        return f", left {files} uncommitted file{'s' if files > 1 else ''}"
    return f", left work: {one_line(candidate.evidence.summary)}"


def _adopt_hint(standing: Standing) -> str:
    return f"conch agent adopt {standing.member.name}" if standing.left else ""


def _asked(question: Question, now: int) -> str:
    return f"asked #{question.seq} {_span(now - question.asked_at)} ago: {_quoted(question.text)}"


def _trouble_line(found: Survey, trouble: Trouble) -> _Line:
    lasted = _span(found.snapshot.now - trouble.since)
    if trouble.question is not None:
        who = (
            _name_of(trouble.member)
            if trouble.member
            else one_line(label(trouble.question.agent_id, trouble.question.asked_by))
        )
        what = f"has had no answer to #{trouble.question.seq} for {lasted}"
        return _Line("trouble", who, what, f'conch answer {trouble.question.seq} "..."')
    if trouble.notice is not None:
        about = trouble.notice.payload.get("subject") or trouble.notice.event_type
        what = f"has not accepted {_quoted(str(about))} for {lasted}"
        return _Line("trouble", _name_of(trouble.member), what, _notice_hint(found, trouble.notice, trouble.member))
    when = f"last seen {lasted} ago" if trouble.is_last_seen else f"for {lasted}"
    what = f"{_WHY[trouble.reason]}, {when}: any member may take over"
    return _Line("trouble", _name_of(trouble.member), what, 'conch take --reason "..."')


def _notice_hint(found: Survey, notice: ProtocolEvent, member: Member | None) -> str:
    """Only the recipient can accept a notice. Others can remind it."""
    if member is None:
        return 'conch send "..."'
    if member.agent_id == found.viewer_id:
        return f"conch agent accept {notice.event_id}"
    return f'conch send "..." --to {member.name}'


def _name_of(member: Member | None) -> str:
    return one_line(label(member.agent_id, member.name)) if member else "the next agent"


def _quoted(text: str) -> str:
    return f'"{cut(one_line(text), _LONGEST_TEXT)}"'


def _reservation_lines(found: Survey, width: int | None) -> list[str]:
    lines: list[str] = []
    for each in found.reservations:
        left = f"{_span(each.expires_at - found.snapshot.now)} left"
        open_to = "" if each.liveness == "active" else ", may be taken over"
        owner = one_line(label(each.agent_id, each.name))
        head = "reserved  " if not lines else " " * len("reserved  ")
        lines += _hanging(head, f"{one_line(each.spelled)} ({owner}{open_to}, {left})", width)
    return lines


# -- fitting lines into the width


def _laid_out(lines: list[_Line], width: int | None) -> list[str]:
    if width is not None and width < _NARROW:
        return [part for line in lines for part in _stacked(line, width)]
    longest = max((columns(line.who) for line in lines), default=0)
    rows = [(f"{_sign(line)[0]} {line.who}{' ' * (longest - columns(line.who))}   ", line) for line in lines]
    hinted = [(columns(start + line.what), columns(line.hint)) for start, line in rows if line.hint] or [(0, 0)]
    # Hints form one column, as far to the left as the texts allow.
    place = max(used for used, _ in hinted) + len(_GAP)
    if width is not None:
        place = min(place, width - max(hint for _, hint in hinted))
    return [part for start, line in rows for part in _beside(start, line, place, width)]


def _beside(start: str, line: _Line, place: int, width: int | None) -> list[str]:
    """A hint at its place, or after a longer text, or below it if there is no room."""
    colour, used = _sign(line)[1], columns(start + line.what)
    gap = max(place - used, len(_GAP))
    if line.hint and (width is None or used + gap + columns(line.hint) <= width):
        return [terminal.mark(start, colour) + line.what + " " * gap + terminal.mark(line.hint, "grey")]
    return [*_hanging(start, line.what, width, colour), *_dim(line.hint, width, " " * columns(start))]


def _stacked(line: _Line, width: int) -> list[str]:
    sign, colour = _sign(line)
    who = terminal.mark(cut(f"{sign} {line.who}", width), colour)
    return [who, *_hanging(_GAP, line.what, width), *_dim(line.hint, width, _GAP)]


def _hanging(start: str, text: str, width: int | None, colour: str = "") -> list[str]:
    """A text after its start. If it is too long for the width, the rest goes below, with the same indent."""
    indent = columns(start)
    first, *others = wrapped(text, None if width is None else max(1, width - indent))
    return [terminal.mark(start, colour) + first, *(" " * indent + part for part in others)]


def _sign(line: _Line) -> tuple[str, str]:
    sign, plain, colour = _SIGNS[line.sign]
    return (sign if terminal.can_show(sign) else plain), colour


def _dim(text: str, width: int | None, margin: str = "") -> list[str]:
    lines = wrapped(text, None if width is None else max(1, width - len(margin))) if text else []
    return [margin + terminal.mark(line, "grey") for line in lines]


def _spread(left: str, right: str, width: int | None) -> str:
    """One text at the left edge and one at the right, or below it if there is no room for both."""
    if width is None:
        return f"{left}   {right}"
    gap = width - columns(left) - columns(right)
    return f"{left}{' ' * gap}{right}" if gap >= len(_GAP) else "\n".join([*wrapped(left, width), right])


def cut(text: str, width: int | None) -> str:
    if width is None or columns(text) <= width:
        return text
    dots = "\u2026" if terminal.can_show("\u2026") else "..."
    return shortened(text, width - len(dots)) + dots


def _span(microseconds: int) -> str:
    """A time in one or two units, for people."""
    seconds = max(0, microseconds // SECOND)
    minutes, hours = seconds // 60, seconds // 3_600
    if minutes < 1:
        return f"{seconds} s"
    if hours < 1:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60:02d} min" if hours < _TWO_DAYS_IN_HOURS else f"{hours // 24} days"
