"""The pieces that the tools' JSON Schemas are made of."""

from __future__ import annotations

from conch.errors import no_cursor
from conch.rooms.handoffs import ROLES
from conch.tools.replies import Object

LONGEST_ID = 200
_LONGEST_NUMBER = 16  # digits of a cursor
LARGEST = 2**53  # many JSON parsers lose precision above it


def _id(description: str) -> Object:
    return {"type": "string", "minLength": 1, "maxLength": LONGEST_ID, "description": description}


ROOM_ID = _id("Default: yours.")
TOPIC_ID = _id("Default: yours.")
AGENT = _id("A label, name or agent_id.")
BEAD_ID = _id("The work item.")
TURN_ID: Object = {"type": "integer", "minimum": 0, "maximum": LARGEST}
# What an owner shows with every call, so that a late call cannot disturb a newer turn.
FENCED: Object = {
    "room_id": ROOM_ID,
    "lease_id": _id("Default: yours."),
    "expected_turn_id": {**TURN_ID, "description": "Default: yours."},
}
PATH: Object = {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Default: your working directory."}
SCOPE: Object = {**PATH, "description": "A path in the workspace, or dir/*."}
CURSOR: Object = {
    "anyOf": [{"type": "string", "maxLength": _LONGEST_NUMBER}, {"type": "integer", "minimum": 0, "maximum": LARGEST}],
}
# The cursor of a log or of a timeline, which has three numbers.
PLACE: Object = {
    "anyOf": [{"type": "string", "maxLength": 3 * _LONGEST_NUMBER + 2}, CURSOR["anyOf"][1]],
    "description": "The last cursor, or an event_seq.",
}
AFTER: Object = {"type": "string", "description": "The last cursor."}
TEXT: Object = {"type": "string", "minLength": 1}
WAIT_SECONDS: Object = {
    "type": "integer",
    "minimum": 0,
    "maximum": LARGEST,
    "description": "Default 60. 0: do not wait.",
}

HANDOFF: Object = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "description": "What I did, what I learned, what is unfinished."},
        "next_action": {"type": "string", "description": "What the recipient should do."},
        "artifacts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "lines": {"type": "array", "items": {"type": "integer"}, "description": "[first, last]"},
                    "role": {"type": "string", "enum": list(ROLES)},
                    "note": {"type": "string"},
                },
                "required": ["path", "role"],
            },
        },
        "open_questions": {"type": "array", "items": {"type": "string"}},
        "do_not": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["status", "next_action"],
}
# The whole is in `release_stick`.
SHORT_HANDOFF: Object = {
    "type": "object",
    "properties": {"status": {"type": "string"}, "next_action": {"type": "string"}},
    "required": ["status", "next_action"],
    "description": "Also artifacts, open_questions, do_not, as for `release_stick`.",
}

# Hints for clients. By default the protocol assumes that a tool writes, destroys and is not repeatable, so only the
# opposite is listed.
READS: Object = {"readOnlyHint": True, "openWorldHint": False}
WRITES: Object = {"destructiveHint": False, "openWorldHint": False}
REPEATABLE: Object = {**WRITES, "idempotentHint": True}
DESTROYS: Object = {"openWorldHint": False}


def flag(description: str) -> Object:
    return {"type": "boolean", "description": description}


def limit(most: int, default: int) -> Object:
    """How many items to return."""
    return {"type": "integer", "minimum": 1, "maximum": most, "description": f"Default {default}."}


def takes(required: Object | None = None, /, **optional: Object) -> Object:
    """An input schema with these properties. `check_arguments` refuses all others.

    `additionalProperties` is left out, to keep the list of tools short.
    """
    schema: Object = {"type": "object", "properties": {**(required or {}), **optional}}
    return {**schema, "required": list(required)} if required else schema


def parse_cursor(field: str, value: str | int | None) -> int | None:
    """A position in a room's log, as a number or as the text that another tool returned."""
    if value is None or isinstance(value, int):
        return value
    if not value.isdecimal() or not value.isascii() or len(value) > _LONGEST_NUMBER:
        raise no_cursor(field)
    return int(value)
