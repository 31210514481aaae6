"""Search by meaning with one model: its index in the store, and its vectors in memory."""

from __future__ import annotations

from conch.search.embedders import LONGEST_TEXT, Embedder
from conch.search.filters import Filters
from conch.search.indexing import Index
from conch.search.notices import Notice, notice
from conch.search.queries import Query
from conch.search.vectors import MOST_VECTORS, Matrix, oldest_number
from conch.storage.base import Row, Store, Transaction

MOST_NEAREST = 200
BATCH_CHARACTERS = 60_000  # embedded at once: two or three seconds for the slowest model


class Meaning:
    """The second way. Kept for as long as the process lives."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kind = f"vectors:{embedder.name}"
        self._matrix = Matrix(embedder.name, self._kind)

    def index(self, store: Store) -> Index:
        """Messages that are too old to be searched are not embedded either."""
        with store.read() as tx:
            oldest = oldest_number(tx)
        return Index(self._kind, LONGEST_TEXT, oldest, BATCH_CHARACTERS, self._prepare, self._store)

    def find(self, tx: Transaction, query: Query, filters: Filters) -> list[int]:
        """Numbers of messages, the most similar first."""
        vector = self._embedder.embed([query.text])[0]
        return self._matrix.nearest(tx, vector, filters, self._embedder.least_similarity, MOST_NEAREST)

    def warnings(self, tx: Transaction) -> list[Notice]:
        if oldest_number(tx) == 0:
            return []
        message = f"By meaning only the newest {MOST_VECTORS:,} messages are searched."
        return [notice("SEMANTIC_PARTIAL", message)]

    def _prepare(self, topic_id: str, rows: list[Row]) -> list[bytes]:
        return [vector.tobytes() for vector in self._embedder.embed([row["text"] for row in rows])] if rows else []

    def _store(self, tx: Transaction, number: int, vector: bytes) -> None:
        tx.run("insert_vector", model=self._embedder.name, number=number, vector=vector)
