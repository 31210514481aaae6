"""What a tool is, and how any door calls one."""

from __future__ import annotations

import sys
from collections.abc import Callable

from conch.calls import Call, retry_interrupted
from conch.errors import ConchError, InternalError, InvalidArgument, StoreError
from conch.tools.schema import check_arguments
from conch.tools.session import Session
from conch.typed import Any, NamedTuple

Object = dict[str, Any]

# Each seed has its own word for an argument that cannot be used.
INVALID_ARGUMENT = {"bus": "INVALID_ARGUMENT", "questions": "INVALID_ARGUMENT", "scopes": "INVALID_ARGS"}


class Result(NamedTuple):
    """What a handler returns: an object for programs, a short text for models.

    The door that has written it calls `delivered`; the one that could not calls `undo`. Where a reply crosses the
    client's cancellation, which has it thrown away, `retract` begins to take back what was delivered, and returns what
    is left to do of it.
    """

    data: Object
    text: str
    undo: Callable[[], None] | None = None
    delivered: Callable[[], None] | None = None
    retract: Callable[[], Callable[[], None]] | None = None


class Outcome(NamedTuple):
    """What a door sends, and what it calls once that was written, or could not be."""

    data: Object
    text: str
    is_error: bool = False
    undo: Callable[[], None] | None = None
    delivered: Callable[[], None] | None = None
    retract: Callable[[], Callable[[], None]] | None = None


class Tool(NamedTuple):
    name: str
    group: str
    title: str
    description: str
    input_schema: Object
    handler: Callable[[Session, Object, Call], Result]
    annotations: Object

    def listed(self) -> Object:
        """The entry of `tools/list`."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations,
        }


def run_tool(tool: Tool, session: Session, arguments: Object, call: Call) -> Result:
    """Check the arguments and run the tool once; a refusal is raised. Even a refused call is a sign of life."""
    try:
        given = check_arguments(tool.name, tool.input_schema, arguments)
        call.renew_with(session.stay_active)
        result = tool.handler(session, given, call)
    except StoreError:
        raise  # where the store is in trouble, there is nothing to note
    except ConchError as refusal:
        if isinstance(refusal, InvalidArgument):
            refusal.code = INVALID_ARGUMENT.get(tool.group, refusal.code)
        session.note_call()
        raise
    session.note_call()
    return result


def call_tool(tool: Tool, session: Session, arguments: Object, call: Call) -> Outcome:
    """The same for doors that only speak in replies: a refusal becomes an error outcome, nothing is ever raised."""
    try:
        result = retry_interrupted(lambda: run_tool(tool, session, arguments, call))
        return Outcome(result.data, result.text, False, result.undo, result.delivered, result.retract)
    except ConchError as refusal:
        return _refused(refusal)
    except Exception:  # a defect of ours: the trace goes to our log, never to a client
        import traceback

        traceback.print_exc(file=sys.stderr)
        return _refused(InternalError(f"{tool.name} failed inside conch; nothing was changed. See the server's log."))


def _refused(refusal: ConchError) -> Outcome:
    data = refusal.to_dict()
    return Outcome(data, f"{refusal.code}: {refusal.message}", is_error=True)
