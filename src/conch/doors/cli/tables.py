"""Tables for people, as wide as the terminal allows, and the widths of texts on it."""

from __future__ import annotations

from collections.abc import Sequence

from conch.agents.records import DOT, PLAIN_DOT
from conch.doors.cli.terminal import mark, width
from conch.tools.text import one_line

_GAP = "  "  # between two columns
_BELOW = " " * 4
_NARROWEST = 12  # a column that is narrowed more is hard to read
_COLOURS = {"owner": "green", "active": "green", "next": "cyan", "stale": "yellow", "inactive": "grey"}
_COLOURS |= {"evicted": "red", "gone": "red"}


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str] = (), margin: str = "") -> str:
    """Columns as wide as their texts, or narrower on a narrow terminal. `below` has one long text per row, for the
    line after it. A table whose first column is text of agents needs a margin.
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    extra = [one_line(text) for text in below] or [""] * len(rows)
    limit = width()
    widths = [max(map(columns, column)) for column in zip(headings, *cells, strict=True)]
    fitted = _fitted(widths, limit - len(margin) - len(_GAP) * (len(widths) - 1)) if limit else widths
    if fitted is None:
        return _stacked(headings, cells, extra, limit or 0)
    lines = [margin + mark(_GAP.join(map(_padded, headings, fitted)).rstrip(), "bold")]
    for row, text in zip(cells, extra, strict=True):
        lines += [margin + line for line in _row(row, fitted)]
        lines += [_BELOW + part for part in wrapped(text, limit - len(_BELOW) if limit else None)] if text else []
    return "\n".join(lines)


def _fitted(widths: list[int], room: int) -> list[int] | None:
    """The widths of the columns, with the widest ones narrowed until all fit; None if they would get too narrow."""
    widths = list(widths)
    while sum(widths) > room:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= _NARROWEST:
            return None
        widths[widest] -= 1
    return widths


def _row(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """A row of a table. A cell that is too long goes on below itself."""
    parts = [wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    height = max(map(len, parts))
    lines = []
    for place in range(height):
        found = [part[place] if place < len(part) else "" for part in parts]
        lines.append(_GAP.join(map(_cell, found, widths)).rstrip())
    return lines


def _cell(text: str, width: int) -> str:
    return mark(text, _COLOURS.get(text, "")) + " " * (width - columns(text))


def _stacked(headings: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str], limit: int) -> str:
    """One line per cell, after its heading, for a terminal that is too narrow for the table."""
    label = max(map(columns, headings)) + len(_GAP)
    blocks = []
    for row, text in zip(rows, below, strict=True):
        lines = []
        for heading, cell in zip(headings, row, strict=True):
            parts = wrapped(cell, max(1, limit - label)) if cell else []
            starts = [mark(_padded(heading, label), "bold")] + [" " * label] * len(parts)
            lines += [start + part for start, part in zip(starts, parts, strict=False)]
        lines += [_BELOW + part for part in wrapped(text, max(1, limit - len(_BELOW)))] if text else []
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def wrapped(text: str, width: int | None) -> list[str]:
    """The text in pieces of at most this width, broken between words where possible."""
    if width is None or columns(text) <= width:
        return [text]
    pieces, line = [], ""
    for word in text.split(" "):
        if line and columns(line) + 1 + columns(word) > width:
            pieces.append(line)
            line = ""
        line = f"{line} {word}" if line else word
        while (head := shortened(line, width) or line[:1]) != line:
            pieces.append(head)
            line = line[len(head) :]
    return [*pieces, line] if line else pieces


def _padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def shortened(text: str, width: int) -> str:
    """Cut a line to a width in columns. The text may be very long, so nothing is measured twice."""
    used = 0
    for place, letter in enumerate(text):
        used += columns(letter)
        if used > width:
            return text[:place]
    return text


def columns(text: str) -> int:
    """The width of a text on a terminal."""
    if text.replace(DOT, PLAIN_DOT).isascii():  # most texts: the dot of a label has the width of a letter
        return len(text)
    import unicodedata  # rarely needed

    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)
