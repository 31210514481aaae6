"""People at a terminal: they watch, and step in between agents. Agents that try are refused."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.process.cli.conftest import CONCH

Terminal = Callable[[], Any]
Conch = Callable[..., Any]
Shell = Callable[[str], Any]

DONE = ("--status", "Half of it", "--next", "The rest")
WHY = ("--reason", "The build is broken")
STEPS = {
    "take": ("take", "--force", *WHY),
    "nudge": ("nudge", "ada:1"),
    "pass": ("pass", "--for", "ada:1", "--to", "bob:2", *WHY),
    "unreserve": ("unreserve", "--of", "ada:1", "src", *WHY),
    "kick": ("kick", "ada:1", *WHY),
    "redact": ("redact", "1", *WHY),
    "free": ("names", "free", "scout"),
}
# Commands that do not need to know who runs them.
READERS = (
    ("topics", "list"),
    ("search", "lunch"),
    ("topics", "create", "x"),
    ("topics", "rename", "x", "y"),
    ("rooms",),
)


@pytest.fixture
def on_each_engine(env: dict[str, str], every_engine: dict[str, str]) -> None:
    env.update(every_engine)


@pytest.fixture
def held(conch: Conch) -> None:
    """Two agents are in the room. One of them has the stick and a reservation."""
    for agent in ("ada:1", "bob:2"):
        conch("join", agent=agent)
    assert conch("wait", "--timeout", "0").status == 0
    assert conch("agent", "reserve", "src").status == 0


def run(window: Any, *words: str) -> Any:
    """The envelope that a command prints in a terminal."""
    shown = window.run(*words, "--json").splitlines()
    return json.loads(next(line for line in shown if line.startswith("{")))  # the terminal may begin a line of its own


def start_waiting(window: Any) -> int:
    """Start `conch wait` below a shell of its own, which does not mind if it is stopped."""
    script = f"{shlex.join([*CONCH, 'wait'])} & echo waiter: $!.; wait $!; echo ended: $?."
    window.type(f"sh -c {shlex.quote(script)}\n")
    shown = window.read_until(b"held the stick")
    return int(re.search(rb"waiter: (\d+)\.", shown)[1])  # type: ignore[index]


def release_while_stopped(conch: Conch, waiting: int) -> Any:
    """Release the stick to a process that cannot claim it, because it is stopped, but not in the middle of a write."""
    os.kill(waiting, signal.SIGSTOP)
    while (answer := conch("release", *DONE, "--json", agent="bob:2", CONCH_BUSY_TIMEOUT_MS="200")).status == 4:
        assert answer.error["code"] == "DB_BUSY"
        os.kill(waiting, signal.SIGCONT)
        os.kill(waiting, signal.SIGSTOP)
    return answer.data


def test_a_person_who_joins_to_look_is_passed_over_by_a_release(terminal: Terminal, conch: Conch) -> None:
    for agent in ("ada:1", "bob:2"):
        conch("join", agent=agent)
    joined = run(terminal(), "join")["data"]
    for agent in ("ada:1", "bob:2", "ada:1"):
        conch("wait", "--timeout", "0", agent=agent)
        released = conch("release", *DONE, "--json", agent=agent).data

        assert released["reserved_for"] in ("ada:1", "bob:2")
    assert joined["kind"] == "observer"
    assert "observer" in conch("state").out


def test_a_person_who_asks_for_turns_gets_them(terminal: Terminal, conch: Conch) -> None:
    conch("join")
    joined = run(terminal(), "join", "--take-turns")["data"]
    conch("wait", "--timeout", "0")

    assert joined["kind"] == "person"
    assert conch("release", *DONE, "--json").data["reserved_for"] == joined["agent_id"]


@pytest.mark.usefixtures("held")
def test_a_person_interrupted_while_waiting_holds_nothing_up(terminal: Terminal, conch: Conch) -> None:
    conch("release", *DONE)
    conch("wait", "--timeout", "0", agent="bob:2")
    window = terminal()
    eve = run(window, "join")["data"]["agent_id"]
    waiting = start_waiting(window)
    offered = release_while_stopped(conch, waiting)
    os.kill(waiting, signal.SIGTERM)
    os.kill(waiting, signal.SIGCONT)
    shown = window.read_until(b"ended: ").decode()

    assert offered["reserved_for"] == eve
    room = conch("state", "--json").data["room"]
    if "Interrupted while waiting" in shown:
        assert room["reserved_for"] == "ada:1"
    else:  # the offer was faster than the signal
        assert room["owner"] == eve


@pytest.mark.usefixtures("held")
def test_a_person_takes_the_stick_by_force_and_the_holder_learns_who_and_why(terminal: Terminal, conch: Conch) -> None:
    window = terminal()
    taken = run(window, *STEPS["take"])
    refused = conch("release", *DONE, "--json").error

    assert (taken["ok"], taken["data"]["revoked"]) == (True, "ada:1")
    assert refused["code"] == "stale_lease"
    assert refused["taken_by"].startswith("human:ada:pts") and "The build is broken" in refused["message"]
    assert run(window, "release", *DONE)["data"]["reserved_for"] == "bob:2"


@pytest.mark.usefixtures("held")
def test_a_person_passes_on_ends_a_reservation_nudges_and_ends_a_membership(terminal: Terminal, conch: Conch) -> None:
    window = terminal()
    nudged, ended, passed, kicked = (run(window, *STEPS[step]) for step in ("nudge", "unreserve", "pass", "kick"))

    assert [each["ok"] for each in (nudged, ended, passed, kicked)] == [True] * 4
    assert nudged["data"]["agent_id"] == "ada:1"
    assert [each["scope"] for each in ended["data"]["reservations"]] == ["src"]
    assert passed["data"]["reserved_for"] == "bob:2"
    assert kicked["data"] == {**kicked["data"], "agent_id": "ada:1", "opens_stick": False, "released": []}
    shown = conch("events", agent="bob:2").out
    for words in ("said (nudge)", "ended the reservation", "took by force", "passed the stick", "ended the membership"):
        assert words in shown


@pytest.mark.usefixtures("held")
def test_a_person_learns_which_reservations_have_ended_before_one_is_refused(terminal: Terminal) -> None:
    refused = run(terminal(), "unreserve", "--of", "ada:1", "src", "docs", "--reason", "lunch")["error"]

    assert refused["code"] == "RESERVATION_NOT_FOUND"
    assert "Ended before this: src." in refused["message"]


@pytest.mark.usefixtures("held")
def test_a_person_redacts_a_message_and_a_secret_that_others_repeat(terminal: Terminal, conch: Conch) -> None:
    conch("send", "the password is hunter2-horse")
    conch("send", "thanks for hunter2-horse", agent="bob:2")
    window = terminal()
    window.type(f"{shlex.join([*CONCH, *STEPS['redact'], '--secret'])}\n")
    window.read_until(b"from every text: ")
    window.type("hunter2-horse\n")
    shown = window.read_until(b"change the secret.").decode()

    assert "Redacted message #1 of ada·" in shown and "hunter2" not in shown
    told = conch("topics", "export", agent="bob:2").out
    assert "redacted this message: The build is broken" in told and "thanks for [redacted]" in told
    assert "hunter2" not in told


@pytest.mark.usefixtures("on_each_engine", "held")
def test_a_holder_on_the_command_line_sees_a_nudge_at_once(terminal: Terminal, conch: Conch) -> None:
    terminal().run("nudge", "ada:1", "Lunch is ready")

    shown, refused = conch("note", "Going on"), conch("reserve", "/")
    data, error = conch("state", "--json").data, conch("reserve", "/", "--json").error
    others = [conch(*words).out for words in READERS]
    read, after = conch("read"), conch("note", "Read")

    for text in (shown.out, refused.err, *others):
        assert re.search(r'^Mail: a person asks you to HAND OVER .*human·.*"Lunch is ready"', text, re.MULTILINE)
    assert data["mail"]["asked_to_hand_over"]["line"] == error["mail"]["asked_to_hand_over"]["line"] == "Lunch is ready"
    assert "Lunch is ready" in read.out and "Mail:" not in read.out + after.out


@pytest.mark.usefixtures("held")
def test_a_person_who_steps_in_reads_labels(terminal: Terminal) -> None:
    window = terminal()
    for step, label in {"nudge": "ada·", "unreserve": "ada·", "pass": "bob·", "take": "bob·", "kick": "ada·"}.items():
        shown = window.run(*STEPS[step])

        assert label in shown and not re.search("ada:1|bob:2", shown), shown


@pytest.mark.usefixtures("held")
def test_a_person_who_frees_no_name_learns_which_word_is_wrong(terminal: Terminal) -> None:
    window = terminal()
    wrong = [run(window, "names", "free", *words)["error"] for words in (("nobody",), ("",), ("x", "--topic", "none"))]

    assert [error["field"] for error in wrong] == ["name", "name", "topic"]


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("step", STEPS)
def test_an_agent_that_steps_in_is_refused(conch: Conch, step: str) -> None:
    before = conch.contents()
    error = conch(*STEPS[step], "--json", agent="bob:2").error

    assert (error["code"], error["reason"]) == ("person_required", "chosen_id")
    assert conch.contents() == before


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("step", ["take", "pass", "unreserve"])
def test_a_person_steps_in_under_no_other_name(terminal: Terminal, step: str) -> None:
    error = run(terminal(), *STEPS[step], "--agent", "bob:2")["error"]

    assert (error["code"], error["reason"]) == ("person_required", "chosen_id")


def test_the_status_says_that_a_person_watches_or_takes_turns(terminal: Terminal, conch: Conch) -> None:
    conch("join")
    window = terminal()
    watching = run(window, "join")["data"]
    seen, members = conch("status").out, conch("status", "--json").data["rooms"][0]["members"]
    window.run("join", "--take-turns")

    assert f"human·{watching['name']}   watches, last seen" in seen
    assert [(each["doing"], each["kind"]) for each in members] == [("here", "agent"), ("watching", "observer")]
    assert "here, a person who takes turns, last seen" in conch("status").out


@pytest.mark.usefixtures("held")
def test_a_harness_that_steps_in_is_refused(shell: Shell) -> None:
    for name in ("claude", "acme"):
        error = shell(name).run(*STEPS["take"], "--json").error

        assert (error["code"], error["reason"]) == ("person_required", "agent")


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("mark", ["CLAUDECODE", "CODEX_THREAD_ID", "CURSOR_TRACE_ID"])
def test_a_terminal_with_the_mark_of_a_harness_proves_no_person(terminal: Terminal, mark: str) -> None:
    window = terminal()
    window.type(f"export {mark}=1\n")

    assert run(window, *STEPS["take"])["error"]["code"] == "person_required"


@pytest.mark.usefixtures("held")
def test_an_unknown_program_in_a_terminal_is_no_person(terminal: Terminal, tmp_path: Any) -> None:
    acme = tmp_path / "acme"
    acme.write_text("import subprocess, sys\nsubprocess.run(sys.argv[1:])\n")
    window = terminal()
    window.type(f"python3 {acme} {shlex.join([*CONCH, *STEPS['take'], '--json'])}; echo ended: $?.\n")

    assert "person_required" in window.read_until(b"ended: ").decode()


@pytest.mark.usefixtures("held")
def test_an_unknown_program_that_opens_a_terminal_of_its_own_is_no_person(shell: Shell, tmp_path: Any) -> None:
    acme = tmp_path / "acme"
    acme.write_text("import pty, sys\npty.spawn(sys.argv[1:])\n")
    nested = ("bash", "-c", '"$@"; exit $?', "bash")

    joined = shell("tmux").run("join", "--json", through=("python3", str(acme), *nested)).data
    refused = shell("tmux").run(*STEPS["take"], "--json", through=("python3", str(acme), *nested))

    assert joined["kind"] == "agent"
    assert '"code": "person_required"' in refused.out and '"reason": "unknown_program"' in refused.out


@pytest.mark.usefixtures("held")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_a_person_in_a_foreign_pid_namespace_is_no_person(terminal: Terminal, shell: Shell) -> None:
    if shell("sh").bash("unshare -r -p -f --mount-proc true 2>/dev/null"):
        pytest.skip("this machine allows no namespaces")
    window = terminal()
    inside = shlex.quote(shlex.join([*CONCH, *STEPS["take"], "--json"]))
    window.type(f"unshare -r -p -f --mount-proc script -qec {inside} /dev/null; echo ended: $?.\n")

    assert "foreign_namespace" in window.read_until(b"ended: ").decode()


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("pass", "bob:2", *DONE, *WHY), "reason"),
        (("unreserve", "src", *WHY), "reason"),
        (("pass", "bob:2", "--to", "bob:2", *DONE), "agent"),
        (("pass", *DONE), "agent"),
    ],
)
def test_words_that_nothing_would_use_are_refused(conch: Conch, words: tuple[str, ...], field: str) -> None:
    before = conch.contents()
    refused = conch(*words, "--json")

    assert (refused.status, refused.error["field"]) == (2, field)
    assert conch.contents() == before


@pytest.mark.usefixtures("held")
def test_stepping_in_without_a_reason_changes_nothing(terminal: Terminal, conch: Conch) -> None:
    window = terminal()
    for words in (("pass", "--for", "ada:1", "--to", "bob:2"), ("unreserve", "--of", "ada:1", "src")):
        assert run(window, *words)["error"]["field"] == "reason"
    for words in (("take", "--force"), ("kick", "ada:1")):
        assert "--reason is required" in window.run(*words)
    assert conch("state", "--json").data["room"]["owner"] == "ada:1"
