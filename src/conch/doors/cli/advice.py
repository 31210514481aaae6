"""Words errors for the command line: its commands as advice, its options as fields, and no passwords."""

from __future__ import annotations

from collections.abc import Sequence

from conch.doors.cli.command import Option
from conch.errors import ConchError
from conch.lean import re

STEPS = {
    "join_room": "`conch join` first.",
    "come_back": "`conch join` again to come back.",
    "find_rooms": "`conch rooms --all` lists all rooms.",
    "verify_store": "`conch db verify` says more.",
    "check_identity": "`conch whoami` says who you are.",
    "join_topic": "`conch read` joins it.",
    "find_topics": "`conch topics list` shows all topics.",
    "create_topic": "`conch topics create` makes one.",
    "find_home_topic": "`conch join` prints the room.",
    "read_closed_topic": "`conch topics export` prints its messages.",
    "close_room": "`conch close` ends the room.",
    "claim_stick": "`conch wait` claims it.",
    "keep_stick": "`conch wait` claims or keeps the stick.",
    "await_takeover": "`conch wait` says when takeover opens.",
    "hand_over": "`conch release` or `conch pass` first, so that your work is not lost.",
    "reclaim_name": "Choose another name; an operator can free this one with `conch names free`.",
    "free_name": "Choose another name; `conch names free {name}` frees this one.",
    "free_name_of_leaver": "Choose another name; if that agent has left for good, `conch names free {name}` frees it.",
    "adopt_name": "`conch agent adopt` takes it over if its process is gone and left unfinished work; "
    "else choose another name.",
    "fit_payload": "See `conch agent send --help`.",
    "take_over_reservation": "Its owner seems to be gone: reserve with --takeover-stale to take over.",
}
# The fields of tools whose option has another name.
_FIELDS = {
    "agent_name": "name",
    "answer_markdown": "text",
    "artifacts": "artifact",
    "bead_id": "bead",
    "client_message_id": "key",
    "content_markdown": "text",
    "context_path": "path",
    "event_id": "event",
    "event_type": "type",
    "handoff": "The handoff",  # not --handoff: it may come from several options
    "include_content": "content",
    "message_type": "type",
    "metadata": "to",
    "metadata.to": "to",
    "note": "text",
    "open_questions": "question",
    "question_id": "question",
    "repo_pointers": "pointer",
    "requires_ack": "no_ack",
    "responses[0]": "pointer",
    "room_id": "room",
    "suggested_followups": "followup",
    "to_agent": "to",
    "to_agent_id": "to",
    "topic_id": "topic",
    "ttl_minutes": "ttl",
}
_PARENTS = ("outbox[0].", "responses[0].", "payload.", "policy.")  # a command sends one message or one answer
# The login part of a URL, up to the last @ of the word, and `password=...`.
_LOGIN = re.compile(r"(\b[a-z][\w+.-]*:/*[^\s:@/]*:)[^\s'\"]*@", re.IGNORECASE)
_PASSWORD = re.compile(r"(password\s*=\s*)('[^']*'|[^\s&'\"]+)", re.IGNORECASE)


def word_refusal(refusal: ConchError, options: Sequence[Option]) -> str:
    """What happened and what to do next. A field name at the start of a message becomes the option's name."""
    message, field = refusal.advised(STEPS), str(refusal.details.get("field", ""))
    named = re.match(rf"(handoff\.)?{re.escape(field)}(?=[ :])", message) if field else None
    if named is None:
        return message
    key, part = _split(field)
    option = _find(key, options)
    shown = key if option is None else option.shown
    return (f"The {part} of {shown}" if part else shown) + message[named.end() :]


def word_field(field: str, options: Sequence[Option]) -> str:
    """The name of the option or argument that sets this field of a tool; the field itself if there is none."""
    option = _find(_split(field)[0], options)
    return field if option is None else option.shown.removeprefix("--").replace("-", "_").lower()


def _split(field: str) -> tuple[str, str]:
    """The key of the option, and the part of its value: `artifacts[0].role` is the role of `artifact`."""
    for parent in _PARENTS:
        field = field.removeprefix(parent)
    if field in _FIELDS:
        return _FIELDS[field], ""
    name, _, part = re.sub(r"\[\d+\]", "", field).partition(".")
    return _FIELDS.get(name, name), part


def _find(key: str, options: Sequence[Option]) -> Option | None:
    """The option with this key, or the argument whose value has this name."""
    return next((each for each in options if key in (each.key, each.shown.lower())), None)


def without_passwords(text: str) -> str:
    """The same text with passwords hidden, for an error that repeats what the user typed."""
    return _PASSWORD.sub(r"\1***", _LOGIN.sub(r"\1***@", text))
