"""`conch` on a system that starts no thread while the file `NO_THREADS` exists."""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Sequence
from typing import Any

from conch.main import main as conch


def main(words: Sequence[str]) -> int:
    start, sign = _thread.start_new_thread, os.environ["NO_THREADS"]

    def start_new_thread(*given: Any) -> int:
        if os.path.exists(sign):
            raise RuntimeError("can't start new thread")
        return start(*given)

    setattr(threading, "_start_new_thread", start_new_thread)  # noqa: B010 - mypy does not know it
    return conch(list(words))
