"""Runs one command: parses the command line, calls the handler, and prints the result."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import conch
from conch.app import App, open_app
from conch.calls import retry_interrupted
from conch.doors.cli.catalogue import COMMANDS, FAMILIES
from conch.doors.cli.context import Context, open_named
from conch.doors.cli.output import Report, abandon_stream, failure, give_up, prepare_streams, print_report, warn
from conch.doors.cli.parser import Words, parse_options, split_words
from conch.doors.exits import USAGE, Interrupted, status_after
from conch.errors import IF_SOUND, ConchError, InternalError, InvalidArgument, ResourcesExhausted, StoreError, find_lack
from conch.lean import Any, import_module

_MOST_BYTES = 32 * 1024  # of the details of a refusal
_LONGEST_ESCAPE = 3  # what is printed is ASCII: two or four bytes of UTF-8 become six or twelve

_Servers = Mapping[str, Callable[[App, Any], int]]
"""Commands that other doors run: each gets the application and its options, and returns the exit status."""


def run(words: Sequence[str], servers: _Servers) -> int:
    prepare_streams()
    try:
        return _run(split_words(words), servers)
    except Interrupted as interruption:
        return status_after(interruption.number)


def _run(words: Words, servers: _Servers) -> int:
    if words.wants_help:
        return _print_help(words.command)
    if words.wants_version:
        words = words._replace(command="version", rest=[word for word in words.rest if word == "--json"])
    if words.command in ("", *FAMILIES) and not words.rest:
        return _glance() if not words.command and sys.stdout.isatty() else _explain_usage(words.command)
    try:
        options = parse_options(words)
    except ConchError as refusal:
        from conch.doors.cli.advice import without_passwords

        report = _refused(refusal, words.command)
        # Even after a stray `--`: a program that asks for JSON can read nothing else.
        return _print(without_passwords(words.command), report, "--json" in words.rest)
    if not COMMANDS[words.command].needs_store:
        return _print(words.command, _report(words.command, None, options), words.wants_json)
    return _run_command(words.command, options, servers.get(words.command))


def _explain_usage(command: str) -> int:
    _print_help(command)
    return USAGE


def _glance() -> int:
    """`conch` alone on a terminal: the room here at a glance, or the help if there is none."""
    options = parse_options(Words("status", []))
    try:
        app = open_app(os.environ)
    except ConchError:
        return _explain_usage("")
    try:
        report = _report("status", app, options) if app.has_store else None  # help must not create a store
        return _explain_usage("") if report is None or report.error else _print("status", report, False)
    finally:
        app.close()


def _print_help(command: str) -> int:
    from conch.doors.cli.help import help_text

    return _print(command, Report(None, help_text(command)), False)


def _run_command(command: str, options: Any, serve: Callable[[App, Any], int] | None) -> int:
    try:
        app = open_app(os.environ) if options.store is None else open_named("store", options.store)
    except ConchError as refusal:
        return _print(command, _refused(refusal, command), options.json)
    try:
        return _print(
            command,
            _report(command, app, options) if serve is None else _served(command, app, options, serve),
            options.json,
        )
    finally:
        app.close()


def _served(command: str, app: App, options: Any, serve: Callable[[App, Any], int]) -> Report:
    try:
        return Report(None, "", status=serve(app, options), is_printed=True)
    except Exception as error:
        return _refused(_explain(error, True), command)


def _report(command: str, app: App | None, options: Any) -> Report:
    try:
        handler = _find_handler(command)
        return handler(options) if app is None else retry_interrupted(lambda: _handle(command, handler, app, options))
    except Exception as error:
        with suppress(Exception):
            if app is not None:
                app.close()  # frees descriptors and memory, which importing the error texts needs
        return _refused(_explain(error, app is not None), command)


def _handle(command: str, handler: Callable[[Context], Report], app: App, options: Any) -> Report:
    """Run the command, and add the mail of its caller, even if it is refused."""
    context = Context(app, options)
    try:
        report = handler(context)
    except StoreError:
        raise  # a store in trouble has no mail either
    except ConchError as refusal:
        report = _refused(refusal, command)
    has_mail = not report.is_printed and COMMANDS[command].group.name != "db"  # those are not for agents
    mail = context.session.mail_of_command(context.delivered) if has_mail else None
    if not mail:
        return report
    from conch.doors.cli.mail import add_mail  # rarely needed

    return add_mail(context, report, mail)


def _explain(error: Exception, uses_store: bool) -> ConchError:
    """What an error means. People and programs get a sentence even for a bug of ours, not a traceback."""
    if isinstance(error, ConchError):
        return error
    lack = find_lack(error)
    if lack is not None:
        return ResourcesExhausted(f"The command failed, because {lack}. Check what was changed, and try again later.")
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError):  # the system has refused something, which need not be a defect
        return InternalError(f"The command failed at {_place(error)}: {what}. Check what was changed.")
    advice = f"{IF_SOUND}: please report it." if uses_store else "Please report it."
    return InternalError(f"conch failed: {what} at {_place(error)}. {advice}")


def _find_handler(command: str) -> Callable[[Any], Report]:
    """The function that runs a command, with a context or, if the command needs no store, with its options."""
    module, _, function = COMMANDS[command].handler.partition(".")
    handler: Callable[[Any], Report] = getattr(import_module(f"conch.doors.cli.{module}"), function)
    return handler


def _place(defect: Exception) -> str:
    """The innermost line of our own code in the traceback."""
    here, place, trace = os.path.dirname(conch.__file__), "?", defect.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(here):
            place = f"{os.path.relpath(file, here)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _refused(refusal: ConchError, command: str) -> Report:
    from conch.doors.cli.advice import without_passwords, word_field, word_refusal  # rarely needed
    from conch.tools.pages import Budget

    options = COMMANDS[command].options if command in COMMANDS else ()
    details = dict(refusal.details)
    if "field" in details:
        details["field"] = word_field(str(details["field"]), options)
    code = refusal.code
    if isinstance(refusal, InvalidArgument):
        code = _invalid(command) or code
    details = {name: without_passwords(value) if isinstance(value, str) else value for name, value in details.items()}
    details, _ = Budget(_MOST_BYTES // _LONGEST_ESCAPE, tells=False).cut_lists(details)
    return failure(code, without_passwords(word_refusal(refusal, options)), details)


def _invalid(command: str) -> str:
    """The code of this command for a bad argument; empty for the error's own code."""
    if command in COMMANDS:
        return COMMANDS[command].invalid or COMMANDS[command].group.invalid
    family = FAMILIES.get(command.partition(" ")[0])
    return family.invalid if family else ""


def _print(command: str, report: Report, as_json: bool) -> int:
    if report.is_printed:
        return report.status
    try:
        with report.printing():
            print_report(command, report, as_json)
    except (OSError, Interrupted) as problem:
        return _not_printed(report, problem)
    report.delivery.sent()
    return report.status


def _not_printed(report: Report, problem: OSError | Interrupted) -> int:
    try:
        report.delivery.not_sent()
    except ConchError as refusal:
        warn(f"the result could not be printed, and taking it back failed: {refusal.message}")
    if isinstance(problem, OSError):
        return give_up(problem)
    abandon_stream(sys.stdout)
    return status_after(problem.number)
