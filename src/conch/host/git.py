"""The uncommitted files of a repository and of the repositories inside it."""

from __future__ import annotations

import os
import time

from conch.host.commands import ask_git

_SECONDS = 10.0
# Submodules are listed and asked one by one: git itself would ask them with their own configuration.
_STATUS = ("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty")
_INDEX = ("ls-files", "--stage", "-z")
_SUBMODULE = "160000 "


def changed_files(workspace: str) -> list[str] | None:
    """The absolute paths of all uncommitted files below a git top level; None if git does not answer.

    A renamed file gives two paths, the old and the new. Repositories inside this one are asked too.
    """
    try:
        return _gather(workspace, time.monotonic() + _SECONDS)
    except OSError:  # git was too slow, or there is no room for its mirror
        return None


def _gather(workspace: str, deadline: float) -> list[str] | None:
    found: list[str] = []
    tops = [workspace]
    while tops:
        top = tops.pop()
        answer = _ask(top, workspace, deadline - time.monotonic())
        if answer is not None:
            found += answer[0]
            tops += answer[1]
        elif top == workspace:
            return None
    return found


def _ask(top: str, workspace: str, seconds: float) -> tuple[list[str], list[str]] | None:
    """The uncommitted files of one repository, and the tops of the repositories right inside it."""
    answers = ask_git(top, workspace, seconds, _STATUS, _INDEX)
    if answers is None or any(answer.status for answer in answers):
        return None
    status, index = (os.fsdecode(answer.output).split("\0")[:-1] for answer in answers)
    changed = [os.path.join(top, entry[len("XY ") :]) for entry in status]
    submodules = [os.path.join(top, entry.partition("\t")[2]) for entry in index if entry.startswith(_SUBMODULE)]
    return changed, [path for path in dict.fromkeys((*changed, *submodules)) if _is_top(path)]


def _is_top(path: str) -> bool:
    """Whether a repository begins here. One that is reached through a link is elsewhere."""
    plain = path.rstrip("/")
    return os.path.lexists(os.path.join(plain, ".git")) and os.path.realpath(plain) == plain
