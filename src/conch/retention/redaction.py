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
_STEP = 500  # rows of JSON in memory at once


class _Column(NamedTuple):
    """A column of JSON that can repeat a text."""

    name: str
    before: int | str
    """A key that comes before the key of every row."""
    fields: tuple[str, ...] = ()
    """The fields in which agents and people write. Without any, the whole object is theirs."""
    ours: tuple[str, ...] = ()
    """The names in such an object that conch reads."""


_RECORD = ("to", "redacted_by", "redacted_at")  # names and a time, in the metadata of a message
# What conch itself reads (numbers, names and its own words) stays as it is, so that every row stays valid.
_PLAIN = (
    *("repeats_in_messages", "repeats_in_ids", "repeats_in_reasons", "repeats_in_topics", "repeats_in_questions"),
    "repeats_in_roles",
)
_JSON = (
    _Column("metadata", 0, ours=(*_RECORD, "repo_pointers", "suggested_followups")),
    _Column("topic_metadata", ""),
    _Column("handoffs", 0, ("status", "next_action", "open_questions", "do_not", "path", "note")),
    _Column("details", 0, ("note",)),
    _Column(
        "notices",
        0,
        ("subject", "summary", "next_action", "blocker", "requested_action", "evidence", "resolution_hint"),
    ),
    _Column("activity", 0, ("role", "reason", "why")),
)
_INDEXES = ("forget_progress", "forget_vectors", "forget_words")  # the next search builds them again


class Redacted(NamedTuple):
    message: Message
    """As it was, without its text."""
    repeats: int
    """How many other rows repeated the text."""
    kept: list[str]
    """Where it stays all the same, such as `names`."""


def find_message(tx: Transaction, message_id: str) -> Message:
    row = tx.one("whole_message", message_id=message_id)
    if row is None:
        raise InvalidArgument(f"There is no message {message_id[:80]!r}.", field="message")
    return to_message(row)


def check_secret(secret: str | None) -> None:
    if secret is not None and len(secret) < _LEAST_SECRET:
        message = f"secret must have at least {_LEAST_SECRET} characters: it is removed from every text."
        raise InvalidArgument(message, field="secret")


def redact(tx: Transaction, person: Person, message: Message, reason: str, secret: str | None) -> Redacted:
    """Replace the text of a message, and remove from all other texts what repeats it or contains the secret.

    Take the lock of the index. The files of the store must be compacted afterwards.
    """
    by = person.caller.label
    text = f"[{by} redacted this message: {reason}]"
    metadata: dict[str, Any] = {"redacted_by": by, "redacted_at": to_iso(tx.now)}
    if message.addressees:  # the addressees are in another table too
        metadata["to"] = message.addressees
    given = {"text": text, "metadata_json": json.dumps(metadata, ensure_ascii=False)}
    tx.run("redact_message", message_id=message.message_id, **given)
    needles = _needles(message, secret)
    repeats = sum(_replace(tx, needle) for needle in needles)
    for statement in _INDEXES:
        tx.run(statement)
    kept = [row["place"] for needle in needles for row in tx.all("kept_repeats", needle=needle)]
    return Redacted(message._replace(content_markdown=text), repeats, list(dict.fromkeys(kept)))


def _needles(message: Message, secret: str | None) -> list[str]:
    """What to look for elsewhere. A message that is redacted already has no text of its own."""
    whole = message.content_markdown.strip()
    is_own = "redacted_by" not in (message.metadata or {}) and len(whole) >= _LEAST_REPEATED
    return [*([secret] if secret else []), *([whole] if is_own else [])]


def _replace(tx: Transaction, needle: str) -> int:
    plain = sum(tx.count(statement, needle=needle, mark=_MARK) for statement in _PLAIN)
    return plain + sum(_replace_in_json(tx, column, needle) for column in _JSON)


def _replace_in_json(tx: Transaction, column: _Column, needle: str) -> int:
    # JSON spells a text in one of two ways.
    spellings = {"plain": json.dumps(needle, ensure_ascii=False)[1:-1], "escaped": json.dumps(needle)[1:-1]}
    count, after = 0, column.before
    while rows := tx.all(f"repeats_in_{column.name}", after=after, most=_STEP, **spellings):
        after = rows[-1]["key"]
        for row in rows:
            text = _without(row["json"], column, needle)
            if text is not None:
                tx.run(f"redact_{column.name}", key=row["key"], json=text)
                count += 1
    return count


def _without(text: str, column: _Column, needle: str) -> str | None:
    """A JSON text without the needle. None if nothing changes, or if it is damaged."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    cleaned = _cleaned_fields(found, column.fields, needle) if column.fields else _cleaned(found, needle, column.ours)
    return None if cleaned == found else json.dumps(cleaned, ensure_ascii=text.isascii())


def _cleaned_fields(value: Any, fields: tuple[str, ...], needle: str) -> Any:
    """A JSON value without the needle in these fields."""
    if isinstance(value, list):
        return [_cleaned_fields(each, fields, needle) for each in value]
    if isinstance(value, dict):
        return {
            name: _cleaned(each, needle) if name in fields else _cleaned_fields(each, fields, needle)
            for name, each in value.items()
        }
    return value


def _cleaned(value: Any, needle: str, ours: tuple[str, ...] = ()) -> Any:
    """A JSON value without the needle. The outermost object keeps the names that are ours, and our record."""
    if isinstance(value, list):
        return [_cleaned(each, needle) for each in value]
    if isinstance(value, dict):
        return {
            name if name in ours else name.replace(needle, _MARK): (
                each if name in ours and name in _RECORD else _cleaned(each, needle)
            )
            for name, each in value.items()
        }
    if value is None or isinstance(value, bool):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return text.replace(needle, _MARK) if needle in text else value


def without_secret(reason: str, secret: str | None) -> str:
    return reason.replace(secret, _MARK) if secret else reason
