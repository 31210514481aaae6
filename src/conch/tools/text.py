"""Makes text that others wrote safe to show to a person at a terminal and to a model that reads our lines.

Such text cannot start a line that looks like ours, reverse a line, hide characters or control a terminal. Objects
(`structuredContent`, `--json`) carry the same text unchanged.
"""

from __future__ import annotations

MARGIN = "  "
# C0 and C1 start escape sequences. A tab is harmless, and the newlines are only those that join our own lines.
_CONTROLS = (range(0x09), range(0x0B, 0x20), range(0x7F, 0xA0))
# These end a line, or stand between a text and its annotation.
_SEPARATORS = (range(0x2028, 0x202A), range(0xFFF9, 0xFFFC))
# Joiners and variation selectors are invisible too, but some languages and most emoji need them.
_NEEDED = (range(0x200C, 0x200E), range(0xFE00, 0xFE10))

_MOST_ESCAPES = 8_192


class _Escapes(dict[int, str | int]):
    """A table for `str.translate`. It looks each character up at its first use, so importing costs nothing."""

    def __missing__(self, code: int) -> str | int:
        if len(self) >= _MOST_ESCAPES:  # otherwise a text with all characters would stay in memory forever
            self.clear()
        escape = self[code] = code if _is_shown(code) else ascii(chr(code))[1:-1]
        return escape


def _is_shown(code: int) -> bool:
    from conch.letters.invisible import is_invisible  # only a text with other letters than Latin-1 needs it

    if any(code in codes for codes in _NEEDED):
        return True
    return not is_invisible(code) and not any(code in codes for codes in _CONTROLS + _SEPARATORS)


_ESCAPES = _Escapes()

# Printable ASCII and the printable rest of Latin-1. The soft hyphen is invisible.
_SHORT = 64
_PLAIN = bytes(code for code in (*range(0x20, 0x7F), *range(0xA1, 0x100)) if code != 0xAD)


def visible(text: str) -> str:
    """The text with control characters and invisible ones escaped. Tabs and newlines stay."""
    return text if _has_only(text, _PLAIN + b"\n\t") else encodable(text.translate(_ESCAPES))


def is_plain(text: str) -> bool:
    """Whether the text is printable Latin-1 on one line. It needs no escaping."""
    if len(text) < _SHORT and text.isascii():
        return text.isprintable()  # faster for a short text
    return _has_only(text, _PLAIN)


def _has_only(text: str, letters: bytes) -> bool:
    try:
        return not text.encode("latin-1").translate(None, letters)
    except UnicodeEncodeError:
        return False


def encodable(text: str) -> str:
    """The text with each half of a surrogate pair escaped. Python uses those for bytes that are not UTF-8."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def well_formed(text: str) -> str:
    """Replace half a surrogate pair (a cut emoji, a file name that is not UTF-8), which strict parsers refuse."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def behind_margin(text: str, margin: str = MARGIN, first: str | None = None) -> str:
    """Put a margin before every line, whichever character ends it. `first` replaces the margin of the first line."""
    if is_plain(text):
        return (margin if first is None else first) + text
    head, *rest = text.splitlines() or [""]
    return "\n".join([(margin if first is None else first) + visible(head), *(margin + visible(line) for line in rest)])


def one_line(text: str) -> str:
    """The text on one line, for names, paths and subjects."""
    if is_plain(text):
        return text.strip()
    return visible(" ".join(line.strip() for line in text.splitlines() if line.strip()).replace("\t", " "))


def with_name(label: str, field: str, name: str) -> str:
    """The label of an agent, and the name that an object has for it, if that is not the end of the label."""
    return label if label.endswith(name) else f"{label} {field}={name}"
