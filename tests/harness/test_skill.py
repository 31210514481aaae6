"""The skill says what the protocol says, and names nothing that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import conch
from conch import errors
from conch.doors.cli.catalogue import COMMANDS
from conch.harnesses.texts import PARAGRAPH, skill_text
from conch.tools.catalogue import TOOLS

# What the operating instructions of the protocol are about, one by one.
STEPS = {
    1: ["list_rooms"],
    2: ["join_path", "room_id", "canonical_path"],
    3: ["wait_for_turn", "your_turn"],
    4: ["handoff", "artifacts"],
    5: ["heartbeat"],
    6: ["room_id", "lease_id", "expected_turn_id", "agent_id"],
    7: ["stale_lease", "turn_mismatch", "unknown_member", "get_room_state"],
    8: ["truthful", "status", "next_action", "artifacts", "What I did:", "What I learned:", "Open risks:"],
    9: ["release_stick", "sequence"],
    10: ["pass_stick", "active"],
    11: ["takeover_stick", "wait_for_turn", "get_room_state", "reason", "get_room_events"],
}
OUTSIDE = {"conch", "bd", ".beads/", "src", "src/*", "metadata.to"}
CODES = {error.code for error in vars(errors).values() if isinstance(error, type) and hasattr(error, "code")}
LITERALS = {
    found
    for path in Path(conch.__file__).parent.rglob("*.py")
    for found in re.findall(r'"(\w+)"|\b(\w+)=', path.read_text())
}
WORDS = {word for pair in LITERALS for word in pair}


def quoted(text: str) -> set[str]:
    without_blocks = re.sub(r"```.*?```", "", text, flags=re.S)
    return set(re.findall(r"`([^`]+)`", without_blocks))


def section(title: str) -> str:
    return skill_text().partition(f"## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("text", [skill_text(), PARAGRAPH], ids=["skill", "paragraph"])
def test_every_tool_command_code_and_word_exists(text: str) -> None:
    for word in quoted(text) - OUTSIDE:
        if word.startswith("conch "):
            assert word.removeprefix("conch ") in COMMANDS, word
        elif word.isupper():
            assert word in CODES or word in WORDS, word
        else:
            assert word in TOOLS or word in CODES or word in WORDS, word


def test_it_is_short_and_the_front_matter_names_it() -> None:
    lines = skill_text().splitlines()

    assert len(lines) < 150
    assert lines[:2] == ["---", "name: conch"] and lines[2].startswith("description: ") and lines[3] == "---"


def test_its_steps_are_the_operating_instructions_in_their_order() -> None:
    whole = section("Begin") + section("Take a turn") + section("Hand over")
    steps = {int(number): text for number, text in re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |\Z)", whole, re.M | re.S)}

    assert list(steps) == list(STEPS)
    for number, needed in STEPS.items():
        assert [word for word in needed if word not in steps[number]] == [], number


def test_it_has_one_loop_to_receive_that_covers_all_that_listen_returns() -> None:
    loop = section("Receive: one loop")

    assert {"your_turn", "takeover_available", "news", "timeout", "has_more", "duplicate_listener"} <= quoted(loop)
    assert {"sync", "outbox", "reply_to", "message_id", "answer", "question"} <= quoted(loop)


def test_it_covers_names_adoption_reservations_and_the_four_notices() -> None:
    assert {"agent_register", "agent_adopt", "RESUME", "ADOPTION_REJECTED"} <= quoted(section("Begin"))
    beside = {"scope_check", "scope_reserve", "takeover_stale", "agent_heartbeat", "scope_release"}
    assert beside | {"RESERVATION_CONFLICT", "RESERVATION_STALE_FOUND"} <= quoted(section("Work side by side"))
    assert {"HANDOFF", "BLOCKED", "INCURSION", "RESUME", "event_mark", "event_send"} <= quoted(section("Notices"))
    assert "NO_FOLLOWUP_NEEDED" in section("Ask and answer") and "**one** follow-up" in section("Ask and answer")
    assert section("While you wait").count("\n1. ") == 1
