"""Indexes that every search brings up to date.

What a message needs is computed while nobody is kept waiting; a short transaction then stores it, unless another
process has done the same meanwhile. `seq` has no gaps within a topic, so how far a topic was read says all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from conch.lean import Any, NamedTuple
from conch.storage.base import Row, Store, Transaction

_LOCK = "search"
_READ_MESSAGES = 1_000
_MESSAGE_CHARACTERS = 200  # what a message costs however short it is, in characters of text


class Index(NamedTuple):
    """One index: what it takes of a message, and how that is stored."""

    kind: str
    longest_text: int
    oldest: int  # messages with this number or a lower one are not indexed
    batch_characters: int  # how much text is prepared, and stored in one transaction, before the clock is looked at
    prepare: Callable[[str, list[Row]], Sequence[Any]]
    store: Callable[[Transaction, int, Any], None]


class _Part(NamedTuple):
    """Some messages of one topic, that come right after what is indexed of it."""

    topic_id: str
    after: int
    through: int
    rows: list[Row]
    length: int = 0  # of all their texts, and what each costs besides


def catch_up(store: Store, index: Index, topic_id: str | None, deadline: float) -> int:
    """Index what is not indexed yet, oldest first, until a moment of `time.monotonic`; how many messages remain."""
    while True:
        with store.read() as tx:
            behind = tx.all("topics_to_index", kind=index.kind, topic_id=topic_id)
            remaining: int = sum(topic["last_seq"] - topic["through_seq"] for topic in behind)
            if not remaining or time.monotonic() >= deadline:
                return remaining
            parts = _next_parts(tx, index, behind)
        for batch in _batches(parts, index.batch_characters):
            prepared = [(part, index.prepare(part.topic_id, part.rows)) for part in batch]
            with store.write(_LOCK) as tx:
                for part, values in prepared:
                    _store_part(tx, index, part, values)
            if time.monotonic() >= deadline:
                break


def _next_parts(tx: Transaction, index: Index, behind: Sequence[Row]) -> list[_Part]:
    """About as many messages as are read at once, of as many topics as it takes."""
    parts: list[_Part] = []
    room = _READ_MESSAGES
    for topic in behind:
        taken = _take(tx, index, topic, room)
        parts += taken
        room -= max(1, sum(len(part.rows) for part in taken))
        if room <= 0:
            break
    return parts


def _take(tx: Transaction, index: Index, topic: Row, most: int) -> list[_Part]:
    """The next messages of a topic in parts that are not too long, though a part has at least one message."""
    topic_id, after, last = topic["topic_id"], topic["through_seq"], topic["last_seq"]
    rows = tx.all(
        "messages_to_index",
        topic_id=topic_id,
        after=after,
        through=last,
        oldest=index.oldest,
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
        parts[-1] = parts[-1]._replace(through=last)  # past those that are too old for this index
    return parts


def _batches(parts: Sequence[_Part], most_characters: int) -> Iterator[list[_Part]]:
    """What is stored in one transaction each, so that no other writer waits long."""
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
