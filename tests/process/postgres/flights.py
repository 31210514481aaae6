"""A proxy in front of PostgreSQL that counts round trips, and says what each of them asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.process.postgres.requests import Requests


class Flights:
    """One round trip: a client speaks after the server has answered it. All connections count together."""

    def __init__(self, target: str) -> None:
        """`target` is the server's Unix socket."""
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self.found: list[list[str]] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

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

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            self._links.append(_Link(self, client, server))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join()
        for link in self._links:
            link.end()


class _Link:
    """One client's connection through the proxy."""

    def __init__(self, flights: Flights, client: socket.socket, server: socket.socket) -> None:
        self._flights, self._client, self._server = flights, client, server
        self._has_answered = True
        self._requests = Requests()
        self._carriers = [threading.Thread(target=carry, daemon=True) for carry in (self._ask, self._answer)]
        for carrier in self._carriers:
            carrier.start()

    def _ask(self) -> None:
        try:
            while data := self._client.recv(65536):
                is_new, self._has_answered = self._has_answered, False
                self._flights.note(self._requests.read(data), is_new=is_new)
                self._server.sendall(data)
        except OSError:
            pass
        self._cut()

    def _answer(self) -> None:
        try:
            while data := self._server.recv(65536):
                self._has_answered = True  # before the client can know
                self._client.sendall(data)
        except OSError:
            pass
        self._cut()

    def _cut(self) -> None:
        for end in (self._client, self._server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self) -> None:
        self._cut()
        for carrier in self._carriers:
            carrier.join()
        self._client.close()
        self._server.close()


@contextmanager
def counted(target: str) -> Iterator[Flights]:
    flights = Flights(target)
    try:
        yield flights
    finally:
        flights.close()
