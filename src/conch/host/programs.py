"""What a process runs, read from its executable and its arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELLS = _words("sh bash zsh dash ash fish ksh mksh tcsh csh nu pwsh busybox")

LAUNCHERS = SHELLS | _words("""
    conch env timeout nice ionice nohup setsid stdbuf time script xargs flock
    sudo doas su runuser setpriv bwrap firejail sandbox-exec codex-linux-sandbox
    uv uvx pipx poetry hatch npx npm pnpm yarn bunx pyenv mise direnv asdf
    git make just pre-commit
""")
"""Programs that stand between a harness and what it starts."""

HOSTS = _words("""
    init systemd launchd tini dumb-init docker-init catatonit conmon containerd-shim-runc-v2
    sshd sshd-session login cron crond anacron atd tmux screen mosh-server
""")
"""Programs that start sessions for anybody: they are nobody's harness, and no harness is above them."""

_SCRIPTED = _words("node bun deno ruby perl")
_WITH_VALUE = _words("-r --require --import --loader --env-file -W -X -o -O --rcfile --init-file")


class Program(NamedTuple):
    """The names that a process goes by, the most telling one of them, and where its files lie."""

    names: frozenset[str]
    label: str
    paths: tuple[str, ...]

    def is_any_of(self, names: Iterable[str]) -> bool:
        return not self.names.isdisjoint(names)

    def lies_in(self, places: Iterable[str]) -> bool:
        return any(place in path for place in places for path in self.paths)


def read_program(name: str, arguments: tuple[str, ...]) -> Program:
    """`name` is the file name of the executable; `arguments` say what the process calls itself and runs."""
    title = arguments[0] if arguments else ""
    name, called = _base(name), _base(title)
    script = _script({name, called}, arguments[1:])
    # A process that renames itself puts words into its title: `npm exec thing`.
    names = {name, called, _base(title.partition(" ")[0]), _base(script)} - {""}
    return Program(frozenset(names), _base(script) or called or name, (title, script))


def _script(interpreter: set[str], arguments: tuple[str, ...]) -> str:
    """The file (or the Python module) that an interpreter was started with; empty for anything else."""
    is_python = any(name.startswith("python") for name in interpreter)
    inline = "c" if is_python or interpreter & SHELLS else "e"
    if not is_python and not interpreter & (SHELLS | _SCRIPTED):
        return ""
    rest = iter(arguments)
    for argument in rest:
        if argument in _WITH_VALUE:
            next(rest, "")
        elif not argument.startswith("-"):
            if argument != "run":
                return argument
        elif is_python and re.fullmatch("-[A-Za-z]*m", argument):
            return next(rest, "")
        elif argument == "--eval" or re.fullmatch(f"-[A-Za-z]*{inline}[A-Za-z]*", argument):
            return ""  # what follows is program text, whatever it looks like
    return ""


def _base(path: str) -> str:
    """A login shell is called `-bash`, a hidden executable `.opencode`; npm installs a `claude.exe` everywhere."""
    return re.sub(r"\.([cm]?[jt]s|exe)$", "", os.path.basename(path)).lstrip("-.").rstrip(":")
