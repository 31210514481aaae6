"""Removes the text of one message, and everything that repeats it, from a store: for secrets pasted by mistake.

The message stays in its place, so that numbers and replies still fit. Its text says who redacted it and why.
"""

from __future__ import annotations

from conch.agents.people import Person
from conch.bus.stream import Message, to_message
from conch.clock import to_iso
from conch.errors import InvalidArgument
from conch.lean import Any, NamedTuple, json
from conch.storage.base import Transaction

_MARK = "[redacted]"
_LEAST_REPEATED = 12  # characters of a whole message that are looked for elsewhere: `yes` is no secret
_LEAST_SECRET = 4
# Where a text can be repeated. In JSON it is spelled in one of two ways.
_PLAIN = ("repeats_in_messages", "repeats_in_reasons", "repeats_in_topics", "repeats_in_questions")
_JSON = (
    *("repeats_in_metadata", "repeats_in_handoffs", "repeats_in_details", "repeats_in_notices"),
    *("repeats_in_activity", "repeats_in_topic_metadata"),
)
_INDEXES = ("forget_progress", "forget_vectors", "forget_words")  # the next search builds them again


class Redacted(NamedTuple):
    message: Message
    """As it was, without its text."""
    repeats: int
    """How many other rows repeated the text."""


def find_message(tx: Transaction, message_id: str) -> Message:
    row = tx.one("whole_message", message_id=message_id)
    if row is None:
        raise InvalidArgument(f"There is no message {message_id[:80]!r}.", field="message")
    return to_message(row)


def check_secret(secret: str | None) -> None:
    if secret is not None and len(secret) < _LEAST_SECRET:
        message = f"secret must have at least {_LEAST_SECRET} characters: it is removed wherever it appears."
        raise InvalidArgument(message, field="secret")


def redact(tx: Transaction, person: Person, message: Message, reason: str, secret: str | None) -> Redacted:
    """Replace the text of a message, and remove from everything else what repeats the text or contains the secret.

    Take the lock of the index. The files of the store must be compacted afterwards.
    """
    by = person.caller.label
    text = f"[{by} redacted this message: {reason}]"
    metadata: dict[str, Any] = {"redacted_by": by, "redacted_at": to_iso(tx.now)}
    if message.addressees:  # who it is for is in another table, too
        metadata["to"] = message.addressees
    given = {"text": text, "metadata_json": json.dumps(metadata, ensure_ascii=False)}
    tx.run("redact_message", message_id=message.message_id, **given)
    repeats = sum(_replace(tx, needle) for needle in _needles(message, secret))
    for statement in _INDEXES:
        tx.run(statement)
    return Redacted(message._replace(content_markdown=text), repeats)


def _needles(message: Message, secret: str | None) -> list[str]:
    """What to look for elsewhere. A message that is redacted already has no text of its own."""
    whole = message.content_markdown.strip()
    is_own = "redacted_by" not in (message.metadata or {}) and len(whole) >= _LEAST_REPEATED
    return [*([secret] if secret else []), *([whole] if is_own else [])]


def _replace(tx: Transaction, needle: str) -> int:
    count = sum(tx.count(statement, needle=needle, mark=_MARK) for statement in _PLAIN)
    spellings = {json.dumps(needle, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)}
    return count + sum(
        tx.count(statement, needle=spelling, mark=_MARK) for spelling in sorted(spellings) for statement in _JSON
    )


def without_secret(reason: str, secret: str | None) -> str:
    return reason.replace(secret, _MARK) if secret else reason
