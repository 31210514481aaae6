"""The exit status of every command: 0 done, 1 refused, 2 usage, 3 not yet, 4 no store, 130 interrupted."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conch.doors.cli.catalogue import COMMANDS
from conch.doors.cli.command import Command

Conch = Callable[..., Any]

DONE = ("--status", "s", "--next", "n")
# Words with which each command succeeds, after those before it. `{...}` is replaced by what `facts` gives.
SUCCEEDING: list[tuple[str, str, tuple[str, ...]]] = [
    ("ada:1", "help", ()),
    ("ada:1", "version", ()),
    ("ada:1", "completion", ("bash",)),
    ("ada:1", "whoami", ()),
    ("ada:1", "init", ("--non-interactive",)),
    ("ada:1", "join", ()),
    ("ada:1", "status", ()),
    ("ada:1", "state", ()),
    ("ada:1", "who", ()),
    ("ada:1", "rooms", ()),
    ("ada:1", "events", ()),
    ("ada:1", "note", ("noted",)),
    ("ada:1", "policy", ()),
    ("ada:1", "reorder", ("ada:1", "bob:2")),
    ("ada:1", "reserve", ("src", "docs")),
    ("ada:1", "reservations", ()),
    ("ada:1", "unreserve", ("src", "docs")),
    ("ada:1", "agent register", ("brown-bear",)),
    ("ada:1", "agent heartbeat", ()),
    ("ada:1", "agent list", ()),
    ("ada:1", "agent show", ()),
    ("ada:1", "agent reserve", ("src",)),
    ("ada:1", "agent status", ()),
    ("ada:1", "agent release", ("src",)),
    ("ada:1", "agent send", ("bob:2", "--subject", "s", "--summary", "s", "--next", "n")),
    ("ada:1", "agent inbox", ()),
    ("ada:1", "agent seen", ("{notice}",)),
    ("ada:1", "agent accept", ("{notice}",)),
    ("ada:1", "send", ("hello",)),
    ("ada:1", "read", ()),
    ("ada:1", "ask", ("why?", "--wait", "0")),
    ("ada:1", "answer", ("{question}", "so")),
    ("ada:1", "questions", ()),
    ("ada:1", "search", ("hello", "--mode", "fts")),
    ("ada:1", "topics create", ("plan",)),
    ("ada:1", "topics list", ()),
    ("ada:1", "topics show", ("plan",)),
    ("ada:1", "topics export", ("plan", "--output", "{folder}/plan.md")),
    ("ada:1", "topics rename", ("plan", "other")),
    ("ada:1", "topics close", ("other",)),
    ("ada:1", "wait", ()),
    ("ada:1", "pass", ("bob:2", *DONE)),
    ("bob:2", "wait", ()),
    ("bob:2", "release", DONE),
    ("ada:1", "db path", ()),
    ("ada:1", "db verify", ()),
    ("ada:1", "db reindex", ()),
    ("ada:1", "db backup", ("{folder}/backup",)),
    ("ada:1", "db migrate", ()),
    ("ada:1", "db prune", ("--older", "90d", "--yes")),
    ("ada:1", "db copy", ("--to", "{folder}/copy.sqlite")),
    ("ada:1", "db restore", ("{folder}/backup", "--yes")),
    ("ada:1", "instructions edit", ("Test first.",)),
    ("ada:1", "instructions show", ()),
    ("bob:2", "leave", ()),
    ("ada:1", "close", ("--yes",)),
    ("ada:1", "db wipe", ("--yes",)),
]
# Other tests show these: they need a dead agent, a person, a file or a terminal, or they take long.
ELSEWHERE = {
    "take",
    "nudge",
    "kick",
    "redact",
    "names free",
    "agent adopt",
    "import",
    "watch",
    "demo",
    "mcp",
    "serve",
    "listen",
}
ELSEWHERE |= {"hook", "install", "uninstall", "doctor", "guard install", "guard uninstall", "guard check"}


def needed(command: Command) -> list[str]:
    """The fewest words that a command takes."""
    words = command.name.split()
    for option in command.options:
        if option.required:
            value = option.choices[0] if option.choices else "1"
            words += [option.name, value] if option.is_flag else [value]
    return words


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "hook"])  # a hook always ends with 0
def test_an_option_that_does_not_exist_ends_with_2(shared_conch: Conch, name: str) -> None:
    refused = shared_conch(*name.split(), "--no-such-option")

    assert refused.status == 2
    assert refused.out == ""


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if command.needs_store and name != "mcp"])
def test_a_store_that_cannot_be_used_ends_with_4(shared_conch: Any, tmp_path: Path, name: str) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"this is no database" * 100)
    words = [*needed(COMMANDS[name]), *(["--yes"] if name == "close" else [])]

    refused = shared_conch(*words, "--json", CONCH_STORE=str(broken))

    # These look at their words, their file or their terminal first.
    expected = {"db path": 0, "db prune": 2, "pass": 2, "import": 2, "watch": 2}
    assert refused.status == expected.get(name, 4), refused.out
    assert broken.read_bytes() == b"this is no database" * 100


def test_every_command_ends_with_0_when_it_is_done(conch: Any, tmp_path: Path) -> None:
    conch("join")
    conch("join", agent="bob:2")
    conch("topics", "create", "talk")
    conch("send", "first", "--topic", "talk", agent="bob:2")
    conch("agent", "send", "ada:1", "--subject", "s", "--summary", "s", "--next", "n", agent="bob:2")
    conch("ask", "Who?", "--wait", "0", agent="bob:2")
    facts = {
        "notice": conch("agent", "inbox", "--json").data["events"][0]["id"],
        "question": str(conch("questions", "--json").data["questions"][0]["seq"]),
        "name": conch("whoami", "--json", agent="bob:2").data["name"],
        "folder": str(tmp_path),
    }

    failed = []
    for agent, name, words in SUCCEEDING:
        answer = conch(*name.split(), *(word.format(**facts) for word in words), agent=agent)
        failed += [(name, answer)] if answer.status else []

    assert failed == []


def test_no_command_is_left_out_of_these_tests() -> None:
    assert {name for _, name, _ in SUCCEEDING} | ELSEWHERE == set(COMMANDS)


def test_what_has_not_come_yet_ends_with_3(conch: Conch) -> None:
    conch("join")
    conch("join", agent="bob:2")
    conch("wait")

    waited = conch("wait", "--timeout", "0", "--json", agent="bob:2")
    asked = conch("ask", "Anybody?", "--wait", "0.1", "--json")

    assert (waited.status, waited.error["code"]) == (3, "not_yet")
    assert (asked.status, asked.error["code"]) == (3, "timeout")


def test_a_takeover_that_is_possible_ends_with_3(conch: Conch, shell: Callable[[str], Any]) -> None:
    harness = shell("claude")
    harness.run("join")
    conch("join", agent="bob:2")
    harness.run("wait")
    harness.end()

    waited = conch("wait", "--json", agent="bob:2")

    assert (waited.status, waited.error["code"]) == (3, "takeover_available")


def test_an_interrupted_wait_ends_with_130(conch: Conch, start: Any) -> None:
    conch("join")
    conch("join", agent="bob:2")
    conch("wait")
    waiting = start("wait", agent="bob:2")
    assert waiting.stderr.readline()

    waiting.send_signal(signal.SIGINT)

    assert waiting.wait(30) == 130
