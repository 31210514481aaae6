"""Git's pre-commit hook: refuses a commit that touches another agent's reservation. An existing hook runs first."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from conch.errors import InvalidArgument
from conch.host.commands import ask_where
from conch.lean import Literal, NamedTuple

_MARK = "# Written by `conch guard install`; `conch guard uninstall` removes it."
_KEPT = ".before-conch"
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
# Only status 1 refuses a commit, so that the hook does no harm if conch is gone or its store fails.
_SCRIPT = """\
#!/bin/sh
{mark}
if [ -x "$0{kept}" ]; then
  {run} "$@" || exit $?
fi
conch={program}
command -v "$conch" > /dev/null 2>&1 || exit 0
git diff --cached --name-only --no-renames -z | "$conch" guard check
[ $? -ne 1 ]
"""


class Hooked(NamedTuple):
    path: str
    outcome: Literal["written", "unchanged", "removed", "absent"]
    kept: str | None
    """Where the earlier hook is kept; it still runs."""


def install(directory: str, program: str) -> Hooked:
    """Add the hook to the repository of a directory, for all its worktrees. An existing hook is kept and runs first."""
    path = _hook_path(directory)
    kept = path + _KEPT
    is_ours = _is_ours(path)
    run = _run_kept(_read(kept) if is_ours else _read(path))
    script = _SCRIPT.format(mark=_MARK, kept=_KEPT, run=run, program=shlex.quote(program))
    if is_ours and _read(path) == script:
        return Hooked(path, "unchanged", kept if os.path.lexists(kept) else None)
    if os.path.isdir(path):
        raise InvalidArgument(f"{path} is a folder, so conch can add no hook. Move it away.", field="path")
    is_in_the_way = not is_ours and os.path.lexists(path) and not _is_kept(path, kept)
    if is_in_the_way and os.path.lexists(kept):
        message = f"conch would move your hook {path} to {kept}, but that file exists. Move one of them away."
        raise InvalidArgument(message, field="path")
    with _changing(path):
        draft = _write_draft(path, script)
        try:
            if is_in_the_way:
                _keep(path, kept)
            os.replace(draft, path)
        except OSError:
            os.unlink(draft)
            raise
    return Hooked(path, "written", kept if os.path.lexists(kept) else None)


def _is_kept(path: str, kept: str) -> bool:
    """Whether an earlier `install` ended between its steps."""
    return os.path.lexists(kept) and os.path.samestat(os.lstat(path), os.lstat(kept))


def _keep(path: str, kept: str) -> None:
    """Give the existing hook a second name. So there is a hook at every moment, even if this process is killed."""
    try:
        os.link(path, kept, follow_symlinks=False)
    except OSError:  # some filesystems have no hard links
        os.rename(path, kept)


def _write_draft(path: str, script: str) -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draft = f"{path}.conch-{os.getpid()}"
    try:
        with open(draft, "x", encoding="utf-8") as file:  # never through a link that an agent has made
            file.write(script)
            os.fchmod(file.fileno(), 0o755)
    except OSError:
        with suppress(OSError):
            os.unlink(draft)
        raise
    return draft


@contextmanager
def _changing(path: str) -> Iterator[None]:
    """Say which file the system did not let us change, and why."""
    try:
        yield
    except OSError as problem:
        why = problem.strerror or problem
        raise InvalidArgument(f"The hook at {path} cannot be changed: {why}.", field="path") from None


def uninstall(directory: str) -> Hooked:
    """Remove our hook, and restore the one that was there before."""
    path = _hook_path(directory)
    if not _is_ours(path):
        return Hooked(path, "absent", None)
    with _changing(path):
        if os.path.lexists(path + _KEPT):
            os.replace(path + _KEPT, path)
        else:
            os.unlink(path)
    return Hooked(path, "removed", None)


def _run_kept(text: str) -> str:
    """How our hook runs the one that was there before.

    A shell script may look at its own name, as those of husky do. So its shell reads it under the name of the hook.
    """
    first = text.partition("\n")[0]
    words = first[2:].split() if first.startswith("#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = words[1:]
    if words and os.path.basename(words[0]) in _SHELLS:
        return f"""{shlex.join(words)} -c '. "$0{_KEPT}"' "$0\""""
    return f'"$0{_KEPT}"'


def _is_ours(path: str) -> bool:
    return _MARK in _read(path)


def _read(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe must not make us wait
        with open(descriptor, encoding="utf-8", errors="replace") as file:
            return file.read(100_000) if stat.S_ISREG(os.fstat(descriptor).st_mode) else ""
    except OSError:
        return ""


# -- where git looks for hooks


def _hook_path(directory: str) -> str:
    """Git itself says it: many files, variables and conditions can set `core.hooksPath`."""
    if not os.path.isdir(directory):
        raise InvalidArgument(f"{directory} is not a directory.", field="path")
    real = os.path.realpath(directory)
    top = _ask(real, real, "--show-toplevel")
    return os.path.join(top, _ask(top, real, "--git-path", "hooks"), "pre-commit")


def _ask(folder: str, workspace: str, *words: str) -> str:
    answer = ask_where(folder, workspace, *words)
    if answer.status:
        message = f"Git did not say where the hooks of {folder} are: {answer.complaint.rstrip('.')}."
        raise InvalidArgument(message, field="path")
    return os.fsdecode(answer.output).removesuffix("\n")
