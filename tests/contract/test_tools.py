"""The tools as every door calls them: the shapes of their replies, and a structured answer to every bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.arguments import HANDOFF, VALID, bad_arguments

from conch.app import App
from conch.calls import Call
from conch.tools import calling
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.replies import Reply
from conch.tools.session import Session


class Client:
    """One connection under an id of its own."""

    def __init__(self, app: App, agent_id: str, workspace: str) -> None:
        self._session = Session(app, "mcp")
        self.joined = self.data("join_path", context_path=workspace, agent_id_override=agent_id)
        self.room_id = self.joined["room_id"]

    def call(self, tool: str, /, **arguments: Any) -> Reply:
        reply = call_tool(TOOLS[tool], self._session, arguments, Call())
        reply.delivery.sent()
        return reply

    def data(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        outcome = self.call(tool, **arguments)
        assert not outcome.is_error, outcome.text
        return outcome.data

    def claim(self) -> dict[str, Any]:
        turn = self.data("wait_for_turn", room_id=self.room_id, max_wait_ms=0)
        assert turn["status"] == "your_turn"
        return {"room_id": self.room_id, "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}


@pytest.fixture
def connect(app: App, workspace: str) -> Callable[[str], Client]:
    return lambda agent_id: Client(app, agent_id, workspace)


@pytest.fixture
def codex(connect: Callable[[str], Client]) -> Client:
    return connect("codex:1")


# -- shapes


def test_join_path_returns_everything_a_harness_needs(codex: Client, workspace: str) -> None:
    assert set(codex.joined) == {
        "agent_id", "name", "room_id", "canonical_path", "topic_id", "created", "room", "members", "policy",
        "handoff_template", "warnings", "next",
    }  # fmt: skip
    assert codex.joined["canonical_path"] == workspace
    assert set(codex.joined["room"]) >= {
        "sequence_index", "owner", "reserved_for", "pending_handoff_event_seq",
        "turn_id", "lease_id", "lease_expires_at", "claim_expires_at", "state", "updated_at",
    }  # fmt: skip
    assert set(codex.joined["policy"]) >= {
        "owner_lease_ttl_ms", "heartbeat_interval_ms", "claim_ttl_ms", "wait_for_turn_max_wait_ms",
        "wait_for_turn_poll_ms", "presence_ttl_ms",
    }  # fmt: skip
    assert set(codex.joined["members"][0]) >= {"agent_id", "ordinal", "joined_at", "last_seen_at", "status"}


def test_the_shapes_of_a_whole_handover(connect: Callable[[str], Client]) -> None:
    codex, claude = connect("codex:1"), connect("claude:1")
    turn = codex.data("wait_for_turn", room_id=codex.room_id)
    assert turn == {
        "status": "your_turn",
        "room_id": codex.room_id,
        "turn_id": 1,
        "lease_id": turn["lease_id"],
        "lease_expires_at": "2027-01-15T08:45:00.000Z",
        "handoff": None,
        "from_agent_id": None,
        "reason": "open_claim",
        "next": "Work now. Call heartbeat every 300 s. Call release_stick or pass_stick before you stop.",
    }
    lease = {"room_id": codex.room_id, "lease_id": turn["lease_id"], "expected_turn_id": 1}

    beat = codex.data("heartbeat", **lease)
    assert set(beat) == {"room_id", "turn_id", "lease_id", "lease_expires_at", "next"}

    wait = claude.data("wait_for_turn", room_id=claude.room_id, max_wait_ms=0)
    assert wait == {
        "status": "not_yet",
        "room_id": codex.room_id,
        "cursor": wait["cursor"],
        "room_state": "owned",
        "turn_id": 1,
        "current_owner": "codex:1",
        "lease_expires_at": beat["lease_expires_at"],
        "next": wait["next"],
    }

    released = codex.data("release_stick", **lease, handoff=HANDOFF)
    assert released == {
        "room_id": codex.room_id,
        "state": "reserved",
        "reserved_for": "claude:1",
        "recipient_status": "present",
        "claim_expires_at": "2027-01-15T08:20:00.000Z",
        "event_seq": released["event_seq"],
        "next": "Change nothing shared now. Call wait_for_turn for another turn.",
    }
    received = claude.data("wait_for_turn", room_id=claude.room_id)
    assert (received["handoff"], received["from_agent_id"], received["reason"]) == (HANDOFF, "codex:1", "sequence")


def test_the_text_of_a_turn_has_all_that_a_model_must_know(connect: Callable[[str], Client]) -> None:
    codex, claude = connect("codex:1"), connect("claude:1")
    handoff = {
        **HANDOFF,
        "artifacts": [{"path": "src/claim.ts", "lines": [102, 140], "role": "review", "note": "racy"}],
        "open_questions": ["is it fenced?"],
        "do_not": ["touch main"],
    }
    codex.data("release_stick", **codex.claim(), handoff=handoff)

    outcome = claude.call("wait_for_turn", room_id=claude.room_id)

    for part in ("wrote it", "review it", "src/claim.ts:102-140", "racy", "is it fenced?", "touch main", "codex:1"):
        assert part in outcome.text
    assert f"lease_id={outcome.data['lease_id']}" in outcome.text
    assert "turn_id=2" in outcome.text


def test_only_the_owner_is_shown_its_lease(connect: Callable[[str], Client]) -> None:
    codex, claude = connect("codex:1"), connect("claude:1")
    lease = codex.claim()

    assert codex.data("get_room_state", room_id=codex.room_id)["room"]["lease_id"] == lease["lease_id"]
    assert claude.data("get_room_state", room_id=codex.room_id)["room"]["lease_id"] is None


def test_a_takeover_from_start_to_end(connect: Callable[[str], Client], clock: Any) -> None:
    codex, claude = connect("codex:1"), connect("claude:1")
    lease = codex.claim()
    clock.advance(minutes=46)
    available = claude.data("wait_for_turn", room_id=claude.room_id)
    assert available == {
        "status": "takeover_available",
        "room_id": codex.room_id,
        "turn_id": 1,
        "room_state": "stale_owner",
        "reason": "owner_timeout",
        "current_owner": "codex:1",
        "cursor": available["cursor"],
        "next": available["next"],
    }
    state = claude.data("get_room_state", room_id=claude.room_id)
    assert (state["room"]["state"], state["takeover"]) == (
        "stale_owner",
        {"available": True, "reason": "owner_timeout"},
    )

    taken = claude.data("takeover_stick", room_id=claude.room_id, expected_turn_id=1, reason="owner lease expired")

    facts = {"room_id", "turn_id", "lease_id", "lease_expires_at", "revoked", "last_handoff", "notes", "next"}
    assert set(taken) == facts
    refused = codex.call("release_stick", **lease, handoff=HANDOFF)
    assert refused.is_error
    assert refused.data.items() >= {"error": "turn_mismatch", "current_owner": "claude:1", "current_turn_id": 2}.items()


BAD_HANDOFFS = ({}, {"status": 5}, {**HANDOFF, "mood": "good"}, {**HANDOFF, "status": "a\0b"}, "text", None)
OWNER_CALLS: list[tuple[str, dict[str, Any], str]] = [
    *(("release_stick", {"handoff": handoff}, "invalid_handoff") for handoff in BAD_HANDOFFS),
    *(("pass_stick", {"to_agent_id": "codex:1", "handoff": handoff}, "invalid_handoff") for handoff in BAD_HANDOFFS),
    ("release_stick", {"handoff": {**HANDOFF, "status": "x" * 300_000}}, "limit_exceeded"),
    ("release_stick", {"handoff": HANDOFF, "mood": "good"}, "invalid_argument"),
    ("pass_stick", {"to_agent_id": "", "handoff": HANDOFF}, "invalid_argument"),
    ("close_room", {"reason": "x" * 5_000}, "limit_exceeded"),
    ("close_room", {"reason": 5}, "invalid_argument"),
    ("heartbeat", {"mood": "good"}, "invalid_argument"),
]


@pytest.mark.parametrize(("tool", "bad", "error"), OWNER_CALLS)
def test_an_old_turn_is_refused_before_anything_else_is(
    connect: Callable[[str], Client], clock: Any, tool: str, bad: dict[str, Any], error: str
) -> None:
    codex, claude = connect("codex:1"), connect("claude:1")
    lease = codex.claim()
    in_time = codex.call(tool, **lease, **bad)
    clock.advance(minutes=46)
    claude.data("takeover_stick", room_id=claude.room_id, expected_turn_id=1, reason="no answer")

    late = codex.call(tool, **lease, **bad)
    lost = codex.call(tool, **{**lease, "expected_turn_id": 2}, **bad)

    assert in_time.data["error"] == error
    assert late.data.items() >= {"error": "turn_mismatch", "current_owner": "claude:1", "current_turn_id": 2}.items()
    assert lost.data["error"] == "stale_lease"


def test_a_takeover_of_an_old_turn_is_refused_before_its_reason_is(connect: Callable[[str], Client]) -> None:
    codex, claude = connect("codex:1"), connect("claude:1")
    codex.claim()

    late = claude.call("takeover_stick", room_id=claude.room_id, expected_turn_id=0, reason="")

    assert late.data["error"] == "turn_mismatch"


def test_get_room_events_gives_the_handoffs_back(connect: Callable[[str], Client]) -> None:
    codex = connect("codex:1")
    codex.data("release_stick", **codex.claim(), handoff=HANDOFF)

    page = codex.data("get_room_events", room_id=codex.room_id)

    assert [event["event_type"] for event in page["events"]] == ["join", "claim", "release"]
    assert page["events"][-1]["handoff"] == HANDOFF
    assert page["cursor"] == str(page["events"][-1]["event_seq"])
    assert codex.data("get_room_events", room_id=codex.room_id, after=page["cursor"])["events"] == []


def test_the_five_extensions_answer(connect: Callable[[str], Client]) -> None:
    codex, claude = connect("codex:1"), connect("claude:1")

    assert set(codex.data("append_note", room_id=codex.room_id, note="hello")) == {"room_id", "event_seq", "event_id"}
    order = codex.data("reorder_members", room_id=codex.room_id, order=["claude:1", "codex:1"])["members"]
    assert [member["agent_id"] for member in order] == ["claude:1", "codex:1"]
    policy = codex.data("set_room_policy", room_id=codex.room_id, policy={"claim_ttl_ms": 1000})["policy"]
    assert policy["claim_ttl_ms"] == 1000
    assert claude.data("leave_path", room_id=codex.room_id)["agent_id"] == "claude:1"
    assert codex.data("close_room", **codex.claim(), reason="done")["state"] == "closed"
    closed = codex.data("wait_for_turn", room_id=codex.room_id)
    assert (closed["status"], closed["room_id"]) == ("closed", codex.room_id)


def test_an_override_stays_for_the_connection(codex: Client, workspace: str) -> None:
    assert codex.data("join_path", context_path=workspace)["agent_id"] == "codex:1"


# -- bad input


def test_an_unknown_room_is_refused_by_every_tool(codex: Client) -> None:
    tools = [name for name, valid in VALID.items() if "room_id" in valid]

    refused = {name: codex.call(name, **VALID[name]).data for name in tools}

    assert {name: (data["error"], data["field"]) for name, data in refused.items()} == dict.fromkeys(
        tools, ("unknown_room", "room_id")
    )


def test_optional_fields_may_be_null(codex: Client) -> None:
    turn = codex.data("wait_for_turn", room_id=codex.room_id, cursor=None, max_wait_ms=None)

    assert turn["status"] == "your_turn"


def test_a_bottomless_handoff_is_refused(codex: Client) -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = [deep]

    outcome = codex.call("release_stick", **codex.claim(), handoff={"status": deep, "next_action": "n"})

    assert outcome.data["error"] == "invalid_handoff"


def test_nothing_was_changed_by_all_that_was_refused(codex: Client) -> None:
    codex.claim()
    before = codex.data("get_room_events", room_id=codex.room_id)
    for name, arguments, _ in bad_arguments():
        codex.call(
            name, **{**arguments, **({"room_id": codex.room_id} if arguments.get("room_id") == "room_x" else {})}
        )

    assert codex.data("get_room_events", room_id=codex.room_id) == before
    assert codex.data("get_room_state", room_id=codex.room_id)["room"]["owner"] == "codex:1"


def test_in_a_folder_that_is_gone_a_path_must_be_named(
    codex: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    for tool in ("join_path", "list_rooms"):
        refused = codex.call(tool).data
        assert (refused["error"], refused["field"]) == ("invalid_argument", "context_path")


def test_a_reply_that_cannot_be_told_brings_nothing(ada: Any, bob: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise IndexError("list index out of range")

    with monkeypatch.context() as patched:
        patched.setattr(calling, "tell", fail)
        assert ada.refused("wait_for_turn", max_wait_ms=0)["error"] == "internal_error"

    assert bob.data("wait_for_turn", max_wait_ms=0)["status"] == "your_turn"


def test_a_value_of_blanks_is_refused_like_any_other(ada: Any) -> None:
    assert ada.refused("list_rooms", **{"\n": 1})["error"] == "invalid_argument"
