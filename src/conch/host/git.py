"""What git says of a workspace's files. It is only asked, and takes no lock that somebody's own git could meet."""

from __future__ import annotations

import os

from conch.host import commands

STATUS = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "status", "--porcelain", "-z",
          "--untracked-files=all", "--ignore-submodules=none")  # fmt: skip
TWO_PATHS = ("R", "C")


def changed_files(top: str) -> list[str] | None:
    """The absolute paths of all files below a git top level that are not as committed; None if git does not tell.

    A renamed file is two: what it was called, and what it is called now. A repository inside is asked itself.
    """
    try:
        answer = commands.ask(STATUS, top, commands.environment("GIT_"))
    except commands.TooSlow:
        return None
    if answer is None or answer.status:
        return None
    found = [os.path.join(top, path) for path in _paths(os.fsdecode(answer.output))]
    inner = [path for path in found if not os.path.islink(path) and os.path.exists(os.path.join(path, ".git"))]
    return found + [file for path in inner for file in changed_files(path) or ()]


def _paths(listing: str) -> list[str]:
    """The paths of `XY path` entries, each ended by a NUL; the former path of a rename is an entry without XY."""
    entries = iter(listing.split("\0"))
    found = []
    for entry in entries:
        if entry:
            found.append(entry[3:])
            if entry[0] in TWO_PATHS or entry[1] in TWO_PATHS:
                found.append(next(entries))
    return found
