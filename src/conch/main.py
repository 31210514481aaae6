"""The `conch` command. It looks at the first word and imports only what that command needs."""

from __future__ import annotations

import gc
import os
import sys
from _signal import SIG_SETMASK, pthread_sigmask  # type: ignore[import-not-found]  # `signal` is slow to import
from collections.abc import Sequence

from conch.lean import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conch.app import App

_USUAL_GARBAGE = gc.get_threshold()[0]
_GARBAGE = 50_000  # objects; importing a command makes fewer, so the collector never runs during start-up


def command() -> None:
    """Run the process `conch` and exit.

    It exits as soon as everything is written, without the interpreter's own shutdown, which takes a third as long as
    starting it. That is safe, because stores are closed and streams are flushed.
    """
    gc.set_threshold(_GARBAGE)
    pthread_sigmask(SIG_SETMASK, ())  # a parent that handles signals in a thread blocks them, and we inherit that
    status = main()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # the reader is gone, or the stream was never open
            pass
    os._exit(status)


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["mcp"] and words[1:2] not in (["-h"], ["--help"]):
        from conch.doors.mcp.server import serve

        gc.set_threshold(_USUAL_GARBAGE)  # a server lives long, and collecting much at once would delay its calls
        return serve(words[1:])
    # A harness would take any other status for a refusal. Only a person gets an error for a missing event.
    if words[:1] == ["hook"] and words[1:2] not in (["-h"], ["--help"]) and (words[1:] or not os.isatty(0)):
        from conch.doors.hook.run import run as run_hook

        return run_hook(words[1:])
    try:
        from conch.doors.cli.run import run

        return run(words, {"serve": _serve})
    except KeyboardInterrupt:
        from conch.doors.exits import INTERRUPTED

        return INTERRUPTED


def _serve(app: App, options: Any) -> int:
    """`conch serve`. Its parts are optional, so a missing one is explained."""
    from conch.errors import InvalidSetting, how_to_add

    try:
        from conch.doors.web.server import Serving, serve
    except ImportError as missing:
        message = f"`conch serve` needs the extra `serve` ({missing.name} is missing). {how_to_add('serve')}"
        raise InvalidSetting(message, setting="serve") from None
    from conch.tools.catalogue import TOOLS
    from conch.tools.instructions import instructions_here

    gc.set_threshold(_USUAL_GARBAGE)
    serving = Serving(options.port, options.bind, options.allow_host or [], options.cert, options.key, options.force)
    return serve(app, serving, TOOLS, instructions_here(TOOLS, app.settings.data_dir, None))
