"""The documents are true: their commands run, their output is real, their references are current."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.contract.foreign import bus_file, event, message, stick_file
from tests.terminals import typing

import conch
from conch.config import SETTINGS
from conch.doors.cli.catalogue import COMMANDS
from conch.doors.cli.other_programs import ELSEWHERE, find_own
from conch.host.marks import HARNESSES
from conch.tools.catalogue import TOOLS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, kind: str) -> list[str]:
    return [text for language, text in FENCE.findall(page.read_text()) if language == kind]


def sessions() -> list[object]:
    """All console blocks of a page are one session: later ones build on earlier ones."""
    return [pytest.param(page, id=page.name) for page in PAGES if blocks(page, "console")]


AGENTS = {"claude": "claude-code:a1", "codex": "codex:b2", "gemini": "gemini:c3"}
"""The agents that type at a prompt such as `claude $`. At any other prompt a person types, in a terminal for each."""

# What differs from run to run. A page shows it as it may look.
VARYING = [
    (r"(?m)^\S+ has held the stick for .*\n", ""),  # on a terminal, this line disappears when the wait ends
    (r"\b(room|topic|msg|evt|proto|rsv|lease)_[0-9a-f]{6,}", r"\1_ID"),
    (r"\b\d+ (h|min|s|days)( \d+ (min|s))?\b", "SOME TIME"),
    (r"\b(\d{4}-\d\d-\d\d[ T])?\d\d:\d\d(:\d\d)?(\.\d+Z)?", "MOMENT"),
    (r"\bprocess \d+", "process PID"),
    (r"human·\w+-\w+", "human·NAME"),
    (r"\bpts/?\d+", "PTS"),
    (r"\bhuman:[\w.-]+:PTS(@\w+)?", "human:YOU"),
    (r"\b\d{8}T\d{6}Z(-\d+)?", "STAMP"),
    (r"\b\d+ rules\b", "SOME rules"),
    (r" {2,}", "  "),  # how wide a column is depends on a name
    (r"/home/you\b", "HOME"),
]


def steps(page: Path) -> list[tuple[str, str, str]]:
    """Each command with the agent that types it and the output that the page shows for it."""
    found: list[tuple[str, str, str]] = []
    for block in blocks(page, "console"):
        _, *parts = re.split(r"^((?:\w+ )?)\$ ", block, flags=re.MULTILINE)
        for who, part in zip(parts[::2], parts[1::2], strict=True):
            lines = part.splitlines()
            length = 1 + next(index for index, line in enumerate(lines) if not line.endswith("\\"))
            found.append((who.strip(), "\n".join(lines[:length]), "\n".join(lines[length:])))
    return found


def as_typed(who: str, command: str) -> str:
    """The line for the shell. A notice is the first in the inbox."""
    command = re.sub(r"\bproto_[0-9a-f]+", "$(conch agent inbox --json | grep -o 'proto_[0-9a-f]*' | head -1)", command)
    return f"export CONCH_AGENT_ID={AGENTS[who]}\n{command}\nunset CONCH_AGENT_ID" if who in AGENTS else command


def leveled(text: str, home: str = "/home/you") -> str:
    """The text without what differs from run to run."""
    text = text.replace(home, "HOME")
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    return text.strip()


def environment(folder: Path) -> dict[str, str]:
    marks = {mark for harness in HARNESSES for mark in harness.marks}
    ours = ("CONCH_", "TALKING_STICK_", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours) and name not in marks}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "HOME": str(folder)}


@pytest.mark.parametrize("page", sessions())
def test_every_command_of_a_page_runs_and_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").touch()
    make_foreign_files(tmp_path)
    terminals: dict[str, Callable[[str], str]] = {}

    with ExitStack() as opened:
        for who, command, expected in steps(page):
            place = "" if who in AGENTS else who
            if place not in terminals:
                terminals[place] = opened.enter_context(typing(work, environment(tmp_path)))
            actual = terminals[place](as_typed(who, command))
            assert leveled(actual, str(tmp_path)) == leveled(expected), f"$ {command}\n{actual}"


def make_foreign_files(home: Path) -> None:
    """The files of other programs that `coming-from.md` imports."""
    bus_file(home / "bus.sqlite").insert("messages", message(1, "red-squirrel", "hello"))
    folder = home / ".local" / "share" / "talking-stick"
    folder.mkdir(parents=True)
    stick = stick_file(folder / "rooms.sqlite", str(home / "repository"), ["codex:9b22", "claude-code:a3f1"])
    stick.insert("room_events", event(1, "claim", 1, None, "codex:9b22"))
    stick.insert("room_events", event(2, "release", 1, "codex:9b22", "claude-code:a3f1"))
    stick.insert("room_events", event(3, "claim", 2, "codex:9b22", "claude-code:a3f1"))


def test_the_words_of_other_programs_are_those_of_the_page_and_lead_to_commands() -> None:
    rows = dict(
        re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", (ROOT / "docs" / "coming-from.md").read_text(), re.MULTILINE)
    )
    aliases = {alias: setting.variable for setting in SETTINGS for alias in setting.aliases}
    commands = {there: here for there, here in rows.items() if here.startswith("conch ")}

    assert set(ELSEWHERE.values()) <= set(COMMANDS)
    assert not set(ELSEWHERE) & set(COMMANDS)
    assert {here.removeprefix("conch ") for here in commands.values()} <= set(COMMANDS)
    for there, here in commands.items():
        assert there in COMMANDS or find_own(there.split()) == here.removeprefix("conch "), there
    assert {there: here for there, here in rows.items() if there in aliases} == aliases
    assert [name for name in TOOLS if name not in COMMANDS and find_own([name]) is None] == []
    assert find_own(["wait-for-turn"]) == "wait"


def test_every_server_entry_of_the_documents_starts_a_server(tmp_path: Path) -> None:
    snippets = [text for page in PAGES for text in blocks(page, "json")]
    snippets += re.findall(r"`(\{\"(?:mcpServers|mcp|servers)\".*?\})` \|", (ROOT / "docs" / "how-to.md").read_text())
    assert len(snippets) >= 6
    for snippet in snippets:
        entry = next(iter(json.loads(snippet).values()))["conch"]
        command = entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "docs", "version": "1"}}
        request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
        done = subprocess.run(
            command, input=request, env=environment(tmp_path), capture_output=True, text=True, timeout=30, check=True
        )
        assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "conch"


def test_the_codex_entry_of_the_documents_is_valid(tmp_path: Path) -> None:
    import tomllib

    row = next(line for line in (ROOT / "docs" / "how-to.md").read_text().splitlines() if line.startswith("| Codex"))
    text = "\n".join(re.findall(r"`([^`]*)`", row)[1:])

    assert tomllib.loads(text) == {"mcp_servers": {"conch": {"command": "conch", "args": ["mcp"]}}}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_in_the_documents_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(blocks(page, "sh"))))
    named |= set(re.findall(r"`make ([a-z]+)", page.read_text()))

    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_named_in_the_documents_exist(page: Path) -> None:
    text = page.read_text()
    known = {
        name for file in (ROOT / "tests").rglob("*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }

    assert set(re.findall(r"`(test_\w+)`", text)) <= known
    for place in re.findall(r"`(?:pytest |python -m )?(tests[/.][\w/.]+)", text):
        path = ROOT / (place if "/" in place else place.replace(".", "/"))
        assert path.exists() or path.with_suffix(".py").exists(), place


def test_every_defence_of_the_security_page_names_its_tests() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    rows = re.findall(r"^\| defence \| shown by \|\n\|---\|---\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    defences = [row for table in rows for row in table.splitlines()]

    assert len(defences) >= 20
    assert [row for row in defences if "`test_" not in row] == []


def test_every_promise_of_the_readme_says_how_it_is_attacked() -> None:
    promises = re.findall(r"^- \*\*(.+?)\.\*\*", (ROOT / "README.md").read_text(), re.MULTILINE)
    table = re.findall(
        r"^\| ([^|]+) \| [^|]+ \| `make \w+` \|", (ROOT / "docs" / "reliability.md").read_text(), re.MULTILINE
    )

    assert len(promises) >= 7
    assert set(promises) <= set(table)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_the_documents_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_reference_is_what_the_code_says() -> None:
    pages = runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"]()
    stale = [path.name for path, text in pages.items() if not path.exists() or path.read_text() != text]

    assert stale == [], "run `make docs`"


def test_the_newest_version_of_the_changelog_is_this_one() -> None:
    first, *others = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    versions = others if first == "Unreleased" else [first, *others]

    assert versions[0] == conch.__version__
    assert "Unreleased" not in others


def test_every_sh_block_holds_only_commands_that_exist() -> None:
    commands = (ROOT / "docs" / "reference" / "commands.md").read_text()
    for page in PAGES:
        for line in "\n".join(blocks(page, "sh")).splitlines():
            words = line.split()
            if words[:1] == ["conch"]:
                names = (" ".join(words[:2]), " ".join(words[:3]))
                assert any(f"## `{name}`" in commands for name in names), line
            elif words:
                assert words[0] == "make", line
