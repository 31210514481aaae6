"""Puts errors into the words of the command line: advice names commands, fields are options, passwords are hidden."""

from __future__ import annotations

from collections.abc import Sequence

from conch.doors.cli.command import Option
from conch.errors import ConchError
from conch.lean import re

STEPS = {
    "join_room": "Run `conch join` first.",
    "join_first": "Run `conch join` first.",
    "come_back": "Run `conch join` to join again.",
    "ask_before_joining": "Stop, and ask before you join again.",
    "leave_room": "Run `conch leave` to leave.",
    "nudge_by_command": "A person at a terminal can run `conch nudge`.",
    "find_rooms": "Run `conch rooms --all` to see all rooms.",
    "verify_store": "Run `conch db verify` for details.",
    "find_agents": "`conch agent list` lists the agents here, and `conch agent register NAME` registers one.",
    "join_topic": "Run `conch read`: it joins the topic.",
    "find_topics": "Run `conch topics list` to see all topics.",
    "create_topic": "Run `conch topics create` to create one.",
    "find_home_topic": "Run `conch topics show` to see the home topic.",
    "read_closed_topic": "Run `conch topics export` to read its messages.",
    "close_room": "Run `conch close` to close the room.",
    "open_room": "Run `conch join` to open a new one there.",
    "find_questions": "Run `conch questions --all` to see all questions.",
    "find_notices": "Run `conch agent inbox` to see yours.",
    "find_reservations": "Run `conch reservations` to see all reservations.",
    "claim_stick": "Run `conch wait` to claim it.",
    "keep_stick": "Run `conch wait` to claim or keep the stick.",
    "stop": "Stop, and run `conch state`.",
    "await_takeover": "Run `conch wait`: it says when you may take over.",
    "hand_over": "Run `conch release` or `conch pass` first, so that the next agent gets your handoff.",
    "reclaim_name": "Choose another name. A person can free this one with `conch names free`.",
    "free_name": "Choose another name, or ask a person to free this one with `conch names free {name}`.",
    "free_name_of_leaver": "Choose another name. If that agent has left for good, a person can free its name with "
    "`conch names free {name}`.",
    "adopt_name": "Choose another name. If that agent is gone and left unfinished work, `conch agent adopt` "
    "takes over the name.",
    "own_name": "Register your own name instead, or let a person decide with `conch init --adopt` in a usual terminal "
    "program, in tmux or over ssh.",
    "fit_payload": "See `conch agent send --help`.",
    "take_over_reservation": "Its owner seems to be gone. To take over, reserve with --takeover-stale.",
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
    """What happened and what to do next. If the message starts with a field of a tool, the option replaces it."""
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
