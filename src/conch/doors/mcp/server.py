"""`conch mcp`: serve the tools on this process's standard streams."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from functools import partial

from conch import __version__
from conch.app import App
from conch.doors.mcp.connection import Connection, ServerInfo
from conch.doors.mcp.instructions import INSTRUCTIONS
from conch.doors.mcp.stdio import StopSign, Wire, claim_standard_streams
from conch.tools.registry import Tool
from conch.tools.session import Session

_INTERRUPTED = 130


def serve_stdio(app: App, tools: Mapping[str, Tool]) -> int:
    """Serve until the client closes a stream or a signal arrives, and return the exit status.

    Standard input and output belong to the protocol from here on; everything else that is printed goes to
    standard error. Call it from the main thread, once per process.
    """
    try:
        descriptors = claim_standard_streams()
    except OSError as error:
        print(f"conch mcp needs a standard input and a standard output: {error}", file=sys.stderr)
        return 1
    stop = StopSign()
    wire = Wire(descriptors, stop, app.settings.max_line_bytes)
    signals = _raise_on_signals(stop)
    info = ServerInfo("conch", __version__, INSTRUCTIONS)
    all_ended = Connection(tools, partial(Session, app, "mcp"), info, wire).serve()
    status = _INTERRUPTED if signal.SIGINT in signals else 0
    if not all_ended:
        os._exit(status)  # a call hangs: do not take the interpreter down around it
    return status


def _raise_on_signals(stop: StopSign) -> list[int]:
    """Turn the signals that end a process into the stop sign; returns the list that collects them.

    The system writes to the sign itself, so a signal that comes while no Python code runs is not missed.
    """
    received: list[int] = []
    signal.set_wakeup_fd(stop.raised_by, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: received.append(number))
    return received
