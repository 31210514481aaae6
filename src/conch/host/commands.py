"""Runs other programs, such as git, only to read their answers; they never change anything."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from conch.lean import NamedTuple, signal

_SECONDS = 10.0


class TooSlow(Exception):
    """The program did not answer in time."""


class Answer(NamedTuple):
    status: int
    output: bytes
    complaint: str


def ask(command: Sequence[str], folder: str, environ: Mapping[str, str], seconds: float = _SECONDS) -> Answer | None:
    """The program's answer; None if there is no such program.

    TooSlow if it does not answer in time. It is then killed, with all processes it has started.
    """
    import subprocess  # slow to import, and rarely needed
    from subprocess import DEVNULL, PIPE

    try:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
    except OSError:
        return None
    with process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except BaseException as error:  # Ctrl-C too must not leave the program or its children running
            with suppress(OSError):  # it may have just ended
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TooSlow from None
            raise
    complaint = errors.decode(errors="replace").strip()
    return Answer(process.returncode, output, complaint.splitlines()[0][:200] if complaint else "")


def environment(*without: str) -> dict[str, str]:
    """This process's environment without the variables that have these prefixes.

    In a hook, for example, `GIT_DIR` would make git answer for another repository.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith(without)}


# -- git, run without optional locks so that it never blocks another git

_GIT_STATUS = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "status", "--porcelain", "-z",
          "--untracked-files=all", "--ignore-submodules=none")  # fmt: skip
_TWO_PATHS = ("R", "C")  # a renamed or copied file has an old and a new path


def changed_files(top: str) -> list[str] | None:
    """The absolute paths of all uncommitted files below a git top level; None if git does not answer.

    A renamed file gives two paths, the old and the new. Nested repositories are asked too.
    """
    try:
        answer = ask(_GIT_STATUS, top, environment("GIT_"))
    except TooSlow:
        return None
    if answer is None or answer.status:
        return None
    found = [os.path.join(top, path) for path in _paths(os.fsdecode(answer.output))]
    inner = [path for path in found if not os.path.islink(path) and os.path.exists(os.path.join(path, ".git"))]
    return found + [file for path in inner for file in changed_files(path) or ()]


def _paths(listing: str) -> list[str]:
    """The paths of `XY path` entries, each ended by a NUL. The old path of a rename is an extra entry without XY."""
    entries = iter(listing.split("\0"))
    found = []
    for entry in entries:
        if entry:
            found.append(entry[3:])
            if entry[0] in _TWO_PATHS or entry[1] in _TWO_PATHS:
                found.append(next(entries))
    return found
