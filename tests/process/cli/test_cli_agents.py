"""`conch agent ...` and `conch events`: reservations, notices and the timeline from the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.callers import named, person

from conch.agents.records import process_columns
from conch.app import open_app
from conch.doors.exits import status_of
from conch.host import processes

Conch = Callable[..., Any]

NOTICE = ("--subject", "Parser", "--summary", "It parses", "--next", "Review it")


@pytest.fixture
def names(conch: Conch) -> dict[str, str]:
    """The names of two members of a room."""
    return {agent: conch("join", "--json", agent=agent).data["name"] for agent in ("ada:1", "bob:2")}


def test_an_agent_registers_and_is_listed(conch: Conch, names: dict[str, str]) -> None:
    registered = conch("agent", "register", "amber-otter", "--role", "reviewer", "--json")
    listed = conch("agent", "list", agent="bob:2")

    assert registered.envelope["command"] == "agent register"
    assert (registered.data["name"], registered.data["role"]) == ("amber-otter", "reviewer")
    assert listed.out.splitlines()[0].split() == ["AGENT", "KIND", "ROLE", "LIVENESS", "LAST", "SEEN"]
    assert listed.out.splitlines()[1].split()[:4] == ["ada·amber-otter", "agent", "reviewer", "active"]
    assert conch("whoami").out == "ada·amber-otter (ada:1)\n"


def test_a_heartbeat_has_the_envelope_and_can_be_for_an_agent_that_is_named(
    conch: Conch, names: dict[str, str]
) -> None:
    for name in ("bob:2", names["bob:2"]):
        answer = conch("agent", "heartbeat", "--agent", name, "--json")
        assert answer.envelope["command"] == "agent heartbeat"
        assert answer.data["agent_id"] == "bob:2"
        assert answer.data["last_seen_at"].endswith("Z")
    assert conch("--json", "--agent", "bob:2", "agent", "heartbeat").data["agent_id"] == "bob:2"
    assert conch("agent", "heartbeat", "--agent", "nobody", "--json").error["code"] == "AGENT_NOT_FOUND"


# Runs a command in a process that ends with it, as a script of a scheduler does.
SCRIPT = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"


def run_script(scheduler: Any, *words: str) -> Any:
    return scheduler.run(*words, through=(sys.executable, "-c", SCRIPT))


@pytest.mark.parametrize("run", [run_script, lambda scheduler, *words: scheduler.run(*words)], ids=["script", "cron"])
def test_a_script_goes_on_in_the_next_process_under_the_name_it_registered(
    shell: Callable[[str], Any], run: Callable[..., Any]
) -> None:
    cron, later = shell("cron"), shell("cron")
    run(cron, "join")
    registered = run(cron, "agent", "register", "ci-bot", "--json").data
    cron.end()

    beat = run(later, "agent", "heartbeat", "--agent", "ci-bot", "--json").data
    reserved = run(later, "agent", "reserve", "src", "--agent", "ci-bot", "--json").data["reservation"]
    again = run(later, "agent", "heartbeat", "--agent", "ci-bot", "--json").data

    assert beat["agent_id"] == again["agent_id"] == registered["agent_id"]
    assert (beat["liveness"], again["liveness"], reserved["name"]) == ("active", "active", "ci-bot")


def test_a_script_needs_no_room_to_register_its_name(shell: Callable[[str], Any]) -> None:
    cron = shell("cron")

    registered = run_script(cron, "agent", "register", "ci-bot")
    beat = run_script(cron, "agent", "heartbeat", "--agent", "ci-bot", "--json").data

    assert "`--agent ci-bot`" in registered.out
    assert (beat["name"], beat["liveness"]) == ("ci-bot", "active")
    assert [agent["name"] for agent in run_script(cron, "agent", "list", "--json").data["agents"]] == ["ci-bot"]


def test_a_script_takes_its_turn_in_one_process_and_hands_over_in_the_next(
    shell: Callable[[str], Any], conch: Conch
) -> None:
    cron, later = shell("cron"), shell("cron")
    run_script(cron, "agent", "register", "ci-bot")
    conch("join")

    turn = run_script(cron, "wait", "--agent", "ci-bot", "--timeout", "0", "--json").data
    cron.end()
    between = conch("state", "--json").data["room"]["state"]
    told = run_script(later, "note", "half way", "--agent", "ci-bot").status
    released = run_script(later, "release", "--agent", "ci-bot", "--status", "built", "--next", "test", "--json").data

    assert (turn["status"], between, told) == ("your_turn", "owned", 0)
    assert released["reserved_for"] == "ada:1"


def test_a_name_that_nobody_has_is_refused_with_what_a_script_can_do(conch: Conch) -> None:
    conch("join")

    refused = conch("agent", "heartbeat", "--agent", "ci-bot", "--json").error

    assert refused["code"] == "AGENT_NOT_FOUND"
    assert "`conch agent register NAME`" in refused["message"]


def test_a_script_may_go_on_in_a_process_that_it_shares_with_its_first_command(shell: Callable[[str], Any]) -> None:
    cron = shell("cron")
    run_script(cron, "join")
    run_script(cron, "agent", "register", "ci-bot")
    runner = (sys.executable, "-c", f"{SCRIPT[:-1]} or subprocess.run(sys.argv[1:]).returncode)")

    cron.run("agent", "heartbeat", "--agent", "ci-bot", through=runner)

    assert run_script(cron, "agent", "heartbeat", "--agent", "ci-bot", "--json").data["liveness"] == "active"


def test_a_script_that_registers_its_name_in_every_run_is_one_agent(shell: Callable[[str], Any]) -> None:
    cron = shell("cron")
    run_script(cron, "join")
    first = run_script(cron, "agent", "register", "ci-bot", "--json").data

    run_script(cron, "join")
    again = run_script(cron, "agent", "register", "ci-bot", "--json").data
    before = run_script(cron, "state", "--all", "--json").data["members"]
    by_init = run_script(cron, "init", "--register", "ci-bot", "--json").data
    after = run_script(cron, "state", "--all", "--json").data["members"]

    assert first["agent_id"] == again["agent_id"] == by_init["agent_id"]
    assert len(after) == len(before)


@pytest.mark.parametrize("command", [("agent", "register"), ("init", "--register")], ids=["register", "init"])
def test_a_script_whose_name_is_refused_leaves_nothing(
    shell: Callable[[str], Any], conch: Conch, command: tuple[str, ...]
) -> None:
    cron = shell("cron")

    early = run_script(cron, *command, "c0nch", "--json").error
    rooms = conch("rooms", "--all", "--json").data["rooms"]
    conch("init", "--register", "amber-otter")
    late = run_script(cron, *command, "arnber-otter", "--json").error

    assert (early["code"], rooms) == ("INVALID_AGENT_ID", [])
    assert late["code"] == "DUPLICATE_AGENT_ID"
    assert [each["name"] for each in conch("state", "--all", "--json").data["members"]] == ["amber-otter"]


def test_two_names_that_one_scheduler_registers_are_two_agents(shell: Callable[[str], Any]) -> None:
    cron = shell("cron")
    cron.run("join")

    ids = [cron.run("agent", "register", name, "--json").data["agent_id"] for name in ("ci-bot", "deploy-bot")]
    again = [cron.run("agent", "register", name, "--json").data["agent_id"] for name in ("ci-bot", "deploy-bot")]
    beats = [
        cron.run("agent", "heartbeat", "--agent", name, "--json").data["name"] for name in ("ci-bot", "deploy-bot")
    ]

    assert ids == again and ids[0] != ids[1]
    assert beats == ["ci-bot", "deploy-bot"]


def test_a_script_does_not_become_a_harness_by_registering_its_name(shell: Callable[[str], Any]) -> None:
    harness, cron = shell("claude"), shell("cron")
    for each in (harness, cron):
        each.run("join")
    harness.run("agent", "register", "ci-bot")
    cron.run("agent", "register", "deploy-bot")

    refused = cron.run("agent", "register", "ci-bot", "--json")

    assert refused.error["code"] == "DUPLICATE_AGENT_ID"
    assert len(cron.run("agent", "list", "--json").data["agents"]) == 2


def test_a_name_registered_at_a_terminal_outlives_the_terminal(
    shell: Callable[[str], Any], terminal: Callable[[], Any]
) -> None:
    window, cron = terminal(), shell("cron")
    window.run("join")
    window.run("agent", "register", "ci-bot")
    beside = cron.run("agent", "heartbeat", "--agent", "ci-bot", "--json").data
    window.end()

    assert beside["liveness"] == "active"
    assert cron.run("agent", "heartbeat", "--agent", "ci-bot", "--json").data["liveness"] == "active"


def test_a_name_is_registered_at_a_local_time(conch: Conch) -> None:
    conch("join")

    assert re.fullmatch(
        r"You are ada·amber-otter, agent: active, last seen \d\d:\d\d \(0 s ago\)\.\n",
        conch("agent", "register", "amber-otter").out,
    )


def test_a_name_registered_by_a_harness_ends_with_it(shell: Callable[[str], Any], conch: Conch) -> None:
    harness = shell("claude")
    harness.run("join")
    harness.run("agent", "register", "amber-otter")
    harness.end()
    conch("join")

    assert conch("agent", "show", "amber-otter", "--json").data["liveness"] == "evicted"


def test_nobody_acts_as_an_agent_that_runs_in_another_process(conch: Conch, env: Any, workspace: Path) -> None:
    app = open_app(env)
    app.membership.join_path(named(app.store, "codex:1", processes.look_up(os.getpid())), str(workspace))
    app.close()
    conch("join")

    answer = conch("agent", "heartbeat", "--agent", "codex:1", "--json")

    assert answer.error["code"] == "INVALID_ARGS"
    assert answer.error["message"].startswith("codex·")
    assert answer.error["message"].endswith(" is still running in another process. Only that process can act as it.")


@pytest.mark.parametrize("elsewhere", [None, processes.Process("another host", "boot", 17, 1)])
def test_nobody_acts_as_an_agent_that_may_run_where_its_process_is_not_seen(
    elsewhere: Any, conch: Conch, env: Any, workspace: Path
) -> None:
    app = open_app(env)
    app.membership.join_path(named(app.store, "codex:1", elsewhere), str(workspace))
    app.close()
    conch("join")

    for words in (("agent", "heartbeat"), ("send", "I am done"), ("leave",)):
        answer = conch(*words, "--agent", "codex:1", "--json")
        assert answer.error["message"].endswith(
            " may still be running where conch cannot see its process. Only that process can act as it."
        )


def test_nobody_acts_as_a_person_not_even_when_that_person_is_gone(conch: Conch, env: Any, workspace: Path) -> None:
    app = open_app(env)
    at_terminal, gone = person(app.store, "ada"), person(app.store, "bob")
    for each in (at_terminal, gone):
        app.membership.join_path(each, str(workspace))
    with app.store.write("test") as tx:
        tx.run("update_agent_process", agent_id=gone.agent_id, **process_columns(ended_process()))
    app.close()
    conch("join")

    for each in (at_terminal, gone):
        answer = conch("send", "I, a person, say so", "--agent", each.agent_id, "--json")
        assert answer.error["message"].endswith(" is a person. No other caller can act as a person.")


def test_an_agent_may_name_itself_where_only_its_session_shows_who_it_is(conch: Conch) -> None:
    session = {"agent": "", "CODEX_THREAD_ID": "thread-1"}
    itself = conch("join", "--json", **session).data["agent_id"]

    answer = conch("agent", "heartbeat", "--agent", itself, "--json", **session)

    assert answer.data["agent_id"] == itself
    assert conch("agent", "heartbeat", "--agent", itself, "--json").error["code"] == "INVALID_ARGS"


def ended_process() -> processes.Process:
    mine = processes.look_up(os.getpid())
    assert mine is not None
    return mine._replace(started_at=mine.started_at - 1)


def test_a_name_means_the_agent_of_the_room_one_stands_in(conch: Conch, names: dict[str, str]) -> None:
    conch.workspace.joinpath("inner").mkdir()  # type: ignore[attr-defined]
    conch("join", "--force-new", agent="cleo:3", folder="inner")
    conch("agent", "register", "blue-fox")
    conch("agent", "register", "blue-fox", agent="cleo:3", folder="inner")

    outer = conch("agent", "heartbeat", "--agent", "blue-fox", "--json", agent="dora:4")
    inner = conch("agent", "heartbeat", "--agent", "blue-fox", "--json", agent="dora:4", folder="inner")

    assert (outer.data["agent_id"], inner.data["agent_id"]) == ("ada:1", "cleo:3")
    assert conch("agent", "show", "blue-fox", "--json", folder="inner").data["agent_id"] == "cleo:3"
    assert conch("whoami", agent="cleo:3", folder="inner").out == "cleo·blue-fox (cleo:3)\n"


def test_a_former_name_means_the_agent_that_had_it(conch: Conch, names: dict[str, str]) -> None:
    conch("agent", "register", "blue-fox", agent="bob:2")
    former = names["bob:2"]
    conch("wait")

    assert conch("agent", "show", former, "--json").data["name"] == "blue-fox"
    assert conch("agent", "heartbeat", "--agent", former, "--json").data["agent_id"] == "bob:2"
    assert conch("pass", former, "--status", "s", "--next", "n", "--json").data["reserved_for"] == "bob:2"


@pytest.mark.parametrize("words", [("reserve", "src", "docs"), ("reserve", "src"), ("agent", "reserve", "src/*")])
def test_a_reservation_that_cannot_be_told_is_withdrawn(
    conch: Conch, names: dict[str, str], start: Callable[..., Any], words: tuple[str, ...]
) -> None:
    with open("/dev/full", "w") as full:
        child = start(*words, stdout=full)
        _, err = child.communicate(timeout=30)

    assert (child.returncode, err) == (1, "conch: the output could not be written: No space left on device.\n")
    assert conch("reservations", "--json").data["reservations"] == []


def test_a_reservation_is_refused_to_others_until_it_is_released(conch: Conch, names: dict[str, str]) -> None:
    reserved = conch("agent", "reserve", "src/*", "--ttl", "30", "--bead", "bd-1", "--json")
    refused = conch("agent", "reserve", "src/lib", agent="bob:2")
    as_json = conch("agent", "reserve", "src/lib", "--takeover-stale", "--json", agent="bob:2")
    forbidden = conch("agent", "release", "src", "--json", agent="bob:2")
    released = conch("agent", "release", "src")
    granted = conch("agent", "reserve", "src/lib", agent="bob:2")

    assert reserved.data["reservation"]["scope"] == "src/*"
    assert refused.status == 1
    assert f"src/* by ada·{names['ada:1']} (active)" in refused.err and "(RESERVATION_CONFLICT)" in refused.err
    assert as_json.error["holders"][0]["owner"] == names["ada:1"]
    assert forbidden.error["code"] == "RELEASE_FORBIDDEN"
    assert released.out.splitlines()[0] == "Released src/*."
    assert granted.out.startswith("Reserved src/lib until ")


def test_a_reservation_of_a_gone_agent_is_taken_over_with_the_flag(
    conch: Conch, names: dict[str, str], shell: Callable[[str], Any]
) -> None:
    harness = shell("claude")
    harness.run("join")
    lost = harness.run("agent", "reserve", "src", "--json").data["reservation"]["name"]
    harness.end()

    refused = conch("agent", "reserve", "src/lib", "--json")
    granted = conch("agent", "reserve", "src/lib", "--takeover-stale")

    assert refused.error["code"] == "RESERVATION_STALE_FOUND"
    assert [(each["owner"], each["liveness"]) for each in refused.error["holders"]] == [(lost, "evicted")]
    assert granted.out.splitlines()[1] == f"Taken over from claude·{lost}: src."
    assert (
        f"the reservation of src by claude·{lost} ended when ada·{names['ada:1']} reserved an overlapping path"
        in conch("events").out
    )


def test_a_relative_path_is_relative_to_the_workspace(conch: Conch, names: dict[str, str]) -> None:
    conch("agent", "reserve", str(conch.workspace / "src"))  # type: ignore[attr-defined]

    assert conch("agent", "status", "src/lib").out.startswith("- partial: src by ")


def test_a_refused_pattern_is_named_as_it_was_typed_and_its_directory_can_be_reserved(
    conch: Conch, names: dict[str, str]
) -> None:
    conch.workspace.joinpath("src").mkdir()  # type: ignore[attr-defined]

    refused = conch("agent", "reserve", "lib/*.py", "--json", folder="src").error
    followed = conch("agent", "reserve", "lib/*", "--json", folder="src").data["reservation"]

    assert (refused["code"], refused["field"]) == ("INVALID_ARGS", "scope")
    assert "SCOPE 'lib/*.py'" in refused["message"] and "reserve the directory" in refused["message"]
    assert followed["scope"] == "src/lib/*"


def test_in_a_folder_that_is_gone_a_scope_is_meant_from_the_workspace(
    conch: Conch, names: dict[str, str], shell: Callable[[str], Any], tmp_path: Any
) -> None:
    room = conch("state", "--json").data["room"]["room_id"]
    harness = shell("claude")
    harness.run("join")
    harness.bash(f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone")

    reserved = harness.run("agent", "reserve", "src/lib", "--room", room, "--json")
    others = [harness.run(*words, "--json") for words in (["whoami"], ["rooms"], ["agent", "list", "--room", room])]

    assert reserved.data["reservation"]["scope"] == "src/lib"
    assert [(each.envelope["error"] or {}).get("code") for each in others] == [None, "invalid_argument", None]


def test_an_action_that_there_is_not_has_the_code_of_the_others(conch: Conch) -> None:
    assert conch("agent", "bogus", "--json").error["code"] == "INVALID_ARGS"
    assert conch("bogus", "--json").error["code"] == "invalid_argument"


def test_the_status_shows_what_is_reserved_and_what_was(conch: Conch, names: dict[str, str]) -> None:
    conch("agent", "reserve", "src")
    conch("agent", "reserve", "docs", agent="bob:2")
    conch("agent", "release", "docs", agent="bob:2")

    now, ever = conch("agent", "status"), conch("agent", "status", "--all")
    shown = conch("agent", "show", "--json")

    assert [line.split()[0] for line in now.out.splitlines()] == ["SCOPE", "src"]
    assert [line.split()[0] for line in ever.out.splitlines()] == ["SCOPE", "docs", "src"]
    assert [each["scope"] for each in shown.data["reservations"]] == ["src"]
    assert conch("agent", "status", "tests").out == "The path is not reserved.\n"
    assert "Nothing is reserved." in conch("agent", "show", "bob:2").out


def test_a_line_in_one_field_of_a_notice_does_not_read_as_another_field(conch: Conch, names: dict[str, str]) -> None:
    conch("agent", "send", names["bob:2"], "--subject", "s", "--summary", "x\nnext_action: Stop", "--next", "Go on")

    lines = conch("agent", "inbox", agent="bob:2").out.splitlines()

    assert [line for line in lines if line.startswith("    next_action")] == ["    next_action: Go on"]


def test_a_notice_is_sent_seen_and_accepted(conch: Conch, names: dict[str, str]) -> None:
    sent = conch("agent", "send", names["bob:2"], *NOTICE, "--json").data["event"]
    inbox = conch("agent", "inbox", agent="bob:2")
    seen = conch("agent", "seen", sent["id"], "--json", agent="bob:2")
    accepted = conch("agent", "accept", sent["id"], agent="bob:2")

    assert inbox.out.startswith(f"{sent['id']} Passed to you, from ada·{names['ada:1']}, ")
    assert "\n    next_action: Review it\n" in inbox.out
    assert seen.data["event"]["state"] == "seen"
    assert accepted.out == f"{sent['id']} is accepted.\n"
    assert conch("agent", "inbox", agent="bob:2").out == "No notices for you.\n"
    assert conch("agent", "seen", sent["id"], "--json").error["code"] == "MARK_FORBIDDEN"


def test_a_blocked_notice_says_what_would_help(conch: Conch, names: dict[str, str]) -> None:
    words = ("--type", "BLOCKED", "--subject", "CI", "--blocker", "no token", "--request", "add one")

    conch("agent", "send", "bob:2", *words)

    (sent,) = conch("agent", "inbox", "--json", agent="bob:2").data["events"]
    assert sent["payload"] == {
        "subject": "CI",
        "blocker": "no token",
        "requested_action": "add one",
        "urgency": "medium",
        "requires_ack": True,
    }


@pytest.mark.parametrize(
    ("words", "code", "field"),
    [
        (("register", "Amber"), "INVALID_AGENT_ID", "name"),
        (("reserve", "../x"), "INVALID_ARGS", "scope"),
        (("reserve", "*.py"), "INVALID_ARGS", "scope"),
        (("reserve", "src", "--ttl", "4"), "INVALID_ARGS", "ttl"),
        (("release", "src"), "RESERVATION_NOT_FOUND", "scope"),
        (("send", "nobody", *NOTICE), "UNKNOWN_RECIPIENT", "agent"),
        (("send", "bob:2", *NOTICE, "--urgency", "high"), "INVALID_ARGS", "urgency"),
        (("send", "bob:2", "--subject", "x"), "INVALID_ARGS", "summary"),
        (("seen", "proto_0"), "EVENT_NOT_FOUND", "event"),
        (("inbox", "--limit", "0"), "INVALID_ARGS", "limit"),
    ],
)
def test_bad_input_is_refused_with_its_code(
    conch: Conch, names: dict[str, str], words: tuple[str, ...], code: str, field: str
) -> None:
    answer = conch("agent", *words, "--json")

    assert (answer.status, answer.error["code"], answer.error["field"]) == (status_of(code), code, field)


@pytest.mark.parametrize(
    "words",
    [("agent", "reserve"), ("agent", "reserve", "src", "--ttl", "soon"), ("agent", "send", "bob:2"), ("init", "--no")],
)
def test_a_command_that_cannot_be_understood_is_refused_with_the_same_code(
    conch: Conch, names: dict[str, str], words: tuple[str, ...]
) -> None:
    answer = conch(*words, "--json")

    assert (answer.status, answer.error["code"]) == (2, "INVALID_ARGS")


def test_adopting_an_unknown_or_living_agent_is_refused(conch: Conch, names: dict[str, str]) -> None:
    assert conch("agent", "adopt", "nobody", "--json").error["code"] == "AGENT_NOT_FOUND"
    refusal = conch("agent", "adopt", "bob:2", "--json").error
    assert (refusal["code"], refusal["reason"]) == ("ADOPTION_REJECTED", "still_running")


def test_agent_alone_lists_its_actions(conch: Conch) -> None:
    answer = conch("agent")

    assert answer.status == 2
    assert "reserve       reserve files" in answer.out
    assert conch("agent", "juggle", "--json").status == 2


def test_a_scope_is_meant_from_where_it_is_typed(conch: Conch) -> None:
    (conch.workspace / "docs").mkdir()
    conch("join")

    reserved = conch("agent", "reserve", "guide.md", "--json", folder="docs").data["reservation"]
    everywhere = conch("agent", "status", "../docs/*", "--json", folder="docs").data["overlaps"]

    assert reserved["scope"] == "docs/guide.md"
    assert [each["scope"] for each in everywhere] == ["docs/guide.md"]


# -- the timeline


def test_the_timeline_tells_of_reservations_and_notices_with_their_labels(conch: Conch, names: dict[str, str]) -> None:
    conch("wait")
    conch("release", "--status", "done", "--next", "go on")
    conch("agent", "reserve", "src")
    conch("agent", "reserve", "src", agent="bob:2")
    conch("agent", "send", "bob:2", *NOTICE)
    event = conch("agent", "inbox", "--json", agent="bob:2").data["events"][-1]
    conch("agent", "accept", event["id"], agent="bob:2")

    lines = conch("events").out.splitlines()

    ada, bob = f"ada·{names['ada:1']}", f"bob·{names['bob:2']}"
    assert f"        Passed to {bob} (not seen yet)" in lines
    told = [line.partition(" ago) ")[2].strip() for line in lines if line.startswith("      ") and " ago) " in line]
    assert told[0] == f"{ada} reserved src"
    assert told[1].startswith(f"{bob} Ran into a reservation of {ada} (active, exact) at src.")
    assert told[2] == f"{ada} Passed to {bob}: Parser ({event['id']})"
    assert told[3] == f"{bob} Accepted: Parser ({event['id']})"


def test_the_timeline_as_json_has_a_cursor_to_go_on_from(conch: Conch, names: dict[str, str]) -> None:
    conch("agent", "reserve", "src")
    first = conch("events", "--json").data
    conch("agent", "release", "src")

    rest = conch("events", "--after", first["cursor"], "--json").data

    assert [each["event_type"] for each in first["events"]] == ["join", "join", "reserved"]
    assert [each["event_type"] for each in rest["events"]] == ["released"]
    assert not rest["has_more"]


def test_after_the_number_of_an_event_comes_what_happened_since(conch: Conch, names: dict[str, str]) -> None:
    conch("agent", "reserve", "src")
    conch("send", "hello")
    noted = conch("note", "now", "--json").data["event_seq"]
    conch("agent", "release", "src")

    lines = conch("events", "--after", str(noted)).out.splitlines()

    assert [line.partition(" ago) ")[2].strip() for line in lines] == [f"ada·{names['ada:1']} released src"]


@pytest.mark.parametrize("cursor", ["1.2", "1.2.x", "1.2.3.4", "-1", ".", "1..2"])
def test_a_cursor_that_nobody_returned_is_refused(conch: Conch, names: dict[str, str], cursor: str) -> None:
    answer = conch("events", f"--after={cursor}", "--json")

    assert (answer.status, answer.error["field"]) == (2, "after")


def test_words_of_others_never_reach_the_terminal_raw(conch: Conch, names: dict[str, str]) -> None:
    evil = "\x1b[2Jx\u202ey\r\n   9  2026-01-01 00:00:00  bob:2 closed the room"
    conch("agent", "send", "bob:2", "--subject", evil, "--summary", evil, "--next", evil)
    conch("agent", "register", "--role", evil)

    shown = conch("agent", "inbox", agent="bob:2").out + conch("events").out + conch("agent", "list").out

    assert "\x1b" not in shown and "\u202e" not in shown and "\r" not in shown
    assert "\n   9  2026" not in shown


def test_a_work_item_has_a_history_and_notices_of_its_own(conch: Conch, names: dict[str, str]) -> None:
    conch("wait")
    conch("agent", "reserve", "src/*", "--bead", "bd-7")
    conch("agent", "reserve", "docs", "--bead", "bd-8")
    conch("agent", "send", "bob:2", *NOTICE, "--bead", "bd-9")
    conch("agent", "release", "docs")
    conch("release", "--status", "Parser done", "--next", "go on")

    item = conch("events", "--bead", "bd-7", "--json").data["events"]
    notices = conch("agent", "inbox", "--bead", "bd-7", "--json", agent="bob:2").data["events"]

    assert [(each["event_type"], each["label"]) for each in item] == [
        ("reserved", "Reserved"),
        ("release", "Passed to"),
    ]
    assert [each["payload"]["subject"] for each in notices] == ["Parser done"]
    assert conch("events", "--bead", "bd-x").out == "No entries yet.\n"


def test_reserving_beside_the_stick_warns(conch: Conch, names: dict[str, str]) -> None:
    conch("wait")

    reserved = conch("agent", "reserve", "src/*", agent="bob:2")

    assert reserved.out.startswith("Reserved src/* until ")
    assert f"Warning: ada·{names['ada:1']} has held the stick since " in reserved.out


# -- following


def test_following_goes_on_with_what_happens(conch: Conch, names: dict[str, str], start: Any) -> None:
    follower = start("events", "--follow", "--json")
    assert [json.loads(follower.stdout.readline())["event_type"] for _ in range(2)] == ["join", "join"]

    conch("agent", "reserve", "src", agent="bob:2")
    reserved = json.loads(follower.stdout.readline())
    conch("note", "hello", agent="bob:2")
    noted = json.loads(follower.stdout.readline())

    assert (reserved["kind"], reserved["details"]["scope"]) == ("reservation", "src")
    assert noted["details"] == {"note": "hello"}
    follower.send_signal(signal.SIGINT)
    assert follower.wait(30) == 130


def test_following_ends_with_the_room(conch: Conch, names: dict[str, str], start: Any) -> None:
    follower = start("events", "--follow", "--limit", "1")
    assert follower.stdout.readline().rstrip().endswith(f"bob·{names['bob:2']} joined")

    conch("close", "--yes")

    out, err = follower.communicate(timeout=30)
    assert (follower.returncode, err) == (0, "")
    assert [line.split(maxsplit=3)[3] for line in out.splitlines()] == [
        f"ada·{names['ada:1']} claimed turn 1 (open_claim)",
        f"ada·{names['ada:1']} closed the room",
    ]


def test_following_prints_one_entry_per_line_and_nothing_else(conch: Conch, names: dict[str, str], start: Any) -> None:
    follower = start("events", "--follow", "--json")
    assert json.loads(follower.stdout.readline())["event_type"] == "join"

    conch("send", "hello", "--to", "ada:1", agent="bob:2")  # mail for the agent that follows
    conch("close", "--yes")

    rest = [json.loads(line)["event_type"] for line in follower.stdout]
    assert follower.wait(timeout=30) == 0
    assert rest == ["join", "message", "claim", "close"]


def test_an_unprintable_name_is_an_unknown_agent(conch: Conch) -> None:
    conch("join")

    assert conch("agent", "heartbeat", "--agent", "a\nb", "--json").error["code"] == "AGENT_NOT_FOUND"


@pytest.mark.parametrize("words", [("show", b"\xff"), ("list", "--agent", b"\xff")])
def test_a_name_that_is_not_utf_8_is_refused_by_its_option(conch: Conch, words: tuple[str | bytes, ...]) -> None:
    conch("join")

    refused = conch("agent", *words, "--json").error
    assert refused["code"] == "INVALID_ARGS"
    assert "UTF-8" in refused["message"]


# -- several paths at once


def test_several_paths_are_reserved_and_released_at_once(conch: Conch, names: dict[str, str]) -> None:
    reserved = conch("reserve", "src", "docs", "--ttl", "2h", "--json").data["reservations"]
    listed = conch("reservations", "--json", agent="bob:2").data["reservations"]
    released = conch("unreserve", "src", "docs", "--json").data["reservations"]

    assert [each["reservation"]["scope"] for each in reserved] == ["src", "docs"]
    assert {each["scope"] for each in listed} == {"src", "docs"}
    assert [each["state"] for each in released] == ["released", "released"]
    assert conch("reservations").out == "Nothing is reserved.\n"


@pytest.mark.parametrize("bad", ["src/*/*", " ", "../elsewhere"])
def test_a_bad_path_is_refused_before_any_other_is_reserved(conch: Conch, names: dict[str, str], bad: str) -> None:
    refused = conch("reserve", "src", bad, "--json")

    assert refused.error["code"] == "INVALID_ARGS"
    assert conch("reservations", "--all").out == "Nothing is reserved.\n"


def test_if_one_path_is_refused_none_is_released(conch: Conch, names: dict[str, str]) -> None:
    conch("reserve", "src", "docs")

    refused = conch("unreserve", "src", "tests", "docs", "--json")

    assert refused.error["code"] == "RESERVATION_NOT_FOUND"
    assert {each["scope"] for each in conch("reservations", "--json").data["reservations"]} == {"src", "docs"}


def test_if_one_path_is_refused_none_is_reserved_but_what_was_renewed_stays(
    conch: Conch, names: dict[str, str]
) -> None:
    conch("reserve", "mine")
    conch("reserve", "docs", agent="bob:2")

    refused = conch("reserve", "mine", "src", "docs", "--json")

    assert (refused.status, refused.error["code"]) == (1, "RESERVATION_CONFLICT")
    own = [each["scope"] for each in conch("agent", "show", "--json").data["reservations"]]
    assert own == ["mine"]


def test_a_wrong_path_is_called_what_the_help_calls_it(conch: Conch, names: dict[str, str]) -> None:
    refused = conch("reserve", "src", "*.py", "--json")

    assert (refused.status, refused.error["field"]) == (2, "path")
    assert conch("reservations").out == "Nothing is reserved.\n"


def test_who_lists_the_agents_of_the_room(conch: Conch, names: dict[str, str]) -> None:
    assert conch("who", "--json").data == conch("agent", "list", "--json").data
    assert all(name in conch("who").out for name in names.values())
