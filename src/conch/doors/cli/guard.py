"""`conch guard`: git's pre-commit hook, and the check that it runs."""

from __future__ import annotations

import os

from conch.doors.cli.context import Context, read_standard_input
from conch.doors.cli.installing import find_program
from conch.doors.cli.output import Report, failure, local_moments
from conch.harnesses import git_hook
from conch.lean import Any
from conch.scopes.guard import Objection
from conch.tools.text import one_line

_FEW = 20


def install(options: Any) -> Report:
    hooked = git_hook.install(options.path or ".", find_program())
    lines = [f"{'Wrote' if hooked.outcome == 'written' else 'The hook is already there:'} {one_line(hooked.path)}."]
    if hooked.kept:
        lines.append(f"The hook that was there before is now {one_line(hooked.kept)}. It runs first.")
    lines.append("From now on, git refuses commits of files that another live agent has reserved, in every worktree.")
    return Report(hooked._asdict(), "\n".join(lines))


def uninstall(options: Any) -> Report:
    hooked = git_hook.uninstall(options.path or ".")
    text = "conch has no hook here." if hooked.outcome == "absent" else f"Removed the hook at {one_line(hooked.path)}."
    return Report(hooked._asdict(), text)


def check(context: Context) -> Report:
    """Check whether the caller may commit the files that standard input names, separated by NUL."""
    names = os.fsdecode(read_standard_input()).split("\0")
    paths = [os.path.abspath(name) for name in names if name]
    found = context.app.guard.judge(context.caller.agent_id, paths, is_strict=True)
    refused = [objection for objection in found if objection.is_refused]
    data = {"files": len(paths), "refused": [objection._asdict() for objection in refused]}
    if not refused:
        return Report(data, "")
    lines = ["Other agents work on files of this commit:", *map(_line, refused[:_FEW])]
    lines += [f"- and {len(refused) - _FEW} more"] * (len(refused) > _FEW)
    lines.append("Leave them out of the commit, or ask the holder. `git commit --no-verify` commits them anyway.")
    message = "\n".join(lines)
    return failure("RESERVATION_CONFLICT", message, data, text=local_moments(message))


def _line(objection: Objection) -> str:
    path, holder = one_line(objection.path), one_line(objection.holder)
    if not objection.scope:
        return f"- {path}: {holder} has held the stick since {objection.since}"
    return f"- {path}: {holder} has reserved {one_line(objection.scope)} since {objection.since}"
