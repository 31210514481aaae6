"""The files of a message bus: version 5 has questions and answers, version 6 has messages, names and cursors."""

from __future__ import annotations

from collections.abc import Iterator

from conch.importing.outcome import to_number, to_object, to_text
from conch.lean import Any, NamedTuple
from conch.storage.base import Row
from conch.storage.sources import Source


class BusMessage(NamedTuple):
    """A message as a file has it. `key` and `reply_to` are ids of the file."""

    key: str
    seq: int
    sender: str
    message_type: str
    reply_to: str | None
    content: str
    metadata: dict[str, Any] | None
    client_message_id: str | None
    created_at: object
    status: str = "pending"
    """Of a question."""
    cancel_reason: str | None = None


class BusName(NamedTuple):
    """A name that the file reserves on a topic, or has a cursor for."""

    token: str = ""
    last_seq: int = 0
    updated_at: object = None


class BusFile:
    """Version 6: everything is a message."""

    version = "6"
    tables: tuple[str, ...] = ("messages",)

    def __init__(self, source: Source) -> None:
        self._source = source

    def topics(self) -> Iterator[Row]:
        return self._source.rows("topics", "created_at, topic_id")

    def names(self, topic_id: object) -> dict[str, BusName]:
        names: dict[str, BusName] = {}
        for row in self._source.rows("agent_name_reservations", "created_at, agent_name", topic_id=topic_id):
            names[to_text(row.get("agent_name"))] = BusName(to_text(row.get("reclaim_token")))
        for row in self._source.rows("cursors", "agent_name", topic_id=topic_id):
            name = to_text(row.get("agent_name"))
            known = names.get(name, BusName())
            names[name] = known._replace(last_seq=to_number(row.get("last_seq")), updated_at=row.get("updated_at"))
        return names

    def messages(self, topic_id: object) -> Iterator[BusMessage]:
        """In their order."""
        for row in self._source.rows("messages", "seq, message_id", topic_id=topic_id):
            yield BusMessage(
                to_text(row.get("message_id")),
                to_number(row.get("seq")),
                to_text(row.get("sender")),
                to_text(row.get("message_type")),
                None if row.get("reply_to") is None else to_text(row["reply_to"]),
                to_text(row.get("content_markdown")),
                to_object(row.get("metadata_json")),
                None if row.get("client_message_id") is None else to_text(row["client_message_id"]),
                row.get("created_at"),
            )

    def count(self) -> int:
        """All messages of the file, including those whose topic is missing."""
        return sum(1 for table in self.tables for _ in self._source.rows(table))


class OldBusFile(BusFile):
    """Version 5: questions and answers, each of which becomes a message."""

    version = "5"
    tables = ("questions", "answers")

    def messages(self, topic_id: object) -> Iterator[BusMessage]:
        questions = list(self._source.rows("questions", "asked_at, question_id", topic_id=topic_id))
        asked = {row["question_id"]: _sortable(row.get("asked_at")) for row in questions}
        entries = [(asked[row["question_id"]], 0, _question(row)) for row in questions]
        for row in self._source.rows("answers", "answered_at, answer_id", topic_id=topic_id):
            # No answer comes before its question, whatever the clocks said.
            moment = max(_sortable(row.get("answered_at")), asked.get(row.get("question_id"), 0.0))
            entries.append((moment, 1, _answer(row)))
        entries.sort(key=lambda entry: entry[:2])
        return (message._replace(seq=number) for number, (_, _, message) in enumerate(entries, start=1))


def _sortable(moment: object) -> float:
    return float(moment) if isinstance(moment, int | float) else 0.0


def _question(row: Row) -> BusMessage:
    status = row.get("status") if row.get("status") in ("answered", "cancelled") else "pending"
    return BusMessage(
        to_text(row["question_id"]),
        0,
        to_text(row.get("asked_by")),
        "question",
        None,
        to_text(row.get("question_text")),
        None,
        None,
        row.get("asked_at"),
        to_text(status),
        to_text(row["cancel_reason"]) if status == "cancelled" and row.get("cancel_reason") is not None else None,
    )


def _answer(row: Row) -> BusMessage:
    payload = to_object(row.get("payload_json")) or {}
    extras = {name: _texts(payload.get(name)) for name in ("repo_pointers", "suggested_followups")}
    content = payload.get("answer_markdown", payload.get("imported", ""))
    question = to_text(row.get("question_id"))
    sender, key = to_text(row.get("answered_by")), to_text(row.get("answer_id"))
    return BusMessage(key, 0, sender, "answer", question, to_text(content), extras, None, row.get("answered_at"))


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
