"""Prompts and resources on one connection, and what its client watches.

A client of the handshake era subscribes to one resource at a time. A client of the stateless era opens a stream for
several; the stream is one request, which lasts until the client cancels it.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial

from conch.calls import Call
from conch.doors.mcp.client import Client
from conch.doors.mcp.outbox import Outbox
from conch.doors.mcp.pending import PendingCall
from conch.doors.mcp.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    SUBSCRIPTION_KEY,
    Id,
    Refusal,
    Request,
    encode,
    result_reply,
)
from conch.doors.mcp.workers import Workers, run_quietly
from conch.errors import Cancelled, ConchError, InvalidArgument, StoreError
from conch.lean import TYPE_CHECKING, Lock
from conch.tools.replies import Object
from conch.tools.session import Session

if TYPE_CHECKING:
    from conch.tools.resources import Resource, Watch

Work = Callable[[PendingCall], bytes]
"""What a worker does for a request. It returns the reply."""

_MOST_SUBSCRIPTIONS = 50
_IN_BOTH_ERAS = ("prompts/list", "prompts/get", "resources/list", "resources/templates/list", "resources/read")
_WITH_HANDSHAKE = ("resources/subscribe", "resources/unsubscribe")
_STATELESS = ("subscriptions/listen",)
CAPABILITIES: Object = {"prompts": {}, "resources": {"subscribe": True}}


class Resources:
    def __init__(
        self, offered: Container[str], session: Session, client: Client, outbox: Outbox, workers: Workers
    ) -> None:
        """`offered` are the names of the tools that the client can call."""
        self._offered = offered
        self._session = session
        self._client = client
        self._outbox = outbox
        self._workers = workers
        self._lock = Lock()
        self._subscriptions: dict[str, Call] = {}

    def serves(self, method: str) -> bool:
        """Whether the method belongs to this class and to the era of the connection."""
        return method in _IN_BOTH_ERAS or method in (_STATELESS if self._client.stateless else _WITH_HANDSHAKE)

    def answer(self, request: Request) -> Object | Work:
        """The result, or what a worker must do for it."""
        params = request.params
        if request.method.endswith("/list"):
            return self._list(request.method, params)
        if request.method == "prompts/get":
            return self._get_prompt(params)
        if request.method == "subscriptions/listen":
            return partial(self._stream, request.id, _watched(params))
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise Refusal(INVALID_PARAMS, "Invalid params: uri must be a string.")
        if request.method == "resources/unsubscribe":
            self._unsubscribe(uri)
            return {}
        return partial(self._read if request.method == "resources/read" else self._subscribe, request.id, uri)

    def close(self) -> None:
        """End all subscriptions."""
        with self._lock:
            calls = list(self._subscriptions.values())
            self._subscriptions.clear()
        for call in calls:
            call.cancel()

    # -- lists and prompts

    def _list(self, method: str, params: Object) -> Object:
        if params.get("cursor") is not None:
            raise Refusal(INVALID_PARAMS, f"Invalid params: {method} has only one page and takes no cursor.")
        if method == "prompts/list":
            from conch.tools.prompts import offered_prompts

            listed = [prompt.listed() for prompt in offered_prompts(self._offered)]
            return self._client.shape({"prompts": listed}, cacheable=True)
        are_templates = method == "resources/templates/list"
        found = [each.listed() for each in self._resources() if each.is_template == are_templates]
        return self._client.shape({"resourceTemplates" if are_templates else "resources": found}, cacheable=True)

    def _get_prompt(self, params: Object) -> Object:
        from conch.tools.prompts import get_prompt

        try:
            return self._client.shape(get_prompt(params.get("name"), params.get("arguments"), self._offered))
        except InvalidArgument as bad:
            raise Refusal(INVALID_PARAMS, f"Invalid params: {bad.message}") from None

    # -- resources

    def _resources(self) -> list[Resource]:
        from conch.tools.resources import offered_resources  # not at the top: it would slow down the start

        return offered_resources(self._offered)

    def _read(self, request_id: Id, uri: str, pending: PendingCall) -> bytes:
        from conch.tools.resources import read_resource

        try:
            result = read_resource(self._resources(), self._session, uri)
        except ConchError as refusal:
            raise self._refused(refusal, uri) from None
        return result_reply(request_id, self._client.shape(result, cacheable=True, seconds=0))

    def _watch(self, uris: list[str], strict: bool = True) -> Watch:
        from conch.tools.resources import Watch

        try:
            return Watch(self._resources(), self._session, uris, strict)
        except ConchError as refusal:
            raise self._refused(refusal, uris[0]) from None

    def _refused(self, refusal: ConchError, uri: str) -> Refusal:
        from conch.tools.resources import LONGEST_URI, explain

        code = INVALID_PARAMS if self._client.stateless else RESOURCE_NOT_FOUND
        code = INTERNAL_ERROR if isinstance(refusal, StoreError) else code
        return Refusal(code, explain(self._session, refusal), {"uri": uri[:LONGEST_URI]})

    # -- the handshake era

    def _subscribe(self, request_id: Id, uri: str, pending: PendingCall) -> bytes:
        watch, call = self._watch([uri]), Call()
        with self._lock:
            if uri not in self._subscriptions:
                if len(self._subscriptions) >= _MOST_SUBSCRIPTIONS:
                    message = f"At most {_MOST_SUBSCRIPTIONS} resources can be watched. Unsubscribe from one first."
                    raise Refusal(INVALID_PARAMS, message)
                self._subscriptions[uri] = call
                self._workers.submit(partial(self._run, watch, call, self._notify))
        return result_reply(request_id, {})

    def _unsubscribe(self, uri: str) -> None:
        with self._lock:
            call = self._subscriptions.pop(uri, None)
        if call is not None:
            call.cancel()

    def _run(self, watch: Watch, call: Call, notify: Callable[[str], None]) -> None:
        run_quietly(partial(_until_cancelled, watch, call, notify))

    # -- the stateless era

    def _stream(self, request_id: Id, uris: list[str], pending: PendingCall) -> bytes:
        """Serve one stream. What cannot be watched is left out of the first message, which says what is watched."""
        watch = self._watch(uris, strict=False)
        meta = {SUBSCRIPTION_KEY: request_id}
        honoured = {"resourceSubscriptions": watch.uris} if watch.uris else {}
        self._send("notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": meta})
        _until_cancelled(watch, pending.call, partial(self._notify, meta=meta))
        result = self._client.shape({})
        return result_reply(request_id, {**result, "_meta": {**result["_meta"], **meta}})

    def _notify(self, uri: str, meta: Object | None = None) -> None:
        if not self._outbox.is_full:  # a client that does not read needs no more lines
            self._send("notifications/resources/updated", {"uri": uri, "_meta": meta} if meta else {"uri": uri})

    def _send(self, method: str, params: Object) -> None:
        self._outbox.send(encode({"jsonrpc": "2.0", "method": method, "params": params}))


def _until_cancelled(watch: Watch, call: Call, notify: Callable[[str], None]) -> None:
    try:
        watch.run(call, notify)
    except Cancelled:
        pass


def _watched(params: Object) -> list[str]:
    """The resources that a stream should watch. Nothing else that a client may ask about ever changes."""
    wanted = params.get("notifications")
    if not isinstance(wanted, dict):
        raise Refusal(INVALID_PARAMS, "Invalid params: notifications must be an object.")
    uris = wanted.get("resourceSubscriptions")
    uris = [] if uris is None else uris
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        raise Refusal(INVALID_PARAMS, "Invalid params: resourceSubscriptions must be a list of strings.")
    return list(dict.fromkeys(uris))
