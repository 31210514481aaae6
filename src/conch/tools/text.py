"""Text that others wrote, safe to show: to a person at a terminal, and to a model that reads our lines.

Nothing in it can begin a line of ours, turn a line around, hide, or command a terminal. Structures
(`structuredContent`, `--json`) carry the same text as it was written.
"""

from __future__ import annotations

MARGIN = "  "
# C0 and C1, which hold the escape sequences; the tab is harmless, and line ends are where a text is split.
_CONTROLS = (range(0x09), range(0x0B, 0x20), range(0x7F, 0xA0))
# Not seen, or they make a line read as something else than it is: line separators, direction marks and overrides, and
# what Unicode says to ignore: zero-width spaces, soft hyphens, fillers, tags. Joiners and the selectors from U+FE00 on
# stay, because words of some languages and most emoji need them.
_INVISIBLE = (
    *((0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5), range(0x180B, 0x1810), (0x200B, 0x200E, 0x200F)),
    *(range(0x2028, 0x202F), range(0x2060, 0x2070), (0x3164, 0xFEFF, 0xFFA0), range(0xFFF0, 0xFFFC)),
    *(range(0x1BCA0, 0x1BCA4), range(0x1D173, 0x1D17B), range(0xE0000, 0xE1000)),
)


class _Escapes(dict[int, str | int]):
    """For `str.translate`. What becomes of a character is found at its first use, so that importing costs nothing."""

    def __missing__(self, code: int) -> str | int:
        is_shown = not any(code in codes for codes in _CONTROLS + _INVISIBLE)
        self[code] = code if is_shown else ascii(chr(code))[1:-1]
        return self[code]


_ESCAPES = _Escapes()


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
