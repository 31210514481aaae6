"""Runs one command: parses its words, calls it, and prints how it ended."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from conch.app import open_app
from conch.doors.cli import rooms, stick, store
from conch.doors.cli.context import Context
from conch.doors.cli.output import Report, print_report, silence_stdout
from conch.doors.cli.parser import make_parser
from conch.errors import ConchError, InternalError

COMMANDS = {**stick.COMMANDS, **rooms.COMMANDS, **store.COMMANDS}
USAGE_ERROR = 2
INTERRUPTED = 130


def run(words: Sequence[str]) -> int:
    as_json = "--json" in words
    try:
        options = make_parser().parse_args(words)
    except ConchError as refusal:
        _print(next((word for word in words if not word.startswith("-")), ""), _refused(refusal), as_json)
        return USAGE_ERROR
    try:
        return _run_command(options)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run_command(options: Any) -> int:
    if options.command == "demo":
        from conch.doors.cli.demo import run_demo

        return run_demo(keep=options.keep)
    command = f"db {options.action}" if options.command == "db" else options.command
    environ = {**os.environ, "CONCH_STORE": options.store} if options.store else os.environ
    try:
        app = open_app(environ)
    except ConchError as refusal:
        return _print(command, _refused(refusal), options.json)
    try:
        return _print(command, _report(command, Context(app, options)), options.json)
    finally:
        app.close()


def _report(command: str, context: Context) -> Report:
    try:
        return COMMANDS[command](context)
    except ConchError as refusal:
        return _refused(refusal)
    except Exception as defect:  # ours; even then people and programs get a sentence, not a trace
        place = defect.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else "?"
        return _refused(InternalError(f"conch failed: {type(defect).__name__}: {defect} at {where}. Please report it."))


def _refused(refusal: ConchError) -> Report:
    error = {"code": refusal.code, "message": refusal.message, **refusal.details}
    return Report(None, f"{refusal.message} ({refusal.code})", error)


def _print(command: str, report: Report, as_json: bool) -> int:
    try:
        print_report(command, report, as_json)
    except BrokenPipeError:
        silence_stdout()
        if report.untold is not None:
            report.untold()
        return 1
    if report.told is not None:
        report.told()
    return report.status
