"""How mail looks at the end of every reply: as an object, and as lines."""

from __future__ import annotations

from conch.bus.drafts import NUDGE
from conch.lean import TYPE_CHECKING
from conch.tools.replies import Object, known
from conch.tools.text import MARGIN, behind_margin, one_line

if TYPE_CHECKING:
    from conch.notices.mail import Mail, Waiting
    from conch.tools.pages import Budget


_SHORTENED = (60, 30, 15)  # characters of a line, if whole lines do not fit: one character may need eleven bytes


def view_mail(found: Mail, budget: Budget) -> tuple[Object, list[str]]:
    """The object and its lines. If they do not fit, what others wrote is cut in steps."""
    shown, lines = _mail(found), _mail_lines(found)
    for longest in _SHORTENED:
        if budget.fits_as_mail(shown, lines):
            break
        found = found.shortened(longest)
        shown, lines = _mail(found), _mail_lines(found)
    return shown, lines


def _mail(found: Mail) -> Object:
    """The facts, the most pressing first."""
    return known(
        asked_to_hand_over=found.hand_over and _notice(found.hand_over),
        to_you=found.to_you
        and {
            "count": found.to_you.number,
            "topic_id": found.to_you.place,
            **({} if _is_shown(found, found.to_you) else _newest(found.to_you)),
        },
        questions=found.questions
        and {
            "count": found.questions.number,
            "topic_id": found.questions.place,
            "question_id": found.questions.id,
            **(_newest(found.questions) if found.questions.line else {}),
        },
        notices=found.notices
        and {"count": found.notices.number, **({} if _is_shown(found, found.notices) else _notice(found.notices))},
        reserved=found.reserved
        and {"count": found.reserved.number, "room_id": found.reserved.place, **_newest(found.reserved)},
        others=found.others or None,
    )


def _is_shown(found: Mail, newest: Waiting) -> bool:
    """Whether the newest one is what asks to hand over, or an open question, so that it is not shown twice."""
    return any(each is not None and each.line and each.id == newest.id for each in (found.hand_over, found.questions))


def _notice(found: Waiting) -> Object:
    kind = "message_id" if _is_nudge(found) else "event_id"
    about = {"room_id": found.place, kind: found.id, "event_type": found.event_type}
    return {**about, **(_newest(found) if found.line else {})}


def _is_nudge(found: Waiting) -> bool:
    return found.event_type == NUDGE


def _newest(found: Waiting) -> Object:
    return {"from": found.sender, "line": found.line}


def _mail_lines(found: Mail) -> list[str]:
    """The same as text. What others wrote comes last in a line that begins with our words."""
    lines = []
    if found.hand_over:
        asks = "A person asks" if _is_nudge(found.hand_over) else "Another agent asks"
        lines.append(_line(f"{asks} you to HAND OVER the stick", _notice(found.hand_over), found.hand_over))
    facts = _mail(found)
    for kind in ("to_you", "questions", "notices", "reserved"):
        if kind in facts:
            lines.append(_line(kind, facts[kind], getattr(found, kind)))
    if found.others:
        lines.append(f"{MARGIN}others={found.others} unread messages")
    return ["Mail:", *lines]


def _line(kind: str, facts: Object, newest: Waiting) -> str:
    about = " ".join(f"{name}={value}" for name, value in facts.items() if name not in ("from", "line"))
    if "from" not in facts:
        return f"{MARGIN}{kind}: {about}"
    return behind_margin(
        newest.line, MARGIN * 2, first=f"{MARGIN}{kind}: {about} from {one_line(newest.sender_label)}: "
    )
