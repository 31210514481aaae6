"""The words of other programs, and the command of conch for each. People who come from there type them first."""

from __future__ import annotations

from collections.abc import Sequence

from conch.doors.cli.catalogue import COMMANDS

# The programs themselves, and the command for one that is called without a word.
_PROGRAMS = {
    "agent_bus": "mcp",
    "cli": "topics list",
    "talking_stick": "mcp",
    "bb": "agent list",
    "bb_init": "init",
    "bb_init.mjs": "init",
    "scripts/bb_init.mjs": "init",
}
# What a talking stick, a message bus and their tools call it. The longest beginning of the words decides.
ELSEWHERE = {
    "log": "events",
    "logs": "events",
    "history": "events",
    "ps": "status",
    "lock": "reserve",
    "unlock": "unreserve",
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
    "reorder_members": "reorder",
    "set_room_policy": "policy",
    "heartbeat": "agent heartbeat",
    "topic_create": "topics create",
    "topic_list": "topics list",
    "topic_resolve": "topics show",
    "topic_close": "topics close",
    "topic_join": "read",
    "topic_presence": "topics show",
    "sync": "read",
    "cursor_reset": "read",
    "messages_search": "search",
    "ask_poll": "questions",
    "ask_cancel": "questions",
    "question_mark_answered": "questions",
    "pending_list": "questions",
    "agent_register": "agent register",
    "agent_adopt": "agent adopt",
    "agent_heartbeat": "agent heartbeat",
    "agent_list": "agent list",
    "scope_reserve": "agent reserve",
    "scope_release": "agent release",
    "scope_list": "agent status",
    "scope_check": "agent status",
    "event_send": "agent send",
    "event_inbox": "agent inbox",
    "event_mark": "agent seen",
    "ping": "whoami",
}
# What only means something after the name of a program.
_AFTER_PROGRAM = {"db": "db path", "wipe": "db wipe", "topics": "topics list", "messages": "read"}


def find_own(words: Sequence[str]) -> str | None:
    """The command of conch for the words of another program."""
    plain = [word.lower().replace("-", "_") for word in words if not word.startswith("-")]
    program = None
    while plain and plain[0] in _PROGRAMS:  # `agent_bus cli sync` names two
        program = _PROGRAMS[plain.pop(0)]
    known = ELSEWHERE if program is None else ELSEWHERE | _AFTER_PROGRAM | {name: name for name in COMMANDS}
    beginnings = (" ".join(plain[:length]) for length in (3, 2, 1))
    return next((known[each] for each in beginnings if each in known), program)
