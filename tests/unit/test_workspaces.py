"""Paths become canonical directories, and directories belong to workspaces. Git itself is the reference."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conch.errors import InvalidArgument
from conch.host.workspaces import MARKERS, ancestor_chain, canonicalize, true_spelling, workspace_root


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of its own, so that nothing above the test's directories is a marker."""
    directory = tmp_path / "home"
    directory.mkdir()
    monkeypatch.setenv("HOME", str(directory))
    return directory


def git(directory: Path, *arguments: str) -> str:
    settings = ("user.name=t", "user.email=t@example.invalid", "protocol.file.allow=always", "init.defaultBranch=main")
    options = [part for setting in settings for part in ("-c", setting)]
    command = ["git", "-C", str(directory), *options, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make_repository(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "--quiet")
    (directory / "file.txt").write_text("one\n")
    git(directory, "add", ".")
    git(directory, "commit", "--quiet", "-m", "one")
    return directory


def make_directory(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


# -- canonical paths


def test_a_relative_path_starts_at_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_directory(tmp_path / "a")
    monkeypatch.chdir(tmp_path)

    assert canonicalize("./a/../a/") == str(tmp_path / "a")


def test_a_tilde_is_the_home_directory(home: Path) -> None:
    make_directory(home / "project")

    assert canonicalize("~/project") == str(home / "project")


def test_a_file_stands_for_the_directory_that_holds_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")

    assert canonicalize(str(tmp_path / "notes.txt")) == str(tmp_path)


def test_links_are_resolved(tmp_path: Path) -> None:
    make_directory(tmp_path / "real" / "deep")
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert canonicalize(str(tmp_path / "link" / "deep")) == str(tmp_path / "real" / "deep")


def test_a_link_to_a_file_stands_for_the_directory_of_the_file_itself(tmp_path: Path) -> None:
    (make_directory(tmp_path / "real") / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "file")

    assert canonicalize(str(tmp_path / "link")) == str(tmp_path / "real")


def test_separators_are_normalized(tmp_path: Path) -> None:
    make_directory(tmp_path / "a")

    assert canonicalize(f"/{tmp_path}//a/./") == str(tmp_path / "a")


def test_the_filesystem_root_is_a_path_like_any_other() -> None:
    assert canonicalize("/") == "/"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("missing", "no such file"),
        ("x" * 300, "too long"),
        ("/".join(["x" * 200] * 100), "too long"),
        ("file/", "not a directory"),
        ("file/..", "not a directory"),
        ("loop", "symbolic links"),
        ("dangling", "no such file"),
        ("~nobody-of-this-name/x", "no such file"),
        ("\ud800", "UTF-8"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, reason: str
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("missing")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidArgument, match=reason) as refusal:
        canonicalize(path)

    assert refusal.value.details == {"field": "context_path"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems make no such names")
def test_a_directory_whose_name_is_not_text_is_refused(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    (tmp_path / "link").symlink_to(os.fsdecode(b"\xff"))

    with pytest.raises(InvalidArgument, match="UTF-8"):
        canonicalize(str(tmp_path / "link"))


def test_a_working_directory_that_was_removed_is_refused_but_absolute_paths_still_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = make_directory(tmp_path / "gone")
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(InvalidArgument, match="no such file"):
        canonicalize(".")
    assert canonicalize(str(tmp_path)) == str(tmp_path)


UNPRIVILEGED = """
import os, sys
from conch.errors import InvalidArgument
from conch.host.workspaces import canonicalize
if os.geteuid() == 0:
    os.setuid(65534)
try:
    print(canonicalize(sys.argv[1]))
except InvalidArgument as refusal:
    print(refusal.message)
"""


@pytest.mark.parametrize("path", ["locked", "locked/inside"])
def test_a_directory_that_may_not_be_entered_is_refused_and_says_so(tmp_path: Path, path: str) -> None:
    locked = make_directory(tmp_path / "locked" / "inside").parent
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    locked.chmod(0)
    try:
        command = [sys.executable, "-c", UNPRIVILEGED, str(tmp_path / path)]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    finally:
        locked.chmod(0o755)

    assert "cannot be used: " in shown
    assert "permission denied" in shown or "may not enter" in shown


# -- casing


def test_an_exact_spelling_is_kept_beside_others_that_differ_in_case() -> None:
    assert true_spelling("src", ["SRC", "Src", "src"]) == "src"


def test_another_spelling_becomes_the_one_that_is_listed() -> None:
    assert true_spelling("PROJECTS", ["notes", "Projects"]) == "Projects"


def test_composed_and_decomposed_letters_are_the_same_name() -> None:
    assert true_spelling("CAFE\u0301", ["Caf\u00e9"]) == "Caf\u00e9"


def test_a_name_that_is_not_listed_stays_as_it_is() -> None:
    assert true_spelling("a", []) == "a"


def test_on_a_filesystem_that_tells_case_apart_both_spellings_are_directories_of_their_own(tmp_path: Path) -> None:
    make_directory(tmp_path / "src")
    if (tmp_path / "SRC").exists():
        pytest.skip("this filesystem ignores case")
    (tmp_path / "SRC").symlink_to(make_directory(tmp_path / "other"))

    assert canonicalize(str(tmp_path / "src")) == str(tmp_path / "src")
    assert canonicalize(str(tmp_path / "SRC")) == str(tmp_path / "other")


def canonicalize_where_case_is_ignored(mount_point: Path, paths: list[str]) -> list[str]:
    """Each path below a real filesystem that holds Projects/Conch/Src; skips where none can be mounted."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare to mount a filesystem of its own")
    probe = "import sys; from conch.host.workspaces import canonicalize; [print(canonicalize(p)) for p in sys.argv[1:]]"
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    server = [sys.executable, str(Path(__file__).with_name("case_ignoring_filesystem.py")), str(mount_point)]
    inside = [sys.executable, "-c", probe, *(str(mount_point / path) for path in paths)]
    command = ["unshare", "--mount", *as_root, *server, *inside]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if result.returncode == 77 or "unshare failed" in result.stderr:
        pytest.skip(f"this machine mounts no such filesystem: {result.stderr.strip()}")
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_on_a_filesystem_that_ignores_case_every_spelling_is_the_one_on_disk(tmp_path: Path) -> None:
    mount_point = make_directory(tmp_path / "Mounted")

    found = canonicalize_where_case_is_ignored(
        mount_point, ["projects/CONCH/src", "Projects/Conch/Src", "PROJECTS/conch", "pROJECTS/cONCH/sRC"]
    )

    on_disk = f"{mount_point}/Projects/Conch"
    assert found == [f"{on_disk}/Src", f"{on_disk}/Src", on_disk, f"{on_disk}/Src"]


# -- workspaces


def test_every_directory_of_a_repository_belongs_to_its_top_level(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    deep = make_directory(repository / "packages" / "one" / "src")
    (repository / "packages" / "one" / "package.json").write_text("{}")

    assert workspace_root(str(deep)) == git(deep, "rev-parse", "--show-toplevel") == str(repository)


def test_a_repository_inside_another_is_a_workspace_of_its_own(tmp_path: Path) -> None:
    outer = make_repository(tmp_path / "outer")
    inner = make_repository(outer / "vendor" / "inner")
    deep = make_directory(inner / "src")

    assert workspace_root(str(deep)) == git(deep, "rev-parse", "--show-toplevel") == str(inner)


def test_a_linked_worktree_is_a_workspace_of_its_own(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    worktree = tmp_path / "worktree"
    git(repository, "worktree", "add", "--quiet", str(worktree))
    deep = make_directory(worktree / "src")

    assert workspace_root(str(deep)) == git(deep, "rev-parse", "--show-toplevel") == str(worktree)


def test_a_submodule_is_a_workspace_of_its_own(tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    repository = make_repository(tmp_path / "repository")
    git(repository, "submodule", "--quiet", "add", str(library), "library")
    submodule = repository / "library"

    assert (submodule / ".git").is_file()
    assert workspace_root(str(submodule)) == git(submodule, "rev-parse", "--show-toplevel") == str(submodule)


def test_a_repository_whose_git_directory_lies_elsewhere_is_found(tmp_path: Path) -> None:
    repository = make_directory(tmp_path / "repository")
    git(repository, "init", "--quiet", "--separate-git-dir", str(tmp_path / "elsewhere"))

    assert workspace_root(str(repository)) == git(repository, "rev-parse", "--show-toplevel") == str(repository)


def test_a_repository_reached_through_a_link_is_the_same_workspace(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    make_directory(repository / "src")
    (tmp_path / "shortcut").symlink_to(repository / "src")

    assert workspace_root(canonicalize(str(tmp_path / "shortcut"))) == str(repository)


def test_the_inside_of_the_git_directory_belongs_to_the_work_tree_above(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")

    assert workspace_root(str(repository / ".git" / "refs" / "heads")) == str(repository)


def test_an_empty_directory_called_git_makes_no_workspace(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    below = make_directory(repository / "below" / ".git").parent

    assert workspace_root(str(below)) == git(below, "rev-parse", "--show-toplevel") == str(repository)


def test_a_file_called_git_that_points_nowhere_makes_no_workspace(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    below = make_directory(repository / "below")
    (below / ".git").write_text("not a pointer\n")

    assert workspace_root(str(below)) == str(repository)


def test_a_pipe_called_git_is_not_read(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    below = make_directory(repository / "below")
    os.mkfifo(below / ".git")
    pipe = os.open(below / ".git", os.O_RDWR)
    os.write(pipe, b"gitdir: elsewhere")

    assert workspace_root(str(below)) == str(repository)
    os.close(pipe)


@pytest.mark.parametrize("marker", MARKERS)
def test_without_git_the_nearest_marker_makes_the_workspace(tmp_path: Path, marker: str) -> None:
    make_directory(tmp_path / "outer" / "inner" / "src")
    (tmp_path / "outer" / "AGENTS.md").write_text("")
    (tmp_path / "outer" / "inner" / marker).write_text("")

    assert workspace_root(str(tmp_path / "outer" / "inner" / "src")) == str(tmp_path / "outer" / "inner")
    assert workspace_root(str(tmp_path / "outer")) == str(tmp_path / "outer")


def test_git_comes_before_a_marker_that_is_nearer(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    deep = make_directory(repository / "package")
    (deep / "pyproject.toml").write_text("")

    assert workspace_root(str(deep)) == str(repository)


def test_a_directory_called_like_a_marker_is_none(tmp_path: Path) -> None:
    make_directory(tmp_path / "a" / "package.json")
    below = make_directory(tmp_path / "a" / "b")

    assert workspace_root(str(below)) == str(below)


def test_a_marker_in_the_home_directory_does_not_swallow_what_is_below(home: Path) -> None:
    (home / "CLAUDE.md").write_text("")
    below = make_directory(home / "scratch")

    assert workspace_root(str(below)) == str(below)
    assert workspace_root(str(home)) == str(home)


def test_the_home_directory_itself_is_a_workspace_even_below_another_marker(home: Path, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("")
    (home / "AGENTS.md").write_text("")

    assert workspace_root(str(home)) == str(home)


def test_a_home_directory_that_is_a_link_is_still_the_home_directory(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    (home / "AGENTS.md").write_text("")
    below = make_directory(home / "scratch")

    assert workspace_root(str(below)) == str(below)


def test_without_git_or_marker_the_directory_is_the_workspace(tmp_path: Path) -> None:
    plain = make_directory(tmp_path / "plain" / "deep")

    assert workspace_root(str(plain)) == str(plain)


# -- the way up


def test_the_chain_leads_from_the_directory_to_the_root(tmp_path: Path) -> None:
    assert ancestor_chain("/repo/packages/one", "/repo") == ["/repo/packages/one", "/repo/packages", "/repo"]
    assert ancestor_chain("/repo", "/repo") == ["/repo"]
    assert ancestor_chain("/a", "/") == ["/a", "/"]


def test_a_chain_to_somewhere_else_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="not inside"):
        ancestor_chain("/repo-two/src", "/repo")
