"""How a request becomes a call of the domains: on a thread, with checked arguments, and with errors as JSON."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator

import anyio
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from conch.agents.people import Person
from conch.agents.records import Caller
from conch.agents.signals import console_signals
from conch.app import App
from conch.calls import retry_interrupted
from conch.clock import to_iso
from conch.doors.web.replies import JSON, refusal, refused
from conch.errors import IF_SOUND, ConchError, InternalError, InvalidArgument, ResourcesExhausted, find_lack
from conch.lean import Lock, NamedTuple
from conch.tools import fields
from conch.tools.replies import Object
from conch.tools.schema import check_arguments
from conch.tools.session import Session

_MOST_THREADS = 32
_PATIENCE_SECONDS = 10.0  # a request is refused if the store takes longer to answer
_SLOW_SECONDS = 0.25
_MOST_SLOW = 20

TEXT: Object = {"type": "string", "minLength": 1}
ID: Object = {"type": "string", "minLength": 1, "maxLength": fields.LONGEST_ID}
REASON: Object = {"type": "string"}

Work = Callable[[Object], Object]
Endpoint = Callable[[Request], Awaitable[Response]]


class Action(NamedTuple):
    """One thing that a person can do."""

    run: Callable[[Object], Object]
    schema: Object
    warning: str = ""
    """What a person should know first. Such an action must be confirmed."""
    patience: float = _PATIENCE_SECONDS


class _Slow(NamedTuple):
    """A call that took long."""

    what: str
    milliseconds: int
    at: float


class Desk:
    """Runs the requests of the pages. The domains are synchronous, so each request takes a thread."""

    def __init__(self, app: App) -> None:
        self.app = app
        self._session = Session(app, "web", signals=lambda called_in: console_signals(os.environ))
        self.slow: deque[_Slow] = deque(maxlen=_MOST_SLOW)
        self._limiter: anyio.CapacityLimiter | None = None
        self._lock = Lock()

    def caller(self) -> Caller:
        """The user who started the server, as `human:<user>:console`."""
        return self._session.caller()

    def person(self) -> Person:
        """The same as a person, which the token proves."""
        return Person(self.caller())

    def viewer_id(self) -> str:
        """The agent_id of the person."""
        with self._lock:  # one thread identifies the person; the others wait
            return self.caller().agent_id

    def reading(self, work: Work, schema: Object) -> Endpoint:
        """An endpoint that reads. Its arguments come from the path and the query."""

        async def endpoint(request: Request) -> Response:
            given: Object = {**request.query_params, **request.path_params}

            def read() -> Object:
                return work(check_arguments("this address", schema, _typed(given, schema)))

            return await self.run(request.url.path, read)

        return endpoint

    def exporting(self, work: Callable[[Object], Iterator[str]], schema: Object) -> Endpoint:
        """An endpoint that sends a file, however large it is."""

        async def endpoint(request: Request) -> Response:
            given: Object = {**request.query_params, **request.path_params}
            found: list[Iterator[str]] = []

            def begin() -> Object:
                found.append(work(check_arguments("this address", schema, given)))
                return {}

            begun = await self.run(request.url.path, begin)
            if not found:
                return begun
            ending = "jsonl" if given.get("format") == "jsonl" else "md"
            headers = {"content-disposition": f'attachment; filename="topic.{ending}"'}
            kind = "application/x-ndjson" if ending == "jsonl" else "text/markdown"
            pieces = (piece.encode(errors="backslashreplace") for piece in found[0])
            return StreamingResponse(pieces, media_type=kind, headers=headers)

        return endpoint

    async def run(self, what: str, work: Callable[[], Object], patience: float = _PATIENCE_SECONDS) -> Response:
        """The reply to one request. Only a defect of ours is an internal error."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_MOST_THREADS)
        began = time.monotonic()
        try:
            with anyio.fail_after(patience):
                data = await run_sync(
                    lambda: retry_interrupted(lambda: self._with_time(work())),
                    abandon_on_cancel=True,
                    limiter=self._limiter,
                )
            return JSON(data)
        except TimeoutError:
            return refused("DB_BUSY", "The store does not answer. Try again later, and check what was changed.", 503)
        except ConchError as trouble:
            return refusal(trouble)
        except Exception as error:
            return refusal(_explain(what, error))
        finally:
            self._note(what, time.monotonic() - began)

    def _with_time(self, data: Object) -> Object:
        if "now" in data:  # the store cannot say what time it is
            return data
        with self.app.store.read() as tx:
            return {"now": to_iso(tx.now), **data}

    def _note(self, what: str, seconds: float) -> None:
        if seconds >= _SLOW_SECONDS:
            self.slow.append(_Slow(what, int(seconds * 1_000), time.time()))


def _explain(what: str, error: Exception) -> ConchError:
    """The reply to an unexpected failure. Its traceback goes to the log of the server."""
    lack = find_lack(error)
    if lack is not None:
        return ResourcesExhausted(f"The request failed, because {lack}. Check what was changed, and try again later.")
    print(f"conch: {what} failed:", file=sys.stderr)
    sys.excepthook(type(error), error, error.__traceback__)
    return InternalError(f"The request failed unexpectedly. {IF_SOUND}: see the server's log.")


def _typed(query: Object, schema: Object) -> Object:
    """The values of a query, which are texts, as the types that the schema wants."""
    return {name: _typed_value(name, value, schema["properties"].get(name, {})) for name, value in query.items()}


def _typed_value(name: str, value: str, schema: Object) -> object:
    kind = schema.get("type")
    if kind == "integer":
        if not value.isascii() or not value.isdecimal() or len(value) > 16:
            raise InvalidArgument(f"{name} must be a whole number.", field=name)
        return int(value)
    if kind == "boolean":
        if value not in ("0", "1", "true", "false"):
            raise InvalidArgument(f"{name} must be true or false.", field=name)
        return value in ("1", "true")
    return value
