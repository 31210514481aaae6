"""What a process finds out about its ancestors. They are real processes with the names of harnesses."""

from __future__ import annotations

import json
import os
import pty
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conch.agents.petnames import ADJECTIVES, NOUNS, propose_names
from conch.agents.records import label, read_label
from conch.agents.signals import gather_signals
from conch.errors import InvalidSetting
from conch.host.marks import HARNESSES, LAUNCHERS, read_program, recognise, slug_of
from conch.ids import digest

# Runs the rest of the command line as its child, and lets everything below know its pid by its name.
RELAY = """
import os, subprocess, sys
os.environ["PIDS"] = os.environ.get("PIDS", "") + f"{os.path.basename(sys.orig_argv[0])}={os.getpid()} "
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
# The same, as the leader of a session on the terminal that is named first.
TERMINAL = """
import os, sys
os.setsid()
os.open(sys.argv[1], os.O_RDWR)
os.environ["PIDS"] = os.environ.get("PIDS", "") + f"leader={os.getpid()} "
os.execvp(sys.argv[2], sys.argv[2:])
"""
LOOK = """
import json, os, sys
from conch.agents.signals import gather_signals
signals = gather_signals(**{"environ": os.environ, "client_name": None, **json.loads(sys.argv[1])})
pids = dict(pair.split("=") for pair in os.environ["PIDS"].split())
names = {pid: name for name, pid in pids.items()} | {str(os.getpid()): "itself"}
name_of = lambda process: process and names.get(str(process.pid), "somebody else")
print(json.dumps({
    "found": [[s.kind, s.value] for s in signals.found], "sources": [s.source for s in signals.found],
    "slug": signals.slug, "harness": name_of(signals.harness), "terminal": name_of(signals.terminal),
    "session_kind": signals.session_kind, "display_name": signals.display_name,
}))
"""


class Machine:
    """Programs under any name, run below one another. The outermost is a `tmux`, so that whatever harness runs
    these tests is out of sight."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.environ = {"PATH": os.environ["PATH"], "USER": "wojtek", "HOME": str(folder)}

    def program(self, name: str) -> list[str]:
        """A program whose executable is called so."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.symlink_to(os.path.realpath(sys.executable))
        return [str(path), "-I", "-c", RELAY]

    def script(self, interpreter: str, path: str) -> list[str]:
        """A script at a path, run by an interpreter that is called so."""
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(RELAY)
        return [self.program(interpreter)[0], "-I", str(file)]

    def shell_script(self, name: str) -> list[str]:
        file = self._folder / name
        file.write_text('#!/bin/sh\nPIDS="$PIDS ' + name + '=$$"\nexport PIDS\n"$@"\nexit $?\n')
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return [str(file)]

    def look(self, *above: list[str], environ: dict[str, str] | None = None, **view: Any) -> dict[str, Any]:
        """What `gather_signals` sees below these programs, the outermost first."""
        chain = [part for program in (self.program("tmux"), *above) for part in program]
        command = [*chain, sys.executable, "-c", LOOK, json.dumps({"door": "cli", **view})]
        result = subprocess.run(
            command, env=self.environ | (environ or {}), capture_output=True, text=True, start_new_session=True
        )
        assert result.returncode == 0, result.stderr
        seen: dict[str, Any] = json.loads(result.stdout)
        return seen


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def terminal() -> Any:
    """A program that makes a real terminal the controlling one of whatever runs below it."""
    controller, line = pty.openpty()
    yield [sys.executable, "-I", "-c", TERMINAL, os.ttyname(line)]
    os.close(controller)
    os.close(line)


SHELL = ["sh", "-c", '"$@"; exit $?', "sh"]


# -- harnesses that conch knows


def test_a_command_below_a_known_harness_is_that_harness(machine: Machine) -> None:
    seen = machine.look(machine.program("claude"), SHELL)

    assert [kind for kind, _ in seen["found"]] == ["process"]
    assert (seen["harness"], seen["slug"], seen["session_kind"]) == ("claude", "claude-code", "mcp_harness")


def test_a_server_and_a_command_of_one_kind_of_harness_see_the_same_process(machine: Machine) -> None:
    codex = machine.program("codex")

    server = machine.look(codex, machine.program("uv"), door="mcp", client_name="codex-mcp-client")
    command = machine.look(codex, SHELL, machine.script("python3", "build.py"))

    assert server["harness"] == command["harness"] == "codex"
    assert server["slug"] == command["slug"] == "codex"


def test_a_harness_that_is_a_shell_script_is_known(machine: Machine) -> None:
    assert machine.look(machine.shell_script("claude"), SHELL)["harness"] == "claude"


@pytest.mark.parametrize(
    ("path", "slug"),
    [
        ("bin/gemini", "gemini"),
        ("lib/node_modules/@openai/codex/bin/codex.js", "codex"),
        ("lib/node_modules/@anthropic-ai/claude-code/cli.js", "claude-code"),
        ("lib/node_modules/@google/gemini-cli/dist/index.js", "gemini"),
        ("lib/node_modules/@github/copilot/index.js", "copilot"),
        ("share/cursor-agent/versions/2026.1/index.js", "cursor"),
    ],
)
def test_a_harness_that_is_a_script_of_an_interpreter_is_known(machine: Machine, path: str, slug: str) -> None:
    seen = machine.look(machine.script("node", path), SHELL)

    assert (seen["slug"], seen["session_kind"]) == (slug, "mcp_harness")


def test_of_two_harnesses_the_nearer_one_is_calling(machine: Machine) -> None:
    inherited = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "outer", "CODEX_THREAD_ID": "inner"}

    seen = machine.look(machine.program("claude"), SHELL, machine.program("codex"), SHELL, environ=inherited)

    assert (seen["harness"], seen["slug"]) == ("codex", "codex")
    assert seen["found"][0] == ["session", "session:codex:inner"]


def test_a_harness_that_runs_several_sessions_is_not_identified_by_its_process(machine: Machine) -> None:
    session = {"CODEX_THREAD_ID": "abc"}

    one_session = machine.look(machine.program("codex"), SHELL, environ=session)
    one_process = machine.look(machine.program("gemini"), SHELL, environ={"GEMINI_SESSION_ID": "abc"})

    assert [kind for kind, _ in one_session["found"]] == ["session"]
    assert one_session["harness"] == "codex"
    assert [kind for kind, _ in one_process["found"]] == ["session", "process"]


def test_a_harness_on_a_terminal_is_no_person(machine: Machine, terminal: list[str]) -> None:
    seen = machine.look(terminal, machine.program("claude"), SHELL)

    assert (seen["harness"], seen["terminal"], seen["session_kind"]) == ("claude", None, "mcp_harness")


@pytest.mark.parametrize(
    "arguments",
    [
        ("tail", "-f", "claude"),
        ("bash", "-lc", "claude"),
        ("bash", "-c", "node /x/@openai/codex/bin/codex.js exec"),
        ("python3", "codex.py"),
        ("node", "-e", "gemini"),
        ("node", "runner.js", "claude"),
        ("/Applications/Claude.app/Contents/MacOS/Claude",),
    ],
)
def test_a_program_that_only_mentions_a_harness_is_none(arguments: tuple[str, ...]) -> None:
    assert recognise(read_program(os.path.basename(arguments[0]), arguments)) is None


@pytest.mark.parametrize(
    ("name", "arguments", "slug"),
    [
        ("node", ("claude",), "claude-code"),
        ("2.1.4", ("/home/x/.local/share/claude/versions/2.1.4",), "claude-code"),
        (".opencode", ("/x/opencode-ai/bin/.opencode", "serve"), "opencode"),
        ("node", ("node", "--max-old-space-size=8192", "/usr/bin/gemini"), "gemini"),
        ("node", ("node", "-r", "./claude", "/usr/bin/gemini"), "gemini"),
        ("claude.exe", ("/x/bin/claude.exe",), "claude-code"),
        ("codex", (), "codex"),
        ("bun", ("bun", "run", "/usr/bin/opencode"), "opencode"),
    ],
)
def test_a_harness_is_known_however_it_was_started(name: str, arguments: tuple[str, ...], slug: str) -> None:
    harness = recognise(read_program(name, arguments))

    assert harness is not None
    assert harness.slug == slug


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("bash", ("-bash",)),
        ("python3.11", ("/usr/bin/python3", "-m", "conch", "mcp")),
        ("python3.11", ("/venv/bin/python", "-Im", "conch")),
        ("python3.11", ("/venv/bin/python", "/venv/bin/conch", "mcp")),
        ("node", ("npm exec thing",)),
        ("node", ("node", "/usr/bin/npx", "thing")),
        ("uv", ("uv", "run", "conch", "mcp")),
    ],
)
def test_what_stands_between_a_harness_and_conch_is_seen_through(name: str, arguments: tuple[str, ...]) -> None:
    assert read_program(name, arguments).is_any_of(LAUNCHERS)


# -- clients that conch does not know


def test_a_server_without_a_known_harness_goes_by_its_client(machine: Machine) -> None:
    above = [machine.program("acme"), machine.program("helper"), SHELL, machine.program("uvx")]

    seen = machine.look(*above, door="mcp", client_name="Acme Agent\x1b[2J")

    assert (seen["harness"], seen["slug"], seen["session_kind"]) == ("helper", "acme-agent-2j", "mcp_harness")
    assert seen["display_name"] == "Acme Agent [2J"


def test_a_command_of_an_unknown_harness_is_the_same_process_as_its_server(machine: Machine) -> None:
    server = machine.look(machine.program("acme"), door="mcp", client_name="acme")
    command = machine.look(machine.program("acme"), SHELL, machine.program("timeout"))

    assert server["harness"] == command["harness"] == "acme"
    assert (command["slug"], command["session_kind"]) == ("acme", "script")


def test_a_server_that_nobody_seems_to_have_started_goes_by_itself(machine: Machine) -> None:
    assert machine.look(SHELL, door="mcp", client_name="remote")["harness"] == "itself"


# -- sessions


def test_a_session_is_known_from_the_environment(machine: Machine) -> None:
    seen = machine.look(machine.program("codex"), environ={"CODEX_THREAD_ID": "abc"})

    assert seen["found"][0] == ["session", "session:codex:abc"]


def test_a_session_id_that_is_no_plain_word_is_kept_as_a_digest(machine: Machine) -> None:
    odd = "two words " * 100

    seen = machine.look(SHELL, environ={"CODEX_THREAD_ID": odd})

    assert seen["found"] == [["session", f"session:codex:{digest(odd)}"]]


def test_a_session_without_a_harness_in_sight_has_no_process(machine: Machine, terminal: list[str]) -> None:
    seen = machine.look(terminal, machine.program("helper"), environ={"ANTIGRAVITY_CONVERSATION_ID": "abc"})

    assert seen["found"] == [["session", "session:antigravity:abc"]]
    assert (seen["harness"], seen["terminal"], seen["slug"]) == (None, None, "antigravity")


@pytest.mark.parametrize("client_name", ["mcp", "orchestrator", None])
def test_the_clients_of_an_orchestrator_do_not_share_the_session_it_was_started_in(
    machine: Machine, client_name: str | None
) -> None:
    inherited = {"CLAUDE_CODE_SESSION_ID": "outer", "CODEX_THREAD_ID": "outer"}
    orchestrator = machine.script("python3", "orchestrate.py")

    below = machine.look(
        machine.program("claude"), SHELL, orchestrator, door="mcp", client_name=client_name, environ=inherited
    )
    sandboxed = machine.look(SHELL, orchestrator, door="mcp", client_name=client_name, environ=inherited)

    assert [kind for kind, _ in below["found"]] == [kind for kind, _ in sandboxed["found"]] == ["process"]


def test_a_server_that_a_harness_starts_shares_its_session(machine: Machine) -> None:
    exported = {"CLAUDE_CODE_SESSION_ID": "one"}

    direct = machine.look(machine.program("claude"), door="mcp", client_name=None, environ=exported)
    wrapped = machine.look(
        machine.program("claude"), machine.program("wrapper"), door="mcp", client_name="claude-code", environ=exported
    )

    assert direct["found"][0] == wrapped["found"][0] == ["session", "session:claude-code:one"]


def test_the_session_that_a_call_names_is_the_one_that_its_commands_export(machine: Machine) -> None:
    codex = machine.program("codex")

    server = machine.look(codex, door="mcp", client_name="codex-mcp-client", called_in=["abc", "two words"])
    command = machine.look(codex, SHELL, environ={"CODEX_THREAD_ID": "abc"})

    assert server["found"][0] == command["found"][0] == ["session", "session:codex:abc"]
    assert server["found"][1:] == [["session", f"session:codex:{digest('two words')}"]]


def test_two_sessions_of_nobody_in_sight_are_not_mixed(machine: Machine) -> None:
    seen = machine.look(SHELL, environ={"CODEX_THREAD_ID": "one", "CLAUDE_CODE_SESSION_ID": "two"})

    assert seen["found"] == [["session", "session:claude-code:two"]]


# -- people


def test_a_command_on_a_terminal_is_a_person(machine: Machine, terminal: list[str]) -> None:
    seen = machine.look(terminal, SHELL)

    assert [kind for kind, _ in seen["found"]] == ["person"]
    assert re.fullmatch(r"human:wojtek:[a-z]+\d+@\w+", seen["found"][0][1])
    assert (seen["slug"], seen["session_kind"]) == ("human", "human_guardian")
    assert (seen["harness"], seen["terminal"]) == (None, "leader")


def test_an_editor_around_a_terminal_does_not_hide_the_person(machine: Machine, terminal: list[str]) -> None:
    seen = machine.look(machine.program("cursor"), terminal, SHELL, environ={"CURSOR_TRACE_ID": "abc"})

    assert (seen["slug"], seen["terminal"]) == ("human", "leader")


def test_a_program_in_a_terminal_is_not_the_person_who_started_it(machine: Machine, terminal: list[str]) -> None:
    seen = machine.look(terminal, SHELL, machine.program("acme"), SHELL)

    assert (seen["harness"], seen["slug"], seen["session_kind"]) == ("acme", "acme", "script")
    assert seen["terminal"] is None


def test_a_program_that_opens_a_terminal_of_its_own_is_not_a_person(machine: Machine, terminal: list[str]) -> None:
    seen = machine.look(machine.program("acme"), terminal, SHELL)

    assert (seen["harness"], seen["slug"], seen["session_kind"]) == ("acme", "acme", "script")
    assert seen["terminal"] is None


@pytest.mark.parametrize("opener", ["tmux", "sshd", "kitty", "gnome-terminal-server"])
def test_a_known_terminal_below_an_unknown_program_shows_a_person(
    machine: Machine, terminal: list[str], opener: str
) -> None:
    seen = machine.look(machine.program("acme"), machine.program(opener), terminal, SHELL)

    assert (seen["slug"], seen["terminal"]) == ("human", "leader")


@pytest.mark.parametrize("mark", ["CLAUDECODE", "GEMINI_CLI", "OPENCODE", "GROK_AGENT"])
def test_a_harness_mark_in_a_terminal_hides_no_harness(machine: Machine, terminal: list[str], mark: str) -> None:
    seen = machine.look(terminal, SHELL, environ={mark: "1"})

    assert seen["slug"] != "human"
    assert (seen["terminal"], seen["session_kind"]) == (None, "script")


def test_a_command_that_nobody_seems_to_have_started_is_no_person(machine: Machine) -> None:
    seen = machine.look(SHELL)

    assert [kind for kind, _ in seen["found"]] == ["account"]
    assert re.fullmatch(r"account:wojtek@\w+", seen["found"][0][1])
    assert (seen["slug"], seen["session_kind"]) == ("script", "script")
    assert (seen["harness"], seen["terminal"]) == (None, None)


def test_a_caller_without_a_user_variable_is_called_by_the_account(machine: Machine, terminal: list[str]) -> None:
    import pwd

    account = pwd.getpwuid(os.getuid()).pw_name
    assert machine.look(SHELL, environ={"USER": ""})["found"][0][1].startswith(f"account:{account}@")
    assert machine.look(terminal, SHELL, environ={"USER": ""})["found"][0][1].startswith(f"human:{account}:")


# -- an id of one's own


def test_an_explicit_id_comes_first_and_what_else_is_seen_stays(machine: Machine) -> None:
    environ = {"CONCH_AGENT_ID": "alice", "CODEX_THREAD_ID": "abc"}

    seen = machine.look(machine.program("codex"), SHELL, environ=environ)

    assert seen["found"][:2] == [["explicit", "alice"], ["session", "session:codex:abc"]]
    assert seen["harness"] == "codex"


def test_a_server_with_an_explicit_id_lives_as_long_as_its_client(machine: Machine) -> None:
    above = [machine.program("claude"), SHELL, machine.script("python3", "driver.py"), SHELL]

    seen = machine.look(*above, door="mcp", environ={"CONCH_AGENT_ID": "alice"})

    assert seen["harness"] == "python3"


def test_a_command_with_an_explicit_id_on_a_terminal_lives_as_long_as_the_terminal(
    machine: Machine, terminal: list[str]
) -> None:
    seen = machine.look(machine.program("acme"), terminal, SHELL, environ={"CONCH_AGENT_ID": "alice"})

    assert seen["found"] == [["explicit", "alice"]]
    assert (seen["harness"], seen["terminal"], seen["session_kind"]) == (None, "leader", "human_guardian")


def test_a_command_with_an_explicit_id_has_no_process_where_none_would_last(machine: Machine) -> None:
    seen = machine.look(machine.program("acme"), SHELL, environ={"CONCH_AGENT_ID": "alice"})

    assert (seen["harness"], seen["terminal"], seen["session_kind"]) == (None, None, "script")


@pytest.mark.parametrize("agent_id", ["-alice", "al ice", "a" * 129, "alice\n", "älice", ":"])
def test_an_explicit_id_that_cannot_be_one_is_refused_and_named(agent_id: str) -> None:
    with pytest.raises(InvalidSetting, match="CONCH_AGENT_ID") as refusal:
        gather_signals("cli", {"CONCH_AGENT_ID": agent_id}, None)

    assert refusal.value.details["setting"] == "CONCH_AGENT_ID"


# -- what things are called


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("claude-code", "claude-code"),
        ("claude", "claude-code"),
        ("claude-ai", "claude-ai"),
        ("codex-mcp-client", "codex"),
        ("gemini-cli-mcp-client", "gemini"),
        ("opencode", "opencode"),
        ("cursor-vscode", "cursor"),
        ("github-copilot-developer", "copilot"),
        ("Visual Studio Code - Insiders", "vscode"),
        ("My Agent 2.0", "my-agent-2-0"),
        ("\u2603", "agent"),
        ("", "agent"),
        ("x" * 100, "x" * 32),
    ],
)
def test_a_slug_is_the_known_one_or_a_clean_word(name: str, slug: str) -> None:
    assert slug_of(name) == slug


@pytest.mark.parametrize(
    ("agent_id", "shown"),
    [
        ("claude-code:a3f1", "claude·deft-osprey"),
        ("codex:9b22", "codex·deft-osprey"),
        ("human:ada:pts3", "human·deft-osprey"),
        ("alice", "alice·deft-osprey"),
    ],
)
def test_people_see_one_label_for_an_agent_and_can_type_it(agent_id: str, shown: str) -> None:
    assert label(agent_id, "deft-osprey") == shown
    for typed in (shown, shown.replace("·", ".")):
        read = read_label(typed)
        assert read is not None and read.name == "deft-osprey" and read.fits(agent_id)


def test_an_agent_without_a_known_name_still_has_a_label() -> None:
    assert label("codex:9b22", None) == "codex·9b22"
    assert label(None, "conch") == "conch"


@pytest.mark.parametrize("text", ["deft-osprey", "·x", "x·", "codex:9b22", ""])
def test_a_text_without_both_parts_is_no_label(text: str) -> None:
    assert read_label(text) is None


def test_a_label_of_another_kind_does_not_fit() -> None:
    read = read_label("claude·deft-osprey")

    assert read is not None and not read.fits("codex:9b22") and not read.fits(None)


def test_every_known_slug_is_its_own() -> None:
    assert [slug_of(harness.slug) for harness in HARNESSES] == [harness.slug for harness in HARNESSES]


def test_there_are_words_enough_and_each_once() -> None:
    assert len(set(ADJECTIVES)) == len(ADJECTIVES) >= 60
    assert len(set(NOUNS)) == len(NOUNS) >= 60


def test_every_name_that_can_be_proposed_is_a_valid_one() -> None:
    longest = f"{max(ADJECTIVES, key=len)}-{max(NOUNS, key=len)}-999999"

    assert len(longest) <= 48
    assert all(re.fullmatch(r"[a-z]{3,}", word) for word in ADJECTIVES + NOUNS)


def test_the_same_digest_proposes_the_same_names_and_never_runs_out() -> None:
    first, again = propose_names(digest("one")), propose_names(digest("one"))

    names = [next(first) for _ in range(20)]

    assert names == [next(again) for _ in range(20)]
    assert len(set(names)) == 20
    assert [name for name in names if name[-1].isdigit()][:2] == [f"{names[0]}-2", f"{names[0]}-3"]
