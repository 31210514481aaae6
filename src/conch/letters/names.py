"""Names that could pass for another name, by the rules of UTS #39 (Unicode 15.0).

A name is never changed here: it is accepted or refused. Only names that are not ASCII need the table, so most
processes never load it.
"""

from __future__ import annotations

import os

from conch.lean import NamedTuple, re
from conch.letters.invisible import is_blank, is_invisible

# The confusables among the ASCII characters, as in the table.
_ASCII_SHAPES = str.maketrans({'"': "''", "%": "º/₀", "0": "O", "1": "l", "I": "l", "`": "'", "m": "rn", "|": "l"})
# Writing systems that mix scripts: Chinese with Bopomofo, Japanese, Korean.
_AUGMENTED = {
    "Hani": {"Hanb", "Jpan", "Kore"},
    "Hira": {"Jpan"},
    "Kana": {"Jpan"},
    "Hang": {"Kore"},
    "Bopo": {"Hanb"},
}
# The speakers that are not agents, the program itself and people, and what their names look like.
_RESERVED = {word: word.translate(_ASCII_SHAPES) for word in ("conch", "system", "human")}
_AFTER_KIND = ":."  # in an id, and in a label where only ASCII can be shown
_ANY_SCRIPT = {"Zyyy", "Zinh"}  # common (digits, punctuation, emoji) and inherited (accents)
_UNKNOWN = frozenset({"Zzzz"})
_DOT_ABOVE = "\u0307"
_DOTTED = ("i", "j")
# Unicode's names of the Latin letters that are small capitals, white in a circle or square, or part of a flag.
_DRAWN_LETTER = re.compile(
    r"(?:LETTER SMALL CAPITAL|NEGATIVE \w+ LATIN CAPITAL LETTER|INDICATOR SYMBOL LETTER) ([A-Z])$"
)


class _Table(NamedTuple):
    scripts: list[tuple[int, int, frozenset[str]]]
    """The first and the last code point of each range, and its scripts."""
    shapes: dict[int, str]
    """What each confusable character looks like."""


class Flaw(NamedTuple):
    """Why a name is refused: for programs, and the words that follow the name in a sentence."""

    reason: str
    words: str


def find_flaw(name: str) -> Flaw | None:
    """Why nobody may take this name, whatever other names there are. None if it is acceptable."""
    if name.isascii():
        return None
    from unicodedata import normalize

    hidden = next((letter for letter in name if is_invisible(ord(letter)) or is_blank(ord(letter))), None)
    if hidden is not None:
        return Flaw("invisible", f"contains the invisible character U+{ord(hidden):04X}")
    if (plain := normalize("NFKC", name)) != name:
        return Flaw("not_nfkc", f"is not in Unicode's normal form NFKC, which is {plain!r}")
    if _mixes_scripts(name):
        return Flaw("mixed_scripts", "mixes letters of different scripts, so it could pass for another name")
    return None


def skeletons(name: str) -> set[str]:
    """What the name looks like, as it is and in each case. Two names that share a skeleton are confusable."""
    if name.isascii():
        return {_skeleton(spelling).casefold() for spelling in (name, name.casefold())}
    spellings = (name, name.casefold(), name.upper(), _in_latin(name))
    seen = (each for spelling in spellings for each in (spelling, _without_unseen_marks(spelling)))
    return {_skeleton(spelling).casefold() for spelling in seen}


def poses_as(name: str) -> str | None:
    """The reserved name that this one looks like."""
    shapes = _shapes_of_any_width(name)
    return next((word for word, shape in _RESERVED.items() if shape in shapes), None)


def kind_posed_as(name: str) -> str | None:
    """The reserved word that a name looks as if it began with, as `human:ada` does, or the label `human.ada`."""
    shapes = _shapes_of_any_width(name)
    for word in _RESERVED:
        beginnings = tuple(skeleton + mark for skeleton in skeletons(word) for mark in _AFTER_KIND)
        if any(shape.startswith(beginnings) for shape in shapes):
            return word
    return None


def has_dot(name: str) -> bool:
    """Whether a character looks like the middle dot of a label."""
    return not name.isascii() and any("\u00b7" in shape for shape in _shapes_of_any_width(name))


def _shapes_of_any_width(name: str) -> set[str]:
    """The skeletons of a name that may have full-width letters."""
    if name.isascii():
        return skeletons(name)
    from unicodedata import normalize

    return skeletons(normalize("NFKC", name))


def _skeleton(name: str) -> str:
    """The skeleton of UTS #39."""
    if name.isascii():
        return name.translate(_ASCII_SHAPES)
    from unicodedata import normalize

    seen = "".join(letter for letter in normalize("NFD", name) if not is_invisible(ord(letter)))
    return normalize("NFD", seen.translate(_load_table().shapes))


def _in_latin(name: str) -> str:
    """The name in lower-case Latin letters, where its letters or their capitals look like Latin ones.

    The skeleton loses them: it is `l` for a capital i of any script, and has two letters only for the small m.
    """
    from unicodedata import name as name_of

    shapes, spelled = _load_table().shapes, []
    for letter in name:
        drawn, shape = _DRAWN_LETTER.search(name_of(letter, "")), shapes.get(ord(letter), letter)
        if not shape.isascii() and len(capital := letter.upper()) == 1:
            shape = shapes.get(ord(capital), capital)
        if drawn:
            spelled.append(drawn[1])
        elif shape == "l" and letter.isalpha() and not letter.islower():
            spelled.append("i")
        else:
            spelled.append(shape if shape.isascii() and shape.isupper() else letter)
    return "".join(spelled).casefold()


def _without_unseen_marks(name: str) -> str:
    """The name without each mark that repeats the one before it, and without a dot above a letter that has one."""
    from unicodedata import combining, normalize

    shapes, base, kept = _load_table().shapes, "", [""]
    for letter in normalize("NFD", name):
        if not combining(letter):
            base = shapes.get(ord(letter), letter)
        elif letter == kept[-1] or (letter == _DOT_ABOVE and base in _DOTTED):
            continue
        kept.append(letter)
    return "".join(kept)


def _mixes_scripts(name: str) -> bool:
    """Whether no single script, or writing system, has all the letters."""
    possible: frozenset[str] | None = None
    for letter in name:
        scripts = _scripts_of(ord(letter))
        if not scripts & _ANY_SCRIPT:
            possible = scripts if possible is None else possible & scripts
    return possible is not None and not possible


def _scripts_of(code: int) -> frozenset[str]:
    from bisect import bisect_right

    ranges = _load_table().scripts
    place = bisect_right(ranges, code, key=lambda each: each[0]) - 1
    _, last, scripts = ranges[place]
    return scripts if code <= last else _UNKNOWN


# -- the table

_loaded: list[_Table] = []


def _load_table() -> _Table:
    if not _loaded:
        with open(os.path.join(os.path.dirname(__file__), "table.txt"), encoding="ascii") as file:
            lines = [line for line in file.read().splitlines() if not line.startswith("#")]
        middle = lines.index("")
        _loaded.append(_Table(_parse_scripts(lines[:middle]), _parse_shapes(lines[middle + 1 :])))
    return _loaded[0]


def _parse_scripts(lines: list[str]) -> list[tuple[int, int, frozenset[str]]]:
    found = []
    for line in lines:
        names, *ranges = line.split(" ")
        scripts = {*names.split(",")}
        scripts |= {system for script in scripts for system in _AUGMENTED.get(script, ())}
        for text in ranges:
            first, _, last = text.partition("-")
            found.append((int(first, 16), int(last or first, 16), frozenset(scripts)))
    return sorted(found, key=lambda each: each[0])


def _parse_shapes(lines: list[str]) -> dict[int, str]:
    shapes: dict[int, str] = {}
    for line in lines:
        shape, _, codes = line.partition("; ")
        letters = "".join(chr(int(code, 16)) for code in shape.split(" "))
        shapes |= dict.fromkeys((int(code, 16) for code in codes.split(" ")), letters)
    return shapes
