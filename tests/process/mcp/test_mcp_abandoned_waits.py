"""The real tools: an agent that never got the reply to its claim does not hold the stick."""

from __future__ import annotations

import signal
import time

import pytest
from tests.process.mcp.doors import both_doors, stdio  # noqa: F401

HANDOFF = {"status": "done", "next_action": "go on"}
ROUNDS = 10


@pytest.fixture
def bob(agent_at, tmp_path):
    """Holds the stick, and hands it to ada in every round."""
    bob = agent_at("claude:bob")
    joined = bob.call("join_path", context_path=str(tmp_path))["structuredContent"]
    bob.room_id, bob.agent_id = joined["room_id"], joined["agent_id"]
    return bob


def take(client, room_id):
    turn = client.call("wait_for_turn", room_id=room_id)["structuredContent"]
    assert turn["status"] == "your_turn"
    return {"room_id": room_id, "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}


def start_wait(client, room_id):
    waiting = client.start_call("wait_for_turn", token="waiting", room_id=room_id)
    assert client.receive()["method"] == "notifications/progress"
    return waiting


def owner_once_settled(client, room_id, expected):
    """The owner, as soon as it is the expected one; when the time is up, the actual one."""
    deadline = time.monotonic() + 10
    while True:
        owner = client.call("get_room_state", room_id=room_id)["structuredContent"]["room"]["owner"]
        if owner == expected or time.monotonic() > deadline:
            return owner


def test_a_wait_cancelled_while_the_stick_arrives_holds_nothing(bob, agent_at, tmp_path):
    for round_ in range(ROUNDS):
        ada = agent_at("codex:ada")
        ada.call("join_path", context_path=str(tmp_path))
        mine = take(bob, bob.room_id)
        waiting = start_wait(ada, bob.room_id)

        released = bob.start_call("release_stick", **mine, handoff=HANDOFF)
        time.sleep(round_ * 0.0005)  # not a synchronisation: each round cancels at another moment
        ada.cancel(waiting)
        assert bob.receive()["id"] == released
        ada.drain()

        assert owner_once_settled(bob, bob.room_id, None) is None
        ada.call("release_stick", **take(ada, bob.room_id), handoff=HANDOFF)
        ada.end()


@stdio
@pytest.mark.parametrize("end", ["closed input", "SIGTERM"])
def test_a_server_ended_while_the_stick_arrives_answers_or_holds_nothing(bob, conch, tmp_path, end):
    for round_ in range(8):
        ada = conch("codex:ada")
        ada.call("join_path", context_path=str(tmp_path))
        mine = take(bob, bob.room_id)
        start_wait(ada, bob.room_id)

        released = bob.start_call("release_stick", **mine, handoff=HANDOFF)
        time.sleep(round_ * 0.0005)  # not a synchronisation: each round ends at another moment
        if end == "SIGTERM":
            ada.process.send_signal(signal.SIGTERM)
        else:
            ada.process.stdin.close()
        assert bob.receive()["id"] == released
        assert ada.wait_for_exit() == 0
        replies = ada.rest()

        holder = "codex:ada" if replies else None
        assert owner_once_settled(bob, bob.room_id, holder) == holder
        heir = conch("codex:ada")
        heir.call("release_stick", **take(heir, bob.room_id), handoff=HANDOFF)
        heir.process.stdin.close()


def test_a_wait_delays_no_other_call_of_the_same_agent(bob, agent_at, tmp_path):
    ada = agent_at("codex:ada")
    ada.call("join_path", context_path=str(tmp_path))
    take(bob, bob.room_id)
    start_wait(ada, bob.room_id)

    assert ada.ask("ping")["result"] == {}
    assert ada.call("get_room_state", room_id=bob.room_id)["structuredContent"]["room"]["owner"] == bob.agent_id


def test_only_the_groups_asked_for_are_served(conch):
    client = conch("codex:ada", "--tools", "turns")

    names = [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]

    assert "wait_for_turn" in names and "close_room" not in names
    assert client.ask("tools/call", {"name": "close_room", "arguments": {}})["error"]["code"] == -32602
