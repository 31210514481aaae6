"""Prompts and resources over HTTP, and what clients watch there. The official SDK carries the messages."""

from __future__ import annotations

from collections.abc import Callable, Container, Coroutine
from contextlib import suppress
from functools import partial

import anyio
import mcp_types as types
from anyio import from_thread
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from conch.calls import Call
from conch.doors.web.threads import exhausted
from conch.errors import ConchError, InvalidArgument, StoreError
from conch.lean import Any
from conch.tools.prompts import get_prompt, offered_prompts
from conch.tools.resources import LONGEST_URI, Watch, explain, offered_resources, read_resource
from conch.tools.session import Session

_MOST_WATCHES = 200  # each holds a thread
_RETRY_SECONDS = 1.0
_NOT_FOUND = -32002  # only before the stateless era
_STATELESS = "2026-07-28"

_Context = ServerRequestContext[Any, Any]
_Page = types.PaginatedRequestParams | None


class Resources:
    def __init__(self, offered: Container[str], session_of: Callable[[_Context], Session]) -> None:
        self._offered = offered
        self._session_of = session_of
        self._resources = offered_resources(offered)
        self._watches: set[Call] = set()
        self._subscriptions: dict[tuple[Session, str], Call] = {}
        self._tasks: TaskGroup | None = None
        self._limiter: anyio.CapacityLimiter | None = None

    def start(self, tasks: TaskGroup) -> None:
        """Watch in these tasks, until `stop`."""
        self._tasks, self._limiter = tasks, anyio.CapacityLimiter(_MOST_WATCHES)

    def stop(self) -> None:
        """End all watching. Streams of the stateless era end cleanly."""
        for call in list(self._watches):
            call.cancel()

    def handlers(self) -> dict[str, Any]:
        """What the SDK's server calls for each request."""
        return {
            "on_list_prompts": self._list_prompts,
            "on_get_prompt": self._get_prompt,
            "on_list_resources": self._list_resources,
            "on_list_resource_templates": self._list_templates,
            "on_read_resource": self._read,
            "on_subscribe_resource": self._subscribe,
            "on_unsubscribe_resource": self._unsubscribe,
            "on_subscriptions_listen": self._stream,
        }

    # -- lists, prompts and reading

    async def _list_prompts(self, context: _Context, params: _Page) -> types.ListPromptsResult:
        _require_first_page(params)
        prompts = [types.Prompt.model_validate(each.listed()) for each in offered_prompts(self._offered)]
        return types.ListPromptsResult(prompts=prompts)

    async def _get_prompt(self, context: _Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        try:
            return types.GetPromptResult.model_validate(get_prompt(params.name, params.arguments, self._offered))
        except InvalidArgument as bad:
            raise MCPError(types.INVALID_PARAMS, f"Invalid params: {bad.message}") from None

    async def _list_resources(self, context: _Context, params: _Page) -> types.ListResourcesResult:
        _require_first_page(params)
        found = [types.Resource.model_validate(each.listed()) for each in self._resources if not each.is_template]
        return types.ListResourcesResult(resources=found)

    async def _list_templates(self, context: _Context, params: _Page) -> types.ListResourceTemplatesResult:
        _require_first_page(params)
        found = [types.ResourceTemplate.model_validate(each.listed()) for each in self._resources if each.is_template]
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def _read(self, context: _Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        session = self._session_of(context)
        try:
            result = await run_sync(read_resource, self._resources, session, params.uri)
        except Exception as problem:  # also a lack of threads, memory or descriptors
            raise _refused(context, session, problem, params.uri) from None
        return types.ReadResourceResult.model_validate(result)

    # -- watching

    async def _subscribe(self, context: _Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        session, uri, tasks = self._session_of(context), params.uri, self._tasks
        watch = await self._watch(context, session, [uri], strict=True)
        if tasks is not None and (session, uri) not in self._subscriptions:
            call = self._subscriptions[session, uri] = self._begin()
            send = partial(context.session.send_resource_updated, uri)
            # The SDK has no public way to learn that a session has ended.
            context.session._connection.exit_stack.callback(call.cancel)
            tasks.start_soon(self._serve, session, uri, watch, call, send)
        return types.EmptyResult()

    async def _serve(
        self, session: Session, uri: str, watch: Watch, call: Call, send: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        try:
            await self._follow(watch, call, lambda _: send())
        finally:
            self._subscriptions.pop((session, uri), None)

    async def _unsubscribe(self, context: _Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        call = self._subscriptions.pop((self._session_of(context), params.uri), None)
        if call is not None:
            call.cancel()
        return types.EmptyResult()

    async def _stream(
        self, context: _Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream of the stateless era. Its first message says what is watched."""
        session, uris = self._session_of(context), params.notifications.resource_subscriptions or []
        watch = await self._watch(context, session, list(dict.fromkeys(uris)), strict=False)
        meta: Any = {SUBSCRIPTION_ID_META_KEY: context.request_id}
        honoured = types.SubscriptionFilter(resource_subscriptions=watch.uris or None)
        begun = types.SubscriptionsAcknowledgedNotificationParams(notifications=honoured, _meta=meta)

        async def send(uri: str) -> None:
            changed = types.ResourceUpdatedNotificationParams(uri=uri, _meta=meta)
            notice = types.ResourceUpdatedNotification(params=changed)
            await context.session.send_notification(notice, related_request_id=context.request_id)

        acknowledged = types.SubscriptionsAcknowledgedNotification(params=begun)
        await context.session.send_notification(acknowledged, related_request_id=context.request_id)
        await self._follow(watch, self._begin(), send)
        return types.SubscriptionsListenResult(_meta=meta)

    async def _watch(self, context: _Context, session: Session, uris: list[str], strict: bool) -> Watch:
        try:
            return await run_sync(Watch, self._resources, session, uris, strict)
        except Exception as problem:  # as above
            raise _refused(context, session, problem, uris[0]) from None

    def _begin(self) -> Call:
        if len(self._watches) >= _MOST_WATCHES:
            raise MCPError(types.INTERNAL_ERROR, f"At most {_MOST_WATCHES} subscriptions can be open. Try again later.")
        call = Call()
        self._watches.add(call)
        return call

    async def _follow(self, watch: Watch, call: Call, send: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """Send a notice for every change, until the call is cancelled or the client is gone."""

        def run() -> None:
            with suppress(Exception):  # cancelled, or the client is gone
                watch.run(call, lambda uri: from_thread.run(send, uri))

        try:
            while not call.cancelled:
                try:
                    await run_sync(run, abandon_on_cancel=True, limiter=self._limiter)
                    return
                except (RuntimeError, MemoryError):
                    # No thread could start. Once one can, `watch` knows what has changed.
                    await anyio.sleep(_RETRY_SECONDS)
        finally:
            call.cancel()
            self._watches.discard(call)


def _require_first_page(params: _Page) -> None:
    if params is not None and params.cursor is not None:
        raise MCPError(types.INVALID_PARAMS, "Invalid params: this list has only one page and takes no cursor.")


def _refused(context: _Context, session: Session, refusal: Exception, uri: str) -> Exception:
    if not isinstance(refusal, ConchError):
        return exhausted(refusal) or refusal
    code = types.INVALID_PARAMS if context.protocol_version == _STATELESS else _NOT_FOUND
    code = types.INTERNAL_ERROR if isinstance(refusal, StoreError) else code
    return MCPError(code, explain(session, refusal), {"uri": uri[:LONGEST_URI]})
