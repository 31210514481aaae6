"""MCP over HTTP at `/mcp`: the same tools as `conch mcp`, served by the official SDK.

A word in the address says which agent calls: `/mcp?agent=WORD`. Without one, each MCP session is one agent, which is
gone when the session ends. The stateless form of the protocol has no sessions. There, all calls of one client program
without a word are one agent. Such an agent, or one with a word, may always call again, so only its silence shows that
it is gone.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio
import mcp_types as types
from anyio import from_thread
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from conch import __version__
from conch.agents.connections import end_sessions
from conch.agents.signals import remote_signals
from conch.app import App
from conch.doors.web.mcp_calls import MOST_CALLS, TROUBLES, AnsweredCalls, Caller, ReplyWriter, Run
from conch.doors.web.replies import refused
from conch.doors.web.resources import Resources
from conch.doors.web.threads import exhausted, surely
from conch.errors import InvalidArgument, StoreError
from conch.lean import Any
from conch.tools.calling import call_tool
from conch.tools.registry import Tool
from conch.tools.replies import Delivery, Object, Task
from conch.tools.session import Session
from conch.tools.text import encodable, one_line, well_formed

_MOST_SESSIONS = 1_000
_MOST_THREADS = 1_024
_MOST_BODY_BYTES = 1024 * 1024
_IDLE_SECONDS = 4 * 3_600.0  # as long as a silent agent counts as active
_LONGEST_WORD = 64
_LAST_SECONDS = 0.4
_PATIENCE_SECONDS = 10.0  # how long a client may leave a reply unread, as for `conch mcp`
_FIRST_LOOK_SECONDS = 0.05
_LOOK_SECONDS = 0.5  # between two looks at what is unread
_ENDING_SECONDS = 1.0  # a store that does not answer must not keep the server from stopping
_RETRY_SECONDS = 1.0  # between two tries of what the store did not let us do
_MOST_POSTPONED = 1_000
_CALLER = "conch.caller"
_SESSION = "session "  # the beginning of the key of an agent that is a session
_TURNS = 5  # rounds of the event loop, after which the server knows whether the client has closed the connection

_Context = ServerRequestContext[Any, Any]


class McpDoor:
    """An ASGI application for one address."""

    def __init__(self, app: App, tools: Mapping[str, Tool], instructions: str) -> None:
        self._app = app
        self._tools = tools
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._calls: set[Run] = set()
        self._answered: OrderedDict[str, AnsweredCalls] = OrderedDict()
        self._postponed: deque[Task] = deque(maxlen=_MOST_POSTPONED)
        self._tasks: TaskGroup | None = None
        self._limiter: anyio.CapacityLimiter | None = None
        self._stopped: anyio.Event | None = None
        self._resources = Resources(tools, self._session)
        server: Server[Any] = Server(
            "conch",
            version=__version__,
            instructions=instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            **self._resources.handlers(),
        )
        server.add_notification_handler(
            "notifications/cancelled", types.CancelledNotificationParams, self._cancel_answered
        )
        self._manager = StreamableHTTPSessionManager(
            server,
            session_idle_timeout=_IDLE_SECONDS,
            max_request_body_size=_MOST_BODY_BYTES,
            max_sessions=_MOST_SESSIONS,
        )

    # -- its life

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Inside, requests are served until `stop`."""
        self._limiter, self._stopped = anyio.CapacityLimiter(_MOST_THREADS), anyio.Event()
        ready, stopped = anyio.Event(), self._stopped

        async def run() -> None:
            async with self._manager.run():
                ready.set()
                await stopped.wait()
                with anyio.move_on_after(_LAST_SECONDS):  # for the last replies
                    while self._calls:
                        await anyio.sleep(_LAST_SECONDS / 20)

        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._resources.start(tasks)
            tasks.start_soon(run)
            tasks.start_soon(self._retry)
            await ready.wait()
            try:
                yield
            finally:
                self.stop()
        with anyio.move_on_after(_ENDING_SECONDS):
            keys = [key for key in self._sessions if key.startswith(_SESSION)]
            await self._end(keys)

    def stop(self) -> None:
        """Cancel what runs and end the streams."""
        for run in list(self._calls):
            run.abandon()
        self._resources.stop()
        if self._stopped is not None:
            self._stopped.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._stopped is None or self._stopped.is_set():
            await refused("STOPPING", "The server is stopping.", 503)(scope, receive, send)
            return
        caller = Caller(scope)

        async def watch() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                caller.leave()
            return message

        async def about_to_write(size: int) -> None:
            if caller.run is not None and caller.run.has_replied:
                caller.begins_at = caller.output.size
                for _ in range(_TURNS):
                    await anyio.sleep(0)
                with anyio.move_on_after(0):
                    await watch()
                caller.gets_reply = not caller.is_gone
            caller.output.size += size

        async def answer(message: Message) -> None:
            if scope["method"] == "DELETE" and message["type"] == "http.response.start" and message["status"] == 200:
                key = _SESSION + Headers(scope=scope).get("mcp-session-id", "")
                await self._end([key])
            await send(message)

        reply = ReplyWriter(answer, about_to_write, lambda: self._settle(caller))
        try:
            await self._manager.handle_request({**scope, _CALLER: caller}, watch, reply)
            await reply.end()
        finally:
            caller.leave()
            await self._settle(caller)

    async def _watch(self, caller: Caller, delivery: Delivery) -> None:
        """Find out whether the client reads its reply. If it reads none of it in time, take back what that brought.

        The client may have sent further requests on the same connection without reading any reply.
        """
        assert self._stopped is not None
        deadline, pause, output = anyio.current_time() + _PATIENCE_SECONDS, _FIRST_LOOK_SECONDS, caller.output
        while True:
            with anyio.move_on_after(pause):
                await output.reset.wait()
            pause, found = _LOOK_SECONDS, caller.look()
            if found is None and not self._stopped.is_set():
                continue
            is_unread = bool(found)
            output.is_late = is_unread and (output.is_late or anyio.current_time() >= deadline)
            if output.reset.is_set() or not is_unread or output.is_late or self._stopped.is_set():
                break
        if not is_unread:
            delivery.read()
        elif output.reset.is_set():
            await self._take_back(delivery.retracted)
        else:
            with anyio.move_on_after(_LOOK_SECONDS):  # the client may have read another reply that tells of the same
                await self._stopped.wait()
            await self._take_back(delivery.unread)

    async def _take_back(self, undo: Callable[[Callable[[Task], None]], None]) -> None:
        tasks: list[Task] = []
        undo(tasks.append)
        for task in tasks:
            await self._try(task)

    async def _try(self, task: Task) -> None:
        with suppress(Exception):  # what cannot be taken back any more, because the room is gone or another one has it
            try:
                await surely(task, self._limiter)
            except TROUBLES:
                self._postponed.append(task)

    async def _retry(self) -> None:
        """Do what was postponed, now and then until it works: a claim that no agent knows of would block a room."""
        assert self._stopped is not None
        while True:
            with anyio.move_on_after(_RETRY_SECONDS):
                await self._stopped.wait()
                return  # then the agents of all sessions are gone
            for _ in range(len(self._postponed)):
                await self._try(self._postponed.popleft())

    async def _end(self, keys: list[str]) -> None:
        """Record that the agents of these sessions are gone, because no client can go on as one of them."""
        ended = {session.sole_agent_id for key in keys if (session := self._sessions.pop(key, None)) is not None}
        others = {session.sole_agent_id for session in self._sessions.values()}
        found = sorted(each for each in ended - others if each is not None)
        if found:
            with suppress(StoreError, RuntimeError):  # then only their silence shows it
                await run_sync(end_sessions, self._app.store, found, abandon_on_cancel=True, limiter=self._limiter)

    async def _settle(self, caller: Caller) -> None:
        """Count what a reply brought as delivered, or take it back if its client went away before it was written.

        A client may go away as soon as it has the reply.
        """
        run = caller.run
        if run is None or not run.has_replied:
            return
        with anyio.CancelScope(shield=True):  # a cancellation may wait for the end of this
            delivery = await surely(partial(run.settle, caller.gets_reply), self._limiter)
            if delivery is not None and delivery.is_retractable and self._tasks is not None:
                self._tasks.start_soon(self._watch, caller, delivery)
            if delivery is not None:
                self._answered.setdefault(run.request[0], AnsweredCalls()).note(run.request[1], delivery, caller)
                self._answered.move_to_end(run.request[0])
                while len(self._answered) > _MOST_SESSIONS:
                    self._answered.popitem(last=False)
            self._calls.discard(run)
            run.settled.set()

    async def _cancel_answered(self, context: _Context, params: types.CancelledNotificationParams) -> None:
        """Take back what a reply brought, if it crossed its cancellation. The SDK itself cancels unanswered calls."""
        request = (_session_id(context), params.request_id)
        for run in [each for each in self._calls if each.request == request and each.has_replied]:
            await run.settled.wait()
        answered = self._answered.get(request[0])
        delivery = answered.cancel(params.request_id) if answered is not None else None
        if delivery is not None:
            await self._take_back(delivery.retracted)

    # -- its tools

    async def _list_tools(
        self, context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        if params is not None and params.cursor is not None:
            message = "Invalid params: tools/list has only one page and takes no cursor."
            raise MCPError(types.INVALID_PARAMS, message)
        return types.ListToolsResult(
            tools=[types.Tool.model_validate(tool.listed(self._tools)) for tool in self._tools.values()]
        )

    async def _call_tool(self, context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {one_line(params.name[:80])}")
        meta: Object = dict(context.meta or {})
        session = self._session(context)
        session.note_sessions(meta)
        own = [each for each in self._calls if each.session is session]
        if len(own) >= MOST_CALLS or len(self._calls) >= _MOST_THREADS:
            raise MCPError(types.INTERNAL_ERROR, "Too many requests at once. Wait for a reply, then try again.")
        for former in own:
            if former.has_replied:
                await former.settled.wait()  # the client has its reply, but the store may not know yet
        request = (_session_id(context), context.request_id)
        act = partial(call_tool, tool, session, params.arguments or {})
        run = Run(act, session, _progress(context, meta), request, self._postponed.append)
        caller: Caller = context.request.scope[_CALLER] if context.request is not None else Caller({})
        caller.start(run)
        self._calls.add(run)
        try:
            reply = await run_sync(run.work, abandon_on_cancel=True, limiter=self._limiter)
        except BaseException as problem:
            run.lose()
            if isinstance(problem, Exception) and (refusal := exhausted(problem)) is not None:
                raise refusal from None
            raise
        finally:
            if not run.has_replied:  # otherwise it counts until its reply is settled
                self._calls.discard(run)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=encodable(reply.text))],
            structured_content=_sendable(reply.data),
            is_error=reply.is_error,
        )

    def _session(self, context: _Context) -> Session:
        """The session of an agent. Agents that have been silent for longest are forgotten first, and found again."""
        client = context.session.client_params
        name = client.client_info.name if client is not None else ""
        key = _key_of(context, name)
        if key not in self._sessions:
            self._sessions[key] = Session(
                self._app,
                "web",
                client_name=lambda: name or None,
                default_path=_no_path,
                offered=self._tools,
                signals=lambda called_in: remote_signals(name, key, called_in),
            )
            while len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)[1].close()
        self._sessions.move_to_end(key)
        return self._sessions[key]


def _sendable(data: Object) -> Object:
    """The data without half a surrogate pair. The SDK fails to send one, and then the client waits forever."""
    text = json.dumps(data, ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:
        return dict(json.loads(well_formed(text)))
    return data


def _key_of(context: _Context, client_name: str) -> str:
    """What tells one agent from another: the word in the address, its MCP session, or else its program."""
    request, session_id = context.request, _session_id(context)
    given = request.query_params.get("agent", "") if request is not None else ""
    if len(given) > _LONGEST_WORD:
        raise MCPError(types.INVALID_PARAMS, f"agent in the address has more than {_LONGEST_WORD} characters.")
    if given:
        return f"agent {given}"
    return f"{_SESSION}{session_id}" if session_id else f"client {client_name}"


def _session_id(context: _Context) -> str:
    """The MCP session; empty in the stateless form of the protocol."""
    return context.request.headers.get("mcp-session-id", "") if context.request is not None else ""


def _no_path() -> str | None:
    message = "context_path is required here, because the server cannot see your working directory."
    raise InvalidArgument(message, field="context_path")


def _progress(context: _Context, meta: Object) -> Callable[[str], None] | None:
    """What reports progress to the client, if it wants that. Tools call it on their own threads."""
    token = meta.get("progress_token", meta.get("progressToken"))
    if token is None:
        return None
    reports = 0

    def report(text: str) -> None:
        nonlocal reports
        reports += 1
        related = None if context.request_id is None else str(context.request_id)
        send = context.session.send_progress_notification
        with suppress(Exception):  # the client is gone, or the server is stopping
            from_thread.run(lambda: send(token, reports, message=one_line(text), related_request_id=related))

    return report
