"""Topics and their messages as a person browses them: the latest talk first, page by page in both directions."""

from __future__ import annotations

from conch.bus.stream import Message, to_message
from conch.bus.topics import find_topic
from conch.errors import no_cursor
from conch.lean import NamedTuple
from conch.storage.base import LAST, Row, Store, Transaction


class TopicLine(NamedTuple):
    """A topic in a list."""

    topic_id: str
    name: str
    status: str
    created_at: int
    closed_at: int | None
    close_reason: str | None
    last_seq: int
    """The number of its last message, even if that was pruned; 0 if it had none."""
    updated_at: int
    """When the last message came, or when the topic was created."""
    room_id: str | None
    """The room whose home topic it is."""


class Asked(NamedTuple):
    """What became of a question."""

    status: str
    cancel_reason: str | None
    answers: int


class MessagePage(NamedTuple):
    messages: list[Message]
    """Oldest first."""
    questions: dict[str, Asked]
    """Those of the messages that are questions, by message_id."""
    has_older: bool
    has_newer: bool


def list_topics(store: Store, statuses: list[str], limit: int, after: str | None = None) -> list[TopicLine]:
    """Topics, the latest message first; with `after`, those that follow this topic."""
    with store.read() as tx:
        moment = LAST if after is None else _line_of(tx, after, "after").updated_at
        rows = tx.all("topics_for_people", statuses=statuses, moment=moment, after=after or "", limit=limit)
    return [_line(row) for row in rows]


def show_topic(store: Store, topic_id: str) -> TopicLine:
    with store.read() as tx:
        find_topic(tx, topic_id)  # refuses an unknown one
        return _line_of(tx, topic_id, "topic_id")


def read_messages(store: Store, topic_id: str, before: int | None, after: int | None, limit: int) -> MessagePage:
    """The latest messages, or the nearest ones before or after a number."""
    with store.read() as tx:
        find_topic(tx, topic_id)
        if after is not None:
            rows = tx.all("messages_after", topic_id=topic_id, after=after, limit=limit + 1)
            found, has_older, has_newer = rows[:limit], after > 0, len(rows) > limit
        else:
            through = LAST if before is None else before - 1
            rows = tx.all("latest_messages", topic_id=topic_id, through=through, limit=limit + 1)
            found, has_older, has_newer = rows[:limit][::-1], len(rows) > limit, before is not None
        questions = find_questions(tx, [row["message_id"] for row in found if row["message_type"] == "question"])
    return MessagePage([to_message(row) for row in found], questions, has_older, has_newer)


def find_questions(tx: Transaction, question_ids: list[str]) -> dict[str, Asked]:
    rows = tx.all("questions_with_answers", question_ids=question_ids) if question_ids else []
    return {row["question_id"]: Asked(row["status"], row["cancel_reason"], row["answers"]) for row in rows}


def _line_of(tx: Transaction, topic_id: str, field: str) -> TopicLine:
    row = tx.one("topic_for_people", topic_id=topic_id)
    if row is None:
        raise no_cursor(field)
    return _line(row)


def _line(row: Row) -> TopicLine:
    return TopicLine(*(row[name] for name in TopicLine._fields))
