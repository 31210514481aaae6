"""What a command prints: text for people, JSON for programs, and never a raw control character."""

from __future__ import annotations

import codecs
import io
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from conch.agents.records import DOT, PLAIN_DOT
from conch.clock import SECOND, parse_iso, to_iso
from conch.doors.cli.terminal import clean_marked, paint
from conch.doors.exits import REFUSED, status_of
from conch.lean import Any, NamedTuple, TextIO, json
from conch.tools.replies import NOTHING_FOLLOWS, Delivery, Object, Reply
from conch.tools.text import behind_margin, encodable, one_line, visible

_TAB = " " * 4
_REPLACE = "conch"  # the name under which Python knows `_replace`
_ISO_LENGTH = len("2026-01-31T12:00:00.000Z")
_MINUTE, _TWO_DAYS = 60, 2 * 86_400


class Report(NamedTuple):
    """How a command ended. People get `text`; programs get `data`, or an `error` with its code and message."""

    data: Object | None
    text: str
    error: Object | None = None
    status: int = 0
    printing: Callable[[], AbstractContextManager[None]] = nullcontext
    """A context to print it in."""
    delivery: Delivery = NOTHING_FOLLOWS
    """What to do once it is printed, or could not be printed."""
    is_printed: bool = False
    """The command has printed everything itself."""


def as_report(reply: Reply) -> Report:
    """What a tool says, and its warnings, in local time. What the reply brings counts as delivered once printed."""
    warnings = (behind_margin(each["message"], first="Warning: ") for each in reply.data.get("warnings", ()))
    return Report(reply.data, local_moments("\n".join([reply.text, *warnings])), delivery=reply.delivery)


def failure(code: str, message: str, details: Object, *, text: str | None = None, status: int | None = None) -> Report:
    """The command failed. Its exit status follows from the code, unless a signal ended it."""
    error = {"code": code, "message": message, **details}
    shown = behind_margin(f"{local_moments(message)} ({code})", first="") if text is None else text
    return Report(None, shown, error, status_of(code) if status is None else status)


# -- text


def clean(text: str) -> str:
    """The same text without control characters, which a terminal would obey."""
    return visible(text).replace("\t", _TAB)


def duration(seconds: float) -> str:
    """A time in two units, for a line that moves."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def moment_text(moment: int) -> str:
    """A moment for people: local, and how far it is from now. The date is left out if it is today's."""
    return _moment_text(moment / SECOND)


def _moment_text(seconds: float) -> str:
    moment, today, away = time.localtime(seconds), time.localtime(), seconds - time.time()
    shown = time.strftime("%H:%M" if moment[:3] == today[:3] else "%Y-%m-%d %H:%M", moment)
    return f"{shown} (in {short_duration(away)})" if away > 0 else f"{shown} ({short_duration(-away)} ago)"


def short_duration(seconds: float) -> str:
    """A time for people: seconds if it is less than a minute, otherwise two units."""
    days, hours = divmod(round(seconds / 3_600), 24)
    if seconds < _MINUTE:
        return f"{int(seconds)} s"
    return f"{days} d {hours} h" if seconds >= _TWO_DAYS else duration(seconds)


def local_moments(text: str) -> str:
    """The text with each moment in the form of `clock.to_iso` replaced by one for people."""
    end = text.find("Z", _ISO_LENGTH - 1)
    while end >= 0:
        begin = end + 1 - _ISO_LENGTH
        seconds = parse_iso(text[begin : end + 1])
        if seconds is not None:
            shown = _moment_text(seconds)
            text = text[:begin] + shown + text[end + 1 :]
            end = begin + len(shown)
        end = text.find("Z", end + 1)
    return text


# -- printing


def prepare_streams() -> None:
    """Make sure that printing does not fail on a character that a stream cannot encode."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:  # our parent process closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open to the end
        elif isinstance(stream, io.TextIOWrapper):
            if isinstance(stream.buffer, io.RawIOBase):  # PYTHONUNBUFFERED: a full pipe would lose text
                encoding = stream.encoding
                stream = io.TextIOWrapper(io.BufferedWriter(stream.detach()), encoding)
                setattr(sys, name, stream)
            stream.reconfigure(errors=_REPLACE)


def _replace(problem: UnicodeError) -> tuple[str, int]:
    """What a stream shows instead of characters that it cannot encode: a full stop in a label, else an escape."""
    assert isinstance(problem, UnicodeEncodeError)
    lost = problem.object[problem.start : problem.end].replace(DOT, PLAIN_DOT)
    return lost.encode("ascii", "backslashreplace").decode(), problem.end


codecs.register_error(_REPLACE, _replace)


def print_report(command: str, report: Report, as_json: bool) -> None:
    """Print the result of a command; OSError if it cannot be written."""
    if as_json:
        ok = report.error is None
        envelope = {"ok": ok, "command": command, "data": report.data, "error": report.error}
        write(sys.stdout, json.dumps(presentable(envelope)) + "\n")
    elif report.error is None:
        text = clean_marked(report.text, clean, sys.stdout)
        write(sys.stdout, text + "\n" if text else "")
    else:
        prefix = paint(one_line(f"conch {command}".rstrip() + ":"), "red", sys.stderr)
        write(sys.stderr, f"{prefix} {clean_marked(report.text, clean, sys.stderr)}\n")


def write(stream: TextIO, text: str) -> None:
    """Write all at once, so that a reader that leaves after the last line causes no error."""
    stream.write(text)
    stream.flush()


def presentable(value: Any) -> Any:
    """The same without lone surrogates, which JSON allows but most readers refuse, and with moments in ISO form."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {key: _moment(key, presentable(item)) for key, item in value.items()}
    return [presentable(item) for item in value] if isinstance(value, (list, tuple)) else value


def _moment(key: str, value: Any) -> Any:
    """A moment in seconds, as the bus tools return it, in the form that the command line uses."""
    return to_iso(round(value * SECOND)) if isinstance(value, float) and key.endswith("_at") else value


def abandon_stream(stream: TextIO) -> None:
    """After a failed write: keep Python from reporting it again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def give_up(problem: OSError) -> int:
    """The exit status after a failed write. A reader that closed the pipe needs no warning."""
    abandon_stream(sys.stdout)
    if not isinstance(problem, BrokenPipeError):  # a full disk, perhaps
        warn(f"the output could not be written: {problem.strerror}.")
    return REFUSED


def warn(message: str) -> None:
    try:
        write(sys.stderr, f"conch: {one_line(message)}\n")
    except OSError:
        abandon_stream(sys.stderr)
