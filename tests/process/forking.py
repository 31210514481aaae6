"""Separate processes without a new interpreter each: a server that has imported conch forks one per request.

Starting Python and importing conch takes nine tenths of the time of a short command. A fork is still a real process,
with its own memory, environment, working directory, streams, signals and exit status.
"""

from __future__ import annotations

import gc
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

LONGEST_REQUEST = 1 << 20
ROOT = str(Path(__file__).parents[2])
# The development mode would check every block of memory, too. That is for extensions in C, and takes a lot of time.
ENVIRON = {**os.environ, "PYTHONMALLOC": "pymalloc"}


class Ended(NamedTuple):
    status: int
    out: bytes
    err: bytes


class Fork:
    """A process that runs, with those parts of `subprocess.Popen` that the tests use."""

    def __init__(self, news: int, streams: Sequence[int], text: bool) -> None:
        """`news` tells the pid, and at the end the exit status."""
        self._news = open(news, "rb", 0)  # noqa: SIM115
        mode = "" if text else "b"
        self.stdin: IO[Any] = open(streams[0], "w" + mode)  # noqa: SIM115
        self.stdout: IO[Any] = open(streams[1], "r" + mode)  # noqa: SIM115
        self.stderr: IO[Any] | None = open(streams[2], "r" + mode) if len(streams) > 2 else None  # noqa: SIM115
        self.pid = int(self._news.readline())
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._news], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self.returncode = int(self._news.readline())
            self._news.close()
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it may end right now
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """Wait for its end, then read the little that it has written."""
        self.wait(timeout)
        return self.stdout.read(), self.stderr.read() if self.stderr is not None else None


def close_streams(process: Fork | subprocess.Popen[Any]) -> None:
    """Close our ends of its pipes. It may have ended before it had read everything."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()


class Forks:
    """The tests' end of it: runs a program's `main(words)` in a process of its own."""

    def __init__(self, program: str, *modules: str, options: Sequence[str] = ()) -> None:
        """`modules` are imported beforehand; `options` are those of the interpreter."""
        self._program = program
        self._command = [sys.executable, *options, __file__, program, *modules]
        self._start()

    def _start(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST_REQUEST)
        with theirs:
            self._server = subprocess.Popen(self._command, stdin=theirs, process_group=0, env=ENVIRON)

    def run(self, words: list[str], environ: dict[str, str], folder: Path, stdin: bytes, seconds: float) -> Ended:
        """Run it to its end."""
        news, into, *outof = self._request(self._program, words, environ, folder)
        try:
            out, err = talk(into, stdin, (outof[0], outof[1]), seconds)
        except TimeoutError:
            self.end()
            self._start()
            raise
        with open(news, "rb") as lines:
            return Ended(int(lines.read().split()[1]), out, err)

    def start(
        self,
        words: Sequence[str],
        environ: dict[str, str],
        folder: Path | str,
        program: str | None = None,
        stderr: int | None = None,
        text: bool = True,
    ) -> Fork:
        """Start it and go on. `program` is another module with a `main`; `stderr` a file to write to."""
        streams = self._request(program or self._program, words, environ, folder, stderr)
        return Fork(streams[0], streams[1:], text)

    def _request(
        self, program: str, words: Sequence[str], environ: dict[str, str], folder: Path | str, stderr: int | None = None
    ) -> list[int]:
        """Our ends of the pipes: news, standard input, output and error."""
        (news, tell), (their_in, our_in), (our_out, their_out) = os.pipe(), os.pipe(), os.pipe()
        our_err, their_err = os.pipe() if stderr is None else (-1, os.dup(stderr))
        request = json.dumps([program, list(words), environ, str(folder)]).encode()
        theirs = [their_in, their_out, their_err, tell]
        socket.send_fds(self._ours, [request], theirs)
        for descriptor in theirs:
            os.close(descriptor)
        return [news, our_in, our_out, our_err][: 4 if stderr is None else 3]

    def end(self) -> None:
        """With whatever it has forked and still runs."""
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.wait()
        self._ours.close()


# What most commands import sooner or later. Importing it in each fork would take half of a short command's time.
COMMON = ("bells.ears", "bells.file", "bells.inotify", "bus.sync", "notices.mail", "storage.sqlite.store")
COMMON += ("doors.cli.run", "doors.cli.advice", "doors.cli.other_programs", "doors.cli.suggestions")


@contextmanager
def command_forks(program: str = "conch.main", more: Sequence[str] = ()) -> Iterator[Forks]:
    """A server for `conch`, or for a program that runs it, until the end of the block. It imports `more` of conch."""
    from conch.doors.cli.catalogue import COMMANDS

    homes = {command.handler.partition(".")[0] for command in COMMANDS.values() if command.handler}
    forks = Forks(
        program, *(f"conch.{name}" for name in (*COMMON, *more, *(f"doors.cli.{home}" for home in sorted(homes))))
    )
    try:
        yield forks
    finally:
        forks.end()


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


class Server:
    """Forks a process for each request on its standard input, and reports the end of each."""

    def __init__(self) -> None:
        self._requests = socket.socket(fileno=os.dup(0))
        self._wake, woken = os.pipe2(os.O_NONBLOCK)
        signal.set_wakeup_fd(woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._own = [self._wake, woken]
        self._news: dict[int, int] = {}  # by pid

    def serve(self) -> Callable[[], int] | None:
        """In the server: None, when the tests are over. In a forked child: what it has to do."""
        while True:
            ready, _, _ = select.select([self._requests, self._wake], [], [])
            if self._wake in ready:
                os.read(self._wake, 512)
                self._reap()
            if self._requests in ready:
                request, descriptors, _, _ = socket.recv_fds(self._requests, LONGEST_REQUEST, 4)
                if not request:
                    return None
                *streams, tell = descriptors
                child = os.fork()
                if child == 0:
                    self._leave(tell)
                    return become(request, streams)
                self._news[child] = tell
                report(tell, child)
                for descriptor in streams:
                    os.close(descriptor)

    def _reap(self) -> None:
        for child in list(self._news):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                tell = self._news.pop(child)
                report(tell, os.waitstatus_to_exitcode(status))
                os.close(tell)

    def _leave(self, tell: int) -> None:
        """In a child: give back all that is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._requests.close()
        for descriptor in (tell, *self._own, *self._news.values()):
            os.close(descriptor)


def report(tell: int, number: int) -> None:
    try:
        os.write(tell, b"%d\n" % number)
    except BrokenPipeError:
        pass  # nobody asks any more


def become(request: bytes, streams: list[int]) -> Callable[[], int]:
    program, words, environ, folder = json.loads(request)
    for number, descriptor in enumerate(streams):
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
    return lambda: int(import_module(program).main(words) or 0)


def main(*modules: str) -> None:
    sys.path[0] = ROOT  # instead of this folder, whose `mcp` is not the package
    for module in modules:
        import_module(module)
    gc.freeze()  # or the collector would touch, and so copy, every page in every fork
    run = Server().serve()
    if run is None:
        return
    status = run()
    gc.collect()  # in development mode, this complains about what was not closed
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more, or it was closed
            stream.flush()
    # As `conch` itself ends. The interpreter's own end would touch, and so copy, every page of the server.
    os._exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
