"""The words of a query, and the filters that choose which messages are searched. Any text is a valid query."""

from __future__ import annotations

import re
from collections.abc import Iterator

from conch.clock import SECOND
from conch.errors import InvalidArgument
from conch.lean import NamedTuple
from conch.search.words import SIGN_TRAILERS, SIGNS, SPELLED, UNSPACED, Token, fold, tokens
from conch.storage.base import Phrase

_MOST_WORDS = 64
_FARTHEST_SECONDS = 10**11  # about three thousand years; as microseconds it fits any store
_SHORTEST_PREFIX_BYTES = 3  # shorter prefixes match too many words

_QUOTES = str.maketrans("\u201c\u201d\u201e\u00ab\u00bb", '"""""')
_SIGN = re.compile(f"[{SIGNS}]")
_ALONE = re.compile(f"[{UNSPACED}{SIGNS}]")  # a character that is a word by itself
_EMPTY_WORDS = """
a about after all also am an and any are as at be been before being but by can could did do does doing down for from
had has have having he her here hers him his how i if in into is it its just me more most my no nor not now of off on
once only or other our ours out over own same she should so some such than that the their theirs them then there these
they this those through to too under until up us was we were what when where which while who whom why will with would
you your yours
"""
_STOP_WORDS = frozenset(_EMPTY_WORDS.split())


class Term(NamedTuple):
    """A phrase to look for, and the pattern that finds it in a folded text."""

    phrase: Phrase
    pattern: re.Pattern[str]


class Query(NamedTuple):
    """A message must have all terms. `literal` is the whole query, folded, on one line."""

    text: str
    terms: list[Term]
    literal: str
    was_cut: bool


def parse_query(text: str) -> Query:
    """Split a query at spaces. Each piece is a phrase (`db.py` has two words), and so is each quoted text.

    The last word also matches as a prefix unless it is quoted. English stop words are left out if other words remain.
    Only the first `_MOST_WORDS` words count.
    """
    terms: list[Term] = []
    trivial: list[Term] = []
    count, was_cut = 0, False
    straight = text.translate(_QUOTES)
    for piece, is_quoted, is_last in _pieces(straight):
        found = list(tokens(fold(piece)))
        was_cut = was_cut or count + len(found) > _MOST_WORDS
        found = found[: _MOST_WORDS - count]
        count += len(found)
        if found:
            term = _term(fold(piece), found, may_be_prefix=is_last and not is_quoted)
            is_trivial = not is_quoted and len(found) == 1 and found[0].word in _STOP_WORDS
            (trivial if is_trivial else terms).append(term)
    chosen = {term.phrase.words: term for term in reversed(terms or trivial)}
    literal = " ".join(fold(straight).replace('"', " ").split())
    return Query(text, list(chosen.values())[::-1], literal, was_cut)


def _pieces(text: str) -> Iterator[tuple[str, bool, bool]]:
    """Every piece, whether it is quoted, and whether it is the last. A quote that is never closed is ignored."""
    parts = text.split('"')
    if len(parts) % 2 == 0:
        parts[-2:] = [f"{parts[-2]} {parts[-1]}"]
    pieces = [
        (piece, bool(number % 2))
        for number, part in enumerate(parts)
        for piece in ([part] if number % 2 else part.split())
    ]
    for number, (piece, is_quoted) in enumerate(pieces, start=1):
        yield piece, is_quoted, number == len(pieces)


def _term(folded: str, found: list[Token], may_be_prefix: bool) -> Term:
    words = tuple(token.word for token in found)
    first, last = found[0], found[-1]
    ends_itself = _ALONE.match(folded, last.start) or folded[last.end - 1] in SPELLED
    is_prefix = may_be_prefix and not ends_itself and len(words[-1].encode()) >= _SHORTEST_PREFIX_BYTES
    # `C++` gives two tokens with the same start, `c` and `cplusplus`. The later, longer one is kept.
    shown = list({token.start: re.escape(folded[token.start : token.end]) for token in found}.values())
    if not _ALONE.match(folded, first.start):
        shown[0] += rf"(?<![^\W_]{shown[0]})"  # after the word: a pattern that starts with letters is faster
    after = r"\w*" if is_prefix else "" if ends_itself else r"(?![^\W_])"
    if _SIGN.match(folded, last.start):
        after = f"[{SIGN_TRAILERS}]?"
    return Term(Phrase(words, is_prefix), re.compile(r"[\W_]*".join(shown) + after))


class Filters(NamedTuple):
    """A message must pass every filter that is given. Moments are in microseconds; both ends are included."""

    topic_id: str | None
    message_type: str | None
    since: int
    until: int
    senders: list[int] | None = None
    """The ids of the peers with the wanted sender's name, on all topics."""


def make_filters(topic_id: str | None, message_type: str | None, since: float | None, until: float | None) -> Filters:
    """The filters of a call, which gives times in seconds since the epoch."""
    earliest = -_FARTHEST_SECONDS if since is None else since
    latest = _FARTHEST_SECONDS if until is None else until
    return Filters(topic_id, message_type, _moment("since", earliest), _moment("until", latest))


def _moment(field: str, seconds: float) -> int:
    if not abs(seconds) <= _FARTHEST_SECONDS:  # written this way round, so that it also refuses NaN
        raise InvalidArgument(f"{field} must be a time in seconds since 1970.", field=field)
    return round(seconds * SECOND)
