"""The snippet of a message that shows why it was found."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import islice

from conch.search.queries import Query
from conch.search.words import LONGEST_TEXT, fold, marks

WIDTH = 160
_LONG = 10_000
_MOST_PLACES = 500  # occurrences of each term that are looked at
_LEAD = 40  # characters before the first marked word
MARK = "**"
_ELLIPSIS = "\u2026"

_Span = tuple[int, int]


def snippet(query: Query, text: str) -> str:
    """One line of about `WIDTH` characters around the place with the most terms, with marks around the matches."""
    line = " ".join(text[:LONGEST_TEXT].split())
    spans = _spans(query, line)
    start, end = _window(line, _best_place(spans))
    shown, place = "", start
    for first, last, _ in spans:
        if place <= first and last <= end:
            shown += f"{line[place:first]}{MARK}{line[first:last]}{MARK}"
            place = last
    shown += line[place:end]
    return f"{_ELLIPSIS if start else ''}{shown.strip()}{_ELLIPSIS if end < len(line) else ''}"


def _spans(query: Query, line: str) -> list[tuple[int, int, int]]:
    """Where the terms are in the line, in order: start, end, and the number of the term."""
    folded, places = _aligned(line)
    found = []
    for number, term in enumerate(query.terms):
        for match in islice(term.pattern.finditer(folded), _MOST_PLACES):
            found.append((*_unfolded(places, match.span()), number))
    return sorted(found)


def _best_place(spans: Sequence[tuple[int, int, int]]) -> int:
    """The start of the first window with the most different terms."""
    best, most, first = 0, 0, 0
    for last, (_, end, _) in enumerate(spans):
        while end - spans[first][0] > WIDTH - _LEAD and first < last:
            first += 1
        if (different := len({number for _, _, number in spans[first : last + 1]})) > most:
            best, most = spans[first][0], different
    return best


def _window(line: str, place: int) -> _Span:
    """The window around a place, cut at spaces if possible."""
    start = max(0, min(place - _LEAD, len(line) - WIDTH))
    if start:
        blank = line.find(" ", start, place)
        start = start if blank < 0 else blank + 1
    end = min(start + WIDTH, len(line))
    if end < len(line):
        blank = line.rfind(" ", start + WIDTH - _LEAD, end)
        end = end if blank < 0 else blank
    return start, end


def _aligned(line: str) -> tuple[str, list[_Span]]:
    """The folded line, and pairs (folded position, original position) wherever their distance changes."""
    whole = fold(line)
    # Folding letter by letter takes a third of a second for the longest texts. If folding keeps the length of a long
    # text, assume that every letter kept its place.
    if line.isascii() or (len(line) > _LONG and len(whole) == len(line)):
        return whole, [(0, 0)]
    pieces, places, length, distance = [], [(0, 0)], 0, 0
    for match in _clusters().finditer(line):
        piece = fold(match[0])
        if length - match.start() != distance:
            places.append((length, match.start()))
            distance = length - match.start()
        pieces.append(piece)
        length += len(piece)
    return "".join(pieces), places


def _unfolded(places: Sequence[_Span], span: _Span) -> _Span:
    """Convert a span of the folded line to a span of the line itself."""
    start, end = (_original(places, place) for place in span)
    return start, max(end, start + 1)


def _original(places: Sequence[_Span], place: int) -> int:
    folded, original = places[bisect_right(places, (place, 2**31)) - 1]
    return original + place - folded


@cache
def _clusters() -> re.Pattern[str]:
    """Matches pieces that fold independently: ASCII runs, Hangul runs, and other characters with their marks."""
    mark = f"[{marks()}]"
    return re.compile(f"[\\x00-\\x7f]+(?!{mark})|(?:[\u1100-\u11ff]+|.){mark}*")
