"""What a command prints: tables for people, one envelope for programs, and never a raw control character."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Object = dict[str, Any]

# Bidirectional overrides can make a line read as something else than it is.
TROUBLE = {*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {0x0A}
ESCAPES = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in TROUBLE} | {0x09: "    "}


class Report(NamedTuple):
    """How a command ended. `text` is for people, `data` for programs; an `error` has a code and a message."""

    data: Object | None
    text: str
    error: Object | None = None
    told: Callable[[], None] | None = None
    """What to do once it has been printed."""
    untold: Callable[[], None] | None = None
    """What to do when nobody is left to read it."""

    @property
    def status(self) -> int:
        return 0 if self.error is None else 1


def clean(text: str) -> str:
    """Text from other agents, safe to show: a terminal obeys control characters, so it gets none."""
    return text.translate(ESCAPES).encode(errors="backslashreplace").decode()


def one_line(text: str) -> str:
    return clean(" ".join(text.split()))


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they must be; the last one is left as it is."""
    lines = [list(headings), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def print_report(command: str, report: Report, as_json: bool) -> None:
    """Say how a command ended; BrokenPipeError when nobody reads it."""
    if as_json:
        envelope = {
            "ok": report.error is None,
            "command": command,
            "data": report.data,
            "error": report.error,
        }
        print(json.dumps(envelope), flush=True)
    elif report.error is None:
        print(clean(report.text), flush=True)
    else:
        print(f"conch {command}: {clean(report.text)}", file=sys.stderr, flush=True)


def silence_stdout() -> None:
    """After a broken pipe: keep Python from complaining about it once more while it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
