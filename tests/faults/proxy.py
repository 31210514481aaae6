"""A proxy in front of PostgreSQL that does one thing to one of the messages that pass."""

from __future__ import annotations

import socket
import threading

KINDS = ("request", "reply", "silence")
"""Cut the connection instead of passing a request on, instead of passing a reply on, or say nothing from here on."""


class Proxy:
    """Counts the messages of all connections together, in each direction."""

    def __init__(self, target: str) -> None:
        """`target` is the server's Unix socket."""
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self.arm("request", 0)
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, kind: str, number: int) -> None:
        """Do it to the message with this number. Number 0 only counts."""
        self._kind, self._number = kind, number
        self.counts = {"request": 0, "reply": 0}

    def close(self) -> None:
        self._listener.close()
        for end in self._ends:
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            self._ends += [client, server]
            for way, source, sink in (("request", client, server), ("reply", server, client)):
                threading.Thread(target=self._carry, args=(way, source, sink), daemon=True).start()

    def _carry(self, way: str, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if self._is_time(way):
                    if self._kind != "silence":
                        break
                    while source.recv(65536):  # say nothing until the client gives up
                        pass
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _is_time(self, way: str) -> bool:
        with self._lock:
            self.counts[way] += 1
            aimed = "request" if self._kind == "silence" else self._kind
            return way == aimed and self.counts[way] == self._number
