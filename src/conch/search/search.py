"""Search the messages of one topic or of all, by words, by meaning, or both."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from conch.agents.records import read_label
from conch.bus.topics import find_topic
from conch.errors import InvalidArgument, LimitExceeded, SemanticUnavailable, StoreBusy, StoreFull, StoreReadOnly
from conch.lean import TYPE_CHECKING, NamedTuple, Protocol
from conch.storage.base import Row, Store, Transaction
from conch.warnings import Warnings, warning

if TYPE_CHECKING:
    from conch.search.indexing import Index
    from conch.search.meaning import Meaning
    from conch.search.queries import Filters, Query

MODES = ("hybrid", "fts", "semantic")
DEFAULT_LIMIT = 20
MOST_RESULTS = 200
LONGEST_QUERY = 10_000
INDEXING_SECONDS = 10.0  # the longest time a search spends on the index; the next search continues
_FUSION = 60  # the usual constant of reciprocal rank fusion: higher values make the top places count less


class Hit(NamedTuple):
    """A found message. `snippet` is one line of it, with marks around the matching words."""

    topic_id: str
    topic_name: str
    message_id: str
    seq: int
    sender: str
    sender_agent_id: str | None
    message_type: str
    created_at: int
    snippet: str
    content_markdown: str


class Cursor(NamedTuple):
    """How far a search was read: the moment of its first page, and how many hits came before."""

    moment: int
    rank: int


class Found(NamedTuple):
    """The hits, best first. `mode` is the mode that was used; if it is not the wanted one, a warning says why."""

    hits: list[Hit]
    mode: str
    warnings: Warnings
    moment: int = 0
    """When the first page was read. Later pages leave out newer messages, which would change the ranking."""
    has_more: bool = False


class _Way(Protocol):
    """One way to search: an index, and how messages are found with it."""

    @property
    def index(self) -> Index: ...

    def find(self, tx: Transaction, query: Query, filters: Filters) -> list[int]:
        """Numbers of messages, best first."""

    def warnings(self, tx: Transaction) -> Warnings:
        """Which messages it did not search, if any."""


class Search:
    """Imports its parts at the first search, and then keeps models and vectors in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._meanings: dict[str, Meaning] = {}

    def search(
        self,
        query: str,
        *,
        topic_id: str | None = None,
        mode: str = "hybrid",
        limit: int = DEFAULT_LIMIT,
        model: str | None = None,
        sender: str | None = None,
        message_type: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: Cursor | None = None,
    ) -> Found:
        """`since` and `until` are seconds since the epoch. Any text is a valid query, unless it is blank.

        With `after`, the hits that follow it.
        """
        from conch.search.queries import make_filters, parse_query

        _check(query, mode, limit)
        filters = make_filters(topic_id, message_type, since, until)
        if topic_id is not None:
            with self._store.look() as tx:
                find_topic(tx, topic_id)
        parsed, warnings = parse_query(query), Warnings()
        if not parsed.terms:
            return Found([], mode, [warning("NO_WORDS", "The query has no words to search for.")])
        mode, ways = self._ways(mode, model, warnings)
        if parsed.was_cut:
            warnings.append(warning("QUERY_CUT", "The query is long, so only its first words were searched for."))
        self._catch_up(ways, topic_id, warnings)
        return self._find(ways, parsed, filters, sender, limit, after, Found([], mode, warnings))

    def _ways(self, mode: str, model: str | None, warnings: Warnings) -> tuple[str, list[_Way]]:
        """The mode that is possible, and the ways it searches."""
        from conch.search.fulltext import FullText

        if mode == "fts":
            return mode, [FullText()]
        try:
            meaning = self._meaning(model)
        except SemanticUnavailable as refusal:
            if mode == "semantic":
                raise
            warnings.append(warning(refusal.code, f"{refusal.message} The search used words only."))
            return "fts", [FullText()]
        return mode, [meaning] if mode == "semantic" else [FullText(), meaning]

    def _meaning(self, name: str | None) -> Meaning:
        from conch.search.embedders import find_model, load_embedder

        model = find_model(name)
        with self._lock:  # two threads must not load the same model
            if model.name not in self._meanings:
                embedder = load_embedder(model)
                from conch.search.meaning import Meaning

                self._meanings[model.name] = Meaning(embedder)
            return self._meanings[model.name]

    def _catch_up(self, ways: Sequence[_Way], topic_id: str | None, warnings: Warnings) -> None:
        """Index new messages. If the index cannot be written, the search uses what it has, with a warning."""
        from conch.search.indexing import catch_up, find_behind

        deadline = time.monotonic() + INDEXING_SECONDS
        try:
            for index in find_behind(self._store, [way.index for way in ways], topic_id):
                if behind := catch_up(self._store, index, topic_id, deadline):
                    message = f"{behind:,} messages are not indexed yet. Search again to continue indexing."
                    warnings.append(warning("INDEX_BEHIND", message, messages=behind))
        except (StoreBusy, StoreFull, StoreReadOnly) as refusal:
            message = f"The index could not be updated, so the newest messages are missing. {refusal.message}"
            warnings.append(warning("INDEX_BEHIND", message, reason=refusal.code))

    def _find(
        self,
        ways: Sequence[_Way],
        query: Query,
        filters: Filters,
        sender: str | None,
        limit: int,
        after: Cursor | None,
        found: Found,
    ) -> Found:
        with self._store.read() as tx:
            if after is not None:
                filters = filters._replace(until=min(filters.until, after.moment))
            if sender is not None:
                filters = filters._replace(senders=_senders(tx, sender, filters.topic_id))
            ranking = fuse(*(way.find(tx, query, filters) for way in ways))
            cursor = after or Cursor(tx.now, 0)
            numbers = ranking[cursor.rank : cursor.rank + limit]
            if numbers:
                tx.ahead("found_messages", numbers=numbers)
            found.warnings.extend(warning for way in ways for warning in way.warnings(tx))
            rows = {row["number"]: row for row in tx.all("found_messages", numbers=numbers)} if numbers else {}
        hits = [_hit(query, rows[number]) for number in numbers if number in rows]
        moment = max([cursor.moment, *(hit.created_at for hit in hits)])  # the clock may have been set back
        return found._replace(hits=hits, moment=moment, has_more=len(ranking) > cursor.rank + limit)


def fuse(*rankings: Sequence[int]) -> list[int]:
    """Reciprocal rank fusion: a message that is near the top of several rankings comes first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, number in enumerate(ranking, start=1):
            scores[number] = scores.get(number, 0.0) + 1 / (_FUSION + place)
    return sorted(scores, key=lambda number: (-scores[number], -number))


def _senders(tx: Transaction, text: str, topic_id: str | None) -> list[int]:
    """The ids of the peers that have or had a name, or that a label means."""
    typed, named = read_label(text), tx.all("peers_named", name=text, topic_id=topic_id)
    if typed is not None and not named:
        rows = tx.all("peers_named", name=typed.name, topic_id=topic_id)
        named = [row for row in rows if typed.fits(row["agent_id"])]
    return [row["peer_id"] for row in named]


def _hit(query: Query, row: Row) -> Hit:
    from conch.search.snippets import snippet

    fields = {name: row[name] for name in Hit._fields if name != "snippet"}
    return Hit(snippet=snippet(query, row["content_markdown"]), **fields)


def _check(query: str, mode: str, limit: int) -> None:
    if not query.strip():
        raise InvalidArgument("query must be non-empty.", field="query")
    if len(query) > LONGEST_QUERY:
        message = f"query is {len(query)} characters long; at most {LONGEST_QUERY} are allowed."
        raise LimitExceeded(message, field="query", limit=LONGEST_QUERY, actual=len(query))
    if mode not in MODES:
        raise InvalidArgument(f"mode must be one of {', '.join(MODES)}.", field="mode")
    if not 1 <= limit <= MOST_RESULTS:
        raise InvalidArgument(f"limit must be a whole number from 1 to {MOST_RESULTS}.", field="limit")
