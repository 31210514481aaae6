"""How a harness is recognised: by its program, by the variables it exports, or by its MCP client's name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from conch.lean import NamedTuple


class Harness(NamedTuple):
    slug: str
    programs: tuple[str, ...]
    """File names of its executable or start script."""
    places: tuple[str, ...] = ()
    """Parts of the path of its executable or start script, if the file name alone is not enough."""
    clients: tuple[str, ...] = ()
    """How the `clientInfo.name` of its MCP client starts."""
    marks: tuple[str, ...] = ()
    """Variables that it sets for the programs it starts."""
    sessions: tuple[str, ...] = ()
    """The marks that hold the session's id."""
    terminals: tuple[str, ...] = ()
    """The marks that are also in terminals in which people type, because it is an editor."""
    shares_process: bool = False
    """Whether one process of it runs several sessions at the same time, so that the process does not identify one."""


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
        marks=("CODEX_SESSION_ID", "CODEX_THREAD_ID", "CODEX_SANDBOX"),
        sessions=("CODEX_SESSION_ID", "CODEX_THREAD_ID"),  # the root first: a subagent has a thread of its own
        shares_process=True,
    ),
    Harness(
        "gemini",
        programs=("gemini",),
        places=("/@google/gemini-cli/",),
        clients=("gemini",),
        marks=("GEMINI_CLI", "GEMINI_SESSION_ID"),
        sessions=("GEMINI_SESSION_ID",),
    ),
    # Before OpenCode, whose marks it also sets.
    Harness(
        "kilo",
        programs=("kilo", "kilocode"),
        places=("/@kilocode/cli",),
        clients=("kilo",),
        marks=("KILO", "KILO_SESSION_ID"),
        sessions=("KILO_SESSION_ID",),
    ),
    Harness(
        "opencode",
        programs=("opencode",),
        places=("/opencode-ai/",),
        clients=("opencode",),
        marks=("OPENCODE", "OPENCODE_SESSION_ID"),
        sessions=("OPENCODE_SESSION_ID",),
    ),
    # Not the program `cursor`: people also type into the editor's terminals. Its MCP client is proof enough.
    Harness(
        "cursor",
        programs=("cursor-agent",),
        places=("/cursor-agent/versions/",),
        clients=("cursor",),
        marks=("CURSOR_AGENT", "CURSOR_TRACE_ID"),
        sessions=("CURSOR_SESSION_ID",),
        terminals=("CURSOR_TRACE_ID",),
    ),
    Harness(
        "copilot",
        programs=("copilot",),
        places=("/@github/copilot/",),
        clients=("copilot", "github-copilot"),
        marks=("COPILOT_CLI", "COPILOT_AGENT_SESSION_ID"),
        sessions=("COPILOT_AGENT_SESSION_ID",),
    ),
    Harness(
        "qwen",
        programs=("qwen",),
        places=("/@qwen-code/qwen-code/",),
        clients=("qwen",),
        marks=("QWEN_CODE", "QWEN_CODE_SESSION_ID"),
        sessions=("QWEN_CODE_SESSION_ID",),
    ),
    Harness("continue", programs=("cn",), places=("/@continuedev/cli/",), clients=("continue",)),
    Harness("cline", programs=("cline",), clients=("cline",)),
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
    """The harness that this program is; None for programs that a harness merely starts."""
    for harness in HARNESSES:
        if program.is_any_of(harness.programs) or program.lies_in(harness.places):
            return harness
    return None


def marked(environ: Mapping[str, str]) -> Harness | None:
    """The harness whose mark is in the environment. Marks are inherited, so it may be several processes above."""
    return next((h for h in HARNESSES if any(environ.get(mark) for mark in h.marks)), None)


def is_marked(environ: Mapping[str, str]) -> bool:
    """Whether a mark shows that a harness, not a person in an editor's terminal, runs this."""
    return any(environ.get(mark) for h in HARNESSES for mark in h.marks if mark not in h.terminals)


def find_mark(environ: Mapping[str, str]) -> str | None:
    """A variable that a harness or an editor with an agent has set."""
    return next((mark for harness in HARNESSES for mark in harness.marks if environ.get(mark)), None)


def slug_of(name: str) -> str:
    """The short name for a harness, from the name it gives itself; `agent` if that has no usable letters."""
    return known_slug(name) or _clean(name) or "agent"


def known_slug(name: str) -> str | None:
    """The short name, but only for a harness in the table."""
    harness = find_named(name)
    return harness.slug if harness else None


def find_named(name: str) -> Harness | None:
    """The harness in the table that gives itself this name."""
    clean = _clean(name)
    # A client's name must match up to a hyphen: `codex-mcp-client` is Codex, `codexology` is not.
    for harness in HARNESSES:
        if clean in harness.programs or any(f"{clean}-".startswith(f"{start}-") for start in harness.clients):
            return harness
    return None


def _clean(name: str) -> str:
    letters = [letter if letter.isascii() and letter.isalnum() else " " for letter in name.lower()]
    return "-".join("".join(letters).split())[:32].rstrip("-")


# -- programs: what a process runs, according to its executable and arguments


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHELLS = _words("sh bash zsh dash ash fish ksh mksh tcsh csh nu pwsh busybox yash elvish xonsh osh ysh")

LAUNCHERS = _SHELLS | _words("""
    conch env timeout nice ionice nohup setsid stdbuf time script xargs flock
    sudo doas su runuser setpriv bwrap firejail sandbox-exec codex-linux-sandbox
    uv uvx pipx poetry hatch npx npm pnpm yarn bunx pyenv mise direnv asdf
    git make just pre-commit
""")
"""Programs that can be between a harness and what it starts."""

TERMINALS = _words("""
    sshd sshd-session dropbear login mosh-server etterminal tmux screen zellij dtach abduco ttyd
    tini dumb-init docker-init catatonit conmon containerd-shim-runc-v2
    gnome-terminal-server kgx ptyxis-agent ptyxis konsole yakuake xterm uxterm urxvt urxvtd rxvt mlterm st foot
    footserver alacritty kitty wezterm-gui wezterm-mux-server ghostty rio contour zutty terminator tilix guake tilda
    xfce4-terminal mate-terminal lxterminal qterminal terminology cool-retro-term deepin-terminal sakura termite
    io.elementary.terminal blackbox-terminal hyper tabby warp warp-terminal wave waveterm
    Terminal iTerm2 iTermServer Hyper Tabby Warp
    code code-insiders codium vscodium code-server bootstrap-fork cursor windsurf zed zed-editor
    idea pycharm webstorm goland clion rider phpstorm rubymine
""")
"""Programs that open terminals in which people type. A terminal below any other program is no sign of a person."""

HOSTS = TERMINALS | _words("init systemd launchd cron crond anacron atd")
"""Programs that start sessions. They are not harnesses, and no harness is above them."""

_SCRIPTED = _words("node bun deno ruby perl")
_ENDINGS = _words("js cjs mjs ts cts mts exe")
_WITH_VALUE = _words("-r --require --import --loader --env-file -W -X -o -O --rcfile --init-file")


class Program(NamedTuple):
    """The names of a process, the most specific of them as its label, and the paths of its files."""

    names: frozenset[str]
    label: str
    paths: tuple[str, ...]

    def is_any_of(self, names: Iterable[str]) -> bool:
        return not self.names.isdisjoint(names)

    def lies_in(self, places: Iterable[str]) -> bool:
        return any(place in path for place in places for path in self.paths)


def read_program(name: str, arguments: tuple[str, ...]) -> Program:
    """The program of a process, from the file name of its executable and from its arguments."""
    title = arguments[0] if arguments else ""
    name, called = _base(name), _base(title)
    script = _script({name, called}, arguments[1:])
    # Some processes set a title of several words, such as `npm exec thing`.
    names = {name, called, _base(title.partition(" ")[0]), _base(script)} - {""}
    return Program(frozenset(names), _base(script) or called or name, (title, script))


def _script(interpreter: set[str], arguments: tuple[str, ...]) -> str:
    """The file or Python module that an interpreter runs; empty for other programs."""
    is_python = any(name.startswith("python") for name in interpreter)
    inline = "c" if is_python or interpreter & _SHELLS else "e"
    if not is_python and not interpreter & (_SHELLS | _SCRIPTED):
        return ""
    rest = iter(arguments)
    for argument in rest:
        if argument in _WITH_VALUE:
            next(rest, "")
        elif not argument.startswith("-"):
            if argument != "run":  # `bun run` and `deno run` name the script after it
                return argument
        elif is_python and _switches(argument).endswith("m"):
            return next(rest, "")
        elif argument == "--eval" or inline in _switches(argument):
            return ""  # the next argument is program text, not a file
    return ""


def _switches(argument: str) -> str:
    """The letters of an argument such as `-Im`; empty for other arguments."""
    letters = argument[1:]
    return letters if letters.isascii() and letters.isalpha() else ""


def _base(path: str) -> str:
    """The plain program name: `-bash` is a login shell, `.opencode` a hidden executable, `claude.exe` npm's name."""
    name = os.path.basename(path)
    stem, dot, ending = name.rpartition(".")
    return (stem if dot and ending in _ENDINGS else name).lstrip("-.").rstrip(":")
