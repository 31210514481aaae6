"""Makes text that others wrote safe to show to a person at a terminal and to a model that reads our lines.

Such text cannot start a line that looks like ours, reverse a line, hide characters or control a terminal. Objects
(`structuredContent`, `--json`) carry the same text unchanged.
"""

from __future__ import annotations

MARGIN = "  "
# C0 and C1 start escape sequences. A tab is harmless, and the newlines are only those that join our own lines.
_CONTROLS = (range(0x09), range(0x0B, 0x20), range(0x7F, 0xA0))
# These are invisible, or make a line look different from what it says: line separators, direction marks and
# overrides, and characters that Unicode says to ignore (zero-width spaces, soft hyphens, fillers, tags). Joiners and
# the selectors from U+FE00 on stay, because some languages and most emoji need them.
_INVISIBLE = (
    *((0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5), range(0x180B, 0x1810), (0x200B, 0x200E, 0x200F)),
    *(range(0x2028, 0x202F), range(0x2060, 0x2070), (0x3164, 0xFEFF, 0xFFA0), range(0xFFF0, 0xFFFC)),
    *(range(0x1BCA0, 0x1BCA4), range(0x1D173, 0x1D17B), range(0xE0000, 0xE1000)),
)


class _Escapes(dict[int, str | int]):
    """A table for `str.translate`. It looks each character up at its first use, so importing costs nothing."""

    def __missing__(self, code: int) -> str | int:
        is_shown = not any(code in codes for codes in _CONTROLS + _INVISIBLE)
        self[code] = code if is_shown else ascii(chr(code))[1:-1]
        return self[code]


_ESCAPES = _Escapes()


def visible(text: str) -> str:
    """The text with control characters and invisible ones escaped. Tabs and newlines stay."""
    return text if _is_plain(text) else encodable(text.translate(_ESCAPES))


def _is_plain(text: str) -> bool:
    """Whether the text is printable ASCII on one line, which needs no escaping. Most text is."""
    return text.isascii() and text.isprintable()


def encodable(text: str) -> str:
    """The text with each half of a surrogate pair escaped. Python uses those for bytes that are not UTF-8."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def behind_margin(text: str, margin: str = MARGIN, first: str | None = None) -> str:
    """Put a margin before every line, whichever character ends it. `first` replaces the margin of the first line."""
    if _is_plain(text):
        return (margin if first is None else first) + text
    head, *rest = text.splitlines() or [""]
    return "\n".join([(margin if first is None else first) + visible(head), *(margin + visible(line) for line in rest)])


def one_line(text: str) -> str:
    """The text on one line, for names, paths and subjects."""
    if _is_plain(text):
        return text.strip()
    return visible(" ".join(line.strip() for line in text.splitlines() if line.strip()).replace("\t", " "))
