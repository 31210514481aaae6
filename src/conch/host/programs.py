"""Finds and starts programs: all that conch ever starts. No other module may do this.

Agents can write every file of a workspace, and the user's PATH may lead into it: `node_modules/.bin`, `.`, an empty
entry. So conch never takes a program from the workspace, and leaves the workspace out of the PATH of a program that it
starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired

from conch.lean import Any

__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "Popen",
    "TimeoutExpired",
    "find_program",
    "is_outside",
    "search_path",
    "start_found",
    "start_program",
    "start_python",
    "temporary_place",
]
_MOST_LINKS = 40
_TEMPORARY = ("/tmp", "/var/tmp")


def start_program(
    command: Sequence[str], workspace: str | None, environ: Mapping[str, str] | None = None, **options: Any
) -> Popen[bytes]:
    """Start a program that is outside of the workspace, or that is given with its path.

    FileNotFoundError if there is none.
    """
    name, environ = command[0], os.environ if environ is None else environ
    program = os.path.abspath(name) if os.path.dirname(name) else find_program(name, workspace, environ)
    if program is None:
        raise FileNotFoundError(2, f"{name} is in no folder of PATH outside of the workspace")
    path = os.pathsep.join(search_path("PATH", workspace, environ))
    return start_found(command, program, {**environ, "PATH": path or os.devnull}, **options)


def start_found(command: Sequence[str], program: str, environ: Mapping[str, str], **options: Any) -> Popen[bytes]:
    """Start a program that `find_program` has found. Its environment is all that it gets."""
    return Popen(list(command), executable=program, env=dict(environ), **options)


def start_python(*words: str, **options: Any) -> Popen[bytes]:
    """Start this Python. It imports nothing from the working directory."""
    return Popen([sys.executable, "-P", *words], **options)


def find_program(name: str, workspace: str | None, environ: Mapping[str, str] | None = None) -> str | None:
    """The first program with this name on the PATH that is outside of the workspace."""
    for folder in search_path("PATH", workspace, environ):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK) and is_outside(path, workspace):
            return path
    return None


def search_path(variable: str, workspace: str | None, environ: Mapping[str, str] | None = None) -> list[str]:
    """The folders of a search path that are outside of the workspace.

    Relative folders are left out, and empty ones, which mean the current directory.
    """
    folders = (os.environ if environ is None else environ).get(variable, "").split(os.pathsep)
    return [folder for folder in folders if is_outside(folder, workspace)]


def temporary_place(workspace: str | None) -> str | None:
    """A folder for temporary files that is outside of the workspace."""
    import tempfile  # slow to import

    return next((each for each in (tempfile.gettempdir(), *_TEMPORARY) if is_outside(each, workspace)), None)


def is_outside(path: str, workspace: str | None) -> bool:
    """Whether a path is absolute and neither it nor a link on its way is in the workspace."""
    return os.path.isabs(path) and (workspace is None or not _leads_through(path, workspace))


def _leads_through(path: str, root: str) -> bool:
    """Whether a path is in this directory, or goes through a link in it, however the two are spelled."""
    top, place, links = os.stat(root), "/", 0
    names = path.split("/")[::-1]
    while True:
        with suppress(OSError):  # the end of the path may not exist
            if os.path.samestat(os.stat(place), top):
                return True
        if not names:
            return False
        name = names.pop()
        step = os.path.dirname(place) if name == ".." else os.path.join(place, name) if name != "." else place
        if not os.path.islink(step):
            place = step.rstrip("/") or "/"
            continue
        links += 1
        if links > _MOST_LINKS:
            return True
        target = os.readlink(step)
        names += target.split("/")[::-1]
        place = "/" if os.path.isabs(target) else place
