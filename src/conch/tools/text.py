"""Text that others wrote, safe to show: to a person at a terminal, and to a model that reads our lines.

Nothing in it can begin a line of ours, turn a line around, hide, or command a terminal. Structures
(`structuredContent`, `--json`) carry the same text as it was written.
"""

from __future__ import annotations

MARGIN = "  "
# C0 and C1, which hold the escape sequences; the tab is harmless, and line ends are where a text is split.
_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {0x09, 0x0A}
# Not seen, or they make a line read as something else than it is: line separators, direction marks and overrides,
# zero-width spaces, tags.
_INVISIBLE = {0x061C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x206A), 0xFEFF}
_INVISIBLE |= {*range(0xE0000, 0xE0080)}
_ESCAPES = {code: ascii(chr(code))[1:-1] for code in _CONTROLS | _INVISIBLE}


def visible(text: str) -> str:
    """The same with an escape for each character that is obeyed or not seen; tabs and newlines stay."""
    return whole(text.translate(_ESCAPES))


def whole(text: str) -> str:
    """Half a surrogate pair, which stands for a byte of a name that is not UTF-8, becomes an escape."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def behind_margin(text: str, margin: str = MARGIN, first: str | None = None) -> str:
    """Every line behind a margin, whatever ends it; the first one behind `first`, where that is given."""
    head, *rest = text.splitlines() or [""]
    return "\n".join([(margin if first is None else first) + visible(head), *(margin + visible(line) for line in rest)])


def one_line(text: str) -> str:
    """For names, paths, subjects and other places that have one line."""
    return visible(" ".join(line.strip() for line in text.splitlines() if line.strip()).replace("\t", " "))
