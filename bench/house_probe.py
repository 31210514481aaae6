"""Runs `conch` as a separate process, with its calls and transactions counted.

`python house_probe.py SRC ASKED TOLD WORDS...`: for every byte from the descriptor ASKED it writes a line to the
descriptor TOLD, with the counts since the last line. It writes one more line when the process ends.
"""

from __future__ import annotations

import _sqlite3
import _thread
import inspect
import json
import os
import runpy
import sqlite3
import sys
import threading
from types import FrameType
from typing import Any

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
STAND_INS = ("typed.py", "lazy.py", "lean.py")  # for modules of the standard library, whose calls do not count either

calls: list[str] = []  # the file of each called function
transactions: list[str] = []
importing = threading.local()  # how many modules this thread is importing right now


def count_call(frame: FrameType, event: str, _: Any) -> None:
    """Do not count calls made while a module is imported."""
    code, depth = frame.f_code, getattr(importing, "depth", 0)
    if code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
        importing.depth = depth + {"call": 1, "return": -1}.get(event, 0)
    elif event == "call" and not depth and code.co_filename.startswith(SOURCE):
        is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name not in COMPREHENSIONS
        if is_function and not code.co_filename.endswith(STAND_INS):
            calls.append(code.co_filename)


def count_statement(statement: str) -> None:
    if statement.upper().startswith("BEGIN"):
        transactions.append(statement)


def connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
    connection = original_connect(*args, **kwargs)
    connection.set_trace_callback(count_statement)
    return connection


def start_counted(function: Any, *args: Any) -> int:
    """`threading.setprofile` reaches only the threads of `threading`."""

    def run(*words: Any) -> None:
        sys.setprofile(count_call)
        function(*words)

    return original_start(run, *args)


def tell(told: int) -> None:
    counted = {"calls": len(calls), "files": len(set(calls)), "transactions": len(transactions)}
    calls.clear()
    transactions.clear()
    os.write(told, json.dumps(counted).encode() + b"\n")


def answer(asked: int, told: int) -> None:
    while os.read(asked, 1):
        tell(told)


def leave(status: int) -> None:
    """Report before `os._exit`, because a command may end its process that way."""
    sys.setprofile(None)
    tell(told)
    original_exit(status)


if __name__ == "__main__":
    SOURCE, asked, told = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sys.argv[:] = ["conch", *sys.argv[4:]]
    sys.path[0] = SOURCE
    original_connect, original_exit = sqlite3.connect, os._exit
    sqlite3.connect = _sqlite3.connect = connect  # type: ignore[assignment]  # older versions use the first one
    original_start = _thread.start_new_thread
    _thread.start_new_thread = start_counted  # type: ignore[assignment]
    os._exit = leave  # type: ignore[assignment]
    threading.Thread(target=answer, args=(asked, told), daemon=True).start()
    threading.setprofile(count_call)
    sys.setprofile(count_call)
    try:
        runpy.run_module("conch", run_name="__main__", alter_sys=True)
    finally:
        sys.setprofile(None)
        tell(told)
