"""Asks git and bd about a workspace without running code from it. No other module may run these programs.

Agents can write every file of a workspace, including its `.git`, and nobody has reviewed them. So the programs run in a
sandbox, and git sees a mirror of the repository instead of the repository: see `sandboxes` and `mirrors`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from conch.host.mirrors import Mirror, mirror
from conch.host.sandboxes import Answer, Sandbox, open_sandbox
from conch.host.workspaces import widest_root

_GIT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",  # it never blocks another git and never writes the index
    "GIT_ALLOW_PROTOCOL": "",  # no protocol, whatever `protocol.*.allow` says
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
_GIT_SETTINGS = ("GIT_CONFIG", "HOME", "XDG_CONFIG_HOME")
_PATIENCE_SECONDS = 10.0
# By itself, bd starts a daemon, commits and pushes. Every version knows some of these variables and ignores the others.
_BD = {
    "BD_BACKUP_ENABLED": "false",
    "BD_DOLT_AUTO_COMMIT": "off",
    "BD_DOLT_AUTO_PUSH": "false",
    "BD_JSON_ENVELOPE": "0",
    "BD_NO_AUTO_FLUSH": "true",
    "BD_NO_DAEMON": "true",
    "BD_NO_PUSH": "true",
    "BD_READONLY": "true",
    "BEADS_AUTO_START_DAEMON": "false",
    "BEADS_NO_DAEMON": "1",
}
_BD_SETTINGS = ("BD_", "BEADS_", "DOLT_", "USER")


def ask_git(top: str, workspace: str, seconds: float, *questions: Sequence[str]) -> list[Answer] | None:
    """Git's answers to questions about the repository at `top`, which is in the workspace.

    A question is a built-in command of git with its options. None if there is no git or no repository, or if an answer
    is too long. TimeoutError if all answers together take longer than `seconds`.
    """
    with open_sandbox(widest_root(workspace), seconds) as sandbox:
        repository = sandbox and mirror(top, os.path.join(sandbox.folder, "mirror"))
        if not sandbox or not repository:
            return None
        options = _take_settings(sandbox, repository)
        answers = [sandbox.run("git", *options, *words, **_GIT, **repository.environ) for words in questions]
        found = [answer for answer in answers if answer is not None]
        return found if len(found) == len(questions) else None


def _take_settings(sandbox: Sandbox, repository: Mirror) -> Sequence[str]:
    """Give the mirror the harmless settings of the user and of the repository. Return the options for git."""
    nowhere = {"GIT_DIR": os.devnull}  # so that these two questions are about no repository
    listing = ("config", "--null", "--list")
    users = _settings(sandbox.run("git", *listing, **nowhere, **sandbox.home()))
    file = ("--file", repository.configuration, "--no-includes")
    repository.configure(users | _settings(sandbox.run("git", *listing, *file, **nowhere, **_GIT)))
    standard = os.path.join(os.environ.get("XDG_CONFIG_HOME") or "~/.config", "git", "ignore")
    return "-c", f"core.excludesFile={os.path.expanduser(users.get('core.excludesfile', standard))}"


def _settings(answer: Answer | None) -> dict[str, str]:
    """The settings in a listing whose entries are a name, a newline, a value and a NUL."""
    listing = os.fsdecode(answer.output) if answer is not None and not answer.status else ""
    entries = (entry.partition("\n") for entry in listing.split("\0"))
    return {name: value for name, newline, value in entries if newline}


def ask_where(folder: str, workspace: str, *words: str) -> Answer:
    """What `git rev-parse` says about a folder. Git reads all settings, but runs no program that they name.

    The settings may lead it out of the workspace, but no program of the workspace is ever run.
    """
    settings = {name: value for name, value in os.environ.items() if name.startswith(_GIT_SETTINGS)}
    try:
        with open_sandbox(widest_root(workspace), _PATIENCE_SECONDS) as sandbox:
            answer = sandbox and sandbox.run("git", "rev-parse", *words, folder=folder, **settings)
            return answer or Answer(1, b"", "git could not be run")
    except TimeoutError:
        return Answer(1, b"", "git does not answer")


def ask_bd(folder: str, workspace: str, seconds: float, *words: str) -> Answer | None:
    """The answer of Beads' `bd` in a folder of the workspace; None if there is no bd or its answer is too long.

    TimeoutError if the answer takes longer than `seconds`. Any git that bd starts fails at once, because it would read
    the repository's configuration; bd then works as it does outside of a repository.
    """
    with open_sandbox(widest_root(workspace), seconds) as sandbox:
        if not sandbox:
            return None
        settings = {name: value for name, value in os.environ.items() if name.startswith(_BD_SETTINGS)}
        settings.pop("BD_JSON", None)
        return sandbox.run("bd", *words, folder=folder, **{**settings, **sandbox.home(), **_BD})
