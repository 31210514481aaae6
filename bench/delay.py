"""A proxy in front of PostgreSQL that makes it seem far away: `python bench/delay.py SOCKET MILLISECONDS`.

A round trip takes that many milliseconds longer, half of them on each way. It prints its port, and ends when its input
ends, or after ten minutes.
"""

from __future__ import annotations

import queue
import signal
import socket
import sys
import threading
import time

LONGEST_SECONDS = 600
Parcel = tuple[float, bytes]


def main() -> None:
    target, delay = sys.argv[1], float(sys.argv[2]) / 2_000
    signal.alarm(LONGEST_SECONDS)
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    threading.Thread(target=accept, args=(listener, target, delay), daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()


def accept(listener: socket.socket, target: str, delay: float) -> None:
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = socket.socket(socket.AF_UNIX)
        server.connect(target)
        for source, sink in ((client, server), (server, client)):
            way: queue.SimpleQueue[Parcel] = queue.SimpleQueue()
            threading.Thread(target=take, args=(source, way, delay), daemon=True).start()
            threading.Thread(target=bring, args=(way, sink), daemon=True).start()


def take(source: socket.socket, way: queue.SimpleQueue[Parcel], delay: float) -> None:
    """Note when each piece has to arrive. An empty one is the end."""
    data = b"?"
    while data:
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        way.put((time.monotonic() + delay, data))


def bring(way: queue.SimpleQueue[Parcel], sink: socket.socket) -> None:
    while True:
        due, data = way.get()
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            if not data:
                sink.shutdown(socket.SHUT_RDWR)
                return
            sink.sendall(data)
        except OSError:
            return


if __name__ == "__main__":
    main()
