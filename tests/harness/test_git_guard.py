"""`conch guard install`: git refuses a commit of files that another live agent has reserved."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Conch = Callable[..., dict[str, Any]]


@pytest.fixture
def repository(project: Path, environ: dict[str, str], tmp_path: Path, conch: Conch) -> Path:
    """A repository where session one has reserved `src`, with the guard installed."""
    environ["PATH"] = f"{tmp_path}:{environ['PATH']}"
    program = tmp_path / "conch"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m conch "$@"\n')
    program.chmod(0o755)
    git(project, environ, "init", "-q")
    git(project, environ, "commit", "-q", "--allow-empty", "-m", "first")
    for session in ("one", "two"):
        conch(session, "join")
    conch("one", "reserve", "src")
    return project


def git(folder: Path, environ: dict[str, str], *words: str, session: str = "two") -> subprocess.CompletedProcess[str]:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    marks = {"CLAUDE_CODE_SESSION_ID": session, "CLAUDECODE": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(
        ["git", *who, *words], cwd=folder, env={**environ, **marks}, capture_output=True, text=True, timeout=60
    )


def stage(folder: Path, environ: dict[str, str], name: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("x")
    git(folder, environ, "add", name)


def test_a_commit_that_touches_a_reservation_is_refused_and_names_the_holder(
    repository: Path, environ: dict[str, str], conch: Conch
) -> None:
    conch("two", "guard", "install")
    stage(repository, environ, "src/a.py")

    refused = git(repository, environ, "commit", "-m", "x")
    by_holder = git(repository, environ, "commit", "-m", "x", session="one")

    name = conch("one", "whoami")["data"]["name"]
    assert refused.returncode == 1
    assert re.search(rf"- src/a.py: claude·{name} has reserved src since .*\d\d:\d\d \(.* ago\)\n", refused.stderr)
    assert by_holder.returncode == 0, by_holder.stderr


def test_other_files_and_no_verify_are_free(repository: Path, environ: dict[str, str], conch: Conch) -> None:
    conch("two", "guard", "install")
    stage(repository, environ, "b.py")
    free = git(repository, environ, "commit", "-m", "x")
    stage(repository, environ, "src/a.py")

    unverified = git(repository, environ, "commit", "-m", "x", "--no-verify")

    assert (free.returncode, unverified.returncode) == (0, 0), free.stderr


def test_a_folder_without_a_checkout_is_refused_with_what_git_says(conch: Conch, tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()

    refusals = [conch("one", "guard", word, "--path", str(tmp_path / "bare")) for word in ("install", "uninstall")]

    said = r"fatal: not a git repository \(or any .+\)(: \.git)?\."  # it names the mount point, if that is not `/`
    for refusal in refusals:
        asked = f"Git did not say where the hooks of {tmp_path / 'bare'} are: {said}"
        assert re.fullmatch(asked, refusal["error"]["message"])


def test_an_existing_hook_runs_first_and_comes_back_byte_for_byte(
    repository: Path, environ: dict[str, str], conch: Conch
) -> None:
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho mine >&2\nexit 3\n")
    hook.chmod(0o755)
    before = hook.read_bytes()

    conch("two", "guard", "install")
    again = conch("two", "guard", "install")
    stage(repository, environ, "b.py")
    committed = git(repository, environ, "commit", "-m", "x")
    conch("two", "guard", "uninstall")

    assert again["data"]["outcome"] == "unchanged"
    assert committed.returncode != 0 and "mine" in committed.stderr
    assert hook.read_bytes() == before and hook.stat().st_mode & 0o111
    assert sorted(path.name for path in hook.parent.glob("pre-commit*") if path.suffix != ".sample") == ["pre-commit"]


@pytest.mark.parametrize("shebang", ["#!/usr/bin/env sh", "#!/bin/bash -e"])
def test_an_existing_hook_that_looks_at_its_own_name_still_works(
    repository: Path, environ: dict[str, str], conch: Conch, shebang: str
) -> None:
    """The hooks of husky find their script by their own name, and source a file beside it."""
    hooks = repository / ".husky"
    hooks.mkdir()
    (hooks / "beside").write_text('echo "I am $(basename "$0") with $#" >&2\nexit 4\n')
    (hooks / "pre-commit").write_text(f'{shebang}\n. "$(dirname "$0")/beside"\n')
    (hooks / "pre-commit").chmod(0o755)
    git(repository, environ, "config", "core.hooksPath", ".husky")

    conch("two", "guard", "install")
    stage(repository, environ, "b.py")
    committed = git(repository, environ, "commit", "-m", "x")

    assert "I am pre-commit with 0" in committed.stderr
    assert committed.returncode != 0


def test_a_worktree_uses_the_hook_of_its_repository(
    repository: Path, environ: dict[str, str], conch: Conch, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    git(repository, environ, "worktree", "add", "-q", str(tree))

    conch("two", "guard", "install", "--path", str(tree))

    assert (repository / ".git" / "hooks" / "pre-commit").exists()


@pytest.mark.parametrize(
    "settings",
    [
        ["core.hooksPath", ".hooks"],
        ["include.path", "more"],
        ["includeIf.gitdir:**/.git.path", "more"],
        ["--worktree", "core.hooksPath", ".hooks"],
    ],
    ids=" ".join,
)
def test_the_hook_follows_the_configured_folder(
    repository: Path, environ: dict[str, str], conch: Conch, settings: list[str]
) -> None:
    (repository / ".git" / "more").write_text('[core]\n\thooksPath = ".hooks" # shared\n')
    git(repository, environ, "config", "extensions.worktreeConfig", "true")
    git(repository, environ, "config", *settings)

    conch("two", "guard", "install")

    assert (repository / ".hooks" / "pre-commit").exists()


def test_a_folder_without_a_checkout_is_refused_with_the_reason_of_git(conch: Conch, tmp_path: Path) -> None:
    refused = conch("two", "guard", "install", "--path", str(tmp_path))

    assert "not a git repository" in refused["error"]["message"]


def test_the_hook_follows_the_folder_in_the_users_configuration(
    repository: Path, environ: dict[str, str], conch: Conch, tmp_path: Path
) -> None:
    settings = tmp_path / "config" / "git" / "config"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[core]\n\thooksPath = {tmp_path / 'hooks'} ; for all\n")
    environ |= {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path)}

    conch("two", "guard", "install")

    assert (tmp_path / "hooks" / "pre-commit").exists()


def test_a_broken_store_stops_no_commit(repository: Path, environ: dict[str, str], conch: Conch) -> None:
    conch("two", "guard", "install")
    stage(repository, environ, "src/a.py")
    environ["CONCH_STORE"] = "postgresql://127.0.0.1:1/none"

    assert git(repository, environ, "commit", "-m", "x").returncode == 0


@pytest.mark.parametrize("place", ["/proc/self", "a-file", "a-file/inside"])
def test_a_folder_that_takes_no_hook_is_named_with_the_reason(
    repository: Path, environ: dict[str, str], conch: Conch, place: str
) -> None:
    (repository / "a-file").write_text("")
    git(repository, environ, "config", "core.hooksPath", place)

    refused = conch("two", "guard", "install")["error"]

    assert refused["code"] == "invalid_argument"
    assert refused["message"].startswith("The hook at ") and " cannot be changed: " in refused["message"]


def test_a_pipe_in_place_of_the_hook_makes_nobody_wait(repository: Path, conch: Conch) -> None:
    hook = repository / ".git/hooks/pre-commit"
    hook.unlink(missing_ok=True)
    hook.parent.mkdir(exist_ok=True)
    os.mkfifo(hook)

    assert conch("two", "guard", "uninstall")["data"]["outcome"] == "absent"
    assert conch("two", "guard", "install")["data"]["outcome"] == "written"
    assert hook.is_file()


def test_an_existing_hook_stays_where_it_is_if_ours_cannot_be_written(
    repository: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    """The new hook finds no room, because no process may write a file."""
    hook = repository / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    command = f"ulimit -f 0; exec {sys.executable} -c '{INSTALL}' {repository}"
    done = subprocess.run(["sh", "-c", command], env=environ, capture_output=True, text=True, timeout=60)

    assert "cannot be changed: File too large." in done.stderr
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"
    assert [each.name for each in hook.parent.iterdir() if "conch" in each.name] == []


def test_a_link_in_place_of_the_draft_does_not_choose_what_is_overwritten(
    repository: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    """An agent that can write `.git` knows the names of drafts: they end with the id of a process."""
    victim = tmp_path / "profile"
    victim.write_text("mine")
    (repository / ".git/hooks").mkdir(exist_ok=True)
    command = [sys.executable, "-c", PLANT + INSTALL, str(repository), str(victim)]

    refused = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)

    assert "cannot be changed: File exists." in refused.stderr

    assert (victim.read_text(), victim.stat().st_mode & 0o111) == ("mine", 0)


PLANT = """
import os, sys
os.symlink(sys.argv[2], f"{sys.argv[1]}/.git/hooks/pre-commit.conch-{os.getpid()}")
"""


@pytest.mark.parametrize("step", [1, 2])
def test_an_installation_that_is_killed_leaves_a_hook_and_can_be_repeated(
    repository: Path, environ: dict[str, str], conch: Conch, step: int
) -> None:
    hook = repository / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho kept > hook-ran\n")
    hook.chmod(0o755)
    command = [sys.executable, "-c", DIE + INSTALL, str(repository), str(step)]
    killed = subprocess.run(command, env=environ, capture_output=True, timeout=60)
    left = hook.read_text()

    installed = conch("two", "guard", "install")["data"]["outcome"]

    assert (killed.returncode, installed) == (-signal.SIGKILL, "written")
    assert "echo kept" in left
    assert git(repository, environ, "commit", "--allow-empty", "-m", "x").returncode == 0
    assert (repository / "hook-ran").exists()
    assert conch("two", "guard", "uninstall")["data"]["outcome"] == "removed"
    assert hook.read_text() == "#!/bin/sh\necho kept > hook-ran\n"


DIE = """
import os, signal, sys
steps = int(sys.argv[2])
def die(event, given):
    global steps
    if event in ("os.rename", "os.link"):
        steps -= 1
        if not steps:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die)
"""
INSTALL = """
import signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from conch.harnesses import git_hook
git_hook._hook_path = lambda folder: folder + "/.git/hooks/pre-commit"  # asking git needs files too
git_hook.install(sys.argv[1], "conch")
"""
