"""Reservations: an agent that reserves a path has it alone until it is released, expires or is rightly taken over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.callers import named
from tests.contract.conftest import plan

from conch.app import App, open_app


def states(client: Any) -> list[tuple[str, str, str]]:
    found = client.data("scope_list", include_ended=True)["reservations"]
    return [(each["scope"], each["agent_id"], each["state"]) for each in found]


# -- reserving


def test_a_reservation_says_what_whose_and_until_when(ada: Any) -> None:
    reservation = ada.reserve("src/*", bead_id="bd-7")

    assert reservation == {
        "reservation_id": reservation["reservation_id"],
        "scope": "src/*",
        "agent_id": "ada:1",
        "name": ada.name,
        "liveness": "active",
        "bead_id": "bd-7",
        "state": "active",
        "created_at": "2027-01-15T08:00:00.000Z",
        "expires_at": "2027-01-15T10:00:00.000Z",
    }
    assert ada.data("scope_list")["reservations"] == [reservation]


@pytest.mark.parametrize("given", ["src/*", "src/**", "src/", "./src", "src", "src/../src/*", "src\\lib\\*"])
def test_a_scope_comes_back_as_it_was_given_wherever_it_is_shown(app: App, ada: Any, bob: Any, given: str) -> None:
    reserved = ada.call("scope_reserve", scope=given)
    refused = bob.refused("scope_reserve", scope="src/lib/a.py")
    (overlap,) = bob.data("scope_check", scope="src/lib/a.py")["overlaps"]
    listed = bob.call("scope_list")
    timeline = bob.call("get_room_events", all=True)
    released = ada.call("scope_release", scope=given)

    assert reserved.data["reservation"]["scope"] == released.data["reservation"]["scope"] == given
    assert "path" not in reserved.data["reservation"]
    assert refused["holders"][0]["scope"] == overlap["scope"] == given
    assert listed.data["reservations"][0]["scope"] == given
    assert [each["details"]["scope"] for each in timeline.data["events"] if each["kind"] == "reservation"] == [given]
    for text in (reserved.text, refused["message"], listed.text, timeline.text, released.text):
        assert given in text


def test_a_scope_that_is_a_link_says_what_it_means(ada: Any, bob: Any, workspace: str) -> None:
    Path(workspace, "src").mkdir()
    Path(workspace, "harmless").symlink_to("src")

    reserved = ada.call("scope_reserve", scope="harmless/*")
    refused = bob.refused("scope_reserve", scope="src")

    assert (reserved.data["reservation"]["scope"], reserved.data["reservation"]["path"]) == ("harmless/*", "src")
    assert reserved.text.startswith("Reserved harmless/* (src) until ")
    assert f"harmless/* (src) by ada·{ada.name}" in refused["message"]


def test_a_renewed_scope_is_as_it_was_given_last(ada: Any, bob: Any) -> None:
    ada.reserve("src")
    ada.reserve("src/*")

    assert [each["scope"] for each in bob.data("scope_list")["reservations"]] == ["src/*"]


def test_a_notice_has_its_scope_as_it_was_given(ada: Any, bob: Any) -> None:
    ada.reserve("src")
    bob.refused("scope_reserve", scope="src/lib/*")

    assert [event["scope"] for event in ada.inbox()] == ["src/lib/*"]


def test_a_notice_about_a_link_names_what_it_means(ada: Any, bob: Any, workspace: str) -> None:
    Path(workspace, "src").mkdir()
    Path(workspace, "harmless").symlink_to("src")
    ada.reserve("src")
    bob.refused("scope_reserve", scope="harmless/*")

    assert [event["scope"] for event in ada.inbox()] == ["src"]


@pytest.mark.parametrize(
    ("held", "wanted", "kind"),
    [("src/lib", "src/lib", "exact"), ("src/*", "src/lib/a.py", "partial"), ("src/lib/a.py", "src", "partial"),
     (".", "src", "partial"), ("src", "*", "partial")],
)  # fmt: skip
def test_what_overlaps_is_refused_and_its_holder_named(ada: Any, bob: Any, held: str, wanted: str, kind: str) -> None:
    ada.reserve(held)

    refusal = bob.refused("scope_reserve", scope=wanted)

    assert refusal["error"] == "RESERVATION_CONFLICT"
    assert ada.name in refusal["message"]
    assert [(each["owner"], each["kind"], each["liveness"]) for each in refusal["holders"]] == [
        (ada.name, kind, "active")
    ]
    assert states(bob)[0][1:] == ("ada:1", "active") and len(states(bob)) == 1


def test_the_text_of_a_refusal_says_whose_facts_it_lists(ada: Any, bob: Any) -> None:
    ada.reserve("src")

    assert f"\n- holders:\n  kind=exact owner={ada.name} " in bob.call("scope_reserve", scope="src").text


def test_every_holder_in_the_way_is_named(ada: Any, bob: Any, enter: Any) -> None:
    cleo = enter("cleo:3")
    ada.reserve("src/a")
    bob.reserve("src/b")

    refusal = cleo.refused("scope_reserve", scope="src")

    assert sorted((each["owner"], each["scope"]) for each in refusal["holders"]) == sorted(
        [(ada.name, "src/a"), (bob.name, "src/b")]
    )


def test_what_does_not_overlap_is_granted(ada: Any, bob: Any) -> None:
    ada.reserve("src/lib")

    for scope in ("src/library", "src/lib.py", "src/components", "docs", "src/li", "src/lib-2/a", "src/lib0"):
        bob.reserve(scope)


def test_an_owner_may_reserve_what_overlaps_its_own(ada: Any) -> None:
    ada.reserve("src")
    ada.reserve("src/lib")

    assert [each["scope"] for each in ada.data("scope_list")["reservations"]] == ["src", "src/lib"]


def test_reserving_the_same_again_extends_it_and_never_shortens_it(ada: Any, clock: Any) -> None:
    first = ada.reserve("src", ttl_minutes=60, bead_id="bd-1")
    clock.advance(minutes=30)

    renewed = ada.data("scope_reserve", scope="./src/", ttl_minutes=60)
    shorter = ada.reserve("src", ttl_minutes=5)

    assert renewed["renewed"] and renewed["reservation"]["reservation_id"] == first["reservation_id"]
    assert renewed["reservation"]["expires_at"] == shorter["expires_at"] == "2027-01-15T09:30:00.000Z"
    assert renewed["reservation"]["bead_id"] == "bd-1"


@pytest.mark.parametrize("ttl", [4, 1_441, 0, -5, "120", 60.5, True])
def test_a_time_to_live_out_of_range_is_refused(ada: Any, ttl: Any) -> None:
    refusal = ada.refused("scope_reserve", scope="src", ttl_minutes=ttl)

    assert (refusal["error"], refusal["field"]) == ("INVALID_ARGS", "ttl_minutes")


@pytest.mark.parametrize("ttl", [5, 1_440])
def test_the_shortest_and_the_longest_time_to_live_are_granted(ada: Any, ttl: int) -> None:
    ada.reserve("src", ttl_minutes=ttl)


@pytest.mark.parametrize("scope", ["", " ", "../x", "/etc", "src/*.py", "x" * 5_000, None, 7])
def test_a_scope_that_cannot_be_used_is_refused(ada: Any, scope: Any) -> None:
    refusal = ada.refused("scope_reserve", scope=scope)

    assert (refusal["error"], refusal["field"]) == ("INVALID_ARGS", "scope")
    assert states(ada) == []


# -- time and liveness


def test_a_reservation_whose_time_is_over_is_expired_and_free(ada: Any, bob: Any, clock: Any) -> None:
    ada.reserve("src", ttl_minutes=5)
    clock.advance(minutes=5)

    assert bob.data("scope_check", path="src/a")["overlaps"] == []
    assert bob.data("scope_list")["reservations"] == []
    granted = bob.data("scope_reserve", scope="src/a")
    assert granted["taken_over"] == []
    assert states(bob) == [("src/a", "bob:2", "active"), ("src", "ada:1", "expired")]


def test_a_silent_owner_turns_stale_and_then_evicted(ada: Any, bob: Any, clock: Any) -> None:
    ada.reserve("src", ttl_minutes=1_440)

    def seen_from_bob() -> str:
        liveness: str = bob.data("scope_check", path="src")["overlaps"][0]["liveness"]
        return liveness

    clock.advance(minutes=14.99)
    assert seen_from_bob() == "active"
    clock.advance(minutes=0.01)
    assert seen_from_bob() == "stale"
    clock.advance(minutes=14.99)
    assert seen_from_bob() == "stale"
    clock.advance(minutes=0.01)
    assert seen_from_bob() == "evicted"
    ada.data("agent_heartbeat")
    assert seen_from_bob() == "active"


@pytest.mark.parametrize(("minutes", "liveness"), [(15, "stale"), (30, "evicted")])
def test_a_stale_owner_is_taken_over_only_with_the_flag(
    ada: Any, bob: Any, clock: Any, minutes: int, liveness: str
) -> None:
    held = ada.reserve("src", ttl_minutes=1_440)
    clock.advance(minutes=minutes)

    refusal = bob.refused("scope_reserve", scope="src/lib")
    granted = bob.data("scope_reserve", scope="src/lib", takeover_stale=True)

    assert refusal["error"] == "RESERVATION_STALE_FOUND"
    assert [(each["owner"], each["liveness"]) for each in refusal["holders"]] == [(ada.name, liveness)]
    assert [(each["reservation_id"], each["state"]) for each in granted["taken_over"]] == [
        (held["reservation_id"], "expired")
    ]
    assert states(bob) == [("src/lib", "bob:2", "active"), ("src", "ada:1", "expired")]


def test_an_active_owner_is_never_taken_over(ada: Any, bob: Any, enter: Any, clock: Any) -> None:
    cleo = enter("cleo:3")
    ada.reserve("src/a", ttl_minutes=1_440)
    clock.advance(minutes=20)
    bob.reserve("src/b")

    refusal = cleo.refused("scope_reserve", scope="src", takeover_stale=True)

    assert refusal["error"] == "RESERVATION_CONFLICT"
    assert len(refusal["holders"]) == 2
    assert {state for _, _, state in states(cleo)} == {"active"}


def test_an_owner_whose_process_is_gone_is_evicted_at_once(enter: Any, bob: Any, child: Callable[[], Any]) -> None:
    process = child()
    ada = enter("ada:1", process.process)
    ada.reserve("src")
    assert bob.refused("scope_reserve", scope="src", takeover_stale=True)["error"] == "RESERVATION_CONFLICT"
    process.kill()

    assert bob.refused("scope_reserve", scope="src")["error"] == "RESERVATION_STALE_FOUND"
    assert bob.data("scope_check", path="src")["overlaps"][0]["liveness"] == "evicted"
    assert bob.data("scope_reserve", scope="src", takeover_stale=True)["taken_over"][0]["agent_id"] == "ada:1"


# -- incursions


def test_a_refusal_leaves_an_incursion_with_the_owner(ada: Any, bob: Any, workspace: str) -> None:
    ada.reserve("src", bead_id="bd-1")
    bob.refused("scope_reserve", scope="src/lib")

    (event,) = ada.inbox()

    assert event == {
        "id": event["id"],
        "version": "v1",
        "event_type": "INCURSION",
        "project_root": workspace,
        "bead_id": "bd-1",
        "from_agent": None,
        "to_agent": ada.name,
        "scope": "src/lib",
        "created_at": "2027-01-15T08:00:00.000Z",
        "payload": {
            "incursion_kind": "partial",
            "owner_agent": ada.name,
            "incoming_agent": bob.name,
            "owner_liveness": "active",
            "resolution_hint": event["payload"]["resolution_hint"],
        },
        "state": "unread",
    }


def test_every_reservation_that_is_met_leaves_an_incursion(ada: Any, bob: Any, enter: Any, clock: Any) -> None:
    cleo = enter("cleo:3")
    ada.reserve("src/a", ttl_minutes=1_440, bead_id="bd-1")
    ada.reserve("src/b", ttl_minutes=1_440, bead_id="bd-2")
    bob.reserve("src/c", ttl_minutes=1_440)

    cleo.refused("scope_reserve", scope="src")
    clock.advance(minutes=20)
    assert len(cleo.data("scope_reserve", scope="src", takeover_stale=True)["taken_over"]) == 3

    for owner, beads, scopes in ((ada, ["bd-1", "bd-2"], ["src/a", "src/b"]), (bob, [None], ["src/c"])):
        events = owner.inbox()
        assert [event["bead_id"] for event in events] == beads * 2
        told = [event["payload"] for event in events]
        assert [payload["owner_liveness"] for payload in told] == ["active"] * len(beads) + ["stale"] * len(beads)
        assert {payload["incoming_agent"] for payload in told} == {cleo.name}
        assert all(scope in payload["resolution_hint"] for scope, payload in zip(scopes * 2, told, strict=True))
        assert all("taken over" in payload["resolution_hint"] for payload in told[len(beads) :])


def test_a_check_leaves_no_incursion(ada: Any, bob: Any) -> None:
    ada.reserve("src")

    bob.data("scope_check", path="src")
    bob.refused("scope_release", scope="src")

    assert ada.inbox() == []


def test_the_whole_workspace_is_not_called_a_dot(ada: Any, bob: Any, clock: Any) -> None:
    reserved = ada.call("scope_reserve", scope=".")
    refused = bob.refused("scope_reserve", scope="src")
    forbidden = bob.refused("scope_release", scope=".")
    (notice,) = ada.inbox()
    released = ada.call("scope_release", scope=".")
    ada.reserve("src")
    whole = bob.refused("scope_reserve", scope="*")

    assert reserved.text.startswith("Reserved the whole workspace until ")
    assert refused["message"].startswith(f"src is reserved: the whole workspace by ada·{ada.name} (active) until ")
    assert forbidden["message"] == f"Only ada·{ada.name} can release the whole workspace: ask them to do so."
    assert f"{ada.name} should release the whole workspace when done" in notice["payload"]["resolution_hint"]
    assert released.text.startswith("Released the whole workspace.\n")
    assert whole["message"].startswith(f"The whole workspace cannot be reserved: src by ada·{ada.name} (active) until ")
    assert whole["scope"] == "*"


# -- releasing and looking


def test_a_released_scope_is_free_and_stays_in_the_archive(ada: Any, bob: Any) -> None:
    ada.reserve("src")

    released = ada.data("scope_release", scope="src/*")["reservation"]

    assert released["state"] == "released"
    bob.reserve("src")
    assert states(bob) == [("src", "bob:2", "active"), ("src", "ada:1", "released")]


def test_only_the_owner_releases(ada: Any, bob: Any) -> None:
    ada.reserve("src")

    assert bob.refused("scope_release", scope="src")["error"] == "RELEASE_FORBIDDEN"
    assert states(bob) == [("src", "ada:1", "active")]


@pytest.mark.parametrize(("taken", "error"), [("src", "RELEASE_FORBIDDEN"), ("src/lib", "RESERVATION_NOT_FOUND")])
def test_an_agent_that_lost_a_reservation_learns_who_took_it(
    ada: Any, bob: Any, enter: Any, clock: Any, taken: str, error: str
) -> None:
    ada.reserve("src", ttl_minutes=1_440)
    ada.reserve("docs", ttl_minutes=5)
    clock.advance(minutes=20)
    bob.data("scope_reserve", scope=taken, takeover_stale=True)
    bob.reserve("docs")

    lost, lapsed = ada.refused("scope_release", scope="src"), ada.refused("scope_release", scope="docs")
    never = enter("cleo:3").refused("scope_release", scope="src")

    assert lost["error"] == error and f" bob·{bob.name} took it over from you." in lost["message"]
    assert f" bob·{bob.name} reserved it after yours expired." in lapsed["message"]
    assert bob.name not in never["message"].partition(". ")[2]


def test_what_nobody_has_reserved_exactly_cannot_be_released(ada: Any, bob: Any, clock: Any) -> None:
    ada.reserve("src", ttl_minutes=5)

    inside = ada.refused("scope_release", scope="src/lib")
    clock.advance(minutes=6)
    over = bob.refused("scope_release", scope="src")

    assert inside["error"] == over["error"] == "RESERVATION_NOT_FOUND"
    assert "You have reserved src" in inside["message"]


def test_a_check_takes_a_scope_as_a_reservation_does(ada: Any, bob: Any) -> None:
    ada.reserve("src/*")

    found = bob.data("scope_check", scope="src/*")

    assert found["overlaps"][0]["kind"] == "exact"
    assert found["overlaps"] == bob.data("scope_check", path="src/*")["overlaps"]
    assert bob.refused("scope_check")["field"] == "scope"
    assert bob.refused("scope_check", scope="src", path="src")["field"] == "scope"
    assert "path" in bob.refused("scope_check", path=None)["message"]
    assert bob.refused("scope_check", scope="/")["field"] == "scope"


def test_a_check_names_every_overlap_and_changes_nothing(ada: Any, bob: Any) -> None:
    ada.reserve("src/lib/a.py")
    bob.reserve("docs")

    overlaps = bob.data("scope_check", path="src/lib")["overlaps"]

    assert [(each["kind"], each["owner"], each["liveness"], each["yours"]) for each in overlaps] == [
        ("partial", ada.name, "active", False)
    ]
    assert bob.data("scope_check", path="docs")["overlaps"][0]["yours"]
    assert bob.data("scope_check", path="tests")["overlaps"] == []
    assert len(states(bob)) == 2


def test_rooms_do_not_see_each_others_reservations(ada: Any, app: App, enter: Any, tmp_path: Any) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "AGENTS.md").write_text("")
    bob = enter("bob:2")
    bob.room_id = bob.data("join_path", context_path=str(tmp_path / "other"))["room_id"]
    ada.reserve("src")

    bob.reserve("src")


def test_leaving_ends_all_reservations(ada: Any, bob: Any) -> None:
    ada.reserve("src")
    ada.reserve("docs")

    ada.data("leave_path")

    bob.reserve(".")


def test_only_members_of_an_open_room_reserve(ada: Any, bob: Any) -> None:
    bob.data("leave_path")
    assert bob.refused("scope_reserve", scope="src")["error"] == "unknown_member"
    assert bob.refused("scope_reserve", scope="src", room_id="room_0")["error"] == "unknown_room"
    turn = ada.data("wait_for_turn", max_wait_ms=0)
    ada.data("close_room", lease_id=turn["lease_id"], expected_turn_id=turn["turn_id"])
    assert ada.refused("scope_reserve", scope="src")["error"] == "room_closed"


# -- speed


def test_a_check_looks_keys_up_and_never_scans_the_room(app: App, ada: Any) -> None:
    with app.store.write(ada.room_id) as tx:
        rows = [
            {"reservation_id": f"r{number}", "room_id": ada.room_id, "agent_id": "ada:1", "scope": f"s{number}",
             "scope_key": f"/s{number}/", "created_at": 1, "expires_at": 2**50} for number in range(2_000)
        ]  # fmt: skip
        tx.load("reservations", rows)

    keys = {"keys": ["/", "/src/", "/src/lib/"], "key": "/src/lib/", "end": "/src/lib0"}
    found = plan(app, "overlapping_reservations", room_id=ada.room_id, **keys, lapsed=0, limit=10)

    assert found.count("reservations_active_scope_idx") == 2, found
    assert "SCAN r" not in found and "Seq Scan on reservations" not in found
    conditions = [line for line in found.splitlines() if "scope_key" in line and "Sort Key" not in line]
    assert len(conditions) == 2 and not any("Filter" in line for line in conditions), found


def test_looking_often_keeps_an_agent_active_however_short_the_threshold(
    environ: dict[str, str], workspace: str, clock: Any
) -> None:
    app = open_app({**environ, "CONCH_STALE_MINUTES": "0.1"}, clock)
    ada = named(app.store, "ada:1")
    room_id = app.membership.join_path(ada, workspace).snapshot.room.room_id

    for _ in range(5):
        clock.advance(milliseconds=3_000)
        app.reservations.check(ada, room_id, "src")

    (agent,) = app.registration.list_agents(None, room_id)
    app.close()
    assert agent.liveness == "active"


def test_a_scope_is_no_longer_than_every_engine_can_index(enter: Any) -> None:
    refused = enter("codex:1").refused("scope_reserve", scope="/".join(["x" * 200] * 15))

    assert (refused["error"], refused["field"]) == ("INVALID_ARGS", "scope")


# -- beside the stick


def test_reserving_while_another_agent_holds_the_stick_succeeds_with_a_warning(ada: Any, bob: Any, clock: Any) -> None:
    ada.data("wait_for_turn", max_wait_ms=0)
    clock.advance(minutes=2)
    ada.data("agent_heartbeat")

    reserved = bob.call("scope_reserve", scope="docs/*")

    assert reserved.data["reservation"]["scope"] == "docs/*"
    (warning,) = reserved.data["warnings"]
    assert warning["code"] == "STICK_HELD"
    assert warning["context"] == {"agent_id": "ada:1", "name": ada.name, "since": "2027-01-15T08:00:00.000Z"}
    assert f"ada·{ada.name} has held the stick since 2027-01-15T08:00:00.000Z" in reserved.text
    assert reserved.data["next"].startswith("Coordinate with the holder of the stick")


def test_a_warning_of_the_stick_does_not_ask_to_agree_with_a_holder_that_is_gone(
    enter: Any, bob: Any, child: Callable[[], Any]
) -> None:
    process = child()
    enter("ghost:1", process.process).data("wait_for_turn", max_wait_ms=0)
    process.kill()

    reserved = bob.data("scope_reserve", scope="docs/*")

    (warning,) = reserved["warnings"]
    assert (warning["code"], warning["context"]["takeover_reason"]) == ("STICK_HELD", "owner_gone")
    assert "Agree" not in warning["message"] + reserved["next"]


def test_a_warning_of_the_stick_says_since_when_its_present_holder_has_it(ada: Any, bob: Any, clock: Any) -> None:
    turn = ada.data("wait_for_turn", max_wait_ms=0)
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    ada.data("release_stick", **lease, handoff={"status": "s", "next_action": "n"})
    clock.advance(minutes=1)
    bob.data("wait_for_turn", max_wait_ms=0)

    (warning,) = ada.data("scope_reserve", scope="docs")["warnings"]

    assert (warning["context"]["agent_id"], warning["context"]["since"]) == ("bob:2", "2027-01-15T08:01:00.000Z")


@pytest.mark.parametrize("stick", ["free", "reserved", "own"])
def test_a_stick_that_no_other_agent_holds_needs_no_warning(ada: Any, bob: Any, stick: str) -> None:
    if stick != "free":
        turn = ada.data("wait_for_turn", max_wait_ms=0)
    if stick == "reserved":
        lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
        ada.data("release_stick", **lease, handoff={"status": "s", "next_action": "n"})

    assert ada.data("scope_reserve", scope="docs")["warnings"] == []


def test_a_holder_refused_by_a_reservation_learns_that_the_stick_does_not_help(ada: Any, bob: Any) -> None:
    bob.reserve("docs/*")
    ada.data("wait_for_turn", max_wait_ms=0)

    refused = ada.refused("scope_reserve", scope="docs/plan.md")

    assert refused["error"] == "RESERVATION_CONFLICT"
    assert f"docs/* by bob·{bob.name} (active)" in refused["message"] and "You hold the stick" in refused["message"]
    assert refused["holds_stick"] is True
