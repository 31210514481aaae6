"""Search by words: the newest messages that have all of them, the best of those first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conch.lean import NamedTuple
from conch.search.indexing import Index
from conch.search.queries import Filters, Query
from conch.search.words import LONGEST_TEXT, facet, fold, index_words
from conch.storage.base import Phrase, Row, Store, Transaction
from conch.warnings import Warnings

_MOST_CANDIDATES = 500  # ranking all matches would take the longer the more there are
_RECENT = 4_000  # the newest messages, of which many enough have a common word
_RANKED_TEXT = 4_000  # characters of a match that its rank depends on
_MOST_FACETS = 100  # peers of one name that the index is asked for; of more, the messages themselves are looked at
NOBODY = 0  # no peer has this id
BATCH_CHARACTERS = 500_000  # indexed in one transaction
_SATURATION = 1.2  # how soon it matters less that a word occurs once more
_LENGTH_WEIGHT = 0.75  # how much longer texts must say it oftener


class Candidate(NamedTuple):
    """A match: its message's number, and the beginning of its text."""

    number: int
    text: str


class FullText:
    """The first way: every engine's full-text index, filled with our words."""

    def index(self, store: Store) -> Index:
        return Index("words", LONGEST_TEXT, 0, BATCH_CHARACTERS, _prepare, _store)

    def find(self, tx: Transaction, query: Query, filters: Filters) -> list[int]:
        """Numbers of messages, best first."""
        facets = {"t": filters.topic_id, "y": filters.message_type}
        narrowed = [Phrase((facet(kind, value),)) for kind, value in facets.items() if value is not None]
        phrases = [*(term.phrase for term in query.terms), *narrowed]
        return rank(query, [Candidate(number, text) for number, text in _candidates(tx, phrases, filters).items()])

    def warnings(self, tx: Transaction) -> Warnings:
        return []


def _candidates(tx: Transaction, phrases: Sequence[Phrase], filters: Filters) -> dict[int, str]:
    """The newest messages with these very words. Where those are few, also with words that begin so, which are costly.

    Common words are found among the most recent messages, others with the whole index.
    """
    asked = {"longest": _RANKED_TEXT, "most": _MOST_CANDIDATES, **filters._asdict()}
    asked |= {"is_anyone": filters.senders is None, "senders": filters.senders or [NOBODY]}
    senders = [Phrase((facet("s", str(peer_id)),)) for peer_id in filters.senders or ()]
    found: dict[int, str] = {}
    for wanted in dict.fromkeys((tuple(phrase._replace(is_prefix=False) for phrase in phrases), tuple(phrases))):
        if len(found) < _MOST_CANDIDATES:
            match = tx.match(wanted, senders if len(senders) <= _MOST_FACETS else ())
            rows = tx.all("recent_with_words", match=match, recent=_RECENT, **asked)
            if len(rows) < _MOST_CANDIDATES:
                rows = tx.all("all_with_words", match=match, **asked)
            found |= {row["number"]: row["text"] for row in rows}
    return found


def _prepare(topic_id: str, rows: list[Row]) -> Sequence[str]:
    """Words between blanks; what the filters look for comes last, where it does not stand between words."""
    facets = [
        [facet("t", topic_id), facet("s", str(row["sender_id"])), facet("y", row["message_type"])] for row in rows
    ]
    return [" ".join(index_words(row["text"]) + extra) for row, extra in zip(rows, facets, strict=True)]


def _store(tx: Transaction, number: int, words: str) -> None:
    tx.run("insert_words", number=number, words=words)


def rank(query: Query, candidates: Iterable[Candidate]) -> list[int]:
    """Numbers, best first: those that say literally what was typed, then by how much they speak of it, then newest."""
    folded = [(number, fold(text)) for number, text in candidates]
    average = sum(len(text) for _, text in folded) / max(len(folded), 1) or 1
    scored = []
    for number, text in folded:
        norm = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * len(text) / average)
        counts = [len(term.pattern.findall(text)) for term in query.terms]
        is_literal = query.literal in " ".join(text.split())
        scored.append((is_literal, sum(count / (count + norm) for count in counts), number))
    return [number for _, _, number in sorted(scored, reverse=True)]
