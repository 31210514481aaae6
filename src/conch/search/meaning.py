"""Search by meaning with one model: vectors in the store, and a copy of them in memory."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from conch.lean import Any
from conch.search.embedders import LONGEST_TEXT, MOST_VECTORS, Embedder
from conch.search.indexing import Index, oldest_number
from conch.search.queries import Filters, Query
from conch.storage.base import Row, Transaction
from conch.warnings import Warnings, warning

_MOST_NEAREST = 200
_BATCH_CHARACTERS = 60_000  # takes two or three seconds with the slowest model


class Meaning:
    """Search with one model, which stays in memory until the process ends."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kind = f"vectors:{embedder.name}"
        self._matrix = _Matrix(embedder.name, self._kind)

    @property
    def index(self) -> Index:
        """The model's index. Messages too old to be searched are not embedded."""
        return Index(self._kind, LONGEST_TEXT, MOST_VECTORS, _BATCH_CHARACTERS, self._prepare, self._store)

    def find(self, tx: Transaction, query: Query, filters: Filters) -> list[int]:
        """Numbers of messages, the most similar first."""
        vector = self._embedder.embed([query.text])[0]
        return self._matrix.nearest(tx, vector, filters, self._embedder.least_similarity, _MOST_NEAREST)

    def warnings(self, tx: Transaction) -> Warnings:
        if oldest_number(tx, MOST_VECTORS) == 0:
            return []
        message = f"Search by meaning covers only the newest {MOST_VECTORS:,} messages."
        return [warning("SEMANTIC_PARTIAL", message)]

    def _prepare(self, topic_id: str, rows: list[Row]) -> list[bytes]:
        return [vector.tobytes() for vector in self._embedder.embed([row["text"] for row in rows])] if rows else []

    def _store(self, tx: Transaction, number: int, vector: bytes) -> None:
        tx.run("insert_vector", model=self._embedder.name, number=number, vector=vector)


_SENDER = 2  # the sender's column in `_codes`


class _Matrix:
    """One model's vectors. Each is loaded from the store once. The threads of a process share them."""

    _size: int
    _vectors: NDArray[Any]
    _numbers: NDArray[Any]
    _moments: NDArray[Any]
    _codes: NDArray[Any]  # three columns: numbers for the topic and the type, and the sender's peer_id

    def __init__(self, model: str, kind: str) -> None:
        self._model = model
        self._kind = kind
        self._lock = threading.Lock()
        self._forget()

    def nearest(
        self, tx: Transaction, vector: NDArray[np.float32], filters: Filters, least: float, most: int
    ) -> list[int]:
        """Numbers of messages, the most similar first."""
        with self._lock:
            self._load(tx)
            similarity = self._vectors[: self._size] @ vector if self._size else np.zeros(0, np.float32)
            fitting = np.flatnonzero(self._fit(filters) & (similarity >= least))
            numbers, similarity = self._numbers[fitting], similarity[fitting]
        if len(fitting) > most:  # choose the best first, because sorting all of them takes longer
            best = np.argpartition(-similarity, most)[:most]
            numbers, similarity = numbers[best], similarity[best]
        order = np.lexsort((-numbers, -similarity))
        return [int(number) for number in numbers[order]]

    def _fit(self, filters: Filters) -> NDArray[np.bool_]:
        size = self._size
        fit = (self._moments[:size] >= filters.since) & (self._moments[:size] <= filters.until)
        for column, value in enumerate((filters.topic_id, filters.message_type)):
            if value is not None:
                fit &= self._codes[:size, column] == self._code_of.get(value, -1)
        if filters.senders is not None:
            fit &= np.isin(self._codes[:size, _SENDER], filters.senders)
        return fit

    def _load(self, tx: Transaction) -> None:
        """Load what was indexed since the last call; everything if the store was wiped or replaced."""
        tx.ahead("newest_number")
        progress = {row["topic_id"]: row["through_seq"] for row in tx.all("index_progress", kind=self._kind)}
        if any(progress.get(topic_id, 0) < through for topic_id, through in self._through.items()):
            self._forget()
        oldest = oldest_number(tx, MOST_VECTORS)
        for topic_id, through in progress.items():
            after = self._through.get(topic_id, 0)
            if after < through:
                asked = {"model": self._model, "topic_id": topic_id, "after": after, "through": through}
                self._append(topic_id, tx.all("vectors_of_topic", oldest=oldest, **asked))
                self._through[topic_id] = through
        # A quarter more than wanted, because dropping old ones copies everything.
        if self._size > MOST_VECTORS * 5 // 4:
            self._keep(np.flatnonzero(self._numbers[: self._size] > oldest))

    def _append(self, topic_id: str, rows: list[Row]) -> None:
        if not rows:
            return
        first, size = self._size, self._size + len(rows)
        vectors = np.frombuffer(b"".join(row["vector"] for row in rows), np.float32).reshape(len(rows), -1)
        self._grow(size, vectors.shape[1])
        self._vectors[first:size] = vectors
        self._numbers[first:size] = [row["number"] for row in rows]
        self._moments[first:size] = [row["created_at"] for row in rows]
        self._codes[first:size] = [
            [self._code(topic_id), self._code(row["message_type"]), row["sender_id"]] for row in rows
        ]
        self._size = size

    def _code(self, value: str) -> int:
        return self._code_of.setdefault(value, len(self._code_of))

    def _grow(self, size: int, width: int) -> None:
        """Make room for `size` rows and some spare ones, so that a new message rarely copies everything."""
        if size <= len(self._numbers):
            return
        room = max(1_024, size + size // 4)
        self._vectors = _resized(self._vectors.reshape(-1, width), room)
        self._numbers = _resized(self._numbers, room)
        self._moments = _resized(self._moments, room)
        self._codes = _resized(self._codes, room)

    def _keep(self, rows: NDArray[np.intp]) -> None:
        self._size = len(rows)
        self._vectors, self._numbers = self._vectors[rows], self._numbers[rows]
        self._moments, self._codes = self._moments[rows], self._codes[rows]

    def _forget(self) -> None:
        self._size = 0
        self._through: dict[str, int] = {}
        self._code_of: dict[str, int] = {}
        self._vectors = np.zeros((0, 1), np.float32)
        self._numbers = np.zeros(0, np.int64)
        self._moments = np.zeros(0, np.int64)
        self._codes = np.zeros((0, 3), np.int64)


def _resized(array: NDArray[Any], length: int) -> NDArray[Any]:
    larger = np.zeros((length, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
