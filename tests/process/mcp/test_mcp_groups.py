"""Each group of tools can be used by itself: a client that is offered nothing else does its work, without ids."""

from __future__ import annotations

import pytest
from tests.process.mcp.doors import both_doors  # noqa: F401

HANDOFF = {"status": "done", "next_action": "go on"}
TOPIC = [("topic_create", {"name": "pink"}), ("topic_join", {"name": "pink", "agent_name": "red"})]
RESERVED = [("scope_reserve", {"scope": "src"}), ("event_inbox", {}), ("scope_release", {"scope": "src"})]
SPOKEN = ("sync", {"outbox": [{"content_markdown": "hello"}], "wait_seconds": 0})
TURN = [("join_path", {}), ("wait_for_turn", {})]
STORIES = {
    "turns": [*TURN, ("heartbeat", {}), ("get_room_state", {}), ("release_stick", {"handoff": HANDOFF})],
    "bus": [*TOPIC, SPOKEN, ("topic_presence", {}), ("cursor_reset", {}), ("sync", {"include_self": True})],
    "questions": [*TOPIC, ("ask", {"question": "why?", "wait_seconds": 0}), ("pending_list", {"wait_seconds": 0})],
    "scopes": [("join_path", {}), *RESERVED, ("scope_check", {"scope": "src/*"}), ("agent_list", {})],
    "admin": [*TURN, ("append_note", {"note": "n"}), ("set_room_policy", {"policy": {}}), ("close_room", {})],
    "everyday": [*TURN, ("heartbeat", {}), SPOKEN, *RESERVED, ("release_stick", {"handoff": HANDOFF})],
}


@pytest.mark.parametrize("stateless", [False, True], ids=["handshake", "stateless"])
@pytest.mark.parametrize("group", STORIES)
def test_a_group_stands_alone(conch, group, stateless):
    client = conch("codex:1", "--tools", group, stateless=stateless)
    offered = {tool["name"] for tool in client.ask("tools/list")["result"]["tools"]}

    results = {tool: client.call(tool, **arguments) for tool, arguments in STORIES[group]}

    assert {tool for tool, _ in STORIES[group]} <= offered
    assert {tool: result["content"][0]["text"] for tool, result in results.items() if result["isError"]} == {}


def test_without_a_choice_every_tool_is_offered(agent_at):
    assert len(agent_at("codex:1").ask("tools/list")["result"]["tools"]) == 42


def test_an_error_advises_only_tools_that_are_offered(conch):
    red = conch("codex:1", "--tools", "bus")

    refused = red.call("sync", topic_id="none")["structuredContent"]
    homeless = red.call("topic_create", name="/src")["structuredContent"]

    assert refused["message"].endswith("Call topic_list to see the topics.")
    assert "join_path" not in homeless["message"]


def test_a_reply_and_the_next_call_are_in_order(agent_at, tmp_path):
    """The client reads the reply and calls at once. The turn counts as received by then, in every round."""
    ada = agent_at("codex:1")
    ada.call("join_path", context_path=str(tmp_path))

    for _ in range(50):
        assert ada.call("wait_for_turn")["structuredContent"]["status"] == "your_turn"
        assert not ada.call("release_stick", handoff=HANDOFF)["isError"]
