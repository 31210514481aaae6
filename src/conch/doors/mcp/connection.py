"""One MCP connection: reads each message and answers it, or gives it to a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from conch.doors.mcp.client import Client
from conch.doors.mcp.deputy import Deputy
from conch.doors.mcp.pending import Batch, PendingCall, PendingCalls
from conch.doors.mcp.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    STATELESS_VERSION,
    Id,
    Notification,
    Refusal,
    Request,
    decode,
    error_reply,
    is_id,
    may_be_request,
    parse,
    request_id_of,
    result_reply,
)
from conch.doors.mcp.resources import CAPABILITIES, Resources, Work
from conch.doors.mcp.roots import Roots
from conch.doors.mcp.stdio import Cut, Line, Wire
from conch.doors.mcp.workers import FollowUps, Workers, attempt, run_quietly
from conch.lean import Lock, NamedTuple
from conch.tools.calling import call_tool
from conch.tools.registry import Tool
from conch.tools.replies import NOTHING_FOLLOWS, Object, Reply, Task
from conch.tools.session import Session
from conch.tools.text import one_line

_Ask = Callable[[], str | None]
MakeSession = Callable[[_Ask, _Ask], Session]
"""Makes the connection's session from `client_name` and `default_path`."""

_WAITS = ("wait_seconds", "max_wait_ms")
_DRAIN_SECONDS = 0.6  # a harness kills a server that takes long to end
_READ_SECONDS = 0.3  # for a client that has closed its end, to read its last replies
_OUT_OF_MEMORY = "Internal error: there is not enough memory. Check what was changed, and try again later."
_NO_MEMORY = Refusal(INTERNAL_ERROR, _OUT_OF_MEMORY)
_NO_THREAD = Refusal(INTERNAL_ERROR, "Internal error: the system cannot start another thread. Try again later.")
_MOST_ECHOED = 80  # characters of the client's own text that an error repeats


def _nothing() -> None:
    pass


def _wait_of(tool: Tool) -> str | None:
    """The argument that lets a call of the tool wait for other agents, unless it is 0."""
    return next((name for name in _WAITS if name in tool.input_schema["properties"]), None)


class ServerInfo(NamedTuple):
    name: str
    version: str
    instructions: str


class Connection:
    """Serves one client. The thread that calls `serve` reads, gives quick answers, and runs one call at a time.

    Workers run calls that wait for other agents, and those that come while a call runs. See `deputy.py`.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        make_session: MakeSession,
        info: ServerInfo,
        wire: Wire,
        prepare: Task,
        leave: Task,
    ) -> None:
        """`prepare` runs once, after the first reply. `leave` ends the process if `serve` cannot return."""
        self._tools = tools
        self._waits = {name: _wait_of(tool) for name, tool in tools.items()}
        self._introduction: Object = {"capabilities": {"tools": {}, **CAPABILITIES}, "instructions": info.instructions}
        self._wire = wire
        self._prepare: Task | None = prepare
        self._leave = leave
        self._client = Client({"name": info.name, "version": info.version})
        self._workers = Workers()
        self._follow_ups = FollowUps(self._workers)
        self._pending = PendingCalls(wire.outbox, self._follow_ups)
        self._roots = Roots(wire.outbox.send)
        self._session = make_session(lambda: self._client.name, self._roots.first_path)
        self._deputy = Deputy(wire.watched, self._stand_in, wire.wake)
        self._own_task: Task | None = None  # a call that the thread that reads will run
        self._is_busy = False
        """At the last rest, there was something that may need a look now."""
        self._ending = Lock()
        self._has_ended: bool | None = None
        self._resources = Resources(tools, self._session, self._client, wire.outbox, self._workers)

    def serve(self) -> bool:
        """Answer until the wire ends, then cancel the calls in flight. False if a call does not end in time."""
        self._read(self._rest)
        return self._end()

    def _read(self, rest: Callable[[], bool]) -> None:
        for line in self._wire.lines(rest):
            self._insist(self._take, line)

    def _stand_in(self) -> None:
        """Read while the other thread that reads runs a call. If that call does not end, end the connection."""
        self._read(self._rest_of_deputy)
        self._cancel_calls()
        if not self._deputy.is_relieved(_DRAIN_SECONDS):
            self._end()
            self._leave()

    def _end(self) -> bool:
        """Cancel the calls in flight. False if one does not end in time."""
        with self._ending:
            if self._has_ended is None:
                self._has_ended = self._end_calls()
            return self._has_ended

    def _cancel_calls(self) -> None:
        self._workers.let_go()
        self._pending.cancel_all()
        self._resources.close()
        self._roots.close()

    def _end_calls(self) -> bool:
        self._cancel_calls()
        run_quietly(partial(self._workers.submit, self._session.close))
        self._wire.outbox.hurry()
        self._follow_ups.retry(at_once=True)
        has_ended = self._workers.drain(_DRAIN_SECONDS)
        if self._pending.are_unread(_READ_SECONDS):  # later there is nobody left to take them back
            self._pending.take_back_unread(patience=0.0)
            has_ended = self._workers.drain(_DRAIN_SECONDS)
        return has_ended

    def _insist(self, act: Callable[..., None], *arguments: object) -> None:
        """Do it again until there is memory for it. Otherwise a request would get no reply, or one without its id."""
        while True:
            try:
                act(*arguments)
                return
            except MemoryError:
                pass  # wait below, where the memory of the attempt is free again
            self._workers.let_go()  # calls that are held back hold memory too
            if not self._wire.wait_for_memory():  # the connection ends
                return

    def _rest(self) -> bool:
        """Called when no line is left. Returns whether to look again soon, even if no further line comes."""
        self._workers.let_go()
        if self._own_task is not None:
            self._deputy.cover(self._run_own_task)
        return self._note_busy()

    def _rest_of_deputy(self) -> bool:
        self._deputy.check()
        self._workers.let_go()
        return self._note_busy()

    def _note_busy(self) -> bool:
        self._is_busy = self._pending.is_busy or self._follow_ups.is_busy
        return self._is_busy

    def _run_own_task(self) -> None:
        task, self._own_task = self._own_task, None
        while task is not None and not attempt(task) and self._wire.wait_for_memory():
            pass

    def _take(self, line: Line) -> None:
        if self._is_busy:
            self._pending.take_back_unread()
            self._follow_ups.retry()
            self._workers.restart()
        if isinstance(line, Cut):
            self._refuse_cut(line)
        elif line and not line.isspace():
            self._receive(line)
            if self._prepare is not None:
                self._prepare_once(self._prepare)

    def _refuse_cut(self, cut: Cut) -> None:
        """Answer a line that was given up, once: as soon as its id is known, or at its end."""
        is_clear = request_id_of(cut.head) is not None or not may_be_request(cut.head)
        if is_clear != (cut.tail is None):
            return
        request_id = request_id_of(cut.head, cut.tail or b"")
        code, what = (PARSE_ERROR, "Parse error") if request_id is None else (INVALID_REQUEST, "Invalid request")
        message = f"{what}: the line is too long, or there is not enough memory for it."
        self._refuse(Refusal(code, message, request_id=request_id), None)

    def _prepare_once(self, prepare: Task) -> None:
        """After the first reply, load what later calls and their errors need: when files run out, it is too late."""
        self._prepare = None
        self._deputy.start()
        with suppress(RuntimeError, MemoryError):
            self._workers.submit(prepare)

    def _receive(self, line: bytes) -> None:
        try:
            message = decode(line)
        except Refusal as refusal:
            self._refuse(refusal, None)
            return
        if isinstance(message, list):
            self._receive_batch(message)
        else:
            self._insist(self._respond, message, None)

    def _receive_batch(self, messages: list[object]) -> None:
        if not messages or not self._client.may_batch:
            refusal = Refusal(INVALID_REQUEST, "Invalid request: this protocol version does not allow batches.")
            self._refuse(refusal, None)
            return
        batch = Batch()
        gate = self._pending.hold(batch)  # keeps the batch open until all its messages are handled
        try:
            for message in messages:
                self._insist(self._respond, message, batch)
        finally:
            self._insist(self._pending.finish, gate, b"")

    def _respond(self, message: object, batch: Batch | None) -> None:
        try:
            self._handle(message, batch)
        except Refusal as refusal:
            self._refuse(refusal, batch)

    def _handle(self, message: object, batch: Batch | None) -> None:
        parsed = parse(message)
        if isinstance(parsed, Notification):
            self._notice(parsed)
        elif isinstance(parsed, Request):
            try:
                result = self._answer(parsed, batch)
                reply = b"" if result is None else result_reply(parsed.id, result)
            except Refusal as refusal:
                refusal.request_id = parsed.id
                raise
            except MemoryError:
                raise Refusal(INTERNAL_ERROR, _OUT_OF_MEMORY, request_id=parsed.id) from None
            if reply:
                self._reply(reply, batch)
        else:
            self._roots.answer(parsed.id, parsed.result)

    def _refuse(self, refusal: Refusal, batch: Batch | None) -> None:
        self._reply(error_reply(refusal.request_id, refusal), batch)

    def _reply(self, reply: bytes, batch: Batch | None) -> None:
        if batch is None:
            self._wire.outbox.send(reply)
        else:
            self._insist(self._pending.finish, self._pending.hold(batch), reply)

    def _notice(self, notice: Notification) -> None:
        if notice.method == "notifications/cancelled":
            request_id = notice.params.get("requestId")
            if is_id(request_id):
                self._pending.cancel(request_id)
        elif notice.method == "notifications/initialized" and self._client.has_roots:
            self._roots.open()
        elif notice.method == "notifications/roots/list_changed":
            self._roots.forget()

    def _answer(self, request: Request, batch: Batch | None) -> Object | None:
        """The result, or None if a worker will send it."""
        if request.method == "initialize":
            if batch is not None:
                raise Refusal(INVALID_REQUEST, "Invalid request: initialize cannot be part of a batch.")
            agreed = self._client.initialize(request.params)
            self._roots.close()  # this may be another client behind the same proxy, with other roots or none
            self._resources.close()
            return {**agreed, **self._introduction}
        self._client.admit(request)
        if request.method == "tools/call":
            self._start_call(request, batch)
            return None
        if request.method == "tools/list":
            return self._list_tools(request.params)
        if self._resources.serves(request.method):
            answer = self._resources.answer(request)
            if isinstance(answer, dict):
                return answer
            self._start(request, batch, request.method, answer)
            return None
        if request.method == "server/discover" and self._client.stateless:
            return self._client.shape({"supportedVersions": [STATELESS_VERSION], **self._introduction}, cacheable=True)
        if request.method == "ping" and not self._client.stateless:  # the stateless era has no ping
            return {}
        raise Refusal(METHOD_NOT_FOUND, f"Method not found: {one_line(request.method[:_MOST_ECHOED])}")

    def _list_tools(self, params: Object) -> Object:
        if params.get("cursor") is not None:
            raise Refusal(INVALID_PARAMS, "Invalid params: tools/list has only one page and takes no cursor.")
        return self._client.shape(
            {"tools": [tool.listed(self._tools) for tool in self._tools.values()]}, cacheable=True
        )

    def _start_call(self, request: Request, batch: Batch | None) -> None:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None or not isinstance(name, str):  # a type checker does not see that the first is enough
            raise Refusal(INVALID_PARAMS, f"Unknown tool: {one_line(str(name)[:_MOST_ECHOED])}")
        if arguments is not None and not isinstance(arguments, dict):
            raise Refusal(INVALID_PARAMS, "Invalid params: arguments must be an object.")
        self._session.note_sessions(request.meta)
        arguments = arguments or {}
        wait = self._waits[name]
        is_brief = wait is None or arguments.get(wait) == 0
        self._start(request, batch, name, partial(self._call, request.id, tool, arguments), is_brief)

    def _start(self, request: Request, batch: Batch | None, name: str, work: Work, is_brief: bool = False) -> None:
        """Do the work for a request. It can be cancelled, and it can report progress.

        The thread that reads does it at its next rest if it `is_brief` and a deputy is free; otherwise a worker does.
        """
        token = request.meta.get("progressToken")
        pending = self._pending.begin(request.id, batch, token if is_id(token) else None)
        pending.work = work
        if is_brief and self._own_task is None and self._deputy.is_free:
            self._own_task = partial(self._run, pending, request.id, name, self._deputy.dismiss)
            return
        try:
            give_up = partial(self._give_up, pending, request.id, _NO_THREAD)
            self._workers.hold(partial(self._run, pending, request.id, name), give_up)
        except (RuntimeError, MemoryError):
            self._insist(self._give_up, pending, request.id, _NO_THREAD)

    def _give_up(self, pending: PendingCall, request_id: Id, refusal: Refusal) -> None:
        self._pending.finish(pending, error_reply(request_id, refusal))

    def _run(self, pending: PendingCall, request_id: Id, name: str, is_done: Task = _nothing) -> None:
        """Do the work and deliver its reply. Whatever fails, the client gets a reply.

        It calls `is_done` before it sends a reply that nothing follows, because sending does not wait.

        If there is not even memory for an error, this raises MemoryError. It must then be called again later.
        """
        try:
            self._work_and_reply(pending, request_id, name, is_done)
        finally:
            for task in pending.call.postponed():
                run_quietly(task)

    def _work_and_reply(self, pending: PendingCall, request_id: Id, name: str, is_done: Task) -> None:
        line, why = None, _NO_MEMORY
        try:
            line = pending.do_work()
        except Refusal as refusal:
            why = refusal
        except MemoryError:
            self._wire.spare_memory()
        except Exception as error:
            why = Refusal(INTERNAL_ERROR, f"Internal error: the result of {name} cannot be sent: {error}")
        if line is not None:
            if pending.brought is NOTHING_FOLLOWS:
                is_done()
            self._pending.finish(pending, line, pending.brought)
            return
        # The client gets an error instead, so undo what can be undone.
        undo = pending.call.undo if pending.brought is NOTHING_FOLLOWS else None
        self._follow_ups.run(pending.brought.not_sent if undo is None else undo)
        self._give_up(pending, request_id, why)

    def _call(self, request_id: Id, tool: Tool, arguments: Object, pending: PendingCall) -> bytes:
        pending.call.postpone_tidying()
        reply = call_tool(tool, self._session, arguments, pending.call)
        pending.brought = reply.delivery
        return self._write_result(request_id, reply)

    def _write_result(self, request_id: Id, reply: Reply) -> bytes:
        result: Object = {
            "content": [{"type": "text", "text": reply.text}],
            "structuredContent": reply.data,
            "isError": reply.is_error,
        }
        return result_reply(request_id, self._client.shape(result))
