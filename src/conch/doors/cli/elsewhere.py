"""The words of other programs, and the command of conch for each. People who come from there type them first."""

from __future__ import annotations

from collections.abc import Sequence

# What a talking stick, a message bus and their tools call it. The longest beginning of the words decides.
ELSEWHERE = {
    "list": "rooms",
    "list_rooms": "rooms",
    "join_path": "join",
    "hold": "wait",
    "claim": "wait",
    "wait_for_turn": "wait",
    "release_stick": "release",
    "pass_stick": "pass",
    "takeover": "take",
    "takeover_stick": "take",
    "get_room_state": "state",
    "get_room_events": "events",
    "append_note": "note",
    "leave_path": "leave",
    "close_room": "close",
    "heartbeat": "agent heartbeat",
    "cli": "topics list",
    "cli db": "db path",
    "cli db wipe": "db wipe",
    "cli wipe": "db wipe",
    "cli topics": "topics list",
    "cli topics list": "topics list",
    "cli topics create": "topics create",
    "cli topics close": "topics close",
    "cli topics rename": "topics rename",
    "cli topics export": "topics export",
    "cli search": "search",
    "cli messages": "read",
    "topic_create": "topics create",
    "topic_list": "topics list",
    "topic_close": "topics close",
    "topic_join": "read",
    "topic_presence": "topics show",
    "sync": "read",
    "messages_search": "search",
    "ask_poll": "questions",
    "pending_list": "questions",
}


def find_own(words: Sequence[str]) -> str | None:
    """The command of conch for the words of another program."""
    plain = [word for word in words if not word.startswith("-")]
    beginnings = (" ".join(plain[:length]) for length in (3, 2, 1))
    return next((ELSEWHERE[each] for each in beginnings if each in ELSEWHERE), None)
