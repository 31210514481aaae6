"""What a tool is, and how any door calls one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container

from conch.calls import Call, retry_interrupted
from conch.errors import ConchError, InternalError, InvalidArgument, ResourcesExhausted, StoreError, find_lack
from conch.lean import TYPE_CHECKING, NamedTuple
from conch.tools import fields
from conch.tools.advice import STEPS
from conch.tools.offers import compose, compose_schema
from conch.tools.replies import Delivery, Object, Reply, known, undone_by
from conch.tools.schema import check_arguments, listed_schema
from conch.tools.session import Session
from conch.tools.text import behind_margin, visible

if TYPE_CHECKING:
    from conch.notices.mail import Mail, Seen
    from conch.storage.base import Replacement

# The code for an invalid argument, in the groups that have their own.
_INVALID_ARGUMENT = {"bus": "INVALID_ARGUMENT", "questions": "INVALID_ARGUMENT", "scopes": "INVALID_ARGS"}

_LONGEST_FACT = 200


class Tool(NamedTuple):
    """A tool has the name of its handler."""

    handler: Callable[[Session, Object, Call], Reply]
    title: str
    description: str
    input_schema: Object
    annotations: Object
    group: str = ""
    needs_store: bool = True

    @property
    def name(self) -> str:
        return self.handler.__name__

    def listed(self, offered: Container[str] | None = None) -> Object:
        """The entry of `tools/list`, for a client that is offered these tools."""
        return {
            "name": self.name,
            "title": self.title,
            "description": compose(self.description, offered),
            "inputSchema": compose_schema(listed_schema(self.input_schema), offered),
            "annotations": self.annotations,
        }


def grouped(group: str, *tools: Tool) -> tuple[Tool, ...]:
    return tuple(tool._replace(group=group) for tool in tools)


def run_tool(tool: Tool, session: Session, arguments: Object, call: Call) -> Reply:
    """Check the arguments and run the tool once; raises ConchError. Even a refused call keeps the caller active."""
    before = session.begin_call()
    try:
        given = _check(tool, tool.input_schema, session, arguments)
        call.renew_with(session.stay_active)
        reply = tool.handler(session, given, call)
    except StoreError:
        raise  # a store in trouble cannot record presence either
    except ConchError as refusal:
        if isinstance(refusal, InvalidArgument):
            refusal.code = _INVALID_ARGUMENT.get(tool.group, refusal.code)
            refusal = _find_fence(tool, session, arguments) or refusal
        session.note_call()
        for replacement in session.replacements(before):
            refusal.add_cause(replacement.message, store_replaced=replacement.details)
        raise refusal
    session.note_call()
    replacements = session.replacements(before)
    return _warned(reply, replacements) if replacements else reply


def _check(tool: Tool, schema: Object, session: Session, arguments: Object) -> Object:
    """The arguments, checked, with the ids that the connection may leave out."""
    return session.own.complete(schema["properties"], check_arguments(tool.name, schema, arguments))


def _find_fence(tool: Tool, session: Session, arguments: Object) -> ConchError | None:
    """The refusal of the turn in these arguments, whatever else is wrong with them.

    A caller whose turn is over must stop. An error about its handoff would make it fix the handoff and try again.
    """
    shown = {name: schema for name, schema in tool.input_schema["properties"].items() if name in fields.FENCED}
    if "expected_turn_id" not in shown:
        return None
    required = [name for name in tool.input_schema.get("required", ()) if name in shown]
    try:
        schema = {"properties": shown, "required": required}
        ids = _check(tool, schema, session, {name: arguments.get(name) for name in shown})
        session.app.rooms.require_turn(session.caller(), ids["room_id"], ids["expected_turn_id"], ids.get("lease_id"))
    except (InvalidArgument, StoreError):
        return None
    except ConchError as refusal:
        return refusal
    return None


def _warned(reply: Reply, replacements: list[Replacement]) -> Reply:
    """The reply, and that the store was replaced since the caller's last call."""
    from conch.warnings import warning  # rarely needed

    news = [warning("STORE_REPLACED", each.message, **each.details) for each in replacements]
    return reply._replace(data={**reply.data, "warnings": [*reply.data.get("warnings", []), *news]})


def call_tool(tool: Tool, session: Session, arguments: Object, call: Call) -> Reply:
    """Like `run_tool`, but never raises: a refusal, or a defect of ours, becomes an error reply."""
    with session.expecting_mail() as seen, session.staying_active():
        return _call_tool(tool, session, arguments, call, seen)


def _call_tool(tool: Tool, session: Session, arguments: Object, call: Call, seen: Callable[[], Seen]) -> Reply:
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
        return _told(reply, session, session.mail(reply.delivered, before, tool.needs_store, seen()))
    except Exception as error:  # the caller gets an error instead, so undo what the reply would have brought
        undo = reply.delivery.not_sent
        return _refused(_explain(tool, error), session)._replace(delivery=Delivery(sent=undo, not_sent=undo))


def _told(reply: Reply, session: Session, mail: Mail | None = None) -> Reply:
    """The reply with the same facts in its object and in its text, and with what to do next and the mail in both."""
    from conch.tools.facts import tell, tell_warnings  # not at the top: commands have their own texts

    following = session.say(reply.next)
    ending = [f"Next: {following}"] if following and following not in reply.text else []
    # A long value in a refusal is the caller's own text, which the message quotes as far as needed.
    facts = _without_long(reply.data) if reply.is_error else reply.data
    text = tell(facts, "\n".join([reply.text, *tell_warnings(reply.data)]), *ending)
    data = {**reply.data, "next": following} if following else reply.data
    if mail:
        from conch.tools.mail_view import view_mail

        shown, lines = view_mail(mail, session.budget())
        data, text = {**data, "mail": shown}, "\n".join([text, *lines])
    return reply._replace(data=data, text=visible(text))  # names are not behind a margin, so escape them here


def _without_long(data: Object) -> Object:
    return {name: value for name, value in data.items() if not (isinstance(value, str) and len(value) > _LONGEST_FACT)}


def _explain(tool: Tool, error: Exception) -> ConchError:
    """The error for an unexpected failure: the system has run out of something, or conch has a defect."""
    lack = find_lack(error)
    if lack is not None:
        print(f"conch: {tool.name} failed, because {lack}.", file=sys.stderr)
        return ResourcesExhausted(f"{tool.name} failed, because {lack}. Check what was changed, and try again later.")
    sys.excepthook(*sys.exc_info())  # the traceback goes to our log, never to a client; this imports nothing
    message = f"{tool.name} failed because of a defect in conch. See the server's log, and check what was changed."
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
