"""Separate processes without a new interpreter each: a server that has imported conch forks one per request.

Starting Python and importing conch takes nine tenths of the time of a short command. A fork is still a real process,
with its own memory, environment, working directory, streams, signals and exit status.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

LONGEST_REQUEST = 1 << 20


class Ended(NamedTuple):
    status: int
    out: bytes
    err: bytes


class Forks:
    """The tests' end of it: runs a program's `main(words)` to its end in a process of its own."""

    def __init__(self, program: str, *modules: str) -> None:
        self._program = (program, *modules)
        self._start()

    def _start(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST_REQUEST)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno()), *self._program]
            self._server = subprocess.Popen(command, pass_fds=[theirs.fileno()], process_group=0)

    def run(self, words: list[str], environ: dict[str, str], folder: Path, stdin: bytes, seconds: float) -> Ended:
        pipes = [os.pipe() for _ in range(3)]
        (their_in, our_in), (our_out, their_out), (our_err, their_err) = pipes
        request = json.dumps([words, environ, str(folder)]).encode()
        socket.send_fds(self._ours, [request], [their_in, their_out, their_err])
        for theirs in (their_in, their_out, their_err):
            os.close(theirs)
        try:
            out, err = talk(our_in, stdin, (our_out, our_err), seconds)
        except TimeoutError:
            self.end()
            self._start()
            raise
        return Ended(int(self._ours.recv(16)), out, err)

    def end(self) -> None:
        """With whatever it has forked and still runs."""
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.wait()
        self._ours.close()


def talk(into: int, given: bytes, outof: tuple[int, int], seconds: float) -> tuple[bytes, bytes]:
    """Write everything to one pipe, and read what comes out of two others to its end."""
    heard = dict.fromkeys(outof, b"")
    deadline = time.monotonic() + seconds
    os.set_blocking(into, False)
    with selectors.DefaultSelector() as selector:
        selector.register(into, selectors.EVENT_WRITE)
        for descriptor in outof:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            if not ready:
                raise TimeoutError(f"it has not ended after {seconds} seconds; so far: {heard}")
            for key, _ in ready:
                if key.fd == into:
                    given = given[write(into, given) :]
                    done = not given
                else:
                    chunk = os.read(key.fd, 1 << 16)
                    heard[key.fd] += chunk
                    done = not chunk
                if done:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return heard[outof[0]], heard[outof[1]]


def write(descriptor: int, data: bytes) -> int:
    try:
        return os.write(descriptor, data)
    except BrokenPipeError:
        return len(data)  # it ended before it had read everything


# -- the server


def serve(connection: socket.socket) -> list[str] | None:
    """In the server: None, when the tests are over. In a forked child: the words to run."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 3)
        if not request:
            return None
        child = os.fork()
        if child == 0:
            return become(connection, request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.send(str(status).encode())


def become(connection: socket.socket, request: bytes, descriptors: list[int]) -> list[str]:
    words, environ, folder = json.loads(request)
    connection.close()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # As Python opens them; those of the server are for other files.
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv[1:] = words
    return list(words)


def main(descriptor: str, program: str, *modules: str) -> int:
    for module in modules:
        import_module(module)
    run = import_module(program).main
    gc.freeze()  # or the collector would touch, and so copy, every page in every fork
    words = serve(socket.socket(fileno=int(descriptor)))
    return 0 if words is None else int(run(words))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
