"""Runs one command: parses its words, calls it, and prints how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

import conch
from conch import __version__
from conch.app import open_app
from conch.calls import retry_interrupted
from conch.doors.cli.catalogue import COMMANDS, FAMILIES
from conch.doors.cli.command import AGENT, DB, NAMES, TALK, TOPICS
from conch.doors.cli.context import Context, open_named
from conch.doors.cli.interruptions import Interrupted, exit_status
from conch.doors.cli.output import Report, abandon_stream, failure, give_up, prepare_streams, print_report, warn
from conch.doors.cli.parser import Words, help_text, parse_options, split_words
from conch.doors.cli.spoken import spoken, spoken_field, without_passwords
from conch.errors import ConchError, InternalError, InvalidArgument, StoreError
from conch.tools.registry import INVALID_ARGUMENT as INVALID
from conch.typed import Any

# Which part of the command line has a command; it is imported only for those who use it.
HOMES = {
    "waiting": ("wait",),
    "stick": ("release", "pass", "take", "close"),
    "rooms": ("rooms", "join", "state", "note", "leave", "reorder", "policy", "whoami"),
    "watching": ("events",),
    "talk": ("send", "read", "ask", "answer", "questions", "search"),
    "topics": (TOPICS, NAMES),
    "agents": (AGENT,),
    "init": ("init",),
    "store": (DB,),
}
USAGE_ERROR = 2
# Each seed has its own word for an argument that cannot be used.
INVALID_ARGUMENT = {
    **dict.fromkeys((TALK, TOPICS, NAMES), INVALID["bus"]),
    **dict.fromkeys((AGENT, "init"), INVALID["scopes"]),
}


def run(words: Sequence[str]) -> int:
    prepare_streams()
    try:
        return _run(split_words(words))
    except Interrupted as interruption:
        return exit_status(interruption.number)


def _run(words: Words) -> int:
    if words.wants_help:
        return _print(words.command, Report(None, help_text(words.command)), False)
    if not words.command and words.rest == ["--version"]:
        return _print("", Report(None, f"conch {__version__}"), False)
    if words.command in ("", *FAMILIES) and not words.rest:
        _print(words.command, Report(None, help_text(words.command)), False)
        return USAGE_ERROR
    try:
        options = parse_options(words)
    except ConchError as refusal:
        report = _refused(refusal, words.command, USAGE_ERROR)
        return _print(without_passwords(words.command), report, words.wants_json)
    if words.command == "demo":
        from conch.doors.cli.demo import run_demo

        return run_demo(keep=options.keep)
    return _run_command(words.command, options)


def _run_command(command: str, options: Any) -> int:
    try:
        app = open_app(os.environ) if options.store is None else open_named("store", options.store)
    except ConchError as refusal:
        return _print(command, _refused(refusal, command), options.json)
    try:
        return _print(command, _report(command, Context(app, options)), options.json)
    finally:
        app.close()


def _report(command: str, context: Context) -> Report:
    try:
        handler = _find_handler(command)
        return retry_interrupted(lambda: handler(context))
    except ConchError as refusal:
        return _refused(refusal, command)
    except Exception as defect:  # ours; even then people and programs get a sentence, not a trace
        what = f"{type(defect).__name__}: {defect}"
        return _refused(InternalError(f"conch failed: {what} at {_place(defect)}. Please report it."), command)


def _find_handler(command: str) -> Callable[[Context], Report]:
    first = command.partition(" ")[0]
    home = next(home for home, commands in HOMES.items() if first in commands)
    handler: Callable[[Context], Report] = import_module(f"conch.doors.cli.{home}").COMMANDS[command]
    return handler


def _place(defect: Exception) -> str:
    """The deepest line of our own that a defect came through."""
    here, place, trace = os.path.dirname(conch.__file__), "?", defect.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(here):
            place = f"{os.path.relpath(file, here)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _refused(refusal: ConchError, command: str, status: int = 1) -> Report:
    details = dict(refusal.details)
    if "field" in details:
        details["field"] = spoken_field(str(details["field"]))
    code = refusal.code
    if isinstance(refusal, InvalidArgument):
        group = COMMANDS[command].group if command in COMMANDS else command.partition(" ")[0]
        code = INVALID_ARGUMENT.get(command) or INVALID_ARGUMENT.get(group, code)
    # A store's errors name no tool, but a place; a folder or a database may be called as a tool is.
    message = refusal.message if isinstance(refusal, StoreError) else spoken(refusal.message)
    details = {name: without_passwords(told) if isinstance(told, str) else told for name, told in details.items()}
    return failure(code, without_passwords(message), details, status=status)


def _print(command: str, report: Report, as_json: bool) -> int:
    if report.is_printed:
        return report.status
    try:
        with report.printing():
            print_report(command, report, as_json)
    except (OSError, Interrupted) as problem:
        return _not_printed(report, problem)
    if report.told is not None:
        report.told()
    return report.status


def _not_printed(report: Report, problem: OSError | Interrupted) -> int:
    try:
        if report.untold is not None:
            report.untold()
    except ConchError as refusal:
        warn(f"nobody could be told that the stick is yours, and it could not be given back: {refusal.message}")
    if isinstance(problem, OSError):
        return give_up(problem)
    abandon_stream(sys.stdout)
    return exit_status(problem.number)
