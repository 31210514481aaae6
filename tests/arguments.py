"""Arguments for every tool: valid ones, and all that is wrong with them by the schema."""

from __future__ import annotations

from typing import Any

from conch.tools.catalogue import TOOLS

HANDOFF = {"status": "wrote it", "next_action": "review it"}
NOTICE = {"subject": "Parser", "summary": "it parses", "next_action": "review it"}

VALID: dict[str, dict[str, Any]] = {
    "list_rooms": {},
    "join_path": {},
    "wait_for_turn": {"room_id": "room_x"},
    "heartbeat": {"room_id": "room_x", "lease_id": "l", "expected_turn_id": 1},
    "release_stick": {"room_id": "room_x", "lease_id": "l", "expected_turn_id": 1, "handoff": HANDOFF},
    "pass_stick": {"room_id": "room_x", "lease_id": "l", "expected_turn_id": 1, "to_agent_id": "a", "handoff": HANDOFF},
    "takeover_stick": {"room_id": "room_x", "expected_turn_id": 1, "reason": "r"},
    "get_room_state": {"room_id": "room_x"},
    "get_room_events": {"room_id": "room_x"},
    "append_note": {"room_id": "room_x", "note": "n"},
    "leave_path": {"room_id": "room_x"},
    "close_room": {"room_id": "room_x", "lease_id": "l", "expected_turn_id": 1},
    "reorder_members": {"room_id": "room_x", "order": ["a"]},
    "set_room_policy": {"room_id": "room_x", "policy": {}},
    "ping": {},
    "topic_create": {},
    "topic_list": {},
    "topic_resolve": {"name": "n"},
    "topic_close": {"topic_id": "topic_x"},
    "topic_join": {"topic_id": "topic_x", "agent_name": "a"},
    "topic_presence": {"topic_id": "topic_x"},
    "cursor_reset": {"topic_id": "topic_x"},
    "sync": {"topic_id": "topic_x"},
    "listen": {},
    "messages_search": {"query": "q"},
    "ask": {"topic_id": "topic_x", "question": "q"},
    "ask_poll": {"topic_id": "topic_x", "question_id": "q"},
    "ask_cancel": {"topic_id": "topic_x", "question_id": "q"},
    "question_mark_answered": {"topic_id": "topic_x", "question_id": "q"},
    "pending_list": {"topic_id": "topic_x"},
    "answer": {"topic_id": "topic_x", "responses": [{}]},
    "agent_register": {"room_id": "room_x"},
    "agent_adopt": {"room_id": "room_x", "name": "amber-otter", "scope": "src"},
    "agent_heartbeat": {"room_id": "room_x"},
    "agent_list": {"room_id": "room_x"},
    "scope_reserve": {"room_id": "room_x", "scope": "src"},
    "scope_release": {"room_id": "room_x", "scope": "src"},
    "scope_list": {"room_id": "room_x"},
    "scope_check": {"room_id": "room_x", "path": "src"},
    "event_send": {"room_id": "room_x", "event_type": "HANDOFF", "to_agent": "amber-otter", "payload": NOTICE},
    "event_inbox": {"room_id": "room_x"},
    "event_mark": {"event_id": "proto_x", "mark": "seen"},
}
WRONG = {
    "string": [7, True, [], {}],
    "integer": ["1", 1.5, True, -1, 2**70],
    "number": ["1", True, []],
    "boolean": ["yes", 0],
    "object": ["{}", []],
    "array": ["a", {}, [7]],
}


def bad_arguments() -> list[tuple[str, dict[str, Any], str]]:
    """Tool, arguments, and the field that a refusal has to name."""
    found: list[tuple[str, dict[str, Any], str]] = []
    for name, tool in TOOLS.items():
        found.append((name, {**VALID[name], "surprise": 1}, "surprise"))
        found += [
            (name, {k: v for k, v in VALID[name].items() if k != f}, f) for f in tool.input_schema.get("required", ())
        ]
        for field, schema in tool.input_schema["properties"].items():
            kind = schema.get("type")
            bad = WRONG[kind] if kind else [1.5, -1, {}, "not-a-cursor", "1" * 17]
            texts = ["a\0b", "\ud800", "", "x" * 20_000] if kind == "string" and "maxLength" in schema else []
            found += [(name, {**VALID[name], field: value}, field) for value in [*bad, *texts]]
    return found
