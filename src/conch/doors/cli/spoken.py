"""The core speaks of tools and their fields; here they are commands and options."""

from __future__ import annotations

from conch.lazy import re

_WORDS = {
    "join_path": "`conch join`",
    "list_rooms": "`conch rooms`",
    "wait_for_turn": "`conch wait`",
    "release_stick": "`conch release`",
    "pass_stick": "`conch pass`",
    "takeover_stick": "`conch take`",
    "get_room_events": "`conch events`",
    "close_room": "`conch close`",
    "topic_create": "`conch topics create`",
    "topic_list": "`conch topics list`",
    "agent_adopt": "`conch agent adopt`",
    "event_inbox": "`conch agent inbox`",
    "takeover_stale": "--takeover-stale",
    "context_path": "path",
    "content_markdown": "text",
    "message_type": "type",
    "client_message_id": "key",
    "reply_to": "reply_to",
    "metadata.to": "to",
    "metadata": "to",
    "question_id": "question",
    "answer_markdown": "text",
    "repo_pointers": "pointer",
    "suggested_followups": "followup",
    "responses[0]": "pointer",
}
_FIELDS = {
    "room_id": "room",
    "topic_id": "topic",
    "agent_name": "name",
    "ttl_minutes": "ttl",
    "bead_id": "bead",
}
# A command sends one message or one answer; and what somebody typed comes back in quotes, as it was.
_TOLD = re.compile(rf"(?<![\w'\"])(?:(?:outbox|responses)\[0\]\.)?({'|'.join(map(re.escape, _WORDS))})(?![\w'\"])")
# A login of an address, up to the last @ of the word, and a password that is called one.
_LOGIN = re.compile(r"(\b[a-z][\w+.-]*:/*[^\s:@/]*:)[^\s'\"]*@", re.IGNORECASE)
_PASSWORD = re.compile(r"(password\s*=\s*)('[^']*'|[^\s&'\"]+)", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """What an error may repeat of the words that somebody typed: an address in the wrong place keeps its secret."""
    return _PASSWORD.sub(r"\1***", _LOGIN.sub(r"\1***@", text))


def spoken(text: str) -> str:
    return _TOLD.sub(lambda found: _WORDS[found[1]], text)


def spoken_field(field: str) -> str:
    """The option, or the argument, that a field of a tool comes from."""
    name = spoken(field)
    return _FIELDS.get(name, name)
