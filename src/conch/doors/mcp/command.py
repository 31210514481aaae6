"""`conch mcp`: kept apart, because every harness pays for what it imports."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from conch.app import open_app
from conch.doors.mcp.server import serve_stdio
from conch.errors import ConchError, InvalidArgument
from conch.tools.catalogue import GROUPS, select_tools

_USAGE = f"""usage: conch mcp [--tools GROUPS]

Serve MCP on standard input and output; harnesses start this. Tool groups, separated by commas: {", ".join(GROUPS)}."""


def serve(words: Sequence[str]) -> int:
    try:
        if words and words[0] in ("-h", "--help"):
            print(_USAGE)
            return 0
        tools = select_tools(_groups(words))
        app = open_app(os.environ)
    except ConchError as refusal:
        print(f"conch mcp: {refusal.message}", file=sys.stderr)
        return 2
    return serve_stdio(app, tools)


def _groups(words: Sequence[str]) -> Sequence[str]:
    match list(words):
        case []:
            return GROUPS
        case ["--tools", groups]:
            return groups.split(",")
        case [word] if word.startswith("--tools="):
            return word.removeprefix("--tools=").split(",")
    # Not shown: harnesses keep what a server says, and one who tries `--store ADDRESS` may have typed a password.
    message = "conch mcp takes only --tools GROUPS; the variable CONCH_STORE names a store."
    raise InvalidArgument(message, field="arguments")
