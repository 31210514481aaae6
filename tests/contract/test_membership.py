"""Finding, joining, leaving and ordering: the rules for rooms and their members."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conch.agents.override import adopt_override
from conch.agents.records import Caller
from conch.app import App, open_app
from conch.errors import InvalidArgument, InvalidSetting, LimitExceeded, StickHeld, UnknownMember
from conch.rooms.log import list_events
from conch.upkeep.verify import verify_store

Agent = Callable[..., Caller]


@pytest.fixture
def codex(agent: Agent) -> Caller:
    return agent("codex:1")


@pytest.fixture
def monorepo(tmp_path: Path) -> Path:
    repo = Path(os.path.realpath(tmp_path)) / "repo"
    (repo / ".git").mkdir(parents=True)
    (repo / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (repo / "packages" / "foo" / "src").mkdir(parents=True)
    (repo / "packages" / "bar").mkdir()
    return repo


def test_agents_in_different_folders_of_one_repository_share_a_room(app: App, agent: Agent, monorepo: Path) -> None:
    one = app.membership.join_path(agent("codex:1"), str(monorepo / "packages" / "foo" / "src"))
    two = app.membership.join_path(agent("claude:1"), str(monorepo / "packages" / "bar"))

    assert (one.created, two.created) == (True, False)
    assert one.snapshot.room.canonical_path == two.snapshot.room.canonical_path == str(monorepo)
    assert [member.agent_id for member in two.shown.members] == ["codex:1", "claude:1"]


def test_force_new_makes_a_nested_room_and_warns_of_the_one_above(app: App, codex: Caller, monorepo: Path) -> None:
    above = app.membership.join_path(codex, str(monorepo))

    nested = app.membership.join_path(codex, str(monorepo / "packages" / "foo"), force_new=True)

    assert nested.snapshot.room.canonical_path == str(monorepo / "packages" / "foo")
    assert [w["code"] for w in nested.warnings] == ["ANCESTOR_ROOM_EXISTS"]
    assert nested.warnings[0]["context"]["room_id"] == above.snapshot.room.room_id


def test_the_deepest_room_above_a_path_wins(app: App, agent: Agent, monorepo: Path) -> None:
    app.membership.join_path(agent("codex:1"), str(monorepo))
    nested = app.membership.join_path(agent("codex:1"), str(monorepo / "packages" / "foo"), force_new=True)

    found = app.membership.join_path(agent("claude:1"), str(monorepo / "packages" / "foo" / "src"))

    assert found.snapshot.room.room_id == nested.snapshot.room.room_id


def test_force_new_at_the_path_of_a_room_joins_it(app: App, codex: Caller, monorepo: Path) -> None:
    first = app.membership.join_path(codex, str(monorepo))

    again = app.membership.join_path(codex, str(monorepo), force_new=True)

    assert (again.created, again.warnings) == (False, [])
    assert again.snapshot.room.room_id == first.snapshot.room.room_id


def test_force_new_without_a_room_above_makes_the_workspaces_own(app: App, codex: Caller, monorepo: Path) -> None:
    joined = app.membership.join_path(codex, str(monorepo / "packages" / "foo"), force_new=True)

    assert joined.snapshot.room.canonical_path == str(monorepo)


def test_list_rooms_shows_the_chain_deepest_first_and_no_other(app: App, codex: Caller, monorepo: Path) -> None:
    app.membership.join_path(codex, str(monorepo))
    app.membership.join_path(codex, str(monorepo / "packages" / "foo"), force_new=True)
    app.membership.join_path(codex, str(monorepo / "packages" / "bar"), force_new=True)

    rooms = app.rooms.list_rooms(str(monorepo / "packages" / "foo" / "src"))

    assert [s.room.canonical_path for s in rooms] == [str(monorepo / "packages" / "foo"), str(monorepo)]


def test_list_rooms_of_a_new_place_is_empty(app: App, workspace: str) -> None:
    assert app.rooms.list_rooms(workspace) == []


def test_joining_twice_keeps_the_place_in_the_sequence_and_logs_nothing(app: App, agent: Agent, workspace: str) -> None:
    for agent_id in ("codex:1", "claude:1", "codex:1"):
        joined = app.membership.join_path(agent(agent_id), workspace)

    assert [(m.agent_id, m.ordinal) for m in joined.shown.members] == [("codex:1", 0), ("claude:1", 1)]
    events = list_events(app.store, joined.snapshot.room.room_id, 0, 10).events
    assert [event.event_type for event in events] == ["join", "join"]


def test_a_room_has_a_home_topic_from_the_start(app: App, codex: Caller, workspace: str) -> None:
    first = app.membership.join_path(codex, workspace).snapshot.room.topic_id

    assert first
    assert app.membership.join_path(codex, workspace).snapshot.room.topic_id == first


def test_process_facts_are_kept_per_member_and_renewed_by_joining(
    app: App, agent: Agent, workspace: str, child: Any
) -> None:
    first, second = child(), child()
    app.membership.join_path(agent("codex:1", first.process), workspace)
    first.kill()

    joined = app.membership.join_path(agent("codex:1", second.process), workspace)

    assert joined.shown.members[0].process == second.process


def test_an_override_is_marked_in_the_log(app: App, codex: Caller, workspace: str) -> None:
    caller = adopt_override(app.store, codex, "claude:session-2", 0)

    joined = app.membership.join_path(caller, workspace)

    event = list_events(app.store, joined.snapshot.room.room_id, 0, 10).events[0]
    assert event.from_agent_id == "claude:session-2"
    assert event.details["agent_id_override"] is True


@pytest.mark.parametrize("path", ["/no/such/place", "", "a\0b", "x" * 5000])
def test_a_path_that_is_none_is_refused_by_its_field(app: App, codex: Caller, path: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        app.membership.join_path(codex, path)

    assert refusal.value.details["field"] == "context_path"
    assert app.rooms.all_rooms() == []


# -- leaving


def test_the_owner_must_hand_over_before_it_leaves(app: App, codex: Caller, workspace: str) -> None:
    room_id = app.membership.join_path(codex, workspace).snapshot.room.room_id
    app.claims.wait_for_turn(codex, room_id, max_wait_ms=0)

    with pytest.raises(StickHeld):
        app.membership.leave_path(codex, room_id)


def test_a_stick_reserved_for_a_leaver_is_free_with_its_handoff(app: App, agent: Agent, workspace: str) -> None:
    codex, claude = agent("codex:1"), agent("claude:1")
    for caller in (codex, claude):
        room_id = app.membership.join_path(caller, workspace).snapshot.room.room_id
    room = app.claims.wait_for_turn(codex, room_id, max_wait_ms=0).snapshot.room
    app.turns.release_stick(codex, room_id, room.lease_id or "", 1, {"status": "s", "next_action": "n"})

    assert app.membership.leave_path(claude, room_id).state == "idle"

    wait = app.claims.wait_for_turn(codex, room_id, max_wait_ms=0)
    assert (wait.reason, wait.handoff) == ("open_claim", {"status": "s", "next_action": "n"})
    with pytest.raises(UnknownMember):
        app.claims.wait_for_turn(claude, room_id, max_wait_ms=0)


def test_a_member_that_comes_back_joins_at_the_end(app: App, agent: Agent, workspace: str) -> None:
    for agent_id in ("codex:1", "claude:1"):
        room_id = app.membership.join_path(agent(agent_id), workspace).snapshot.room.room_id
    app.membership.leave_path(agent("codex:1"), room_id)

    joined = app.membership.join_path(agent("codex:1"), workspace)

    assert [member.agent_id for member in joined.shown.members] == ["claude:1", "codex:1"]


# -- order, notes and policy


def test_reordering_changes_who_is_next(app: App, agent: Agent, workspace: str) -> None:
    for agent_id in ("codex:1", "claude:1", "gemini:1"):
        room_id = app.membership.join_path(agent(agent_id), workspace).snapshot.room.room_id
    codex = agent("codex:1")
    app.membership.reorder_members(codex, room_id, ["codex:1", "gemini:1", "claude:1"])
    room = app.claims.wait_for_turn(codex, room_id, max_wait_ms=0).snapshot.room

    offer = app.turns.release_stick(codex, room_id, room.lease_id or "", 1, {"status": "s", "next_action": "n"})

    assert offer.room.reserved_for == "gemini:1"


@pytest.mark.parametrize("order", [[], ["codex:1", "codex:1"], ["codex:1", "claude:1", "nobody:1"]])
def test_an_order_names_members_and_each_of_them_once(app: App, agent: Agent, workspace: str, order: list[str]) -> None:
    for agent_id in ("codex:1", "claude:1"):
        room_id = app.membership.join_path(agent(agent_id), workspace).snapshot.room.room_id

    with pytest.raises(InvalidArgument) as refusal:
        app.membership.reorder_members(agent("codex:1"), room_id, order)

    assert refusal.value.details["field"] == "order"


def test_a_note_changes_nothing_but_the_log(app: App, agent: Agent, workspace: str) -> None:
    for agent_id in ("codex:1", "claude:1"):
        room_id = app.membership.join_path(agent(agent_id), workspace).snapshot.room.room_id
    before = app.claims.wait_for_turn(agent("codex:1"), room_id, max_wait_ms=0).snapshot.room

    event = app.membership.append_note(agent("claude:1"), room_id, "the tests are slow today")

    after = app.rooms.get_state(None, room_id).room
    assert after == before._replace(last_event_seq=event.event_seq, updated_at=after.updated_at)
    assert event.details == {"note": "the tests are slow today"}


def test_a_note_that_is_too_long_is_refused_with_the_limit(app: App, codex: Caller, workspace: str) -> None:
    room_id = app.membership.join_path(codex, workspace).snapshot.room.room_id

    with pytest.raises(LimitExceeded) as refusal:
        app.membership.append_note(codex, room_id, "x" * 1_000_000)

    assert refusal.value.details["field"] == "note"


def test_a_rooms_policy_overrides_the_installations_default(app: App, codex: Caller, workspace: str) -> None:
    room_id = app.membership.join_path(codex, workspace).snapshot.room.room_id

    policy = app.membership.set_room_policy(codex, room_id, {"claim_ttl_ms": 5_000, "presence_ttl_ms": 60_000}).policy

    assert (policy.claim_ttl_ms, policy.presence_ttl_ms, policy.owner_lease_ttl_ms) == (5_000, 60_000, 2_700_000)
    assert app.membership.join_path(codex, workspace).snapshot.policy == policy


def test_null_gives_a_policy_value_back_to_the_default(app: App, codex: Caller, workspace: str) -> None:
    room_id = app.membership.join_path(codex, workspace).snapshot.room.room_id
    app.membership.set_room_policy(codex, room_id, {"claim_ttl_ms": 5_000})

    policy = app.membership.set_room_policy(codex, room_id, {"claim_ttl_ms": None}).policy

    assert policy.claim_ttl_ms == 1_200_000
    assert verify_store(app.store).problems == []


def test_a_short_lease_brings_a_quick_heartbeat_along(app: App, codex: Caller, workspace: str) -> None:
    room_id = app.membership.join_path(codex, workspace).snapshot.room.room_id

    policy = app.membership.set_room_policy(codex, room_id, {"owner_lease_ttl_ms": 6_000}).policy

    assert policy.heartbeat_interval_ms == 2_000


@pytest.mark.parametrize(
    "policy",
    [
        {"claim_ttl_ms": 0},
        {"claim_ttl_ms": -1},
        {"claim_ttl_ms": 1.5},
        {"claim_ttl_ms": True},
        {"claim_ttl_ms": "1000"},
        {"wait_for_turn_max_wait_ms": 60_000},
        {"release_order": "random"},
        {"owner_lease_ttl_ms": 1_000, "heartbeat_interval_ms": 1_000},
        {"heartbeat_interval_ms": 9_999_999},
        {"heartbeat_interval_ms": 2_700_000},
        {"unknown_ms": 5},
    ],
)
def test_a_policy_that_no_room_could_run_on_is_refused(
    app: App, codex: Caller, workspace: str, policy: dict[str, Any]
) -> None:
    room_id = app.membership.join_path(codex, workspace).snapshot.room.room_id

    with pytest.raises(InvalidArgument) as refusal:
        app.membership.set_room_policy(codex, room_id, policy)

    assert refusal.value.details["field"].startswith("policy.")
    assert app.rooms.get_state(None, room_id).room.policy_json == "{}"


def test_a_lease_is_not_shortened_below_the_heartbeat_that_the_room_has_chosen(
    app: App, codex: Caller, workspace: str
) -> None:
    room_id = app.membership.join_path(codex, workspace).snapshot.room.room_id
    long = {"owner_lease_ttl_ms": 9_000_000, "heartbeat_interval_ms": 8_000_000}
    app.membership.set_room_policy(codex, room_id, long)

    for shorter in (1_000, None):
        with pytest.raises(InvalidArgument, match=r"\(8000000\) must be shorter than owner_lease_ttl_ms \(\d+\)"):
            app.membership.set_room_policy(codex, room_id, {"owner_lease_ttl_ms": shorter})

    policy = app.membership.set_room_policy(codex, room_id, dict.fromkeys(long)).policy
    assert policy == app.settings.policy


def test_the_installation_sets_the_default_policy(environ: dict[str, str], workspace: str) -> None:
    app = open_app({**environ, "CONCH_CLAIM_TTL_MS": "7000", "TALKING_STICK_PRESENCE_TTL_MS": "9000"})

    assert (app.settings.policy.claim_ttl_ms, app.settings.policy.presence_ttl_ms) == (7_000, 9_000)
    app.close()


def test_a_default_that_cannot_be_used_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting, match="CONCH_CLAIM_TTL_MS must be a whole number"):
        open_app({**environ, "CONCH_CLAIM_TTL_MS": "soon"})


# -- the log


def test_events_are_paged_by_cursor_oldest_first(app: App, codex: Caller, workspace: str) -> None:
    room_id = app.membership.join_path(codex, workspace).snapshot.room.room_id
    for number in range(5):
        app.membership.append_note(codex, room_id, str(number))

    first = list_events(app.store, room_id, 0, 4)
    rest = list_events(app.store, room_id, first.cursor, 4)

    assert [e.details.get("note") for e in first.events + rest.events] == [None, "0", "1", "2", "3", "4"]
    assert (first.has_more, rest.has_more) == (True, False)


def test_without_a_cursor_the_latest_events_come(app: App, codex: Caller, workspace: str) -> None:
    room_id = app.membership.join_path(codex, workspace).snapshot.room.room_id
    for number in range(5):
        app.membership.append_note(codex, room_id, str(number))

    page = list_events(app.store, room_id, None, 2)

    assert [event.details["note"] for event in page.events] == ["3", "4"]
