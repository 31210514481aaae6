"""`conch`: looks at its first word, and imports only what that command needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["mcp"]:
        from conch.doors.mcp.command import serve

        return serve(words[1:])
    try:
        from conch.doors.cli.run import run

        return run(words)
    except KeyboardInterrupt:
        return _INTERRUPTED
