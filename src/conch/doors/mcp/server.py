"""`conch mcp`: serve the tools on this process's standard streams.

It is separate from the other commands, because every harness pays for what this process imports.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from conch import __version__
from conch.app import App, open_app
from conch.doors.exits import INTERRUPTED, REFUSED, status_of
from conch.doors.mcp.connection import Connection, ServerInfo
from conch.doors.mcp.stdio import StopSign, Wire, claim_standard_streams
from conch.errors import ConchError, InvalidArgument
from conch.tools.catalogue import GROUPS, select_tools
from conch.tools.instructions import instructions_here
from conch.tools.registry import Tool
from conch.tools.session import Session

_MOST_HEAPS = -8  # glibc's M_ARENA_MAX


def serve(words: Sequence[str]) -> int:
    try:
        tools = select_tools(_groups([word for word in words if word != "--wake"]))
        app = open_app(os.environ)
    except ConchError as refusal:
        print(f"conch mcp: {refusal.message}", file=sys.stderr)
        return status_of(refusal.code)
    return serve_stdio(app, tools, wakes="--wake" in words)


def _groups(words: Sequence[str]) -> Sequence[str]:
    match words:
        case []:
            return GROUPS
        case ["--tools", groups]:
            return groups.split(",")
        case [word] if word.startswith("--tools="):
            return word.removeprefix("--tools=").split(",")
    # The message does not repeat the words: harnesses log it, and `--store ADDRESS` may contain a password.
    message = "The only options are --tools GROUPS and --wake. To choose a store, set CONCH_STORE."
    raise InvalidArgument(message, field="arguments")


def serve_stdio(app: App, tools: Mapping[str, Tool], wakes: bool = False) -> int:
    """Serve until the client closes a stream or a signal arrives, and return the exit status.

    With `wakes`, it wakes its agent when the agent has stopped and something comes for it.

    From here on only the protocol uses standard input and output; all other output goes to standard error. Call it
    from the main thread, once per process.
    """
    try:
        descriptors, stop = claim_standard_streams(), StopSign()
    except OSError as error:
        print(f"conch mcp needs a standard input, a standard output and a pipe: {error}", file=sys.stderr)
        return REFUSED
    _share_one_heap()
    wire = Wire(descriptors, stop, app.settings.max_line_bytes)
    signals = _raise_on_signals(stop)
    if app.settings.retention_days:
        from conch.retention.retention import Retention, keep_pruned  # most stores keep everything

        keep_pruned(Retention(app.store, app.bell, app.settings))
    info = ServerInfo("conch", __version__, instructions_here(tools, app.settings.data_dir, _working_directory()))

    def leave() -> None:
        os._exit(INTERRUPTED if signal.SIGINT in signals else 0)

    make_session, prepare = partial(Session, app, "mcp", offered=tools), partial(_prepare, app)
    if wakes:
        from conch.doors.mcp.waker import Waker  # most servers wake nobody

        waker = Waker(app, make_session, prepare)
        all_ended = Connection(tools, waker.make_session, info, wire, waker.start, leave).serve()
        waker.stop()
    else:
        all_ended = Connection(tools, make_session, info, wire, prepare, leave).serve()
    if not all_ended:
        leave()  # a call still runs, and must not see the interpreter shut down around it
    return INTERRUPTED if signal.SIGINT in signals else 0


def _share_one_heap() -> None:
    """Let all threads allocate from one heap. By default each gets its own, which costs a megabyte in all.

    Only one of them runs Python at a time, so they hardly wait for each other.
    """
    if sys.platform != "linux":
        return
    try:
        import _ctypes  # not `ctypes`, which imports more

        _ctypes.call_function(_ctypes.dlsym(_ctypes.dlopen("libc.so.6", 0), "mallopt"), (_MOST_HEAPS, 1))
    except (ImportError, OSError):  # another C library
        pass


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return None


def _prepare(app: App) -> None:
    """Load what later requests need. A process that has no descriptor left cannot import anything."""
    app.load()
    from conch.tools import prompts, resources  # noqa: F401


def _raise_on_signals(stop: StopSign) -> list[int]:
    """Make the signals that end a process raise the stop sign. Returns the list that collects them.

    The interpreter writes to the sign in its C handler, so a signal wakes us even while no Python code runs.
    """
    received: list[int] = []
    signal.set_wakeup_fd(stop.raised_by, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: received.append(number))
    return received
