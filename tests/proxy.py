"""A proxy in front of PostgreSQL, for tests that watch, count, lose or hold up what passes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class Link:
    """One client's connection through the proxy. What passes can be changed in `ask` and `answer`."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self._server = client, server
        self._carriers = [threading.Thread(target=each, daemon=True) for each in (self._carry_asked, self._carry_told)]

    def start(self) -> None:
        for carrier in self._carriers:
            carrier.start()

    def ask(self, data: bytes) -> None:
        """Something that the client says."""
        self._server.sendall(data)

    def answer(self, data: bytes) -> None:
        """Something that the server says."""
        self._client.sendall(data)

    def cut(self) -> None:
        """As if the network had failed, for both."""
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        self.cut()
        for carrier in self._carriers:
            carrier.join()
        self._client.close()
        self._server.close()

    def _carry_asked(self) -> None:
        """The server may still have something to say when it no longer listens, so only the way to it ends."""
        carry(self._client, self.ask)
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)

    def _carry_told(self) -> None:
        carry(self._server, self.answer)
        self.cut()


def carry(source: socket.socket, pass_on: Callable[[bytes], None]) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            pass_on(data)


class Proxy:
    """Listens on a port of the loopback interface, and makes a link for each client that comes."""

    def __init__(self, target: str) -> None:
        """`target` is the server's Unix socket."""
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._links: list[Link] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def link(self, client: socket.socket, server: socket.socket) -> Link:
        return Link(client, server)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join()
        for link in self._links:
            link.end()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            self._links.append(self.link(client, server))
            self._links[-1].start()
