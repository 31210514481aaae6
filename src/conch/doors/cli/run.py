"""Runs one command: parses its words, calls it, and prints how it ended."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import conch
from conch import __version__
from conch.app import open_app
from conch.doors.cli import rooms, stick, store, waiting
from conch.doors.cli.catalogue import FAMILIES
from conch.doors.cli.context import Context
from conch.doors.cli.interruptions import Interrupted, exit_status
from conch.doors.cli.output import Report, abandon_stream, failure, prepare_streams, print_report, write
from conch.doors.cli.parser import Words, help_text, parse_options, split_words
from conch.errors import ConchError, InternalError, InvalidArgument
from conch.tools.registry import INVALID_ARGUMENT

HANDLERS = {"wait": waiting.wait, **stick.COMMANDS, **rooms.COMMANDS, **store.COMMANDS}
USAGE_ERROR = 2
# The core speaks of tools and their fields; here they are commands and options.
SPOKEN = {
    "join_path": "`conch join`",
    "list_rooms": "`conch rooms`",
    "wait_for_turn": "`conch wait`",
    "release_stick": "`conch release`",
    "pass_stick": "`conch pass`",
    "takeover_stick": "`conch take`",
    "get_room_events": "`conch events`",
    "agent_adopt": "`conch agent adopt`",
    "event_inbox": "`conch agent inbox`",
    "takeover_stale": "--takeover-stale",
    "context_path": "path",
}
OPTIONS = {"context_path": "path", "room_id": "room", "ttl_minutes": "ttl", "bead_id": "bead"}


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
        return _print(words.command, _refused(words.command, refusal, USAGE_ERROR), words.wants_json)
    if words.command == "demo":
        from conch.doors.cli.demo import run_demo

        return run_demo(keep=options.keep)
    return _run_command(words.command, options)


def _run_command(command: str, options: Any) -> int:
    try:
        app = open_app(_environment(options))
    except ConchError as refusal:
        return _print(command, _refused(command, refusal), options.json)
    try:
        return _print(command, _report(command, Context(app, options)), options.json)
    finally:
        app.close()


def _environment(options: Any) -> dict[str, str]:
    if options.store is None:
        return dict(os.environ)
    if not options.store.strip():
        raise InvalidArgument("store must be non-empty.", field="store")
    return {**os.environ, "CONCH_STORE": options.store}


def _report(command: str, context: Context) -> Report:
    try:
        return _find_handler(command)(context)
    except ConchError as refusal:
        return _refused(command, refusal)
    except Exception as defect:  # ours; even then people and programs get a sentence, not a trace
        what = f"{type(defect).__name__}: {defect}"
        return _refused(command, InternalError(f"conch failed: {what} at {_place(defect)}. Please report it."))


def _find_handler(command: str) -> Callable[[Context], Report]:
    """What runs a command. The larger parts are imported only for those who use them."""
    if command.startswith("agent "):
        from conch.doors.cli import agents

        return agents.COMMANDS[command]
    if command == "init":
        from conch.doors.cli.init import init

        return init
    if command == "events":
        from conch.doors.cli.watching import events

        return events
    return HANDLERS[command]


def _place(defect: Exception) -> str:
    """The deepest line of our own that a defect came through."""
    here, place, trace = os.path.dirname(conch.__file__), "?", defect.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(here):
            place = f"{os.path.relpath(file, here)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _refused(command: str, refusal: ConchError, status: int = 1) -> Report:
    message = re.sub("|".join(SPOKEN), lambda found: SPOKEN[found[0]], refusal.message)
    details = dict(refusal.details)
    if "field" in details:
        details["field"] = OPTIONS.get(details["field"], details["field"])
    code = INVALID_ARGUMENT["scopes"] if _is_of_scopes(command) and type(refusal) is InvalidArgument else refusal.code
    return failure(code, message, details, status=status)


def _is_of_scopes(command: str) -> bool:
    """Whether a command belongs to the tools that have a code of their own for what cannot be used."""
    return command.startswith("agent ") or command == "init"


def _print(command: str, report: Report, as_json: bool) -> int:
    try:
        with report.printing():
            print_report(command, report, as_json)
    except (OSError, Interrupted) as problem:
        return _not_printed(report, problem)
    if report.told is not None:
        report.told()
    return report.status


def _not_printed(report: Report, problem: OSError | Interrupted) -> int:
    abandon_stream(sys.stdout)
    try:
        if report.untold is not None:
            report.untold()
        if isinstance(problem, OSError) and not isinstance(problem, BrokenPipeError):  # a full disk, perhaps
            _warn(f"the answer could not be written: {problem.strerror}")
    except ConchError as refusal:
        _warn(f"nobody could be told that the stick is yours, and it could not be given back: {refusal.message}")
    return exit_status(problem.number) if isinstance(problem, Interrupted) else 1


def _warn(message: str) -> None:
    try:
        write(sys.stderr, f"conch: {message}\n")
    except OSError:
        abandon_stream(sys.stderr)
