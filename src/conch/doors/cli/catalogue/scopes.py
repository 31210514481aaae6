"""Working side by side: reservations, and the guard of commits."""

from __future__ import annotations

from conch.doors.cli.catalogue import GUARD, SCOPES
from conch.doors.cli.catalogue.options import ENDED, EVERY, JSON, PAGES, REASON, RESERVING, SCOPE_HELP, SPEAKER
from conch.doors.cli.command import Command, flag, grouped, word, words

_PATHS = words("scope", "PATH", SCOPE_HELP)

COMMANDS = grouped(
    SCOPES,
    Command(
        "reserve",
        "scopes.reserve_all",
        "reserve files before you change them",
        "Reserve files, or directories with everything in them. Reserve them again to renew them. "
        "If another agent has reserved any part of one, nothing is reserved.",
        (_PATHS, *RESERVING),
        "  conch reserve src/parser.py tests/test_parser.py\n  conch reserve 'src/*' --ttl 30m",
    ),
    Command(
        "unreserve",
        "people.unreserve",
        "release reservations, or end an agent's",
        "Release your reservations of these paths: all of them or none. A person at a terminal can end those of an "
        "agent, with --of and a reason; the agent gets a message.",
        (
            _PATHS,
            flag("--of", "AGENT", "for a person: end the reservations of this agent"),
            REASON._replace(help="with --of: the reason, which is recorded"),
            *SPEAKER,
        ),
        '  conch unreserve src/parser.py\n  conch unreserve --of amber src/ --reason "amber works on docs/ now"',
    ),
    Command(
        "reservations",
        "scopes.status",
        "who has reserved what",
        "List the reservations, or those that overlap one path.",
        (word("scope", "PATH", "only reservations that overlap this path", required=False), ENDED, *PAGES, *SPEAKER),
        reads=True,
    ),
)

_REPOSITORY = (flag("--path", "DIR", "a directory in the repository; default: the working directory"), JSON)

COMMANDS |= grouped(
    GUARD,
    Command(
        "guard install",
        "guard.install",
        "add git's pre-commit hook",
        "Add a pre-commit hook to the repository here, for all its worktrees. It refuses a commit that touches a file "
        "that another live agent has reserved, and names the agent. A hook that is there already stays and runs first. "
        "`git commit --no-verify` skips all hooks.",
        _REPOSITORY,
        needs_store=False,
    ),
    Command(
        "guard uninstall",
        "guard.uninstall",
        "remove git's pre-commit hook",
        "Remove the hook of `conch guard install`, and restore the one that was there before.",
        _REPOSITORY,
        needs_store=False,
    ),
    Command(
        "guard check",
        "guard.check",
        "check files before a commit (the hook runs this)",
        "Check whether another live agent has reserved one of the files that standard input names, separated by NUL. "
        "The exit status is 1 if so.",
        EVERY,
        "  git diff --cached --name-only -z | conch guard check",
        reads=True,
    ),
)
