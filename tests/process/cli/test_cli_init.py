"""`conch init`: who a session is, decided by an option, by a person, or refused with a recommendation."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hostile import plant_together

Conch = Callable[..., Any]


@pytest.fixture
def repository(conch: Conch) -> Path:
    workspace: Path = conch.workspace  # type: ignore[attr-defined]
    subprocess.run(["git", "init"], cwd=workspace, check=True, capture_output=True)
    return workspace


@pytest.fixture
def lost(conch: Conch, repository: Path, shell: Callable[[str], Any]) -> str:
    """The name of an agent whose harness ended in the middle of its work."""
    harness = shell("claude")
    harness.run("join")
    name: str = harness.run("agent", "register", "amber-otter", "--json").data["name"]
    assert harness.run("agent", "reserve", "src").status == 0
    (repository / "src").mkdir()
    (repository / "src" / "parser.py").write_text("half")
    harness.end()
    return name


def members(conch: Conch) -> list[str]:
    return [each["name"] for each in conch("agent", "list", "--json").data["agents"]]


def test_adopting_advises_a_command_and_no_tool(conch: Conch, lost: str) -> None:
    conch("join")

    said = conch("agent", "adopt", lost).out

    assert said.startswith(f"You are now ada·{lost}. You have its reservations and notices. ")
    assert said.endswith(" `conch agent inbox` shows the notices.\n")


def test_the_first_one_is_registered_under_a_generated_name(conch: Conch) -> None:
    answer = conch("init", "--non-interactive", "--json")

    assert set(answer.data) == {"agent_id", "name", "action", "reason"}
    assert (answer.data["agent_id"], answer.data["action"]) == ("ada:1", "registered")
    assert len(answer.data["name"].split("-")) == 2


def test_a_registered_agent_keeps_its_name(conch: Conch) -> None:
    first = conch("init", "--register", "amber-otter", "--json").data

    again = conch("init", "--non-interactive", "--json").data

    assert (first["name"], first["action"]) == ("amber-otter", "registered")
    assert (again["name"], again["action"]) == ("amber-otter", "continued")


def test_a_room_that_is_named_is_joined(conch: Conch) -> None:
    room_id = conch("join", "--json").data["room_id"]

    answer = conch("init", "--room", room_id, "--register", "amber-otter", "--json", agent="b:1")
    again = conch("init", "--room", room_id, "--json", agent="c:1")

    assert (answer.data["name"], answer.data["action"]) == ("amber-otter", "registered")
    assert again.data["action"] == "registered"
    assert [a["agent_id"] for a in conch("agent", "list", "--json").data["agents"]] == ["ada:1", "b:1", "c:1"]


def test_a_room_that_is_closed_or_unknown_is_not_joined(conch: Conch) -> None:
    room_id = conch("join", "--json").data["room_id"]
    conch("wait")
    conch("close", "--yes")

    assert conch("init", "--room", room_id, "--json", agent="b:1").error["code"] == "room_closed"
    assert conch("init", "--room", "room_0", "--json", agent="b:1").error["code"] == "unknown_room"


def test_a_refused_init_does_not_join(conch: Conch) -> None:
    bad = conch("init", "--register", "Bad", "--json", agent="b:1")
    alike = conch("init", "--register", "c0nch", "--json", agent="b:1")
    nobody = conch("init", "--adopt", "nobody", "--json", agent="b:1")
    assert conch("rooms", "--all", "--json").data["rooms"] == []
    conch("join")
    again = conch("init", "--adopt", "nobody", "--json", agent="b:1")

    assert bad.error["code"] == alike.error["code"] == "INVALID_AGENT_ID"
    assert nobody.error["code"] == again.error["code"] == "AGENT_NOT_FOUND"
    assert [each["agent_id"] for each in conch("agent", "list", "--json").data["agents"]] == ["ada:1"]


def test_a_name_that_is_taken_or_no_name_is_refused(conch: Conch) -> None:
    conch("init", "--register", "amber-otter")

    assert conch("init", "--register", "amber-otter", "--json", agent="b:1").error["code"] == "DUPLICATE_AGENT_ID"
    assert conch("init", "--register", "A", "--json", agent="b:1").error["code"] == "INVALID_AGENT_ID"
    assert members(conch) == ["amber-otter"]
    both = conch("init", "--register", "a-b", "--adopt", "amber-otter", "--json", agent="b:1")
    assert both.status == 2


@pytest.mark.parametrize("words", [("--non-interactive",), ()], ids=["told not to ask", "no terminal"])
def test_an_init_with_a_candidate_only_recommends(conch: Conch, lost: str, words: tuple[str, ...]) -> None:
    answers = [conch("init", *words, "--json") for _ in range(2)]

    error = answers[0].error
    assert error["code"] == "DECISION_NEEDED"
    assert error["recommendation"] == "conch init --adopt amber-otter"
    assert error["reason"] == "uncommitted_scope: Not committed: src/parser.py."
    assert answers[1].error == error
    assert "--adopt amber-otter" in conch("init", *words).err
    assert members(conch) == [lost]


def test_the_recommendation_works(conch: Conch, lost: str) -> None:
    answer = conch("init", "--adopt", "amber-otter", "--json")

    assert answer.data == {
        "agent_id": "ada:1",
        "name": "amber-otter",
        "action": "adopted",
        "reason": "uncommitted_scope: Not committed: src/parser.py.",
    }
    assert "ada·amber-otter Resumed the work of claude·amber-otter, now called claude·" in conch("events").out
    assert [r["name"] for r in conch("agent", "status", "--json").data["reservations"]] == ["amber-otter"]


def test_where_the_work_lies_is_meant_from_the_folder_where_it_is_typed(conch: Conch, lost: str) -> None:
    conch("join")
    (conch.workspace / "docs").mkdir()  # type: ignore[attr-defined]

    elsewhere = conch("agent", "adopt", lost, "--scope", ".", "--json", folder="docs")
    here = conch("agent", "adopt", lost, "--scope", "parser.py", "--json", folder="src")

    assert elsewhere.error["code"] == "ADOPTION_REJECTED"
    assert here.data["event"]["scope"] == "src/parser.py"


def test_registering_a_new_name_works_too(conch: Conch, lost: str) -> None:
    assert conch("init", "--register", "cobalt-harbor", "--json").data["action"] == "registered"


def test_nothing_is_resumed_without_evidence(conch: Conch, lost: str, repository: Path) -> None:
    (repository / "src" / "parser.py").unlink()

    assert conch("init", "--adopt", "amber-otter", "--json").error["code"] == "ADOPTION_REJECTED"
    assert conch("init", "--non-interactive", "--json").data["action"] == "registered"


def test_asking_git_runs_no_program_of_the_workspace(conch: Conch, lost: str, repository: Path, tmp_path: Path) -> None:
    hostile = plant_together(repository, tmp_path / "proofs")
    hostile.write("src/parser.py", "half again")

    recommended = conch("init", "--non-interactive", "--json")
    adopted = conch("init", "--adopt", lost, "--json")

    assert recommended.error["code"] == "DECISION_NEEDED"
    assert "src/parser.py" in adopted.data["reason"]
    assert hostile.take_proofs() == []


def test_on_a_terminal_a_person_is_asked(conch: Conch, lost: str, terminal: Callable[[], Any]) -> None:
    screen = terminal()
    screen.start("init")
    screen.read_until(b"Resume it? [y/N] ")

    screen.type("y\n")

    assert "You are now human·amber-otter".encode() in screen.read_until(b"ended: 0.")


def test_on_a_terminal_a_person_decides_without_evidence_and_the_record_says_so(
    conch: Conch, lost: str, repository: Path, terminal: Callable[[], Any]
) -> None:
    (repository / "src" / "parser.py").unlink()
    screen = terminal()
    screen.start("init", "--adopt", "amber-otter")
    asked = screen.read_until("Resume claude·amber-otter anyway? [y/N] ".encode())

    screen.type("y\n")

    assert b"notices. A person decided, without evidence" in b" ".join(screen.read_until(b"ended: 0.").split())
    assert (
        "no unfinished work of claude·amber-otter".encode() in b" ".join(asked.split())
        and b"last seen at" in asked
        and b"reserves src" in asked
    )
    assert "(person_decided). A person decided" in conch("events").out


@pytest.mark.parametrize("typed", ["\n", "no\n", "\x04"], ids=["nothing", "no", "end of input"])
def test_without_evidence_and_without_a_yes_nothing_is_resumed(
    conch: Conch, lost: str, repository: Path, terminal: Callable[[], Any], typed: str
) -> None:
    (repository / "src" / "parser.py").unlink()
    screen = terminal()
    screen.start("init", "--adopt", "amber-otter")
    screen.read_until(b"[y/N] ")

    screen.type(typed)

    refused = b" ".join(screen.read_until(b"ended: 1.").split())
    assert b"You did not say yes, so nothing was changed. (ADOPTION_REJECTED)" in refused
    assert members(conch) == [lost]


def test_a_person_is_not_asked_where_the_question_cannot_be_seen(
    conch: Conch, lost: str, repository: Path, terminal: Callable[[], Any]
) -> None:
    (repository / "src" / "parser.py").unlink()
    screen = terminal()
    screen.type("exec 2> /dev/null\n")

    screen.start("init", "--adopt", "amber-otter", "--json")

    assert b"ADOPTION_REJECTED" in screen.read_until(b"ended: 1.")


def test_a_person_is_not_asked_if_told_so_or_if_the_agent_still_runs(
    conch: Conch, lost: str, repository: Path, terminal: Callable[[], Any]
) -> None:
    (repository / "src" / "parser.py").unlink()
    conch("join", agent="bob:2")
    living = conch("whoami", "--json", agent="bob:2").data["name"]
    screen = terminal()

    told = screen.run("init", "--adopt", "amber-otter", "--non-interactive")
    running = screen.run("init", "--adopt", living)

    assert "ADOPTION_REJECTED" in told and "ADOPTION_REJECTED" in running
    assert "[y/N]" not in told + running


def test_a_harness_with_a_terminal_does_not_decide_for_a_person(
    conch: Conch, lost: str, repository: Path, terminal: Callable[[], Any]
) -> None:
    (repository / "src" / "parser.py").unlink()
    screen = terminal()
    screen.type("exec -a claude bash\n")

    answer = screen.run("init", "--adopt", "amber-otter")

    assert "ADOPTION_REJECTED" in answer and "[y/N]" not in answer


@pytest.mark.parametrize("begun", ["export CLAUDECODE=1", "exec -a gizmo python3 -c 'import os; os.system(\"bash\")'"])
def test_no_program_with_an_id_of_its_own_decides_for_a_person(
    conch: Conch, lost: str, repository: Path, terminal: Callable[[], Any], begun: str
) -> None:
    (repository / "src" / "parser.py").unlink()
    screen = terminal()
    screen.type(f"export CONCH_AGENT_ID=bob:2; {begun}\n")

    answer = screen.run("init", "--adopt", "amber-otter")

    assert "ADOPTION_REJECTED" in answer and "[y/N]" not in answer


def test_a_person_who_ends_the_input_has_decided_nothing(conch: Conch, lost: str, terminal: Callable[[], Any]) -> None:
    screen = terminal()
    screen.start("init")
    screen.read_until(b"Resume it? [y/N] ")

    screen.type("\x04")

    assert b"DECISION_NEEDED" in screen.read_until(b"ended: 1.")
    assert members(conch) == [lost]


def test_a_person_may_begin_afresh(conch: Conch, lost: str, terminal: Callable[[], Any]) -> None:
    screen = terminal()
    screen.start("init")
    screen.read_until(b"Resume it? [y/N] ")

    screen.type("\n")

    assert b"You chose to start fresh." in screen.read_until(b"ended: 0.")
