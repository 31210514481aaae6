"""What a command prints: text for people, JSON for programs, and never a raw control character."""

from __future__ import annotations

import codecs
import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from conch.agents.records import DOT, PLAIN_DOT
from conch.clock import SECOND
from conch.lean import Any, NamedTuple, TextIO, json
from conch.tools.replies import NOTHING_FOLLOWS, Delivery, Object, Reply
from conch.tools.text import behind_margin, encodable, one_line, visible

MORE = "There are more. A higher --limit shows older ones."  # below a list that is cut off; lists are newest first
_TAB = " " * 4
_REPLACE = "conch"  # how Python knows `_replace`


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
    is_styled: bool = False
    """The text has colours, and was cleaned before it got them."""
    is_printed: bool = False
    """The command has printed everything itself."""


def as_report(reply: Reply) -> Report:
    """Print what a tool says, and its warnings."""
    warnings = (behind_margin(each["message"], first="Warning: ") for each in reply.data.get("warnings", ()))
    return Report(reply.data, "\n".join([reply.text, *warnings]))


def failure(code: str, message: str, details: Object, *, text: str | None = None, status: int = 1) -> Report:
    error = {"code": code, "message": message, **details}
    return Report(None, behind_margin(f"{message} ({code})", first="") if text is None else text, error, status)


# -- text


def clean(text: str) -> str:
    """The same text without control characters, which a terminal would obey."""
    return visible(text).replace("\t", _TAB)


def duration(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def local_time(moment: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment / SECOND))


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str] = (), margin: str = "") -> str:
    """Columns as wide as their texts. `below` has one long text per row, for the line after it.

    A table whose first column is text of agents needs a margin.
    """
    lines = [list(headings), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(columns(line[place]) for line in lines) for place in range(len(headings))]
    shown = [margin + "  ".join(map(_padded, line, widths)).rstrip() for line in lines]
    extra = ["", *(f"\n    {one_line(text)}" for text in below)] if below else [""] * len(shown)
    return "\n".join(map(str.__add__, shown, extra))


def _padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def shortened(text: str, width: int) -> str:
    """Cut a line to a width in columns."""
    while columns(text) > width:
        text = text[:-1]
    return text


def columns(text: str) -> int:
    """The width of a text on a terminal."""
    if text.replace(DOT, PLAIN_DOT).isascii():  # most texts: the dot of a label has the width of a letter
        return len(text)
    import unicodedata  # rarely needed

    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


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
        write(sys.stdout, json.dumps(_presentable(envelope)) + "\n")
    elif report.error is None:
        text = report.text if report.is_styled else clean(report.text)
        write(sys.stdout, text + "\n" if text else "")
    else:
        write(sys.stderr, f"{one_line(f'conch {command}')}: {clean(report.text)}\n")


def write(stream: TextIO, text: str) -> None:
    """Write all at once, so that a reader that leaves after the last line causes no error."""
    stream.write(text)
    stream.flush()


def _presentable(value: Any) -> Any:
    """The same without lone surrogates, which JSON allows but most readers refuse."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {key: _presentable(item) for key, item in value.items()}
    return [_presentable(item) for item in value] if isinstance(value, (list, tuple)) else value


def abandon_stream(stream: TextIO) -> None:
    """After a failed write: keep Python from reporting it again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def give_up(problem: OSError) -> int:
    """The exit status after a failed write. A reader that closed the pipe needs no warning."""
    abandon_stream(sys.stdout)
    if not isinstance(problem, BrokenPipeError):  # a full disk, perhaps
        warn(f"the output could not be written: {problem.strerror}.")
    return 1


def warn(message: str) -> None:
    try:
        write(sys.stderr, f"conch: {one_line(message)}\n")
    except OSError:
        abandon_stream(sys.stderr)
