"""Asking git or bd about a workspace runs nothing that the workspace brings along."""

from __future__ import annotations

import os
import resource
import select
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hostile import WAYS_IN, Hostile, run_plain_git, touch

from conch.errors import InvalidArgument
from conch.harnesses import git_hook
from conch.host import git, sandboxes
from conch.host.beads import in_progress_items
from conch.host.commands import ask_bd, ask_git, ask_where
from conch.host.git import changed_files
from conch.host.sandboxes import Answer

SECONDS = 20.0
DEADLINE_MS = 5_000


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hostile:
    home, top = tmp_path / "home", (tmp_path / "workspace").resolve()
    home.mkdir()
    top.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return Hostile(top, tmp_path / "proofs")


@pytest.mark.parametrize("name", WAYS_IN)
def test_git_runs_no_program_of_a_repository(hostile: Hostile, name: str) -> None:
    way = WAYS_IN[name]
    way.plant(hostile)
    index = Path(hostile.git("rev-parse", "--absolute-git-dir"), "index")
    before = index.read_bytes()
    run_plain_git(hostile.top / way.at, *way.command)
    assert hostile.take_proofs() == [name], "plain git does not fall for it, so this test shows nothing"
    index.write_bytes(before)

    top = str(hostile.top)
    answers = ask_git(str(hostile.top / way.at), top, SECONDS, way.command)
    changed = changed_files(top)
    where = ask_where(str(hostile.top / way.at), top, "--show-toplevel", "--git-path", "hooks")

    assert hostile.take_proofs() == []
    assert answers is not None
    assert not where.status
    assert changed is not None or name == "promisor", "git did answer"


def test_git_sees_none_of_a_repositorys_settings_but_harmless_ones(hostile: Hostile) -> None:
    """What a later version of git may take for a program is not in the list either."""
    dangerous = ("core.askPass", "credential.helper", "core.alternateRefsCommand", "merge.m.driver", "later.program")
    for name in dangerous:
        hostile.set(name, "/bin/true")
    hostile.set("core.eol", "/bin/true")
    hostile.set("core.autocrlf", "input")

    answers = ask_git(str(hostile.top), str(hostile.top), SECONDS, ("config", "--list", "--name-only"))

    assert answers is not None
    assert sorted(set(answers[0].output.decode().split())) == [
        "core.autocrlf",
        "core.bare",
        "core.excludesfile",
        "core.filemode",
        "core.repositoryformatversion",
    ]


def test_git_runs_no_filter_of_the_users_configuration_either(hostile: Hostile) -> None:
    """A workspace could send any file through it."""
    hostile.write(".gitattributes", "*.txt filter=f\n")
    Path(os.environ["HOME"], ".gitconfig").write_text(f'[filter "f"]\nclean = {hostile.program("users")}\n')
    check(hostile, "users")


@pytest.mark.parametrize("home", [".", "home"])
def test_a_home_inside_of_the_workspace_is_not_the_users(
    hostile: Hostile, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(hostile.top / home))
    target = hostile.proofs / "home"
    hostile.write(f"{home}/.gitconfig", f"[trace2]\nnormalTarget = {target}\n")
    hostile.write(f"{home}/.config/git/config", f"[core]\nfsmonitor = {hostile.program('home')}\n")
    check(hostile, "home")


def check(hostile: Hostile, *names: str) -> None:
    """See plain git leave these proofs, and see that asking git leaves none."""
    touch(hostile)
    index = (hostile.top / ".git/index").read_bytes()
    run_plain_git(hostile.top, "status")
    assert hostile.take_proofs() == sorted(names), "plain git does not fall for it, so this test shows nothing"
    (hostile.top / ".git/index").write_bytes(index)

    changed = changed_files(str(hostile.top))

    assert hostile.take_proofs() == []
    assert changed is not None


def test_variables_from_outside_lead_git_nowhere(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TRACE", str(hostile.proofs / "trace"))
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(hostile.proofs / "trace2"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", hostile.program("variable"))
    check(hostile, "trace", "trace2", "variable")


ENVIRONMENT = "env | cut -d= -f1 | sort"


def test_git_gets_no_variable_that_it_does_not_need(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_SSH_COMMAND", "SSH_ASKPASS", "PAGER", "EDITOR", "LD_PRELOAD_", "PYTHONPATH"):
        monkeypatch.setenv(name, str(hostile.top))
    monkeypatch.setenv("LD_LIBRARY_PATH", f":lib:{hostile.top}/lib")
    install(tmp_path / "bin", "git", ENVIRONMENT, monkeypatch)

    answers = ask_git(str(hostile.top), str(hostile.top), SECONDS, ("status",))

    assert answers is not None
    shell = {"PWD", "SHLVL", "_", "OLDPWD"}
    git = {"ALLOW_PROTOCOL", "ATTR_NOSYSTEM", "CONFIG_NOSYSTEM", "DIR", "EXEC_PATH", "NO_LAZY_FETCH"}
    git |= {"OPTIONAL_LOCKS", "TERMINAL_PROMPT", "WORK_TREE"}
    expected = {"HOME", "LC_ALL", "PATH", "XDG_CONFIG_HOME", *(f"GIT_{name}" for name in git)}
    assert set(answers[0].output.decode().split()) - shell == expected


def install(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that is found before all others."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return program


def add_folder(hostile: Hostile, outside: Path) -> str:
    return str(hostile.top / "programs")


def add_relative_folder(hostile: Hostile, outside: Path) -> str:
    return "programs"


def add_current_folder(hostile: Hostile, outside: Path) -> str:
    for name in ("git", "bd"):
        shutil.copy(hostile.top / "programs" / name, hostile.top / name)
    return ""


def add_link_to_folder(hostile: Hostile, outside: Path) -> str:
    (outside / "bin").symlink_to(hostile.top / "programs")
    return str(outside / "bin")


def add_links_to_programs(hostile: Hostile, outside: Path) -> str:
    for name in ("git", "bd"):
        (outside / name).symlink_to(hostile.top / "programs" / name)
    return str(outside)


@pytest.mark.parametrize(
    "add", [add_folder, add_relative_folder, add_current_folder, add_link_to_folder, add_links_to_programs]
)
def test_no_program_is_found_in_the_workspace(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, add: Callable[[Hostile, Path], str]
) -> None:
    (tmp_path / "outside").mkdir()
    (hostile.top / ".beads").mkdir()
    for name in ("git", "bd"):
        hostile.program(name)
    monkeypatch.setenv("PATH", f"{add(hostile, tmp_path / 'outside')}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(hostile.top)
    for name in ("git", "bd"):
        subprocess.run([name], check=True)
    assert hostile.take_proofs() == ["bd", "git"]

    changed, items = changed_files(str(hostile.top)), in_progress_items(str(hostile.top))
    hook = git_hook.install(str(hostile.top / "src"), "conch")

    assert hostile.take_proofs() == []
    assert changed and not items
    assert hook.path == str(hostile.top / ".git/hooks/pre-commit")


def test_a_repository_that_points_elsewhere_does_not_lead_to_a_program_in_the_workspace(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    hostile.program("git")
    hostile.set("core.worktree", str(elsewhere))
    monkeypatch.setenv("PATH", f"{hostile.top / 'programs'}{os.pathsep}{os.environ['PATH']}")

    with pytest.raises(InvalidArgument):  # git finds no checkout there
        git_hook.install(str(hostile.top), "conch")

    assert hostile.take_proofs() == []


def test_no_program_is_found_in_the_workspace_around_a_nested_repository(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("git", "bd"):
        hostile.program(name)
    inner = hostile.write("inner/a.txt", "a").parent
    hostile.write("inner/.beads/beads.db", "")
    hostile.git("init", "-q", at="inner")
    monkeypatch.setenv("PATH", f"{hostile.top / 'programs'}{os.pathsep}{os.environ['PATH']}")

    assert changed_files(str(inner)) == [str(inner / ".beads/beads.db"), str(inner / "a.txt")]
    in_progress_items(str(inner))
    git_hook.install(str(inner), "conch")

    assert hostile.take_proofs() == []


def test_a_git_that_bd_starts_does_not_read_the_workspace(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        tmp_path / "bin",
        "bd",
        'git status > /dev/null\nGIT_DIR="$PWD/.git" git status > /dev/null\necho "$@"',
        monkeypatch,
    )
    hostile.set("core.fsmonitor", hostile.program("fsmonitor"))
    subprocess.run(["bd"], cwd=hostile.top, check=True)
    assert hostile.take_proofs() == ["fsmonitor"]

    answer = ask_bd(str(hostile.top), str(hostile.top), SECONDS, "list")

    assert hostile.take_proofs() == []
    assert answer is not None and answer.output == b"list\n"


def test_bd_keeps_the_users_settings_but_starts_no_daemon(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEADS_DB", "/elsewhere")
    monkeypatch.setenv("BD_NO_DAEMON", "false")
    install(tmp_path / "bin", "bd", 'echo "$BEADS_DB $BD_NO_DAEMON $HOME"', monkeypatch)

    answer = ask_bd(str(hostile.top), str(hostile.top), SECONDS)

    assert answer is not None and answer.output.decode() == f"/elsewhere true {os.environ['HOME']}\n"


def test_a_git_that_hangs_is_ended_with_all_that_it_started(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    poll = select.poll()
    poll.register(reading, select.POLLHUP)
    install(tmp_path / "bin", "git", f"sleep 60 > '{tmp_path}/pipe' &\nwait", monkeypatch)
    monkeypatch.setattr(git, "_SECONDS", 0.5)

    assert changed_files(str(hostile.top)) is None

    assert poll.poll(DEADLINE_MS), "what it started still has the pipe"
    os.close(reading)


def test_a_git_that_never_stops_talking_is_ended(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", "git", "exec yes", monkeypatch)
    monkeypatch.setattr(sandboxes, "_LONGEST_ANSWER", 1_000_000)

    assert changed_files(str(hostile.top)) is None


@pytest.mark.parametrize("name", [".git", ".git/HEAD", ".git/commondir", ".git/config"])
def test_a_pipe_in_place_of_a_file_stops_nobody(hostile: Hostile, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "_SECONDS", 1.0)
    path = hostile.top / name
    if path.exists():
        path.rename(hostile.proofs / "former")
    os.mkfifo(path)

    assert changed_files(str(hostile.top)) is None


@pytest.mark.parametrize("text", ["gitdir: a\0b", "gitdir: .", "gitdir: /nowhere", "gitdir:", "", "\xff" * 9])
def test_a_pointer_to_no_repository_is_no_repository(hostile: Hostile, text: str) -> None:
    (hostile.top / ".git").rename(hostile.proofs / "former")
    hostile.write(".git", text)

    assert changed_files(str(hostile.top)) is None


def test_git_keeps_nothing_in_the_workspace(hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent could change it before git reads it."""
    monkeypatch.setattr(tempfile, "tempdir", str(hostile.top))
    install(tmp_path / "bin", "git", 'echo "$GIT_DIR"', monkeypatch)

    answers = ask_git(str(hostile.top), str(hostile.top), SECONDS, ("status",))

    assert answers is not None
    assert not Path(answers[0].output.decode()).is_relative_to(hostile.top)


@pytest.mark.parametrize("left", range(12))
def test_without_descriptors_there_is_no_answer_but_no_failure(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    install(tmp_path / "bin", "bd", "echo yes", monkeypatch)
    top, limits = str(hostile.top), resource.getrlimit(resource.RLIMIT_NOFILE)
    assert (changed_files(top), ask_bd(top, top, SECONDS)) == ([], Answer(0, b"yes\n", ""))
    used = max(map(int, os.listdir("/dev/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + left, limits[1]))
    try:
        changed, answer = changed_files(top), ask_bd(top, top, SECONDS)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert changed in (None, [])
    assert answer in (None, Answer(0, b"yes\n", ""))


# -- what git must still know


def test_the_files_of_the_workspace_are_meant_wherever_the_configuration_points(hostile: Hostile) -> None:
    hostile.write("src/a.txt", "changed\n")
    elsewhere = hostile.proofs / "elsewhere"
    elsewhere.mkdir()
    hostile.set("core.worktree", str(elsewhere))
    assert "a.txt" in hostile.git("ls-files", "--deleted"), "plain git looks elsewhere"

    assert changed_files(str(hostile.top)) == [str(hostile.top / "src/a.txt")]


def split_index(hostile: Hostile) -> Path:
    hostile.git("update-index", "--split-index")
    return hostile.top


def sparse_index(hostile: Hostile) -> Path:
    hostile.write("docs/b.txt", "b\n")
    hostile.git("add", ".")
    hostile.git("commit", "-qm", "more")
    hostile.git("sparse-checkout", "set", "--cone", "--sparse-index", "src")
    return hostile.top


def linked_worktree(hostile: Hostile) -> Path:
    hostile.git("worktree", "add", "-q", "../linked")
    return hostile.top.parent / "linked"


def sha256(hostile: Hostile) -> Path:
    shutil.rmtree(hostile.top / ".git")
    hostile.git("init", "-q", "--object-format=sha256")
    hostile.git("add", ".")
    hostile.git("commit", "-qm", "begin")
    return hostile.top


def packed(hostile: Hostile) -> Path:
    hostile.git("gc", "-q")
    return hostile.top


@pytest.mark.parametrize("shape", [split_index, sparse_index, linked_worktree, sha256, packed])
def test_repositories_of_every_shape_tell_their_changes(hostile: Hostile, shape: Callable[[Hostile], Path]) -> None:
    top = shape(hostile)
    (top / "src/a.txt").write_text("changed\n")

    assert changed_files(str(top)) == [str(top / "src/a.txt")]


def test_before_the_first_commit_every_file_is_a_change(hostile: Hostile) -> None:
    shutil.rmtree(hostile.top / ".git")
    hostile.git("init", "-q")

    assert changed_files(str(hostile.top)) == [str(hostile.top / "kept.md"), str(hostile.top / "src/a.txt")]


@pytest.mark.parametrize("where", [".gitignore", ".git/info/exclude", "~/.config/git/ignore", "~/mine"])
def test_files_that_the_user_ignores_are_not_changes(hostile: Hostile, where: str) -> None:
    ignore = hostile.top / where.replace("~", os.environ["HOME"])
    ignore.parent.mkdir(parents=True, exist_ok=True)
    ignore.write_text("*.swp\n.gitignore\n")
    if where == "~/mine":
        hostile.git("config", "--global", "core.excludesFile", where)
    hostile.write("src/a.swp", "x")

    assert changed_files(str(hostile.top)) == []
