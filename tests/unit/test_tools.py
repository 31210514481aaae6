"""The list of the tools, and their arguments: a wrong one is refused before the store is used."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.arguments import bad_arguments

from conch.agents.records import Caller
from conch.app import open_app
from conch.calls import Call
from conch.tools.calling import call_tool
from conch.tools.catalogue import GROUPS, TOOLS, select_tools
from conch.tools.instructions import instructions
from conch.tools.session import Session

REFUSALS = ("invalid_argument", "invalid_handoff", "limit_exceeded")
CODES = {"turns": REFUSALS, "admin": REFUSALS, "scopes": ("INVALID_ARGS", "INVALID_AGENT_ID")}


@pytest.fixture(scope="module")
def session() -> Session:
    """A connection without a store: where this one should be, nothing can ever be made."""
    session = Session(open_app({"CONCH_DATA_DIR": "/dev/null/nowhere"}), "mcp")
    session.speak_as(Caller("codex:1", "amber-otter", None, "mcp_harness", None))
    return session


def test_the_tools_are_exactly_the_seeds() -> None:
    assert [name for name, tool in TOOLS.items() if tool.group == "turns"] == [
        "list_rooms",
        "join_path",
        "wait_for_turn",
        "heartbeat",
        "release_stick",
        "pass_stick",
        "takeover_stick",
        "get_room_state",
        "get_room_events",
    ]
    assert [name for name, tool in TOOLS.items() if tool.group == "admin"] == [
        "append_note",
        "leave_path",
        "close_room",
        "reorder_members",
        "set_room_policy",
    ]
    assert {name for name, tool in TOOLS.items() if tool.group == "bus"} == {
        "ping",
        "topic_create",
        "topic_list",
        "topic_resolve",
        "topic_close",
        "topic_join",
        "topic_presence",
        "cursor_reset",
        "messages_search",
        "sync",
        "listen",
    }
    assert {name for name, tool in TOOLS.items() if tool.group == "questions"} == {
        "ask",
        "ask_poll",
        "ask_cancel",
        "question_mark_answered",
        "pending_list",
        "answer",
    }
    assert [name for name, tool in TOOLS.items() if tool.group == "scopes"] == [
        "agent_register",
        "agent_adopt",
        "agent_heartbeat",
        "agent_list",
        "scope_reserve",
        "scope_release",
        "scope_list",
        "scope_check",
        "event_send",
        "event_inbox",
        "event_mark",
    ]


def size_of_list(*groups: str) -> int:
    tools = select_tools(groups)
    return len(json.dumps({"tools": [tool.listed(tools) for tool in tools.values()]}))


def test_the_lists_fit_into_a_context_window() -> None:
    assert size_of_list("turns") <= 8 * 1024
    assert size_of_list("scopes") <= 8 * 1024
    assert size_of_list(*GROUPS) <= 24 * 1024
    assert size_of_list("everyday") + len(instructions(select_tools(["everyday"]))) <= 12 * 1024


def test_the_list_names_every_message_type_that_the_skill_asks_for() -> None:
    outgoing = TOOLS["sync"].input_schema["properties"]["outbox"]["items"]

    assert {"question", "answer", "ack"} <= {*outgoing["properties"]["message_type"]["enum"]}


def test_no_tool_but_join_path_lets_a_caller_name_itself() -> None:
    naming = [
        name for name, tool in TOOLS.items() if {"agent_id", "agent_id_override"} & set(tool.input_schema["properties"])
    ]

    assert naming == ["join_path"]


@pytest.mark.parametrize(("name", "arguments", "field"), bad_arguments())
def test_every_bad_argument_is_refused_by_its_field(session: Session, name: str, arguments: Any, field: str) -> None:
    outcome = call_tool(TOOLS[name], session, arguments, Call())

    assert outcome.is_error
    assert outcome.data["error"] in CODES.get(TOOLS[name].group, ("INVALID_ARGUMENT",))
    assert outcome.data["field"] == field
    assert field in outcome.text
