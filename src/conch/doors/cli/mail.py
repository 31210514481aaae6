"""The mail at the end of what a command prints, so that an agent on the command line learns of it as others do."""

from __future__ import annotations

from conch.bus.drafts import NUDGE
from conch.doors.cli.context import Context
from conch.doors.cli.output import Report
from conch.doors.cli.tables import wrapped
from conch.doors.cli.terminal import width
from conch.notices.mail import Mail, Waiting
from conch.tools.mail_view import view_mail
from conch.tools.text import MARGIN, one_line


def add_mail(context: Context, report: Report, found: Mail) -> Report:
    """The report with the mail in its object, and with one line about what is for the caller."""
    mail, _ = view_mail(found, context.session.budget())
    text = _sentence(found)
    lines = wrapped(text, (width() or len(text) + len(MARGIN)) - len(MARGIN)) if text else []
    shown = "\n".join([*([report.text] if report.text else []), *lines[:1], *(MARGIN + line for line in lines[1:])])
    if report.error is not None:
        return report._replace(error={**report.error, "mail": mail}, text=shown)
    return report._replace(data={**(report.data or {}), "mail": mail}, text=shown)


def _sentence(found: Mail) -> str:
    """What waits, the most pressing first. Messages that are not to the caller are left out."""
    parts = [_hand_over(found.hand_over)] if found.hand_over else []
    for waiting, what, command in (
        (found.to_you, "message to you", "conch read"),
        (found.questions, "open question", "conch questions"),
        (found.notices, "notice", "conch agent inbox"),
    ):
        if waiting and not (found.hand_over and waiting.number == 1 and waiting.id == found.hand_over.id):
            parts.append(f"{_count(waiting, what)} (`{command}`)")
    if found.reserved:
        parts.append(f"since you got the stick, {_count(found.reserved, 'new reservation')}")
    return f"Mail: {'; '.join(parts)}." if parts else ""


def _hand_over(waiting: Waiting) -> str:
    who = "a person" if waiting.event_type == NUDGE else "another agent"
    return f"{who} asks you to HAND OVER the stick ({_newest(waiting)})"


def _count(waiting: Waiting, what: str) -> str:
    counted = f"{waiting.number} {what if waiting.number == 1 else _several(what)}"
    return f"{counted}, {_newest(waiting)}" if waiting.line else counted


def _several(what: str) -> str:
    return what.replace("message", "messages") if what.startswith("message") else f"{what}s"


def _newest(waiting: Waiting) -> str:
    return f'{one_line(waiting.sender_label)}: "{one_line(waiting.line)}"'
