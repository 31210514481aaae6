"""The characters that a reader does not see. This is the only list of them: every door and every name uses it."""

from __future__ import annotations

# Unicode 15.0, property Default_Ignorable_Code_Point: soft hyphens, fillers, zero-width spaces and joiners, direction
# marks and overrides, variation selectors, tags. `scripts/unicode_table.py` prints these ranges.
_DEFAULT_IGNORABLE = (
    *(range(0xAD, 0xAE), range(0x34F, 0x350), range(0x61C, 0x61D), range(0x115F, 0x1161), range(0x17B4, 0x17B6)),
    *(range(0x180B, 0x1810), range(0x200B, 0x2010), range(0x202A, 0x202F), range(0x2060, 0x2070)),
    *(range(0x3164, 0x3165), range(0xFE00, 0xFE10), range(0xFEFF, 0xFF00), range(0xFFA0, 0xFFA1)),
    *(range(0xFFF0, 0xFFF9), range(0x1BCA0, 0x1BCA4), range(0x1D173, 0x1D17B), range(0xE0000, 0xE1000)),
)
# Empty glyphs: the empty signs of Braille, music, Khitan and hieroglyphs, and the placeholder of an object. In a text
# they take the room of a space, but in a name nobody sees them.
_BLANK = (0x2800, 0xFFFC, 0x13441, 0x13442, 0x16FE4, 0x1D159)


def is_invisible(code: int) -> bool:
    """Whether Unicode tells programs to show nothing for this code point."""
    return any(code in codes for codes in _DEFAULT_IGNORABLE)


def is_blank(code: int) -> bool:
    """Whether a character other than a space shows nothing."""
    return code in _BLANK
