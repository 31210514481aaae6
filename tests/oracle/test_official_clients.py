"""The official clients list every tool and call each of them, well and badly, in every version they speak."""

from __future__ import annotations

import json

import pytest

from conch.tools.catalogue import TOOLS

NEVER_SUCCEEDS_HERE = {"agent_adopt"}  # no agent is gone here, and none can be


def check(report, version):
    assert report["version"] == version
    assert set(report["listed"]) == set(TOOLS)
    assert set(report["succeeded"]) == set(TOOLS) - NEVER_SUCCEEDS_HERE
    assert set(report["refused"]) == set(TOOLS)
    check_browsing(report["browsed"], stateless=version == "2026-07-28")


def check_browsing(browsed, stateless):
    assert browsed["prompts"] == ["join", "handover", "status"]
    assert "wait_for_turn" in browsed["said"] and browsed["said"].endswith("do this: mend it")
    assert browsed["resources"] == ["conch://room", "conch://inbox"]
    assert browsed["templates"] == ["conch://room/{room_id}", "conch://topic/{name}"]
    assert browsed["missing"] == (-32602 if stateless else -32002)
    assert "\n  hello\n" in browsed["inbox"]


def check_introduction(report):
    assert report["server"] == "conch"
    assert "wait_for_turn" in report["instructions"]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_the_client_of_sdk_1_calls_every_tool(play, workspace, version):
    report = json.loads(play(".venv-mcp1", "sdk1.py", version))

    check(report, version)
    check_introduction(report)
    assert report["default_path"] == str(workspace)


def test_the_client_of_sdk_2_calls_every_tool_in_the_handshake_era(play, workspace):
    report = json.loads(play(".venv-mcp2", "sdk2.py", "legacy"))

    check(report, "2025-11-25")
    check_introduction(report)
    assert report["default_path"] == str(workspace)


def test_the_client_of_sdk_2_finds_the_stateless_era_by_itself_and_calls_every_tool(play, tmp_path):
    report = json.loads(play(".venv-mcp2", "sdk2.py", "auto"))

    check(report, "2026-07-28")
    check_introduction(report)
    assert report["default_path"] == str(tmp_path / "data")


def test_the_client_of_sdk_2_calls_every_tool_without_any_opening(play, tmp_path):
    report = json.loads(play(".venv-mcp2", "sdk2.py", "2026-07-28"))

    check(report, "2026-07-28")
    assert report["default_path"] == str(tmp_path / "data")
