"""Words errors for the command line: its commands as advice, its options as fields, and no passwords."""

from __future__ import annotations

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
    "take_over_reservation": "Its owner seems to be gone: reserve with --takeover-stale to take over.",
}
_FIELDS = {
    "agent_name": "name",
    "answer_markdown": "text",
    "bead_id": "bead",
    "client_message_id": "key",
    "content_markdown": "text",
    "context_path": "path",
    "message_type": "type",
    "metadata": "to",
    "metadata.to": "to",
    "question_id": "question",
    "repo_pointers": "pointer",
    "responses[0]": "pointer",
    "room_id": "room",
    "suggested_followups": "followup",
    "topic_id": "topic",
    "ttl_minutes": "ttl",
}
_LISTS = ("outbox[0].", "responses[0].")  # a command sends one message or one answer
# The login part of a URL, up to the last @ of the word, and `password=...`.
_LOGIN = re.compile(r"(\b[a-z][\w+.-]*:/*[^\s:@/]*:)[^\s'\"]*@", re.IGNORECASE)
_PASSWORD = re.compile(r"(password\s*=\s*)('[^']*'|[^\s&'\"]+)", re.IGNORECASE)


def word_refusal(refusal: ConchError) -> str:
    """What happened and what to do next. A field name at the start of a message becomes the option's name."""
    message, field = refusal.advised(STEPS), str(refusal.details.get("field", ""))
    return word_field(field) + message.removeprefix(field) if field and message.startswith(field) else message


def word_field(field: str) -> str:
    """The option or argument that sets this field of a tool."""
    for place in _LISTS:
        field = field.removeprefix(place)
    return _FIELDS.get(field, field)


def without_passwords(text: str) -> str:
    """The same text with passwords hidden, for an error that repeats what the user typed."""
    return _PASSWORD.sub(r"\1***", _LOGIN.sub(r"\1***@", text))
