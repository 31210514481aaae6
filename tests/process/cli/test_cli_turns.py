"""A room's life through the command line: what each command does, says and answers to programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Conch = Callable[..., Any]

DONE = ("--status", "the parser is done", "--next", "write its tests")


@pytest.fixture
def room(conch: Conch) -> str:
    """A room with two members, ada:1 and bob:2."""
    room_id: str = conch("join", "--json").data["room_id"]
    conch("join", agent="bob:2")
    return room_id


def names(conch: Conch) -> list[str]:
    """The names of the room's members, in its sequence."""
    return [member["name"] for member in conch("state", "--json").data["members"]]


def test_join_says_who_you_are_and_what_comes_next(conch: Conch, workspace: Path) -> None:
    answer = conch("join")

    first, second, third = answer.out.splitlines()
    assert first.startswith("You are ada·")
    assert second.startswith("Created room_") and second.endswith(f" at {workspace}.")
    assert third == "Next: `conch wait`."


def test_a_free_stick_is_claimed_at_once(conch: Conch, room: str) -> None:
    answer = conch("wait", "--timeout", "0", "--json")

    assert answer.data["status"] == "your_turn"
    assert conch("state", "--json").data["room"]["owner"] == "ada:1"


def test_a_released_stick_reaches_the_next_member_with_its_handoff(conch: Conch, room: str) -> None:
    conch("wait")

    released = conch("release", *DONE, "--artifact", "src/p.py:10-42=review", "--question", "why?", "--do-not", "push")
    claimed = conch("wait", "--json", agent="bob:2")

    assert released.status == 0 and "reserved for bob·" in released.out
    assert claimed.data["from_agent_id"] == "ada:1"
    assert claimed.data["handoff"] == {
        "status": "the parser is done",
        "next_action": "write its tests",
        "artifacts": [{"path": "src/p.py", "lines": [10, 42], "role": "review"}],
        "open_questions": ["why?"],
        "do_not": ["push"],
    }


def test_a_claim_shows_people_the_handoff_behind_a_margin(conch: Conch, room: str) -> None:
    conch("wait")
    conch("release", "--status", "first\nsecond", "--next", "go on")

    lines = conch("wait", agent="bob:2").out.splitlines()

    assert lines[0].startswith("Your turn (turn 2, sequence).")
    assert [line.strip() for line in lines[1:]] == [
        f"Handoff from ada·{names(conch)[0]}:",
        "status    first",
        "second",
        "next      go on",
    ]
    assert all(line.startswith(" " * 8) for line in lines[2:])


@pytest.mark.parametrize("place", ["file", "-"])
def test_a_handoff_can_be_read_from_a_file_or_from_standard_input(
    conch: Conch, room: str, tmp_path: Path, place: str
) -> None:
    handoff = {"status": "s", "next_action": "n", "artifacts": [{"path": "a", "role": "edit", "note": "look"}]}
    file = tmp_path / "handoff.json"
    file.write_text(json.dumps(handoff))
    conch("wait")

    source = {"file": str(file), "-": "-"}[place]
    released = conch("release", "--handoff", source, stdin=file.read_text())

    assert released.status == 0
    assert conch("wait", "--json", agent="bob:2").data["handoff"] == handoff


def test_the_stick_can_be_passed_by_name_and_by_the_beginning_of_a_name(conch: Conch, room: str) -> None:
    conch("join", agent="cyd:3")
    name = conch("whoami", "--json", agent="cyd:3").data["name"]
    conch("wait")

    passed = conch("pass", name, *DONE, "--json")
    conch("wait", agent="cyd:3")
    passed_back = conch("pass", "ad", *DONE, "--json", agent="cyd:3")

    assert passed.data["reserved_for"] == "cyd:3"
    assert passed_back.data["reserved_for"] == "ada:1"


def test_a_beginning_that_could_be_two_members_is_refused_and_both_are_named(conch: Conch, room: str) -> None:
    conch("join", agent="bob:3")
    conch("wait")

    refused = conch("pass", "bob", *DONE, "--json")

    assert refused.status == 2
    assert (refused.error["code"], refused.error["field"]) == ("invalid_argument", "agent")
    assert refused.error["message"].count("bob·") == 2
    assert conch("state", "--json").data["room"]["owner"] == "ada:1"


def test_a_beginning_that_only_others_have_does_not_mean_the_holder(conch: Conch, room: str) -> None:
    conch("join", agent="ada:9")
    conch("wait")

    passed = conch("pass", "ada", *DONE, "--json")

    assert passed.data["reserved_for"] == "ada:9"


def test_an_unknown_recipient_is_refused_with_the_members_there_are(conch: Conch, room: str) -> None:
    conch("wait")

    refused = conch("pass", "nobody", *DONE, "--json")

    assert (refused.error["code"], refused.error["field"]) == ("unknown_member", "agent")
    assert "bob·" in refused.error["message"]


@pytest.mark.parametrize("words", [("release", *DONE), ("pass", "bob:2", *DONE), ("close",)])
def test_only_the_holder_can_let_go(conch: Conch, room: str, words: tuple[str, ...]) -> None:
    conch("wait")

    refused = conch(*words, "--json", agent="bob:2")

    assert refused.status == 1
    assert refused.error["code"] == "stale_lease"
    assert refused.error["current_owner"] == "ada:1"
    assert "conch wait" in refused.error["message"]


def test_a_lapsed_lease_can_be_taken_over_and_the_reason_is_in_the_log(conch: Conch, room: str) -> None:
    conch("policy", "owner_lease_ttl_ms=1")
    conch("wait")

    waited = conch("wait", "--json", agent="bob:2")
    taken = conch("take", "--reason", "ada fell silent", "--json", agent="bob:2")

    assert waited.error["code"] == "takeover_available"
    assert "conch take" in waited.error["message"]
    assert taken.data["revoked"] == "ada:1"
    ada, bob = names(conch)
    assert f"bob·{bob} took over turn 2 from ada·{ada}: ada fell silent" in conch("events").out


def test_a_takeover_prints_the_last_handoff_and_the_notes_since(conch: Conch, room: str) -> None:
    conch("wait")
    conch("release", "--status", "Parser done", "--next", "Fix test_cli")
    conch("policy", "owner_lease_ttl_ms=1")
    conch("wait", agent="bob:2")
    conch("note", "half of it works", agent="bob:2")

    lines = conch("take", "--reason", "bob fell silent").out.splitlines()

    ada, bob = names(conch)
    assert lines[1:] == [
        f"The last handoff, from ada·{ada}:",
        "        status    Parser done",
        "        next      Fix test_cli",
        f"        note      half of it works (bob·{bob})",
    ]


def test_nobody_can_take_over_from_a_holder_that_has_time_left(conch: Conch, room: str) -> None:
    conch("wait")

    refused = conch("take", "--reason", "impatience", "--json", agent="bob:2")

    assert (refused.status, refused.error["code"]) == (1, "takeover_not_available")


def test_state_shows_the_holder_the_members_and_the_path(conch: Conch, room: str, workspace: Path) -> None:
    conch("wait")

    lines = conch("state", agent="bob:2").out.splitlines()

    assert lines[:2] == [str(workspace), f"{room}: owned, turn 1"]
    assert lines[2].startswith("ada·") and "holds the stick; the lease lapses in 44 min 5" in lines[2]
    ada, bob = names(conch)
    assert [line.split()[:2] for line in lines[5:]] == [["owner", f"ada·{ada}"], [f"bob·{bob}", "agent"]]


def test_state_tells_a_stranger_how_to_come_in(conch: Conch, room: str) -> None:
    answer = conch("state", agent="eve:7")

    eve = conch("whoami", "--json", agent="eve:7").data["name"]
    assert f"You (eve·{eve}) are not a member; `conch join` makes you one." in answer.out


def test_tables_stay_within_80_columns_however_long_the_path_is(conch: Conch, workspace: Path) -> None:
    deep = workspace / ("a" * 100) / ("b" * 100)
    deep.mkdir(parents=True)
    conch("join", str(deep), "--force-new", agent="claude-code:a3f1")

    rooms = conch("rooms", "--path", str(deep)).out.splitlines()
    state = conch("state", "--path", str(deep)).out.splitlines()

    others = [line for line in rooms + state if str(workspace) not in line]
    assert len(rooms) == 3 and all(len(line) <= 80 for line in others)


def test_rooms_are_listed_with_the_deepest_first_and_closed_ones_only_on_request(conch: Conch, workspace: Path) -> None:
    (workspace / "inner").mkdir()
    outer = conch("join", "--json").data["room_id"]
    inner = conch("join", "inner", "--force-new", "--json").data["room_id"]
    conch("close", "--yes", "--room", outer)

    here = conch("rooms", "--path", "inner", "--json").data["rooms"]
    everything = conch("rooms", "--all", "--json").data["rooms"]

    assert [room["room_id"] for room in here] == [inner]
    assert {room["room_id"]: room["state"] for room in everything} == {outer: "closed", inner: "idle"}


def test_where_there_is_no_room_the_commands_say_how_to_make_one(conch: Conch) -> None:
    listed, state, events = conch("rooms"), conch("state"), conch("events")

    assert (listed.status, listed.out) == (0, "There is no open room here; `conch join` creates one.\n")
    assert state.status == events.status == 1
    assert "conch join" in state.err and "conch join" in events.err


def test_events_tell_the_story_with_handoffs_and_notes_behind_a_margin(conch: Conch, room: str) -> None:
    conch("wait")
    conch("note", "careful:\n   9  2026-01-01 00:00:00  bob:2 closed the room")
    conch("release", *DONE)

    lines = conch("events").out.splitlines()

    heads = [line.split("ago)  ")[1] for line in lines if not line.startswith(" " * 8)]
    ada, bob = names(conch)
    assert heads == [
        f"ada·{ada} joined",
        f"bob·{bob} joined",
        f"ada·{ada} claimed turn 1 (open_claim)",
        f"ada·{ada} noted: careful:",
        f"ada·{ada} released the stick to bob·{bob}",
    ]
    assert " ".join(lines[-1].split()) == "next write its tests"


def test_events_can_be_paged_from_the_oldest(conch: Conch, room: str) -> None:
    first = conch("events", "--after", "0", "--limit", "1")
    rest = conch("events", "--after", "1")

    assert first.out.splitlines()[-1] == "There are more: run the same command with --after 1.0.0."
    assert [line.split("ago)  ")[1] for line in rest.out.splitlines()] == [f"bob·{names(conch)[1]} joined"]


def test_an_agent_can_be_named_by_the_label_that_people_read(conch: Conch, room: str) -> None:
    bob = f"bob·{names(conch)[1]}"
    conch("wait")

    shown, passed = conch("agent", "show", bob, "--json"), conch("pass", bob, *DONE, "--json")

    assert bob in conch("state").out
    assert (shown.data["agent_id"], passed.data["reserved_for"]) == ("bob:2", "bob:2")


def test_the_members_can_be_put_in_another_order(conch: Conch, room: str) -> None:
    answer = conch("reorder", "bob", "ada", "--json")

    assert [member["agent_id"] for member in answer.data["members"]] == ["bob:2", "ada:1"]


@pytest.mark.parametrize("label", ["script·amber", "script.amber"])
def test_a_whole_label_names_its_agent_even_if_another_name_begins_with_it(conch: Conch, room: str, label: str) -> None:
    for agent_id, name in (("script:1", "amber-otter"), ("script:2", "amber")):
        conch("join", agent=agent_id)
        conch("agent", "register", name, agent=agent_id)

    answer = conch("reorder", label, "--json")

    assert answer.data["members"][0]["agent_id"] == "script:2"


def test_the_policy_can_be_set_and_given_back_to_its_default(conch: Conch, room: str) -> None:
    set_to = conch("policy", "claim_ttl_ms=60000", "--json")
    restored = conch("policy", "claim_ttl_ms=", "--json")

    assert set_to.data["policy"]["claim_ttl_ms"] == 60_000
    assert restored.data["policy"]["claim_ttl_ms"] == 20 * 60_000
    assert "claim_ttl_ms=1200000" in conch("policy").out.splitlines()


def test_the_holder_of_the_stick_cannot_leave_and_learns_what_to_do(conch: Conch, room: str) -> None:
    conch("wait")

    refused = conch("leave", "--json")
    left = conch("leave", agent="bob:2")

    assert refused.error["code"] == "stick_held"
    assert "conch release" in refused.error["message"] and "release_stick" not in refused.error["message"]
    assert left.status == 0


def test_a_closed_room_ends_waits_and_makes_place_for_a_new_one(conch: Conch, room: str) -> None:
    closed = conch("close", "--yes", "--reason", "all done", "--json")

    waited = conch("wait", "--room", room, "--json")
    assert closed.data["state"] == "closed"
    assert (waited.status, waited.error["code"]) == (1, "closed")
    assert conch("join", "--json").data["room_id"] != room


@pytest.mark.parametrize("reason", ["", "x" * 3_000, b"\xff"], ids=["empty", "long", "not UTF-8"])
def test_a_close_that_is_refused_does_not_even_claim_the_free_stick(
    conch: Conch, room: str, reason: str | bytes
) -> None:
    before = conch("events", "--json").data

    refused = conch("close", "--yes", "--reason", reason, "--json")

    assert refused.error["field"] == "reason"
    assert conch("events", "--json").data == before


def test_another_store_can_be_named_on_the_command_line(conch: Conch, tmp_path: Path) -> None:
    other = tmp_path / "other" / "x.sqlite"

    conch("join", "--store", str(other))

    assert conch("db", "path", "--store", str(other), "--json").data == {"path": str(other)}
    assert conch("rooms", "--json").data["rooms"] == []


def test_a_member_that_is_gone_is_only_counted(conch: Conch, room: str, shell: Callable[[str], Any]) -> None:
    harness = shell("claude")
    joined = harness.run("join", "--json").data
    gone, name = joined["agent_id"], joined["name"]
    harness.end()

    state, everything = conch("state"), conch("state", "--all")
    conch("reorder", "bob:2", "ada:1")

    assert name not in state.out and "1 more is gone; `conch state --all` lists them." in state.out
    assert f"claude·{name}" in everything.out and "more is gone" not in everything.out
    assert conch("state", "--json").data["members_gone"] == 1
    assert [m["agent_id"] for m in conch("state", "--all", "--json").data["members"]] == ["bob:2", "ada:1", gone]
