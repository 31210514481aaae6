"""What the terminal can show: its width, colours, and characters beyond ASCII."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache

from conch.lean import TextIO

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36, "grey": 90, "bold": 1}
_USUAL_WIDTH = 80


def width(stream: TextIO | None = None) -> int | None:
    """The columns of the terminal that a stream (default: standard output) writes to; None if it is not one."""
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


def can_move(stream: TextIO) -> bool:
    """Whether a line on this stream can be written again in the same place."""
    return width(stream) is not None and os.environ.get("TERM") != "dumb"


def has_colours(stream: TextIO | None = None) -> bool:
    """FORCE_COLOR wins over NO_COLOR, and both over what the stream is."""
    if os.environ.get("FORCE_COLOR"):
        return os.environ["FORCE_COLOR"] != "0"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return width(stream) is not None


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, if the stream (default: standard output) has colours. Clean, pad and cut it before."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if colour and has_colours(stream) else text


def can_show(text: str) -> bool:
    """Whether standard output can encode a text."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


# -- colours in a text that is still to be cleaned


@cache
def _brush() -> str:
    """The mark around a colour. It differs in each process, so that no agent's text can contain it."""
    return f"\0{os.urandom(8).hex()}"


def mark(text: str, colour: str) -> str:
    """The text with a mark for its colour, which `clean_marked` replaces. Pad and cut the text before."""
    return f"{_brush()}{colour};{text}{_brush()}" if text and colour and has_colours() else text


def clean_marked(text: str, clean: Callable[[str], str], stream: TextIO) -> str:
    """The text, cleaned, with its marked parts in their colours if the stream has any."""
    if "\0" not in text:
        return clean(text)
    shown = ""
    for place, piece in enumerate(text.split(_brush())):
        colour, _, words = piece.partition(";") if place % 2 else ("", "", piece)
        shown += paint(clean(words), colour, stream)
    return shown
