"""`conch` on a system that has run out of something, as long as a file of this name exists.

`no-threads`: no thread starts. `no-files`: no descriptor is left for the system's table of connections.
"""

from __future__ import annotations

import _thread
import builtins
import errno
import os
import threading
from collections.abc import Sequence
from typing import Any

from conch.main import main as conch


def main(words: Sequence[str]) -> int:
    start, opened, signs = _thread.start_new_thread, builtins.open, os.environ["SIGNS"]

    def start_new_thread(*given: Any) -> int:
        if os.path.exists(f"{signs}/no-threads"):
            raise RuntimeError("can't start new thread")
        return start(*given)

    def open_file(path: Any, *given: Any, **named: Any) -> Any:
        if str(path).startswith("/proc/net/") and os.path.exists(f"{signs}/no-files"):
            raise OSError(errno.EMFILE, "Too many open files")
        return opened(path, *given, **named)

    setattr(threading, "_start_new_thread", start_new_thread)  # noqa: B010 - mypy does not know it
    setattr(builtins, "open", open_file)  # noqa: B010
    return conch(list(words))
