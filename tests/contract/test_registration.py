"""Names, roles and liveness; and identities that are resumed only with proof of unfinished work."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conch.app import App, open_app
from conch.errors import InvalidSetting
from conch.tools.registry import Outcome

BD = Path(__file__).with_name("bd.py")


@pytest.fixture
def ada(enter: Any) -> Any:
    return enter("ada:1")


@pytest.fixture
def bob(enter: Any) -> Any:
    return enter("bob:2")


# -- names


def test_a_registered_name_and_role_are_told_to_everybody(ada: Any, bob: Any) -> None:
    registered = ada.data("agent_register", name="amber-otter", role="reviewer")

    assert registered == {
        "agent_id": "ada:1",
        "name": "amber-otter",
        "role": "reviewer",
        "liveness": "active",
        "last_seen_at": "2027-01-15T08:00:00.000Z",
    }
    assert bob.data("agent_list")["agents"][0] == registered
    assert ada.name == "amber-otter"
    assert [member["name"] for member in bob.data("get_room_state")["members"]] == ["amber-otter", bob.name]


def test_without_a_name_the_generated_one_stays(ada: Any) -> None:
    generated = ada.name

    registered = ada.data("agent_register", role="tester")

    assert (registered["name"], registered["role"]) == (generated, "tester")
    assert len(generated.split("-")) == 2


def test_registering_again_changes_only_what_is_given(ada: Any) -> None:
    ada.data("agent_register", name="amber-otter", role="reviewer")

    again = ada.data("agent_register", name="amber-otter")
    renamed = ada.data("agent_register", name="cobalt-harbor")

    assert again["role"] == renamed["role"] == "reviewer"
    assert renamed["name"] == "cobalt-harbor"


@pytest.mark.parametrize("name", ["abc", "a-b", "007", "x" * 48, "amber-otter-2"])
def test_these_can_be_names(ada: Any, name: str) -> None:
    assert ada.data("agent_register", name=name)["name"] == name


@pytest.mark.parametrize(
    "name",
    ["", "ab", "x" * 49, "Amber", "amber_otter", "-amber", "amber-", "amber--otter", "amber otter", "ämber", "abc\n"],
)
def test_these_cannot_be_names(ada: Any, name: str) -> None:
    before = ada.name

    refusal = ada.refused("agent_register", name=name)

    assert (refusal["error"], refusal["field"]) == ("INVALID_AGENT_ID", "name")
    assert ada.data("agent_list")["agents"][0]["name"] == before


def test_a_name_belongs_to_one_agent(ada: Any, bob: Any) -> None:
    ada.data("agent_register", name="amber-otter")

    refusal = bob.refused("agent_register", name="amber-otter")

    assert (refusal["error"], refusal["agent_id"]) == ("DUPLICATE_AGENT_ID", "ada:1")


def test_a_new_name_is_the_agents_own_on_its_topics_too(app: App, ada: Any) -> None:
    former = ada.name

    ada.data("agent_register", name="amber-otter")

    with app.store.read() as tx:
        names = {row["agent_name"]: (row["is_own"], row["is_former"]) for row in tx.dump("agent_name_reservations")}
        assert names == {"amber-otter": (1, 0), former: (0, 1)}
        assert [row["agent_name"] for row in tx.dump("cursors")] == ["amber-otter"]


# -- liveness


def test_a_heartbeat_may_come_as_often_as_it_likes(ada: Any, clock: Any) -> None:
    first = ada.data("agent_heartbeat")
    assert ada.data("agent_heartbeat") == first
    clock.advance(minutes=10)

    assert ada.data("agent_heartbeat")["last_seen_at"] == "2027-01-15T08:10:00.000Z"


@pytest.mark.parametrize(
    ("setting", "minutes", "expected"),
    [
        ({}, 14.9, "active"),
        ({}, 15, "stale"),
        ({}, 29.9, "stale"),
        ({}, 30, "evicted"),
        ({"CONCH_STALE_MINUTES": "0.5"}, 0.4, "active"),
        ({"CONCH_STALE_MINUTES": "0.5"}, 0.5, "stale"),
        ({"CONCH_STALE_MINUTES": "0.5"}, 1, "evicted"),
        ({"BB_AGENT_STALE_MINUTES": "2"}, 3, "stale"),
        ({"CONCH_STALE_MINUTES": "60", "BB_AGENT_STALE_MINUTES": "2"}, 59, "active"),
    ],
)
def test_liveness_follows_from_the_last_call(
    environ: dict[str, str], ada: Any, clock: Any, setting: dict[str, str], minutes: float, expected: str
) -> None:
    clock.advance(minutes=minutes)
    app = open_app({**environ, **setting}, clock)

    (agent,) = app.registration.list_agents(None, ada.room_id)

    app.close()
    assert agent.liveness == expected


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf", "20000"])
def test_a_threshold_that_makes_no_sense_is_refused(environ: dict[str, str], value: str) -> None:
    with pytest.raises(InvalidSetting, match="CONCH_STALE_MINUTES must be a number from"):
        open_app({**environ, "CONCH_STALE_MINUTES": value})


def test_a_process_that_is_gone_is_evicted_at_once(enter: Any, bob: Any, child: Callable[[], Any]) -> None:
    process = child()
    enter("ada:1", process.process)

    process.kill()

    assert {a["agent_id"]: a["liveness"] for a in bob.data("agent_list")["agents"]} == {
        "bob:2": "active",
        "ada:1": "evicted",
    }


# -- adoption


@pytest.fixture
def git(workspace: str) -> Callable[..., None]:
    """The workspace as a real repository with one commit."""

    def run(*words: str) -> None:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *words], cwd=workspace, check=True, capture_output=True)

    run("init")
    write(workspace, "src/parser.py", "one\n" * 20)
    write(workspace, "src/lexer.py", "two\n" * 20)
    write(workspace, "docs/plan.md", "three\n")
    run("add", ".")
    run("commit", "-m", "begin")
    return run


def write(workspace: str, path: str, text: str = "changed\n") -> None:
    file = Path(workspace, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def lost(enter: Any, child: Callable[[], Any], git: Any) -> Any:
    """An agent that had reserved src, was sent a notice, and whose process is gone."""
    process = child()
    lost = enter("lost:9", process.process)
    lost.data("agent_register", name="amber-otter", role="parser")
    lost.reserve("src", ttl_minutes=30)
    lost.process = process
    return lost


def die(lost: Any) -> None:
    lost.process.kill()


def adopt(bob: Any, scope: str = "*", name: str = "amber-otter") -> Outcome:
    outcome: Outcome = bob.call("agent_adopt", name=name, scope=scope)
    return outcome


def test_an_identity_with_uncommitted_work_is_resumed(ada: Any, bob: Any, lost: Any, workspace: str) -> None:
    notice = {"subject": "s", "summary": "s", "next_action": "n"}
    sent = ada.data("event_send", event_type="HANDOFF", to_agent="amber-otter", payload=notice)["event"]
    write(workspace, "src/parser.py")
    die(lost)

    adopted = bob.data("agent_adopt", name="amber-otter", scope="src")

    assert (adopted["agent_id"], adopted["name"], adopted["role"]) == ("bob:2", "amber-otter", "parser")
    assert bob.name == "amber-otter"
    resume = adopted["event"]
    assert (resume["event_type"], resume["from_agent"], resume["scope"]) == ("RESUME", None, "src")
    assert resume["payload"] == {
        "resume_reason": "uncommitted_scope",
        "prior_session_agent": "lost:9",
        "adopted_agent": "amber-otter",
        "evidence": "Not committed: src/parser.py.",
    }
    assert [r["agent_id"] for r in bob.data("scope_list")["reservations"]] == ["bob:2"]
    assert [event["id"] for event in bob.inbox()] == [sent["id"]]
    names = {agent["agent_id"]: agent["name"] for agent in ada.data("agent_list")["agents"]}
    assert names["bob:2"] == "amber-otter" and names["lost:9"] not in ("amber-otter", "")


def test_whoever_resumes_an_identity_goes_on_with_its_questions(bob: Any, lost: Any, workspace: str) -> None:
    topic_id = bob.data("get_room_state")["room"]["topic_id"]
    asked = [
        each.data("ask", topic_id=topic_id, question="Why?", wait_seconds=0)["question_id"] for each in (lost, bob)
    ]
    write(workspace, "src/parser.py")
    die(lost)

    bob.data("agent_adopt", name="amber-otter", scope="src")

    for question_id in asked:
        ended = bob.data("question_mark_answered", topic_id=topic_id, question_id=question_id)
        assert ended["status"] == "answered"


def test_an_identity_is_resumed_by_one_agent_only(ada: Any, bob: Any, lost: Any, workspace: str) -> None:
    write(workspace, "src/parser.py")
    die(lost)
    bob.data("agent_adopt", name="amber-otter", scope="src")

    by_name, by_id = adopt(ada), adopt(ada, name="lost:9")

    assert (by_name.data["error"], by_name.data["reason"]) == ("ADOPTION_REJECTED", "still_running")
    assert (by_id.data["error"], by_id.data["reason"]) == ("ADOPTION_REJECTED", "no_unfinished_work")


def rename_out(workspace: str, git: Any) -> None:
    git("mv", "src/parser.py", "docs/parser.py")


def rename_in(workspace: str, git: Any) -> None:
    git("mv", "docs/plan.md", "src/plan.md")


def delete(workspace: str, git: Any) -> None:
    os.unlink(f"{workspace}/src/lexer.py")


def stage(workspace: str, git: Any) -> None:
    write(workspace, "src/lexer.py")
    git("add", ".")


UNFINISHED = {
    "changed": lambda workspace, git: write(workspace, "src/parser.py"),
    "staged": stage,
    "deleted": delete,
    "untracked": lambda workspace, git: write(workspace, "src/new.py"),
    "untracked in an untracked directory": lambda workspace, git: write(workspace, "src/new/deep/er.py"),
    "with a space, a quote and an arrow": lambda workspace, git: write(workspace, 'src/a "b" -> c.py'),
    "with letters that are not ASCII": lambda workspace, git: write(workspace, "src/ünï\n.py"),
    "renamed out of the scope": rename_out,
    "renamed into the scope": rename_in,
}


@pytest.mark.parametrize("case", UNFINISHED)
def test_what_is_not_committed_is_unfinished_work(bob: Any, lost: Any, workspace: str, git: Any, case: str) -> None:
    UNFINISHED[case](workspace, git)
    die(lost)

    outcome = adopt(bob, "src/*")

    assert not outcome.is_error, outcome.text
    assert outcome.data["event"]["payload"]["resume_reason"] == "uncommitted_scope"


def commit_it(workspace: str, git: Any) -> None:
    write(workspace, "src/parser.py")
    git("commit", "-am", "done")


def ignore_it(workspace: str, git: Any) -> None:
    write(workspace, ".git/info/exclude", "src/build\n")
    write(workspace, "src/build/out.o")


FINISHED = {
    "nothing changed": lambda workspace, git: None,
    "changed elsewhere": lambda workspace, git: write(workspace, "docs/plan.md"),
    "changed where the name only begins alike": lambda workspace, git: write(workspace, "src2/a.py"),
    "committed": commit_it,
    "ignored": ignore_it,
}


@pytest.mark.parametrize("case", FINISHED)
def test_anything_else_is_not_unfinished_work(bob: Any, lost: Any, workspace: str, git: Any, case: str) -> None:
    FINISHED[case](workspace, git)
    die(lost)

    outcome = adopt(bob)

    assert (outcome.data["error"], outcome.data["reason"]) == ("ADOPTION_REJECTED", "no_unfinished_work")
    assert bob.data("agent_list")["agents"][1]["name"] == "amber-otter"
    assert bob.inbox(state="all") == []


def test_work_counts_only_inside_the_scope_that_is_named(bob: Any, lost: Any, workspace: str) -> None:
    write(workspace, "src/parser.py")
    die(lost)

    assert adopt(bob, "src/lexer.py").data["reason"] == "no_unfinished_work"
    assert adopt(bob, "docs").data["reason"] == "no_unfinished_work"
    assert not adopt(bob, "src/parser.py").is_error


def test_work_in_what_was_released_is_not_its_own(bob: Any, lost: Any, workspace: str) -> None:
    write(workspace, "src/parser.py")
    lost.data("scope_release", scope="src")
    die(lost)

    assert adopt(bob).data["error"] == "ADOPTION_REJECTED"


def test_a_reservation_that_is_over_still_says_whose_work_it_was(
    bob: Any, lost: Any, workspace: str, clock: Any
) -> None:
    write(workspace, "src/parser.py")
    die(lost)
    clock.advance(minutes=31)
    bob.data("agent_heartbeat")

    assert not adopt(bob).is_error
    assert bob.data("scope_list")["reservations"] == []


def test_a_living_process_is_never_adopted_however_silent(bob: Any, lost: Any, workspace: str, clock: Any) -> None:
    write(workspace, "src/parser.py")
    clock.advance(minutes=1_000)

    refusal = adopt(bob).data

    assert (refusal["error"], refusal["reason"]) == ("ADOPTION_REJECTED", "still_running")


def test_an_agent_without_a_process_is_not_adopted_while_it_is_active(
    ada: Any, bob: Any, workspace: str, git: Any, clock: Any
) -> None:
    ada.reserve("src", ttl_minutes=1_440)
    write(workspace, "src/parser.py")
    assert adopt(bob, name=ada.name).data["reason"] == "still_running"

    clock.advance(minutes=16)

    assert not adopt(bob, name=ada.name).is_error


def test_nobody_adopts_itself_or_somebody_who_is_not_there(ada: Any) -> None:
    assert adopt(ada, name=ada.name).data["reason"] == "already_yours"
    assert adopt(ada, name="amber-otter").data["error"] == "AGENT_NOT_FOUND"


def test_a_workspace_without_git_has_no_evidence_of_it(ada: Any, bob: Any, clock: Any) -> None:
    ada.reserve("src")
    clock.advance(minutes=16)

    assert "git could not tell" in adopt(bob, name=ada.name).data["message"]


def test_asking_git_neither_locks_nor_changes_the_index(bob: Any, lost: Any, workspace: str) -> None:
    write(workspace, "src/parser.py")
    die(lost)
    index = Path(workspace, ".git/index")
    before = index.read_bytes()
    Path(workspace, ".git/index.lock").touch()  # somebody's own git is at work

    assert not adopt(bob).is_error
    assert index.read_bytes() == before


def test_a_hooks_git_variables_do_not_lead_elsewhere(
    bob: Any, lost: Any, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    write(workspace, "src/parser.py")
    die(lost)

    assert not adopt(bob).is_error


# -- Beads


@pytest.fixture
def beads(workspace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in `bd` on PATH; what it says is in a folder, and so is what it was asked."""
    folder = tmp_path / "bd"
    folder.mkdir()
    program = folder / "bd"
    shutil.copy(BD, program)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    Path(workspace, ".beads").mkdir()
    Path(workspace, ".beads", "issues.jsonl").write_text("{}\n")
    (folder / "items.json").write_text('[{"id": "bd-1", "status": "in_progress", "assignee": "amber-otter"}]')
    return folder


def test_an_identity_with_work_in_progress_is_resumed(bob: Any, lost: Any, beads: Path) -> None:
    die(lost)

    event = adopt(bob).data["event"]

    assert event["payload"]["resume_reason"] == "in_progress_ownership"
    assert event["payload"]["evidence"] == "In progress: bd-1."
    assert event["bead_id"] == "bd-1"


def test_work_that_somebody_else_does_is_no_evidence(bob: Any, lost: Any, beads: Path) -> None:
    (beads / "items.json").write_text('[{"id": "bd-1", "status": "in_progress", "assignee": "somebody"}, {"id": "x"}]')
    die(lost)

    assert adopt(bob).data["reason"] == "no_unfinished_work"


@pytest.mark.parametrize("mode", ["plain", "enveloped"])
def test_a_bead_is_checked_where_there_is_beads(ada: Any, bob: Any, beads: Path, mode: str) -> None:
    (beads / "mode").write_text(mode)

    assert ada.reserve("src", bead_id="bd-1")["bead_id"] == "bd-1"
    refusal = ada.refused("scope_reserve", scope="docs", bead_id="bd-2")
    option = ada.refused("scope_reserve", scope="docs", bead_id="--help")

    assert refusal["error"] == option["error"] == "INVALID_ARGS"
    assert refusal["field"] == option["field"] == "bead_id"
    notice = {"subject": "s", "summary": "s", "next_action": "n"}
    given = {"event_type": "HANDOFF", "to_agent": bob.name, "payload": notice}
    assert ada.refused("event_send", **given, bead_id="bd-2")["field"] == "bead_id"


@pytest.mark.parametrize("mode", ["another program", "broken", "not json"])
def test_another_program_called_bd_is_not_asked(ada: Any, beads: Path, mode: str) -> None:
    (beads / "mode").write_text(mode)

    assert ada.reserve("src", bead_id="anything goes")["bead_id"] == "anything goes"
    assert (beads / "asked").read_text().splitlines() == ["version --json"]


def test_without_beads_in_the_workspace_nothing_is_asked(ada: Any, beads: Path, workspace: str) -> None:
    shutil.rmtree(Path(workspace, ".beads"))

    ada.reserve("src", bead_id="anything goes")

    assert not (beads / "asked").exists()


def test_beads_is_asked_only_what_does_not_change_it(bob: Any, lost: Any, beads: Path, workspace: str) -> None:
    bob.reserve("docs", bead_id="bd-1")
    die(lost)
    adopt(bob)

    assert (beads / "asked").read_text().splitlines() == [
        "version --json",
        "show bd-1 --json",
        "version --json",
        "list --status in_progress --limit 0 --json",
    ]
    assert os.listdir(Path(workspace, ".beads")) == ["issues.jsonl"]


def test_a_name_never_stands_for_two(enter: Any) -> None:
    alice, mallory = enter("alice"), enter("mallory:1")

    assert mallory.refused("agent_register", name="alice")["error"] == "DUPLICATE_AGENT_ID"
    assert alice.data("agent_heartbeat")["agent_id"] == "alice"


def test_an_agent_is_found_by_its_id_before_anybodys_name(enter: Any) -> None:
    mallory = enter("mallory:1")
    mallory.data("agent_register", name="alice")

    assert enter("alice").data("agent_heartbeat")["agent_id"] == "alice"


def test_nobody_can_be_called_like_the_system(enter: Any) -> None:
    assert enter("codex:1").refused("agent_register", name="conch")["error"] == "INVALID_AGENT_ID"


def test_whoever_lists_the_agents_is_there(enter: Any, clock: Any) -> None:
    codex = enter("codex:1")
    clock.advance(minutes=60)

    assert [agent["liveness"] for agent in codex.data("agent_list")["agents"]] == ["active"]
