"""Messages and answers to send, checked before anything is stored."""

from __future__ import annotations

from conch.bus.topics import check_name, dump_metadata
from conch.config import Settings, check_length
from conch.errors import Advice, InvalidArgument, LimitExceeded, PersonRequired
from conch.lean import Any, NamedTuple

LONGEST_TYPE = 64
LONGEST_KEY = 200
NUDGE = "nudge"  # asks the holder of the stick to hand it over; only a person sends it
REDACTION = "redaction"  # says that an earlier message has changed, so pages that show it must read it again
_LIMITS = {"question": "max_question_chars", "answer": "max_answer_chars"}
FIELDS = ("content_markdown", "message_type", "reply_to", "metadata", "client_message_id")
# Wrong names that callers are likely to use.
_MISTAKEN = {"content": "content_markdown", "text": "content_markdown", "body": "content_markdown",
            "type": "message_type", "in_reply_to": "reply_to"}  # fmt: skip


class Draft(NamedTuple):
    content_markdown: str
    message_type: str = "message"
    reply_to: str | None = None
    metadata_json: str | None = None
    client_message_id: str | None = None
    field: str = "outbox[0]"
    """Where the message stands in the call; a refusal names this place."""


def check_batch(field: str, items: list[Any], settings: Settings) -> None:
    limit = settings.max_publish_batch
    if len(items) > limit:
        message = f"{field} has {len(items)} items; at most {limit} are allowed (CONCH_MAX_PUBLISH_BATCH)."
        raise LimitExceeded(message, field=field, limit=limit, actual=len(items))


def check_outbox(outbox: list[Any], settings: Settings) -> list[Draft]:
    """The messages to send; InvalidArgument names the first field that is wrong."""
    check_batch("outbox", outbox, settings)
    return [_check_message(item, f"outbox[{place}]", settings) for place, item in enumerate(outbox)]


def _check_message(item: dict[str, Any], field: str, settings: Settings) -> Draft:
    check_fields(item, field, FIELDS, _MISTAKEN)
    content = required_text(item, field, "content_markdown")
    kind = _optional_text(item, field, "message_type", LONGEST_TYPE) or "message"
    check_name(f"{field}.message_type", kind, LONGEST_TYPE)
    if kind == NUDGE:
        message = f"Only a person who steps in can send a {NUDGE}."
        raise PersonRequired(message, Advice("nudge_by_command"), field=f"{field}.message_type", reason="message_type")
    setting = _LIMITS.get(kind, "max_message_chars")
    check_length(f"{field}.content_markdown", content, getattr(settings, setting), setting)
    metadata = item.get("metadata")
    check_addressees(metadata, f"{field}.metadata.to")
    return Draft(
        content,
        kind,
        _optional_text(item, field, "reply_to", LONGEST_KEY),
        dump_metadata(f"{field}.metadata", metadata, settings),
        _optional_text(item, field, "client_message_id", LONGEST_KEY),
        field,
    )


def check_fields(item: Any, field: str, known: tuple[str, ...], mistaken: dict[str, str]) -> None:
    if not isinstance(item, dict):
        raise InvalidArgument(f"{field} must be an object.", field=field)
    for name in item:
        if name not in known:
            meant = mistaken.get(name)
            advice = f"Did you mean {meant}?" if meant else f"Known fields: {', '.join(known)}."
            raise InvalidArgument(f"{field}.{name[:80]} is not a known field. {advice}", field=f"{field}.{name[:80]}")


def required_text(item: dict[str, Any], field: str, name: str) -> str:
    if item.get(name) is None:
        raise InvalidArgument(f"{field}.{name} is required.", field=f"{field}.{name}")
    text = item[name]
    if not isinstance(text, str):
        raise InvalidArgument(f"{field}.{name} must be a string.", field=f"{field}.{name}")
    if not text.strip():
        raise InvalidArgument(f"{field}.{name} must be non-empty.", field=f"{field}.{name}")
    return text


def _optional_text(item: dict[str, Any], field: str, name: str, longest: int) -> str | None:
    if item.get(name) is None:
        return None
    text = required_text(item, field, name)
    if len(text) > longest:
        message = f"{field}.{name} is {len(text)} characters long; at most {longest} are allowed."
        raise LimitExceeded(message, field=f"{field}.{name}", limit=longest, actual=len(text))
    return text


def check_addressees(metadata: Any, field: str) -> None:
    to = metadata.get("to") if isinstance(metadata, dict) else None
    names = to if isinstance(to, list) else [] if to is None else [to]
    if not all(isinstance(name, str) and name.strip() and name.isprintable() for name in names):
        raise InvalidArgument(f"{field} must be the name of a peer, or a list of names.", field=field)
