"""Proxies in front of PostgreSQL that count round trips: all of them, or those for which a lock is held."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from tests.process.postgres.requests import Requests
from tests.proxy import Link, Proxy


class Flights(Proxy):
    """One round trip: a client speaks after the server has answered it. All connections count together."""

    def __init__(self, target: str) -> None:
        self._lock = threading.Lock()
        self.found: list[list[str]] = []
        super().__init__(target)

    def during(self, act: Callable[[], object]) -> list[list[str]]:
        """The statements of each round trip that something takes."""
        with self._lock:
            self.found = []
        act()
        with self._lock:
            found, self.found = self.found, []
        return found

    def note(self, words: list[str], *, is_new: bool) -> None:
        with self._lock:
            if is_new:
                self.found.append([])
            if self.found:
                self.found[-1] += words

    def link(self, client: socket.socket, server: socket.socket) -> Link:
        return _CountedLink(self, client, server)


class _CountedLink(Link):
    def __init__(self, flights: Flights, client: socket.socket, server: socket.socket) -> None:
        super().__init__(client, server)
        self._flights = flights
        self._has_answered = True
        self._requests = Requests()

    def ask(self, data: bytes) -> None:
        is_new, self._has_answered = self._has_answered, False
        self._flights.note(self._requests.read(data), is_new=is_new)
        super().ask(data)

    def answer(self, data: bytes) -> None:
        self._has_answered = True  # before the client can know
        super().answer(data)


_LOCK = "pg_advisory_xact_lock("
_END = b"S\0\0\0\4"  # the last message of a flight


class Holding(Proxy):
    """Tells for how many round trips each transaction holds its locks."""

    def __init__(self, target: str) -> None:
        self.found: list[list[list[str]]] = []
        """Of each transaction that has taken a lock: the statements of each round trip from then on."""
        super().__init__(target)

    def link(self, client: socket.socket, server: socket.socket) -> Link:
        return _HoldingLink(self, client, server)


class _HoldingLink(Link):
    def __init__(self, holding: Holding, client: socket.socket, server: socket.socket) -> None:
        super().__init__(client, server)
        self._holding = holding
        self._requests = Requests()
        self._is_whole = True
        self._held: list[list[str]] | None = None

    def ask(self, data: bytes) -> None:
        is_new, self._is_whole = self._is_whole, data.endswith(_END)  # a long flight comes in parts
        if is_new and self._held is not None:
            self._held.append([])
        for words in self._requests.read(data):
            if _LOCK in words and self._held is None:
                self._held = [[]]
                self._holding.found.append(self._held)
            if self._held is not None:
                self._held[-1].append(words)
            if words in ("COMMIT", "ROLLBACK"):
                self._held = None
        super().ask(data)
