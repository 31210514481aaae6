"""How a harness is recognised: by its program, by the variables it exports, by the name it introduces itself with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from conch.lean import NamedTuple


class Harness(NamedTuple):
    slug: str
    programs: tuple[str, ...]
    """File names of its executable or start script."""
    places: tuple[str, ...] = ()
    """Parts of the path of its executable or start script, where the file name says nothing."""
    clients: tuple[str, ...] = ()
    """How the `clientInfo.name` of its MCP client starts."""
    marks: tuple[str, ...] = ()
    """Variables that are set in whatever it starts."""
    sessions: tuple[str, ...] = ()
    """Those of them that hold the id of the session."""


HARNESSES = (
    Harness(
        "claude-code",
        programs=("claude",),
        places=("/@anthropic-ai/claude-code", "/claude/versions/"),
        clients=("claude-code",),
        marks=("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID"),
        sessions=("CLAUDE_CODE_SESSION_ID",),
    ),
    Harness(
        "codex",
        programs=("codex",),
        places=("/@openai/codex",),
        clients=("codex",),
        marks=("CODEX_THREAD_ID",),
        sessions=("CODEX_THREAD_ID",),
    ),
    Harness(
        "gemini",
        programs=("gemini",),
        places=("/@google/gemini-cli/",),
        clients=("gemini",),
        marks=("GEMINI_CLI", "GEMINI_SESSION_ID"),
        sessions=("GEMINI_SESSION_ID",),
    ),
    Harness(
        "opencode",
        programs=("opencode",),
        places=("/opencode-ai/",),
        clients=("opencode",),
        marks=("OPENCODE", "OPENCODE_SESSION_ID"),
        sessions=("OPENCODE_SESSION_ID",),
    ),
    # Not `cursor`: people type into the editor's terminals too, and only its MCP client says who asks.
    Harness(
        "cursor",
        programs=("cursor-agent",),
        places=("/cursor-agent/versions/",),
        clients=("cursor",),
        marks=("CURSOR_TRACE_ID",),
    ),
    Harness(
        "copilot",
        programs=("copilot",),
        places=("/@github/copilot/",),
        clients=("copilot", "github-copilot"),
    ),
    Harness("grok", programs=("grok",), clients=("grok",), marks=("GROK_AGENT",)),
    Harness(
        "antigravity",
        programs=("antigravity",),
        clients=("antigravity",),
        marks=("ANTIGRAVITY_CONVERSATION_ID",),
        sessions=("ANTIGRAVITY_CONVERSATION_ID",),
    ),
    Harness("vscode", programs=(), clients=("visual-studio-code", "vscode")),
)


def recognise(program: Program) -> Harness | None:
    """The harness that this program is; what a harness merely starts is not the harness."""
    for harness in HARNESSES:
        if program.is_any_of(harness.programs) or program.lies_in(harness.places):
            return harness
    return None


def marked(environ: Mapping[str, str]) -> Harness | None:
    """The harness that left its mark in the environment. It may be one further up: marks are inherited."""
    return next((h for h in HARNESSES if any(environ.get(mark) for mark in h.marks)), None)


def slug_of(name: str) -> str:
    """The short name for whatever a harness calls itself; `agent` when nothing usable is left."""
    return known_slug(name) or _clean(name) or "agent"


def known_slug(name: str) -> str | None:
    """The same, but only for the harnesses of the table."""
    clean = _clean(name)
    for harness in HARNESSES:
        if clean in harness.programs or any(f"{clean}-".startswith(f"{start}-") for start in harness.clients):
            return harness.slug
    return None


def _clean(name: str) -> str:
    letters = [letter if letter.isascii() and letter.isalnum() else " " for letter in name.lower()]
    return "-".join("".join(letters).split())[:32].rstrip("-")


# -- programs: what a process runs, read from its executable and its arguments


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHELLS = _words("sh bash zsh dash ash fish ksh mksh tcsh csh nu pwsh busybox")

LAUNCHERS = _SHELLS | _words("""
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
_ENDINGS = _words("js cjs mjs ts cts mts exe")
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
    inline = "c" if is_python or interpreter & _SHELLS else "e"
    if not is_python and not interpreter & (_SHELLS | _SCRIPTED):
        return ""
    rest = iter(arguments)
    for argument in rest:
        if argument in _WITH_VALUE:
            next(rest, "")
        elif not argument.startswith("-"):
            if argument != "run":
                return argument
        elif is_python and _switches(argument).endswith("m"):
            return next(rest, "")
        elif argument == "--eval" or inline in _switches(argument):
            return ""  # what follows is program text, whatever it looks like
    return ""


def _switches(argument: str) -> str:
    """The letters of `-Im`; none of anything else."""
    letters = argument[1:]
    return letters if letters.isascii() and letters.isalpha() else ""


def _base(path: str) -> str:
    """A login shell is called `-bash`, a hidden executable `.opencode`; npm installs a `claude.exe` everywhere."""
    name = os.path.basename(path)
    stem, dot, ending = name.rpartition(".")
    return (stem if dot and ending in _ENDINGS else name).lstrip("-.").rstrip(":")
