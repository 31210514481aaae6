"""What a tool is, and how one runs. A command calls it like this; for an agent, see `calling.py`."""

from __future__ import annotations

from collections.abc import Callable, Container

from conch.calls import Call
from conch.errors import ConchError, InvalidArgument, StoreError
from conch.lean import TYPE_CHECKING, NamedTuple
from conch.tools import fields
from conch.tools.offers import compose, compose_schema
from conch.tools.replies import Object, Reply
from conch.tools.schema import check_arguments, listed_schema
from conch.tools.session import Session

if TYPE_CHECKING:
    from conch.storage.base import Replacement

# The code for an invalid argument, in the groups that have their own.
_INVALID_ARGUMENT = {"bus": "INVALID_ARGUMENT", "questions": "INVALID_ARGUMENT", "scopes": "INVALID_ARGS"}


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
        call.names_lease = arguments.get("lease_id") is not None
        if call.names_lease and "lease_id" in given:
            session.app.claims.note_known(given["room_id"], given["lease_id"])
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
    """The refusal of a call whose turn is over, whatever else is wrong with its arguments.

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
    """The reply, with a warning for each time that the store was replaced since the caller's last call."""
    from conch.warnings import warning  # rarely needed

    news = [warning("STORE_REPLACED", each.message, **each.details) for each in replacements]
    return reply._replace(data={**reply.data, "warnings": [*reply.data.get("warnings", []), *news]})
