"""Identities that are resumed only with proof of unfinished work, in real git repositories and a stand-in Beads."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.callers import person
from tests.hostile import plant_together

from conch.agents.people import Person
from conch.app import App
from conch.notices.timeline import read_timeline
from conch.overseeing.steering import Steering
from conch.tools import timeline_view
from conch.tools.replies import Reply
from conch.upkeep.verify import verify_store

BD = Path(__file__).with_name("bd.py")


def run_git(folder: str, *words: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A real one with one commit. Copying it is faster than making it."""
    folder = str(tmp_path_factory.mktemp("repository"))
    write(folder, "AGENTS.md", "")
    write(folder, "src/parser.py", "one\n" * 20)
    write(folder, "src/lexer.py", "two\n" * 20)
    write(folder, "docs/plan.md", "three\n")
    for words in (("init",), ("add", "."), ("commit", "-m", "begin")):
        run_git(folder, *words)
    return folder


@pytest.fixture
def git(workspace: str, repository: str) -> Callable[..., None]:
    """Runs git in the workspace, which is a copy of the repository."""
    shutil.copytree(repository, workspace, dirs_exist_ok=True)
    return partial(run_git, workspace)


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


def adopt(bob: Any, scope: str = "*", name: str = "amber-otter") -> Reply:
    outcome: Reply = bob.call("agent_adopt", name=name, scope=scope)
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


def test_an_agent_that_resumes_an_identity_takes_over_its_questions(bob: Any, lost: Any, workspace: str) -> None:
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


def test_an_agent_that_resumes_an_identity_does_not_answer_again(ada: Any, bob: Any, lost: Any, workspace: str) -> None:
    question_id = ada.data("ask", topic_id=ada.home, question="Why?", wait_seconds=0)["question_id"]
    response = {"question_id": question_id, "answer_markdown": "So.", "suggested_followups": ["And?"]}
    lost.data("answer", topic_id=lost.home, responses=[response])
    write(workspace, "src/parser.py")
    die(lost)

    bob.data("agent_adopt", name="amber-otter", scope="src")

    assert bob.data("pending_list", topic_id=bob.home, wait_seconds=0)["questions"] == []
    refusal = bob.refused("answer", topic_id=bob.home, responses=[response])
    assert refusal["error"] == "FORBIDDEN_ALREADY_ANSWERED"


def test_an_agent_that_resumes_an_identity_has_sent_nothing_yet(bob: Any, lost: Any, workspace: str) -> None:
    key = {"content_markdown": "by the lost one", "client_message_id": "1"}
    lost.data("sync", topic_id=lost.home, outbox=[key], wait_seconds=0)
    write(workspace, "src/parser.py")
    die(lost)
    bob.data("agent_adopt", name="amber-otter", scope="src")

    synced = bob.data("sync", topic_id=bob.home, outbox=[{**key, "content_markdown": "new"}], wait_seconds=0)

    assert synced["sent"][0]["message"]["content_markdown"] == "new"
    assert [each["content_markdown"] for each in synced["received"]] == ["by the lost one"]


def test_messages_of_an_identity_are_new_to_the_agent_that_resumes_it(bob: Any, lost: Any, workspace: str) -> None:
    key = {"content_markdown": "as the otter", "client_message_id": "k"}
    lost.data("sync", topic_id=lost.home, outbox=[key], wait_seconds=0)
    lost.data("agent_register", name="red-fox")
    lost.send(lost.home, "as the fox")
    write(workspace, "src/parser.py")
    die(lost)
    bob.data("agent_adopt", name="red-fox", scope="src")

    synced = bob.data("sync", topic_id=bob.home, outbox=[{**key, "content_markdown": "new"}], wait_seconds=0)

    assert [each["content_markdown"] for each in synced["received"]] == ["as the otter", "as the fox"]
    assert synced["sent"][0]["message"]["content_markdown"] == "new"


def test_an_identity_is_resumed_by_a_name_that_it_had_before(bob: Any, lost: Any, workspace: str) -> None:
    lost.data("agent_register", name="red-fox")
    write(workspace, "src/parser.py")
    die(lost)

    assert bob.data("agent_adopt", name="amber-otter", scope="src")["name"] == "red-fox"


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


def retarget(workspace: str, git: Any) -> None:
    os.symlink("parser.py", f"{workspace}/src/current")
    git("add", ".")
    git("commit", "-m", "link")
    os.unlink(f"{workspace}/src/current")
    os.symlink("../docs", f"{workspace}/src/current")


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
    "a link that points elsewhere now": retarget,
}


@pytest.mark.parametrize("case", UNFINISHED)
def test_uncommitted_changes_are_unfinished_work(bob: Any, lost: Any, workspace: str, git: Any, case: str) -> None:
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


def test_work_in_a_released_scope_is_not_its_own(bob: Any, lost: Any, workspace: str) -> None:
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


def test_only_the_file_that_was_taken_over_is_no_longer_its_own(ada: Any, bob: Any, lost: Any, workspace: str) -> None:
    write(workspace, "src/parser.py")
    write(workspace, "src/lexer.py")
    die(lost)
    ada.reserve("src/lexer.py", takeover_stale=True)

    assert adopt(bob, "src/lexer.py").data["reason"] == "no_unfinished_work"
    assert adopt(bob).data["event"]["payload"]["evidence"] == "Not committed: src/parser.py."
    assert [(r["scope"], r["name"]) for r in bob.data("scope_list")["reservations"]] == [("src/lexer.py", ada.name)]


def test_an_agent_with_its_own_reservation_there_can_resume_the_identity(bob: Any, lost: Any, workspace: str) -> None:
    write(workspace, "src/parser.py")
    die(lost)
    bob.reserve("src", takeover_stale=True)

    adopted = bob.data("agent_adopt", name="amber-otter", scope="src")

    assert adopted["event"]["payload"]["evidence"].startswith("Not committed: src/parser.py.")


def test_an_expired_reservation_does_not_prevent_a_resumption(
    ada: Any, bob: Any, lost: Any, workspace: str, clock: Any
) -> None:
    write(workspace, "src/parser.py")
    die(lost)
    clock.advance(minutes=31)
    ada.reserve("src/parser.py", ttl_minutes=5)
    clock.advance(minutes=6)

    assert not adopt(bob).is_error


def test_a_resumption_without_a_recorded_heir_is_no_obstacle(
    app: App, ada: Any, bob: Any, lost: Any, workspace: str
) -> None:
    write(workspace, "src/parser.py")
    die(lost)
    bob.data("agent_adopt", name="amber-otter", scope="src")
    with app.store.write(bob.room_id) as tx:
        rows = list(tx.dump("room_activity"))
        latest = max(row["number"] for row in rows)
        resumed = next(row for row in rows if row["kind"] == "RESUME")
        tx.load("room_activity", [{**resumed, "number": latest + 1, "details_json": None}])

    assert app.adoption.candidates(ada.session.caller(), ada.room_id) == []
    assert read_timeline(app.store, ada.room_id, None, 100).entries


def test_a_scope_that_was_taken_over_is_not_its_own_after_a_resumption(
    app: App, ada: Any, bob: Any, lost: Any, workspace: str
) -> None:
    write(workspace, "src/parser.py")
    die(lost)
    ada.reserve("src/lexer.py", takeover_stale=True)
    bob.data("agent_adopt", name="amber-otter", scope="*")

    assert adopt(ada, name="lost:9").data["reason"] == "no_unfinished_work"
    assert app.adoption.candidates(ada.session.caller(), ada.room_id) == []


def test_an_expired_reservation_is_not_its_own_after_the_directory_was_released(
    bob: Any, lost: Any, workspace: str, clock: Any
) -> None:
    clock.advance(minutes=31)
    lost.reserve(".")
    write(workspace, "src/parser.py")
    lost.data("scope_release", scope=".")
    die(lost)

    assert adopt(bob).data["reason"] == "no_unfinished_work"


# -- with the stick, an agent has claimed the whole workspace


@pytest.fixture
def holder(enter: Any, child: Callable[[], Any], git: Any) -> Any:
    """An agent that reserved nothing, and holds the stick."""
    process = child()
    holder = enter("lost:9", process.process)
    holder.data("agent_register", name="amber-otter")
    holder.turn = holder.data("wait_for_turn", max_wait_ms=0)
    holder.process = process
    return holder


def hand_over(owner: Any, turn: Any) -> None:
    handoff = {"status": "s", "next_action": "n"}
    owner.data("release_stick", lease_id=turn["lease_id"], expected_turn_id=turn["turn_id"], handoff=handoff)


def take_over(client: Any) -> Any:
    turn_id = client.data("get_room_state")["room"]["turn_id"]
    return client.data("takeover_stick", expected_turn_id=turn_id, reason="it is gone")


def test_a_holder_of_the_stick_with_uncommitted_files_is_resumed(
    bob: Any, holder: Any, workspace: str, app: App
) -> None:
    write(workspace, "docs/plan.md")
    die(holder)

    adopted = adopt(bob, "docs")

    assert adopted.data["event"]["payload"]["evidence"] == "Not committed: docs/plan.md."
    assert adopted.data["stick_held_by"] == "lost:9" and "takeover_stick" in adopted.text
    assert take_over(bob)["revoked"] == "lost:9"
    assert verify_store(app.store).problems == []


def test_a_holder_can_be_resumed_after_the_caller_took_over_its_stick(bob: Any, holder: Any, workspace: str) -> None:
    write(workspace, "docs/plan.md")
    die(holder)
    take_over(bob)

    adopted = adopt(bob)

    assert not adopted.is_error
    assert "takeover_stick" not in adopted.text


def test_work_with_a_stick_that_another_agent_took_over_is_that_agents(
    ada: Any, bob: Any, holder: Any, workspace: str
) -> None:
    write(workspace, "docs/plan.md")
    die(holder)
    take_over(ada)

    assert adopt(bob).data["reason"] == "no_unfinished_work"


def test_an_agent_that_handed_over_has_claimed_nothing(bob: Any, holder: Any, workspace: str) -> None:
    write(workspace, "docs/plan.md")
    hand_over(holder, holder.turn)
    die(holder)

    assert adopt(bob).data["reason"] == "no_unfinished_work"


def test_a_claim_that_was_not_delivered_is_no_evidence(bob: Any, holder: Any, child: Any, workspace: str) -> None:
    hand_over(holder, holder.turn)
    holder.call("wait_for_turn", max_wait_ms=0, arrives=False)
    write(workspace, "docs/plan.md")
    die(holder)

    assert adopt(bob).data["reason"] == "no_unfinished_work"


def test_files_that_others_have_reserved_are_not_the_holders(ada: Any, bob: Any, holder: Any, workspace: str) -> None:
    ada.reserve("docs")
    write(workspace, "docs/plan.md")
    die(holder)

    assert adopt(bob).data["reason"] == "no_unfinished_work"


def test_an_agent_that_resumed_a_holder_and_died_can_be_resumed(
    ada: Any, enter: Any, child: Any, holder: Any, workspace: str
) -> None:
    write(workspace, "docs/plan.md")
    die(holder)
    process = child()
    heir = enter("heir:3", process.process)
    adopt(heir)
    process.kill()

    assert not adopt(ada).is_error
    assert adopt(enter("late:4"), name="lost:9").is_error


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


def test_an_agent_cannot_adopt_itself_or_an_unknown_agent(ada: Any) -> None:
    assert adopt(ada, name=ada.name).data["reason"] == "already_yours"
    assert adopt(ada, name="amber-otter").data["error"] == "AGENT_NOT_FOUND"


def test_a_workspace_without_git_has_no_evidence_of_it(ada: Any, bob: Any, clock: Any) -> None:
    ada.reserve("src")
    clock.advance(minutes=16)

    assert "git could not list the changed files" in adopt(bob, name=ada.name).data["message"]


def test_asking_git_neither_locks_nor_changes_the_index(bob: Any, lost: Any, workspace: str) -> None:
    write(workspace, "src/parser.py")
    die(lost)
    index = Path(workspace, ".git/index")
    before = index.read_bytes()
    Path(workspace, ".git/index.lock").touch()  # another git is running

    assert not adopt(bob).is_error
    assert index.read_bytes() == before


def test_asking_git_runs_no_program_of_the_workspace(bob: Any, lost: Any, workspace: str, tmp_path: Path) -> None:
    hostile = plant_together(Path(workspace), tmp_path / "proofs")
    write(workspace, "src/parser.py")
    die(lost)

    adopted = adopt(bob)

    assert "src/parser.py" in adopted.data["event"]["payload"]["evidence"]
    assert hostile.take_proofs() == []


def test_a_hooks_git_variables_do_not_lead_elsewhere(
    bob: Any, lost: Any, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    write(workspace, "src/parser.py")
    die(lost)

    assert not adopt(bob).is_error


def test_a_stick_that_waits_for_the_identity_can_be_claimed_at_once(
    app: App, ada: Any, bob: Any, enter: Any, git: Any, workspace: str, clock: Any
) -> None:
    lost, handoff = enter("lost:9"), {"status": "half done", "next_action": "the other half"}
    lost.reserve("src", ttl_minutes=1_440)
    turn = ada.data("wait_for_turn", max_wait_ms=0)
    held = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    ada.data("pass_stick", **held, to_agent_id="lost:9", handoff=handoff)
    write(workspace, "src/parser.py")
    clock.advance(minutes=16)

    bob.data("agent_adopt", name=lost.name, scope="src")

    state = ada.data("get_room_state")
    assert (state["room"]["reserved_for"], state["takeover"]["available"]) == ("bob:2", False)
    assert state["room"]["claim_expires_at"] == "2027-01-15T08:36:00.000Z"
    claimed = bob.data("wait_for_turn", max_wait_ms=0)
    assert (claimed["status"], claimed["reason"], claimed["from_agent_id"]) == ("your_turn", "direct_pass", "ada:1")
    assert claimed["handoff"] == handoff
    assert [event["payload"]["summary"] for event in bob.inbox(state="accepted")] == ["half done"]
    assert verify_store(app.store).problems == []


def test_a_store_is_sound_after_an_agent_reclaims_the_name_that_it_resumes(
    app: App, ada: Any, bob: Any, lost: Any, workspace: str
) -> None:
    notice = {"subject": "s", "summary": "s", "next_action": "n"}
    sent = ada.data("event_send", event_type="HANDOFF", to_agent="amber-otter", payload=notice)["event"]
    token = lost.join(lost.home, "amber-otter")["reclaim_token"]
    write(workspace, "src/parser.py")
    die(lost)
    bob.join(bob.home, "amber-otter", reclaim_token=token)  # so that the name means this peer, not bob himself

    adopt(bob)

    bob.data("event_mark", event_id=sent["id"], mark="accepted")
    assert bob.name == "amber-otter"
    assert [problem.sentence for problem in verify_store(app.store).problems] == []


def test_a_store_is_sound_after_a_member_loses_its_name_on_the_topic(app: App, ada: Any, bob: Any) -> None:
    name = ada.name
    bob.join(bob.home, name, reclaim_token=ada.join(ada.home, name)["reclaim_token"])

    ada.data("join_path", context_path=ada.joined["canonical_path"])
    before = [problem.sentence for problem in verify_store(app.store).problems]
    app.messages.free_name(ada.home, name, "an operator")

    assert (ada.name, before) == (name, [])
    assert [problem.sentence for problem in verify_store(app.store).problems] == []


def test_a_stick_reserved_for_another_agent_stays_reserved_for_it(
    ada: Any, bob: Any, lost: Any, workspace: str
) -> None:
    turn = bob.data("wait_for_turn", max_wait_ms=0)
    held = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    bob.data("pass_stick", **held, to_agent_id="ada:1", handoff={"status": "s", "next_action": "n"})
    write(workspace, "src/parser.py")
    die(lost)

    adopt(bob)

    assert ada.data("wait_for_turn", max_wait_ms=0)["status"] == "your_turn"


def test_a_name_that_another_room_has_too_is_resumed_in_this_one_only(
    bob: Any, lost: Any, enter: Any, workspace: str, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "AGENTS.md").write_text("")
    other = enter("cleo:3", folder=str(tmp_path / "elsewhere"))
    other.data("agent_register", name="amber-otter")
    write(workspace, "src/parser.py")
    die(lost)

    bob.data("agent_adopt", name="amber-otter", scope="src")

    assert [agent["name"] for agent in other.data("agent_list")["agents"]] == ["amber-otter"]
    assert bob.send(bob.home, "hi")[0]["sender"] == "amber-otter"


# -- repositories in the repository


def commit(folder: str, *words: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def make_repository(folder: Path, path: str) -> None:
    folder.mkdir(parents=True)
    commit(str(folder), "init")
    write(str(folder), path, "one\n")
    commit(str(folder), "add", ".")
    commit(str(folder), "commit", "-m", "begin")


@pytest.fixture
def submodule(git: Any, workspace: str, tmp_path: Path) -> None:
    """The workspace with a submodule at src/lib, all of it committed."""
    make_repository(tmp_path / "library", "core/tree.py")
    git("-c", "protocol.file.allow=always", "submodule", "add", str(tmp_path / "library"), "src/lib")
    git("commit", "-m", "with a library")


@pytest.fixture
def nested(git: Any, workspace: str) -> None:
    """The workspace with a repository of its own at src/lib, which git sees only as something untracked."""
    make_repository(Path(workspace, "src/lib"), "core/tree.py")


INNER = ["changed", "untracked", "staged", "deleted"]


def change_inside(workspace: str, how: str) -> None:
    if how == "deleted":
        os.unlink(f"{workspace}/src/lib/core/tree.py")
        return
    write(workspace, "src/lib/core/new.py" if how == "untracked" else "src/lib/core/tree.py")
    if how == "staged":
        commit(f"{workspace}/src/lib", "add", ".")


@pytest.mark.parametrize("how", INNER)
@pytest.mark.parametrize("kind", ["submodule", "nested"])
def test_uncommitted_changes_in_an_inner_repository_are_unfinished_work(
    request: pytest.FixtureRequest, workspace: str, bob: Any, kind: str, how: str
) -> None:
    request.getfixturevalue(kind)
    lost = request.getfixturevalue("lost")
    lost.data("scope_release", scope="src")
    lost.reserve("src/lib/core")
    change_inside(workspace, how)
    die(lost)

    adopted = adopt(bob, "src/lib/core")

    assert not adopted.is_error, adopted.text
    file = "new" if how == "untracked" else "tree"
    assert adopted.data["event"]["payload"]["evidence"] == f"Not committed: src/lib/core/{file}.py."


def test_a_submodule_that_git_ignores_is_still_checked(
    submodule: None, lost: Any, workspace: str, bob: Any, git: Any
) -> None:
    git("config", "submodule.src/lib.ignore", "all")
    change_inside(workspace, "changed")
    die(lost)

    adopted = adopt(bob, "src/lib")

    assert not adopted.is_error, adopted.text


@pytest.mark.parametrize("kind", ["submodule", "nested"])
def test_what_is_committed_in_an_inner_repository_is_finished_inside_of_it(
    request: pytest.FixtureRequest, workspace: str, bob: Any, kind: str
) -> None:
    request.getfixturevalue(kind)
    lost = request.getfixturevalue("lost")
    lost.data("scope_release", scope="src")
    lost.reserve("src/lib/core")
    write(workspace, "src/lib/core/tree.py")
    commit(f"{workspace}/src/lib", "commit", "-am", "done")
    die(lost)

    assert adopt(bob).data["reason"] == "no_unfinished_work"


def test_a_room_inside_a_repository_uses_that_repository(
    app: App, enter: Any, git: Any, workspace: str, child: Callable[[], Any]
) -> None:
    process, folder = child(), f"{workspace}/src"
    app.membership.join_path(enter("first:1").session.caller(), folder, force_new=True)
    lost, bob = enter("lost:9", process.process, folder), enter("bob:2", None, folder)
    lost.reserve("parser.py")
    write(workspace, "src/parser.py")
    process.kill()

    adopted = adopt(bob, name=lost.name)

    assert bob.joined["canonical_path"] == folder
    assert adopted.data["event"]["payload"]["evidence"] == "Not committed: parser.py."


def test_a_link_to_another_repository_is_one_change(bob: Any, lost: Any, workspace: str, tmp_path: Path) -> None:
    make_repository(tmp_path / "library", "core/tree.py")
    write(str(tmp_path / "library"), "core/tree.py")
    os.symlink(tmp_path / "library", f"{workspace}/src/lib")
    die(lost)

    assert adopt(bob).data["event"]["payload"]["evidence"] == "Not committed: src/lib."


# -- Beads


@pytest.fixture
def beads(workspace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in `bd` on PATH. A folder holds its answers, and the questions it was asked."""
    folder = tmp_path / "bd"
    folder.mkdir()
    program = folder / "bd"
    program.write_text(f"#!{sys.executable} -IS\n{BD.read_text()}")
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


@pytest.mark.parametrize(
    ("scope", "is_resumed"), [("src", True), ("src/parser.py", True), ("*", True), ("docs", False)]
)
def test_work_that_files_were_reserved_for_counts_where_they_are(
    bob: Any, lost: Any, beads: Path, scope: str, is_resumed: bool
) -> None:
    lost.reserve("src", bead_id="bd-1")
    die(lost)

    assert adopt(bob, scope).is_error is not is_resumed


def test_work_that_no_file_was_reserved_for_counts_everywhere(bob: Any, lost: Any, beads: Path) -> None:
    die(lost)

    assert not adopt(bob, "docs").is_error


def test_work_of_a_resumed_id_counts_for_the_agent_that_resumed_it(
    app: App, enter: Any, child: Callable[[], Any], ada: Any, lost: Any, beads: Path
) -> None:
    (beads / "items.json").write_text('[{"id": "bd-1", "status": "in_progress", "assignee": "lost:9"}]')
    die(lost)
    heir = child()
    bob = enter("bob:2", heir.process)
    bob.data("agent_adopt", name="amber-otter", scope="*")

    assert adopt(ada, name="lost:9").data["reason"] == "no_unfinished_work"
    heir.kill()
    found = app.adoption.candidates(ada.session.caller(), ada.room_id)
    assert [candidate.agent.agent_id for candidate in found] == ["bob:2"]
    assert adopt(ada).data["event"]["bead_id"] == "bd-1"


@pytest.mark.parametrize("assignee", ["lost:9", "amber-otter"])
def test_work_is_the_identitys_by_its_name_or_its_id(bob: Any, lost: Any, beads: Path, assignee: str) -> None:
    item = {"id": "bd-1", "status": "in_progress", "assignee": assignee}
    (beads / "items.json").write_text(json.dumps([item]))
    die(lost)

    assert adopt(bob).data["event"]["bead_id"] == "bd-1"


@pytest.mark.parametrize("assignee", ["amber", "amber-otter-2", "Amber-Otter", "amber-otter,bob", "bob:2", "lost", ""])
def test_work_of_an_agent_with_a_similar_name_is_no_evidence(bob: Any, lost: Any, beads: Path, assignee: str) -> None:
    item = {"id": "bd-1", "status": "in_progress", "assignee": assignee, "owner": "amber-otter"}
    (beads / "items.json").write_text(json.dumps([item]))
    die(lost)

    assert adopt(bob).data["reason"] == "no_unfinished_work"


def test_the_bead_of_a_resumption_is_that_of_the_files_that_were_touched(
    bob: Any, lost: Any, beads: Path, workspace: str
) -> None:
    items = [{"id": f"bd-{number}", "status": "open"} for number in (1, 2, 3)]
    (beads / "items.json").write_text(json.dumps(items))
    lost.data("scope_release", scope="src")
    for path, bead_id in (("docs", "bd-1"), ("src/lexer.py", "bd-2"), ("src/parser.py", "bd-3")):
        lost.reserve(path, bead_id=bead_id)
    write(workspace, "src/parser.py")
    die(lost)

    event = adopt(bob).data["event"]

    assert (event["bead_id"], event["payload"]["resume_reason"]) == ("bd-3", "uncommitted_scope")


def test_a_resumption_names_every_bead_of_the_files_that_were_touched(bob: Any, lost: Any, workspace: str) -> None:
    lost.data("scope_release", scope="src")
    for number in range(5):
        lost.reserve(f"src/{number}.py", bead_id=f"bd-{number}")
        write(workspace, f"src/{number}.py")
    die(lost)

    event = adopt(bob).data["event"]

    assert event["bead_id"] == "bd-0"
    assert event["payload"]["evidence"].endswith(" Work items: bd-0, bd-1, bd-2, bd-3, bd-4.")


def test_the_timeline_of_an_adoption_does_not_contradict_itself(
    app: App, ada: Any, bob: Any, lost: Any, workspace: str, clock: Any
) -> None:
    name = bob.name
    clock.advance(minutes=1)
    turn = ada.data("wait_for_turn", max_wait_ms=0)
    held = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    ada.data("pass_stick", **held, to_agent_id="lost:9", handoff={"status": "done", "next_action": "go on"})
    ada.refused("scope_reserve", scope="src")
    notice = {"subject": "Parser", "summary": "half", "next_action": "finish it"}
    ada.data("event_send", event_type="HANDOFF", to_agent="lost:9", payload=notice)
    write(workspace, "src/parser.py")
    die(lost)
    for act in (lambda: adopt(bob), lambda: bob.data("wait_for_turn", max_wait_ms=0)):
        clock.advance(minutes=1)
        act()

    lines = [timeline_view.sentence(entry) for entry in read_timeline(app.store, ada.room_id, None, 50).entries]

    assert f"ada·{ada.name} passed the stick to lost·amber-otter" in lines
    told = [line for line in lines if "Ran into a reservation of" in line or "Passed to" in line]
    assert len(told) == 2 and all("lost·amber-otter" in line for line in told)
    moved = f"the stick reserved for lost·amber-otter is now reserved for bob·{name}"
    assert f"bob·{name} resumed lost·amber-otter: {moved}" in lines
    assert "bob·amber-otter claimed turn 2 (direct_pass)" in lines


def test_files_that_were_reserved_for_no_bead_resume_with_none(
    bob: Any, lost: Any, beads: Path, workspace: str
) -> None:
    lost.reserve("docs", bead_id="bd-1")
    write(workspace, "src/parser.py")
    die(lost)

    assert adopt(bob).data["event"]["bead_id"] is None


def test_beads_above_a_room_in_the_same_repository_are_asked(
    app: App, enter: Any, git: Any, beads: Path, workspace: str
) -> None:
    app.membership.join_path(enter("first:1").session.caller(), f"{workspace}/src", force_new=True)
    inside = enter("ada:1", folder=f"{workspace}/src")

    assert inside.joined["canonical_path"] == f"{workspace}/src"
    assert inside.reserve("parser.py", bead_id="bd-1")["bead_id"] == "bd-1"
    assert inside.refused("scope_reserve", scope="lexer.py", bead_id="bd-2")["field"] == "bead_id"


def test_beads_above_another_repository_are_not_its_own(enter: Any, git: Any, beads: Path, workspace: str) -> None:
    make_repository(Path(workspace, "vendor"), "a.py")
    inside = enter("ada:1", folder=f"{workspace}/vendor")

    assert inside.joined["canonical_path"] == f"{workspace}/vendor"
    assert inside.reserve("a.py", bead_id="anything goes")["bead_id"] == "anything goes"
    assert not (beads / "asked").exists()


def test_work_of_another_agent_is_no_evidence(bob: Any, lost: Any, beads: Path) -> None:
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


@pytest.mark.parametrize(
    "lie",
    [
        '[{"id": "\\ud800", "status": "in_progress", "assignee": "amber-otter"}]',
        '[{"id": "a\\u0000b", "status": "in_progress", "assignee": "amber-otter"}]',
        '[{"id": "a\\u001b[31m", "status": "in_progress", "assignee": "amber-otter"}]',
        '[{"id": ["bd-1"], "status": "in_progress", "assignee": "amber-otter"}]',
        '[{"id": "' + "x" * 201 + '", "status": "in_progress", "assignee": "amber-otter"}]',
        '[{"status": "in_progress", "assignee": "amber-otter"}]',
        '[{"id": "bd-9", "status": "closed", "assignee": "amber-otter"}]',
        '[{"id": "bd-9", "status": "in_progress", "assignee": ["amber-otter"]}]',
        "[" * 200_000,
    ],
    ids=["surrogate", "nul", "control", "list", "long", "missing", "closed", "assignee", "deep"],
)
def test_a_bd_that_talks_nonsense_proves_nothing(ada: Any, bob: Any, lost: Any, beads: Path, lie: str) -> None:
    (beads / "lie").write_text(lie)
    die(lost)

    assert adopt(bob).data["reason"] == "no_unfinished_work"
    assert ada.refused("scope_reserve", scope="docs", bead_id="bd-1")["error"] == "INVALID_ARGS"


def test_a_bead_is_named_by_its_whole_id(ada: Any, beads: Path) -> None:
    (beads / "lie").write_text('[{"id": "bd-12", "status": "open"}]')

    refusal = ada.refused("scope_reserve", scope="docs", bead_id="bd-1")

    assert refusal["message"] == "Beads found no item 'bd-1' here: the full id is bd-12."
    assert ada.refused("scope_reserve", scope="docs", bead_id="bd\n1")["error"] == "INVALID_ARGS"


@pytest.mark.parametrize("mode", ["another program", "broken", "not json"])
def test_another_program_called_bd_is_not_asked(ada: Any, beads: Path, mode: str) -> None:
    (beads / "mode").write_text(mode)

    assert ada.reserve("src", bead_id="anything goes")["bead_id"] == "anything goes"
    assert (beads / "asked").read_text().splitlines() == ["version --json"]


def test_beads_that_does_not_answer_is_a_warning(
    ada: Any, bob: Any, beads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (beads / "mode").write_text("hanging")
    monkeypatch.setattr("conch.host.beads.SECONDS", 0.2)
    notice = {"subject": "s", "summary": "s", "next_action": "n"}

    reserved = ada.call("scope_reserve", scope="src", bead_id="bd-1")
    sent = ada.call("event_send", event_type="HANDOFF", to_agent="bob:2", payload=notice, bead_id="bd-1")

    for outcome in (reserved, sent):
        assert [warning["code"] for warning in outcome.data["warnings"]] == ["BEAD_NOT_CHECKED"]
        assert "'bd-1' was not checked" in outcome.text
    assert ada.data("scope_reserve", scope="docs")["warnings"] == []


def test_a_reservation_for_a_bead_runs_no_program_of_the_workspace(
    ada: Any, git: Any, beads: Path, workspace: str, tmp_path: Path
) -> None:
    hostile = plant_together(Path(workspace), tmp_path / "proofs")
    program = (beads / "bd").read_text().replace("import json", "import json, subprocess", 1)
    (beads / "bd").write_text(program + "\nsubprocess.run(['git', 'status'], stdout=subprocess.DEVNULL)\n")

    subprocess.run(["bd", "version", "--json"], cwd=workspace, check=True, capture_output=True)
    assert "fsmonitor" in hostile.take_proofs(), "this bd asks git about the workspace"
    reserved = ada.reserve("src", bead_id="bd-1")

    assert reserved["bead_id"] == "bd-1"
    assert hostile.take_proofs() == []


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


# -- a reply that does not arrive


def test_what_an_adoption_took_is_given_back_if_nobody_hears_of_it(
    ada: Any, bob: Any, lost: Any, workspace: str, app: App
) -> None:
    pass_stick_to(ada, lost)
    write(workspace, "src/parser.py")
    die(lost)

    bob.call("agent_adopt", name="amber-otter", scope="src", arrives=False)

    room = ada.data("get_room_state")["room"]
    assert (room["state"], room["reserved_for"]) == ("recipient_gone", "lost:9")
    assert [each["agent_id"] for each in ada.data("scope_list")["reservations"]] == ["lost:9"]
    assert last_change_of_the_reservation(ada) == ("renewed", "lost:9")
    assert verify_store(app.store).problems == []


def test_an_agent_that_asks_again_gets_the_same_answer_and_the_work(
    ada: Any, bob: Any, lost: Any, workspace: str, app: App
) -> None:
    pass_stick_to(ada, lost)
    write(workspace, "src/parser.py")
    die(lost)
    missed = bob.call("agent_adopt", name="amber-otter", scope="src", arrives=False).data

    again, third = (bob.data("agent_adopt", name="amber-otter", scope="src") for _ in range(2))

    assert again["event"] == third["event"] == missed["event"]
    assert (again["name"], again["role"]) == ("amber-otter", "parser")
    assert ada.data("get_room_state")["room"]["reserved_for"] == "bob:2"
    assert [each["agent_id"] for each in ada.data("scope_list")["reservations"]] == ["bob:2"]
    assert last_change_of_the_reservation(ada) == ("renewed", "bob:2")
    assert verify_store(app.store).problems == []


@pytest.mark.parametrize("name", ["amber-otter", "lost:9", "lost·amber-otter"])
@pytest.mark.parametrize("arrives", [True, False])
def test_an_agent_can_ask_again_by_every_name_that_it_may_have_used_first(
    bob: Any, lost: Any, workspace: str, name: str, arrives: bool
) -> None:
    write(workspace, "src/parser.py")
    die(lost)
    first = bob.call("agent_adopt", name=name, scope="src", arrives=arrives).data

    again = bob.data("agent_adopt", name=name, scope="src")

    assert (again["name"], again["event"]) == ("amber-otter", first["event"])


def test_an_identity_that_came_back_and_died_again_is_resumed_anew(
    enter: Any, bob: Any, lost: Any, child: Callable[[], Any], workspace: str, clock: Any
) -> None:
    write(workspace, "src/parser.py")
    die(lost)
    first = bob.data("agent_adopt", name="lost:9", scope="src")
    clock.advance(minutes=1)
    process = child()
    enter("lost:9", process.process).reserve("docs")
    write(workspace, "docs/plan.md")
    process.kill()

    again = bob.data("agent_adopt", name="lost:9", scope="docs")

    assert again["event"] != first["event"]


def test_what_the_agent_has_used_since_is_not_given_back(ada: Any, bob: Any, lost: Any, workspace: str) -> None:
    pass_stick_to(ada, lost)
    write(workspace, "src/parser.py")
    die(lost)
    missed = bob.call("agent_adopt", name="amber-otter", scope="src")
    assert bob.data("wait_for_turn")["status"] == "your_turn"
    bob.reserve("src")

    missed.delivery.retracted(lambda task: task())

    assert ada.data("get_room_state")["room"]["owner"] == "bob:2"
    assert [each["agent_id"] for each in ada.data("scope_list")["reservations"]] == ["bob:2"]


def test_a_client_that_does_not_read_cannot_keep_what_it_adopts_by_reserving_it_again(
    ada: Any, bob: Any, lost: Any, workspace: str, app: App
) -> None:
    write(workspace, "src/parser.py")
    die(lost)
    unread = [bob.call("agent_adopt", name="amber-otter", scope="src"), bob.call("scope_reserve", scope="src")]
    unread.append(bob.call("agent_adopt", name="amber-otter", scope="src"))

    for reply in unread:
        reply.delivery.unread(lambda task: task())

    assert [each["agent_id"] for each in ada.data("scope_list")["reservations"]] == ["lost:9"]
    assert last_change_of_the_reservation(ada) == ("renewed", "lost:9")
    assert verify_store(app.store).problems == []


@pytest.mark.parametrize("tool", ["agent_adopt", "scope_reserve"])
@pytest.mark.parametrize("fate", ["unread", "retracted"])
def test_what_an_agent_adopts_stays_if_one_reply_about_it_was_read(
    ada: Any, bob: Any, lost: Any, workspace: str, tool: str, fate: str
) -> None:
    write(workspace, "src/parser.py")
    die(lost)
    given = {"name": "amber-otter"} if tool == "agent_adopt" else {}
    first, second = bob.call("agent_adopt", name="amber-otter", scope="src"), bob.call(tool, scope="src", **given)
    second.delivery.read()

    getattr(first.delivery, fate)(lambda task: task())

    assert [each["agent_id"] for each in ada.data("scope_list")["reservations"]] == ["bob:2"]


@pytest.mark.parametrize("known", ["src/parser.py", "src/lexer"])
def test_what_lies_around_a_path_that_the_agent_keeps_is_not_given_back(
    ada: Any, bob: Any, lost: Any, workspace: str, app: App, known: str
) -> None:
    lost.reserve("src/lexer")
    lost.reserve("src/lexer/table.py")
    write(workspace, "src/parser.py")
    die(lost)
    missed = bob.call("agent_adopt", name="amber-otter", scope="src")
    bob.call("scope_reserve", scope=known).delivery.read()

    missed.delivery.retracted(lambda task: task())

    assert {each["agent_id"] for each in ada.data("scope_list")["reservations"]} == {"bob:2"}
    assert verify_store(app.store).problems == []


def test_an_offer_that_an_agent_adopts_stays_if_a_second_reply_was_read(
    ada: Any, bob: Any, lost: Any, workspace: str
) -> None:
    pass_stick_to(ada, lost)
    write(workspace, "src/parser.py")
    die(lost)
    first, second = [bob.call("agent_adopt", name="amber-otter", scope="src") for _ in range(2)]
    second.delivery.read()

    first.delivery.retracted(lambda task: task())

    assert ada.data("get_room_state")["room"]["reserved_for"] == "bob:2"


def test_a_later_offer_is_not_given_back_with_an_adoption(ada: Any, bob: Any, lost: Any, workspace: str) -> None:
    pass_stick_to(ada, lost)
    write(workspace, "src/parser.py")
    die(lost)
    adopted = bob.call("agent_adopt", name="amber-otter", scope="src")
    pass_stick_to(bob, ada)
    pass_stick_to(ada, bob)

    adopted.delivery.retracted(lambda task: task())

    assert ada.data("get_room_state")["room"]["reserved_for"] == "bob:2"


def test_nothing_is_given_back_to_an_agent_that_was_kicked_meanwhile(
    ada: Any, bob: Any, lost: Any, workspace: str, app: App
) -> None:
    pass_stick_to(ada, lost)
    write(workspace, "src/parser.py")
    die(lost)
    missed = bob.call("agent_adopt", name="amber-otter", scope="src")
    Steering(app).kick(Person(person(app.store, "eve")), bob.room_id, "lost:9", "it is gone")

    missed.delivery.retracted(lambda task: task())

    assert ada.data("get_room_state")["room"]["reserved_for"] == "bob:2"
    assert [each["agent_id"] for each in ada.data("scope_list")["reservations"]] == ["bob:2"]
    assert verify_store(app.store).problems == []


def last_change_of_the_reservation(agent: Any) -> tuple[str, str]:
    """What the timeline says last about a reservation, and by whom."""
    timeline = agent.data("get_room_events", all=True)["events"]
    changes = [each for each in timeline if each["kind"] == "reservation"]
    return changes[-1]["event_type"], changes[-1]["agent_id"]


def pass_stick_to(ada: Any, lost: Any) -> None:
    turn = ada.data("wait_for_turn")
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    ada.data(
        "pass_stick",
        to_agent_id=lost.session.caller().agent_id,
        handoff={"status": "done", "next_action": "go on"},
        **lease,
    )
