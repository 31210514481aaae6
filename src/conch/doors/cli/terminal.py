"""What the terminal can show: its width, colours, and characters beyond ASCII."""

from __future__ import annotations

import os
import sys

from conch.lean import TextIO

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36, "grey": 90, "bold": 1}
_USUAL_WIDTH = 80


def width(stream: TextIO | None = None) -> int | None:
    """The columns of the terminal that a stream (default: standard output) writes to; None if it is no terminal."""
    stream = stream or sys.stdout
    try:
        return (os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH) if stream.isatty() else None
    except (OSError, ValueError):
        return None


def height() -> int:
    """The lines of the terminal."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or 24
    except (OSError, ValueError):
        return 24


def _has_colours(stream: TextIO | None = None) -> bool:
    """FORCE_COLOR wins over NO_COLOR, and both over what the stream is."""
    if os.environ.get("FORCE_COLOR"):
        return os.environ["FORCE_COLOR"] != "0"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return width(stream) is not None


def paint(text: str, colour: str) -> str:
    """The text in a colour, if standard output has colours. Pad and cut it before: the colour has no width."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if colour and _has_colours() else text


def can_show(text: str) -> bool:
    """Whether standard output can encode a text."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
