"""Calls a tool for an agent: the reply has all facts twice, as an object and as a text, and the mail.

Commands have their own texts and do not need this module.
"""

from __future__ import annotations

import sys

from conch.calls import Call, retry_interrupted
from conch.errors import IF_SOUND, ConchError, InternalError, ResourcesExhausted, StoreError, find_lack
from conch.lean import TYPE_CHECKING
from conch.tools.advice import STEPS
from conch.tools.facts import tell, tell_warnings
from conch.tools.registry import Tool, run_tool
from conch.tools.replies import Delivery, Object, Reply, known, undone_by
from conch.tools.session import Session
from conch.tools.text import behind_margin, visible

if TYPE_CHECKING:
    from conch.notices.mail import Mail
    from conch.storage.base import Aside

_LONGEST_FACT = 200


def _not_asked() -> None:
    pass


def call_tool(tool: Tool, session: Session, arguments: Object, call: Call) -> Reply:
    """Like `run_tool`, but never raises: a refusal, or a defect of ours, becomes an error reply."""
    if not session.app.store.is_server:  # otherwise other queries travel with those of the call
        return _call_tool(tool, session, arguments, call, _not_asked)
    with session.expecting_mail() as aside, session.staying_active():
        return _call_tool(tool, session, arguments, call, aside)


def _call_tool(tool: Tool, session: Session, arguments: Object, call: Call, aside: Aside) -> Reply:
    before = session.replies.unsettled()
    try:
        reply = retry_interrupted(lambda: run_tool(tool, session, arguments, call))
    except StoreError as trouble:
        return _told(_failed(trouble, session, call), session)  # a store in trouble has no mail either
    except ConchError as refusal:
        reply = _failed(refusal, session, call)
    except Exception as error:
        reply = _failed(_explain(tool, error), session, call)
    try:
        return _told(reply, session, session.mail(reply.delivered, before, tool.needs_store, aside()))
    except Exception as error:  # the caller gets an error instead, so undo what the reply would have brought
        undo = reply.delivery.not_sent
        return _refused(_explain(tool, error), session)._replace(delivery=Delivery(sent=undo, not_sent=undo))


def _told(reply: Reply, session: Session, mail: Mail | None = None) -> Reply:
    """The reply with the same facts in its object and in its text, and with what to do next and the mail in both."""
    following = session.say(reply.next)
    ending = [f"Next: {following}"] if following and following not in reply.text else []
    # A long value in a refusal is the caller's own text, which the message quotes as far as needed.
    facts = _without_long(reply.data) if reply.is_error else reply.data
    text = tell(facts, "\n".join([reply.text, *tell_warnings(reply.data)]), *ending, told=reply.told)
    data = {**reply.data, "next": following} if following else reply.data
    if mail:
        from conch.tools.mail_view import view_mail

        shown, lines = view_mail(mail, session.budget())
        data, text = {**data, "mail": shown}, "\n".join([text, *lines])
    return reply._replace(data=data, text=visible(text))  # names are not behind a margin, so escape them here


def _without_long(data: Object) -> Object:
    return {name: value for name, value in data.items() if not (isinstance(value, str) and len(value) > _LONGEST_FACT)}


def _explain(tool: Tool, error: Exception) -> ConchError:
    """The error for an unexpected failure: the system has run out of something, or the store or conch has a defect."""
    lack = find_lack(error)
    if lack is not None:
        print(f"conch: {tool.name} failed, because {lack}.", file=sys.stderr)
        return ResourcesExhausted(f"{tool.name} failed, because {lack}. Check what was changed, and try again later.")
    sys.excepthook(*sys.exc_info())  # the traceback goes to our log, never to a client; this imports nothing
    message = f"{tool.name} failed unexpectedly. Check what was changed. {IF_SOUND}: see the server's log."
    return InternalError(message)


def _failed(error: ConchError, session: Session, call: Call) -> Reply:
    """The reply to a call that failed. It may have brought something all the same, if a commit is in doubt."""
    reply = _refused(error, session)
    return reply if call.undo is None else reply._replace(delivery=undone_by(call.undo))


def _refused(refusal: ConchError, session: Session) -> Reply:
    budget, step = session.budget(), refusal.advice.step if refusal.advice else ""
    message = refusal.advised({step: session.say(STEPS.get(step, ""))})
    text = behind_margin(message, first=f"{refusal.code}: ")
    budget.spend(message, text)
    data, lines = budget.cut_lists(known(**refusal.to_dict()))
    return Reply({**data, "message": message}, "\n".join([text, *lines]), is_error=True)
