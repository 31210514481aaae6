"""Search by words: finds the newest messages with all the words and ranks them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conch.bus.peers import NO_PEER
from conch.lean import NamedTuple
from conch.search.indexing import Index
from conch.search.queries import Filters, Query
from conch.search.words import LONGEST_TEXT, facet, fold, index_words
from conch.storage.base import Phrase, Row, Transaction
from conch.warnings import Warnings

_KIND = "words"
_MOST_CANDIDATES = 500  # matches that are ranked; ranking all of them could take very long
_RECENT = 4_000  # the newest messages; among these a common word has enough matches
_RANKED_TEXT = 4_000  # characters at the start of a match that are ranked
_MOST_FACETS = 100  # senders to look up in the index; for more, the messages are filtered instead
_BATCH_CHARACTERS = 500_000  # indexed in one transaction
_SATURATION = 1.2  # BM25's k1: how quickly further occurrences of a word stop counting
_LENGTH_WEIGHT = 0.75  # BM25's b: how strongly long texts are marked down


class Candidate(NamedTuple):
    """A match: the message's number, and the start of its text."""

    number: int
    text: str


class FullText:
    """Search with the engine's full-text index, which is filled with our own words."""

    @property
    def index(self) -> Index:
        return Index(_KIND, LONGEST_TEXT, None, _BATCH_CHARACTERS, _prepare, _store)

    def find(self, tx: Transaction, query: Query, filters: Filters) -> list[int]:
        """Numbers of messages, best first."""
        facets = {"t": filters.topic_id, "y": filters.message_type}
        narrowed = [Phrase((facet(kind, value),)) for kind, value in facets.items() if value is not None]
        phrases = [*(term.phrase for term in query.terms), *narrowed]
        return rank(query, [Candidate(number, text) for number, text in _candidates(tx, phrases, filters).items()])

    def warnings(self, tx: Transaction) -> Warnings:
        return []


def _candidates(tx: Transaction, phrases: Sequence[Phrase], filters: Filters) -> dict[int, str]:
    """The newest messages with exactly these words; if they are few, also those that match by prefix, which is slow.

    Common words are found among the most recent messages, rare ones with the whole index.
    """
    asked = {"longest": _RANKED_TEXT, "most": _MOST_CANDIDATES, **filters._asdict()}
    asked |= {"is_anyone": filters.senders is None, "senders": filters.senders or [NO_PEER]}
    senders = [Phrase((facet("s", str(peer_id)),)) for peer_id in filters.senders or ()]
    # Exact words first, then prefixes. Without a prefix both are the same, and one round is enough.
    wanted = dict.fromkeys((tuple(phrase._replace(is_prefix=False) for phrase in phrases), tuple(phrases)))
    any_of = senders if len(senders) <= _MOST_FACETS else ()
    for each in wanted:
        if not tx.ahead("recent_with_words", match=tx.match(each, any_of), recent=_RECENT, **asked):
            break  # nothing is fetched ahead here: prefixes, which are slow to match, wait until they are needed
    found: dict[int, str] = {}
    for each in wanted:
        if len(found) < _MOST_CANDIDATES:
            match = tx.match(each, any_of)
            rows = tx.all("recent_with_words", match=match, recent=_RECENT, **asked)
            if len(rows) < _MOST_CANDIDATES:
                rows = tx.all("all_with_words", match=match, **asked)
            found |= {row["number"]: row["text"] for row in rows}
    return found


def _prepare(topic_id: str, rows: list[Row]) -> Sequence[str]:
    """The words of each message, joined by spaces. The facets come last, so that they do not break up a phrase."""
    facets = [
        [facet("t", topic_id), facet("s", str(row["sender_id"])), facet("y", row["message_type"])] for row in rows
    ]
    return [" ".join(index_words(row["text"]) + extra) for row, extra in zip(rows, facets, strict=True)]


def _store(tx: Transaction, number: int, words: str) -> None:
    tx.run("insert_words", number=number, words=words)


def forget_words(tx: Transaction, topic_id: str, rows: list[Row]) -> None:
    """Remove messages from the index before they are deleted. `rows` are as for indexing them."""
    progress = tx.one("topic_progress", kind=_KIND, topic_id=topic_id)
    indexed = [row for row in rows if progress and row["seq"] <= progress["through_seq"]]
    for row, words in zip(indexed, _prepare(topic_id, indexed), strict=True):
        tx.run("delete_words", number=row["number"], words=words)


def rank(query: Query, candidates: Iterable[Candidate]) -> list[int]:
    """Numbers, best first: texts with the query verbatim, then by BM25 over the candidates, then the newest."""
    folded = [(number, fold(text)) for number, text in candidates]
    average = sum(len(text) for _, text in folded) / max(len(folded), 1) or 1
    scored = []
    for number, text in folded:
        norm = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * len(text) / average)
        counts = [len(term.pattern.findall(text)) for term in query.terms]
        is_literal = query.literal in " ".join(text.split())
        scored.append((is_literal, sum(count / (count + norm) for count in counts), number))
    return [number for _, _, number in sorted(scored, reverse=True)]
