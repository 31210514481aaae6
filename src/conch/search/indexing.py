"""The search indexes. Every search first brings them up to date.

Index entries are computed outside any transaction, so that no writer waits. A short transaction then stores them,
unless another process has done so meanwhile. `seq` has no gaps within a topic, so one number per topic records the
progress.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from conch.lean import Any, NamedTuple
from conch.storage.base import INDEX_LOCK, Row, Store, Transaction

_READ_MESSAGES = 1_000
_MESSAGE_CHARACTERS = 200  # the fixed cost of a message, as characters of text


class Index(NamedTuple):
    """One index: how much of a message it reads, and how its entries are made and stored."""

    kind: str
    longest_text: int
    newest: int | None  # how many of the newest messages are indexed; None: all
    batch_characters: int  # text per transaction; the deadline is checked after each
    prepare: Callable[[str, list[Row]], Sequence[Any]]
    store: Callable[[Transaction, int, Any], None]


class _Part(NamedTuple):
    """Some messages of one topic that directly follow its indexed messages."""

    topic_id: str
    after: int
    through: int
    rows: list[Row]
    length: int = 0  # characters of all texts, with the fixed cost of each message


def find_behind(store: Store, indexes: Sequence[Index], topic_id: str | None) -> list[Index]:
    """The indexes that lack messages; most of the time none does."""
    asked = [{"kind": index.kind, "topic_id": topic_id} for index in indexes]
    with store.look() as tx:
        for each in asked:
            tx.ahead("topics_to_index", **each)
        return [index for index, each in zip(indexes, asked, strict=True) if tx.all("topics_to_index", **each)]


def catch_up(store: Store, index: Index, topic_id: str | None, deadline: float) -> int:
    """Index new messages, oldest first, until a moment of `time.monotonic`. Returns how many messages remain."""
    while True:
        with store.look() as tx:
            behind = tx.all("topics_to_index", kind=index.kind, topic_id=topic_id)
        remaining: int = sum(topic["last_seq"] - topic["through_seq"] for topic in behind)
        if not remaining or time.monotonic() >= deadline:
            return remaining
        with store.read() as tx:
            parts = _next_parts(tx, index, behind)
        for batch in _batches(parts, index.batch_characters):
            prepared = [(part, index.prepare(part.topic_id, part.rows)) for part in batch]
            with store.write(INDEX_LOCK) as tx:
                for part, values in prepared:
                    _store_part(tx, index, part, values)
            if time.monotonic() >= deadline:
                break


def _next_parts(tx: Transaction, index: Index, behind: Sequence[Row]) -> list[_Part]:
    """About `_READ_MESSAGES` messages, from as many topics as needed."""
    parts: list[_Part] = []
    room = _READ_MESSAGES
    oldest = 0 if index.newest is None else oldest_number(tx, index.newest)
    for topic in behind:
        taken = _take(tx, index, topic, oldest, room)
        parts += taken
        room -= max(1, sum(len(part.rows) for part in taken))  # a topic without rows costs a query too
        if room <= 0:
            break
    return parts


def oldest_number(tx: Transaction, newest: int) -> int:
    """The number of the last message before this many of the newest ones; 0 if there is none."""
    found = tx.one("newest_number")
    assert found is not None
    return max(0, int(found["number"]) - newest)


def _take(tx: Transaction, index: Index, topic: Row, oldest: int, most: int) -> list[_Part]:
    """The next messages of a topic, in parts of at most `batch_characters`, but at least one message each."""
    topic_id, after, last = topic["topic_id"], topic["through_seq"], topic["last_seq"]
    rows = tx.all(
        "messages_to_index",
        topic_id=topic_id,
        after=after,
        through=last,
        oldest=oldest,
        longest=index.longest_text,
        most=most,
    )
    parts = [_Part(topic_id, after, after, [])]
    for row in rows:
        part, length = parts[-1], len(row["text"]) + _MESSAGE_CHARACTERS
        if part.rows and part.length + length > index.batch_characters:
            part = _Part(topic_id, part.through, part.through, [])
            parts.append(part)
        part.rows.append(row)
        parts[-1] = part._replace(through=row["seq"], length=part.length + length)
    if len(rows) < most:
        parts[-1] = parts[-1]._replace(through=last)  # the rest is too old for this index
    return parts


def _batches(parts: Sequence[_Part], most_characters: int) -> Iterator[list[_Part]]:
    """Groups of parts, each stored in one transaction that is short enough for other writers."""
    batch: list[_Part] = []
    for part in parts:
        if batch and sum(each.length for each in batch) + part.length > most_characters:
            yield batch
            batch = []
        batch.append(part)
    yield batch


def _store_part(tx: Transaction, index: Index, part: _Part, values: Sequence[Any]) -> None:
    progress = tx.one("topic_progress", kind=index.kind, topic_id=part.topic_id)
    if (progress["through_seq"] if progress else 0) != part.after:
        return  # another process was faster
    for row, value in zip(part.rows, values, strict=True):
        index.store(tx, row["number"], value)
    tx.run("set_topic_progress", kind=index.kind, topic_id=part.topic_id, through=part.through)
