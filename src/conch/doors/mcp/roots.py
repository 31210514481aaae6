"""The client's workspace roots. We ask for them when a tool first needs them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from conch.doors.mcp.protocol import Id, encode
from conch.tools.replies import Object

_ANSWER_SECONDS = 2.0  # some clients declare roots and never answer; the first join must not hang on them


class Roots:
    """Sends `roots/list` once and remembers the first directory, until the client says that its roots changed.

    `open` is called once the client has declared the capability and finished its handshake. Before that, and in the
    stateless era, we never ask.
    """

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send
        self._asking = threading.Lock()
        self._answered = threading.Event()
        self._open = False
        self._known = False
        self._path: str | None = None
        self._asked = 0

    def open(self) -> None:
        self._known = False
        self._open = True

    def close(self) -> None:
        """Stop asking. Calls that wait for the answer continue without a root."""
        self._open = False
        self._answered.set()

    def forget(self) -> None:
        self._known = False

    def first_path(self) -> str | None:
        """The first root that is a local path. None if there is none, or no answer in time."""
        if not self._open:
            return None
        with self._asking:
            if not self._known:
                self._ask()
            return self._path

    def answer(self, request_id: Id | None, result: Object | None) -> None:
        """Take a response from the client. Only the one we are waiting for counts."""
        if request_id == self._request_id() and not self._answered.is_set():
            self._path = _first_path(result)
            self._answered.set()

    def _ask(self) -> None:
        self._asked += 1  # a new id, so that a late answer to an earlier request is ignored
        self._path = None
        self._known = True  # even without an answer, so that the next call does not wait again
        self._answered.clear()
        if not self._open:  # closed meanwhile; from here on `close` sets the event that we wait for
            return
        self._notify({"id": self._request_id(), "method": "roots/list"})
        if not self._answered.wait(_ANSWER_SECONDS):
            self._answered.set()
            self._notify({"method": "notifications/cancelled", "params": {"requestId": self._request_id()}})

    def _request_id(self) -> str:
        return f"roots-{self._asked}"

    def _notify(self, message: Object) -> None:
        self._send(encode({"jsonrpc": "2.0", **message}))


def _first_path(result: Object | None) -> str | None:
    roots = result.get("roots") if result else None
    for root in roots if isinstance(roots, list) else []:
        uri = root.get("uri") if isinstance(root, dict) else None
        path = _path_of(uri) if isinstance(uri, str) else None
        if path is not None:
            return path
    return None


def _path_of(uri: str) -> str | None:
    """The local path of a file URI, or None for any other URI."""
    from urllib.parse import unquote_to_bytes, urlsplit  # slow to import, and most servers never need it

    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        return None
    path = os.fsdecode(unquote_to_bytes(parts.path))
    return None if "\0" in path else path
