"""What a word is. All engines store and look up these words, so that search is the same on each of them.

Case, width and accents do not matter. A run of letters, digits and marks is a word. In scripts without spaces between
words, every character is a word. `C++` gives the words `c` and `cplusplus`, so that a search can tell it from C.
An emoji or similar sign is a word too. It is spelled by its number, because the engines do not index signs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice

from conch.ids import digest
from conch.lean import NamedTuple

LONGEST_TEXT = 131_072  # characters; only the start of a longer message is indexed
LONGEST_WORD = 64
MOST_WORDS = 16_000  # positions in an index row must stay below 16,384 for phrases to be found
MOST_BYTES = 700_000  # an index row must stay below 1 MB
_ROW_OVERHEAD = 8

SPELLED = {"+": "plus", "#": "sharp"}
_LONGEST_SUFFIX = 4
_FACET = "\uf8ff"  # starts every facet; a private-use character, so it is in no word of a text

_ACCENTED = re.compile("([a-z\u00df-\u02af\u0370-\u03ff\u0400-\u052f])[\u0300-\u036f]+")  # Latin, Greek, Cyrillic
_PLAIN = re.compile(r"([a-z0-9]+)([+#]*)")
# Thai, Lao, Myanmar, Khmer; Hiragana, Katakana, Bopomofo; Han
UNSPACED = (
    "\u0e01-\u0e46\u0e81-\u0ec6\u1000-\u109f\u1780-\u17d3"
    "\u3005-\u3007\u3021-\u3029\u3041-\u3096\u309d-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED_LETTER = re.compile(f"[{UNSPACED}]")
# Signs: cent to section, copyright, registered; currencies; arrows, operators and technical signs; stars to dingbats;
# more arrows; emoji. Box-drawing characters are left out.
SIGNS = (
    "\u00a2-\u00a7\u00a9\u00ae\u20a0-\u20cf\u2190-\u23ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff"
)
SIGN_TRAILERS = "\ufe0e\ufe0f"  # whether to show a sign as text or as a picture


class Token(NamedTuple):
    """A word, and its position in the folded text."""

    word: str
    start: int
    end: int


def fold(text: str) -> str:
    """The text in the form that is compared: without case, width, and the accents of European letters."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFKC", _ACCENTED.sub(r"\1", folded))


def tokens(folded: str) -> Iterator[Token]:
    """The words of a folded text, in order. A word with a suffix such as `C++` comes first without it, then with it."""
    if folded.isascii():
        pattern, parts = _PLAIN, None
    else:
        pattern, parts = _patterns()
        folded = folded.replace("_", " ")  # `\w` matches it, but it is not part of a word
    for match in pattern.finditer(folded):
        if match[1] is None:
            yield Token(f"u{ord(match[0]):x}", *match.span())
            continue
        start, end = match.span(1)
        pieces = [Token(match[1], start, end)]
        if parts is not None:
            pieces = [Token(part[0], start + part.start(), start + part.end()) for part in parts.finditer(match[1])]
        for word, first, last in pieces:
            yield Token(word[:LONGEST_WORD], first, last)
        suffix = match[2]
        # Two signs always belong to the word (C++17); a single one can be an operator (a+b).
        belongs = len(suffix) > 1 or (suffix and not folded[match.end() : match.end() + 1].isalnum())
        if belongs and not _UNSPACED_LETTER.match(pieces[-1].word):
            spelled = "".join(SPELLED[sign] for sign in suffix[:_LONGEST_SUFFIX])
            yield Token(pieces[-1].word[: LONGEST_WORD - len(spelled)] + spelled, pieces[-1].start, match.end())


def index_words(text: str) -> list[str]:
    """The indexed words of a message, cut so that they fit into an index row."""
    folded = fold(text[:LONGEST_TEXT])
    if folded.isascii() and "+" not in folded and "#" not in folded:  # most messages, and much faster
        words = [match[0][:LONGEST_WORD] for match in islice(_PLAIN.finditer(folded), MOST_WORDS)]
    else:
        words = [token.word for token in islice(tokens(folded), MOST_WORDS)]
    return words if _bytes(words) <= MOST_BYTES else _cut(words)


def _cut(words: list[str]) -> list[str]:
    size, kept = 0, 0
    while kept < len(words) and (size := size + _bytes(words[kept : kept + 1])) <= MOST_BYTES:
        kept += 1
    return words[:kept]


def _bytes(words: list[str]) -> int:
    return sum(len(word.encode()) + _ROW_OVERHEAD for word in words)


@lru_cache(4_096)
def facet(kind: str, value: str) -> str:
    """A word for a property of a message, such as its topic."""
    return _FACET + kind + digest(value)


@cache
def marks() -> str:
    """All combining marks, as ranges for a character class. A mark belongs to the letter before it."""
    found = [code for code in range(0x300, 0x1F000) if unicodedata.category(chr(code))[0] == "M"]
    ranges: list[list[int]] = []
    for code in found:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Two patterns: a word with its suffix or a sign; and the parts of a word in scripts without spaces."""
    word = re.compile(rf"(\w[\w{marks()}]*)([+#]*)|[{SIGNS}]")
    # A mark belongs to the letter before it, even if that letter is of another script.
    return word, re.compile(rf"(?![{marks()}])[{UNSPACED}][{marks()}]*|(?:[^{UNSPACED}]|[{marks()}])+")
