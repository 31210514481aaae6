"""A proxy in front of PostgreSQL that does one thing to one of the messages that pass."""

from __future__ import annotations

import socket
import threading

from tests.proxy import Link, Proxy

KINDS = ("request", "reply", "silence")
"""Cut the connection instead of passing a request on, instead of passing a reply on, or say nothing from here on."""


class FaultyProxy(Proxy):
    """Counts the messages of all connections together, in each direction."""

    def __init__(self, target: str) -> None:
        self._lock = threading.Lock()
        self.arm("request", 0)
        super().__init__(target)

    def arm(self, kind: str, number: int) -> None:
        """Do it to the message with this number. Number 0 only counts."""
        self.kind, self._number = kind, number
        self.counts = {"request": 0, "reply": 0}

    def link(self, client: socket.socket, server: socket.socket) -> Link:
        return _FaultyLink(self, client, server)

    def is_time(self, way: str) -> bool:
        with self._lock:
            self.counts[way] += 1
            aimed = "request" if self.kind == "silence" else self.kind
            return way == aimed and self.counts[way] == self._number


class _FaultyLink(Link):
    def __init__(self, proxy: FaultyProxy, client: socket.socket, server: socket.socket) -> None:
        super().__init__(client, server)
        self._proxy = proxy
        self._is_silent = False  # until the client gives up

    def ask(self, data: bytes) -> None:
        if self._is_silent:
            return
        if not self._proxy.is_time("request"):
            super().ask(data)
        elif self._proxy.kind == "silence":
            self._is_silent = True
        else:
            self.cut()

    def answer(self, data: bytes) -> None:
        if self._proxy.is_time("reply"):
            self.cut()
        else:
            super().answer(data)
