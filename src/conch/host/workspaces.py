"""Finds the workspace of any path.

A workspace is a directory tree. Two agents share a room only if both get the same spelling of its root. So every path
is first brought into one canonical form: absolute, without links, in the casing of the filesystem itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache

from conch.errors import InvalidArgument, find_lack

MARKERS = ("CLAUDE.md", "AGENTS.md", "package.json", "pyproject.toml", "Cargo.toml", "go.mod")


def canonicalize(path: str) -> str:
    """The canonical form of the directory that `path` names, or of the directory of the file it names.

    `~` is the caller's home; a relative path starts at the working directory.
    InvalidArgument if it does not exist, or if this process may not enter it.
    """
    if not path or "\0" in path:
        raise _refused(path, "it is empty" if not path else "it contains a NUL byte")
    try:
        full = os.path.expanduser(path)
        os.stat(full)  # asks the kernel, because `realpath` alone would accept `a-file/..`
        real = os.path.realpath(full, strict=True)
        real.encode()
    except OSError as error:
        raise _refused(path, error.strerror.lower() if error.strerror else "it cannot be read") from None
    except ValueError:
        raise _refused(path, "its name is not valid UTF-8") from None
    directory = real if os.path.isdir(real) else os.path.dirname(real)
    if not os.access(directory, os.X_OK):
        raise _refused(path, f"this process may not enter {directory}")
    return _in_true_casing(directory)


def workspace_root(directory: str) -> str:
    """The root of the workspace that a canonical directory belongs to.

    It is the git top level, else the nearest directory with a marker file, else the directory itself. A marker in the
    home directory or the filesystem root counts only for that directory, not for everything below it.
    """
    chain = list(_upwards(directory))
    for candidate in chain:
        if _is_git_top(candidate):
            return candidate
    too_wide = _too_wide(directory)
    for candidate in chain:
        if candidate not in too_wide and _has_marker(candidate):
            return candidate
    return directory


def widest_root(directory: str) -> str:
    """The root of the widest workspace around a directory. Agents may write all of it.

    A repository may be inside another one. That of a whole home directory does not count.
    """
    root = workspace_root(directory)
    too_wide = _too_wide(root)
    tops = [each for each in _upwards(root) if _is_git_top(each) and each not in too_wide]
    return tops[-1] if tops else root


def workspace_here() -> str | None:
    """The widest workspace around the working directory; None if that cannot be entered any more."""
    try:
        return widest_root(canonicalize("."))
    except InvalidArgument:
        return None


def _too_wide(directory: str) -> set[str]:
    """The home directory and the filesystem root, unless this directory is one of them."""
    return {os.path.realpath(os.path.expanduser("~")), "/"} - {directory}


def is_within(real: str, folder: str) -> bool:
    """Whether a path without links is in this folder, or is the folder itself."""
    top = os.path.realpath(folder)
    return os.path.commonpath([top, real]) == top


def ancestor_chain(directory: str, root: str) -> list[str]:
    """Every directory from `directory` up to `root`, both included, the deepest first."""
    chain = []
    for candidate in _upwards(directory):
        chain.append(candidate)
        if candidate == root:
            return chain
    raise ValueError(f"{directory} is not inside {root}")


def _upwards(directory: str) -> Iterator[str]:
    while True:
        yield directory
        parent = os.path.dirname(directory)
        if parent == directory:
            return
        directory = parent


def _is_git_top(directory: str) -> bool:
    """Whether this is the top of a git work tree. It does not run git, because every join asks this."""
    git = os.path.join(directory, ".git")
    if not os.path.isfile(git):
        return os.path.lexists(os.path.join(git, "HEAD"))
    try:
        with open(git, "rb") as pointer:  # in a linked worktree or submodule, this file points to the repository
            return pointer.read(7) == b"gitdir:"
    except OSError as problem:
        if find_lack(problem):  # another workspace would be wrong
            raise
        return False


def _has_marker(directory: str) -> bool:
    return any(os.path.isfile(os.path.join(directory, marker)) for marker in MARKERS)


def _in_true_casing(directory: str) -> str:
    spelled = "/"
    for name in directory.split("/"):
        if name and _ignores_case(spelled, name):
            name = true_spelling(name, _entries(spelled))
        spelled = os.path.join(spelled, name)
    return spelled.rstrip("/") or "/"


def _ignores_case(parent: str, name: str) -> bool:
    """Whether the filesystem finds the same entry under its name with the case swapped."""
    swapped = "".join(other if len(other := letter.swapcase()) == 1 else letter for letter in name)
    if swapped == name:
        return False
    try:
        here, there = os.lstat(os.path.join(parent, name)), os.lstat(os.path.join(parent, swapped))
    except OSError:
        return False
    return os.path.samestat(here, there)


@lru_cache(256)
def folds_case(directory: str) -> bool:
    """Whether the filesystem of a directory ignores case, as on Windows and usually on macOS."""
    if os.name == "nt":
        return True
    # An entry shows how the directory's own filesystem behaves. The directory's name may belong to another one.
    cased = next((name for name in _entries(directory) if name.swapcase() != name), None)
    return _ignores_case(directory, cased) if cased else _ignores_case(*os.path.split(directory))


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError as problem:  # it can be entered but not listed: keep the given spelling
        if find_lack(problem):
            raise
        return []


def true_spelling(name: str, entries: list[str]) -> str:
    """The spelling of `name` in the entries of a directory that ignores case; unchanged if there is none."""
    if name in entries:
        return name
    wanted = folded(name)
    return next((entry for entry in entries if folded(entry) == wanted), name)


def folded(name: str) -> str:
    """One spelling for all casings of a name and all encodings of its accents."""
    import unicodedata  # loads a shared library, which only filesystems that ignore case need

    return unicodedata.normalize("NFC", name).casefold()


def below_home(path: str) -> str:
    """The path as people write it: with a tilde for their home directory."""
    home = os.path.expanduser("~")
    return "~" + path.removeprefix(home) if home != "/" and (path == home or path.startswith(home + "/")) else path


def _refused(path: str, reason: str) -> InvalidArgument:
    shown = path if len(path) <= 200 else path[:200] + "..."
    return InvalidArgument(f"context_path {shown!r} cannot be used: {reason}.", field="context_path")
