"""Completion: the candidates come from the catalogue and the store, and real shells complete with them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conch.doors.cli.catalogue import COMMANDS, FAMILIES

Conch = Callable[..., Any]
SOON = 30


@pytest.fixture
def candidates(conch: Any) -> Callable[..., list[str]]:
    """What may come next; the last word is the one to complete."""

    def ask(*words: str) -> list[str]:
        answer = conch("completion", "candidates", "--", *words)
        assert (answer.status, answer.err) == (0, "")
        return [line.split(" ")[0] for line in answer.out.splitlines()]

    return ask


def test_the_first_word_is_any_command_or_family(candidates: Any) -> None:
    assert set(candidates("")) == {name for name in COMMANDS if " " not in name} | set(FAMILIES)
    assert candidates("reserva") == ["reservations"]


@pytest.mark.parametrize("family", FAMILIES)
def test_after_a_family_come_its_actions(candidates: Any, family: str) -> None:
    assert [f"{family} {action}" for action in candidates(family, "")] == [
        name for name in COMMANDS if name.startswith(f"{family} ")
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_hyphen_brings_the_options_of_the_command(candidates: Any, name: str) -> None:
    flags = [option.name for option in COMMANDS[name].options if option.is_flag]

    assert candidates(*name.split(), "--") == [*flags, "--help"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("topics", "list", "--status", ""), ["open", "closed", "all"]),
        (("topics", "list", "--status", "c"), ["closed"]),
        (("topics", "list", "--status=c"), ["--status=closed"]),  # as zsh and fish give it
        (("topics", "list", "--status", "=", "c"), ["closed"]),  # as bash gives it
        (("reserve", ""), [":files"]),
        (("reserve", "--ttl", "2h", "src", ""), [":files"]),
        (("join", ""), [":folders"]),
        (("import", "x", ""), []),
        (("note", ""), []),
        (("policy", "owner"), ["owner_lease_ttl_ms="]),
        (("no-such-command", ""), []),
        (("--json", "topics", "list", "--sta"), ["--status"]),
        (("completion", "f"), ["fish"]),
    ],
)
def test_values_are_those_of_the_option(candidates: Any, words: tuple[str, ...], expected: list[str]) -> None:
    assert candidates(*words) == expected


def test_agents_topics_and_rooms_are_those_of_this_moment(conch: Any, candidates: Any) -> None:
    room = conch("join", "--json").data
    conch("join", agent="bob:2")
    names = {conch("whoami", "--json", agent=agent).data["name"] for agent in ("ada:1", "bob:2")}
    conch("topics", "create", "plan")

    assert set(candidates("pass", "")) == set(candidates("send", "x", "--to", "")) == names
    assert set(candidates("pass", "--room", room["room_id"], "")) == names
    assert "plan" in candidates("read", "--topic", "")
    assert candidates("state", "--room", "") == [room["room_id"]]


def test_completing_changes_nothing_and_creates_no_store(new_conch: Any) -> None:
    completed = new_conch("completion", "candidates", "--", "pass", "")

    assert (completed.status, completed.out) == (0, "")
    assert not new_conch.database.exists()


def test_completing_makes_no_agent_and_keeps_nobody_active(conch: Any, candidates: Any, look: Any) -> None:
    conch("join")
    before = look("SELECT count(*) || '-' || max(last_seen_at) FROM agents")

    candidates("pass", "")
    conch("completion", "candidates", "--", "pass", "", agent="eve:3")

    assert look("SELECT count(*) || '-' || max(last_seen_at) FROM agents") == before


def test_a_store_in_trouble_brings_no_candidates_and_no_error(conch: Any, tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"no database")

    answer = conch("completion", "candidates", "--", "pass", "", CONCH_STORE=str(tmp_path / "broken"))

    assert (answer.status, answer.out, answer.err) == (0, "", "")


def test_a_name_that_a_shell_would_read_as_code_is_not_offered(conch: Any, candidates: Any) -> None:
    conch("join")
    topic = conch("topics", "create", "$(touch pwned) `id`", "--json").data["topic_id"]

    found = candidates("read", "--topic", "")

    assert topic in found
    assert not [word for word in found if set(word) & set("$`();&|<>'\"\\ ")]


# -- real shells


@pytest.fixture
def shell_env(conch: Any, tmp_path: Path) -> dict[str, str]:
    """An environment in which `conch` is on the path, and a room with bob, whose name the shells must know."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "conch").write_text(f'#!/bin/sh\nexec {sys.executable} -m conch "$@"\n')
    (programs / "conch").chmod(0o755)
    conch("join", agent="bob:2")
    conch("agent", "register", "brown-bear", agent="bob:2")
    (conch.workspace / "parser.py").touch()
    return {**conch.env, "PATH": f"{programs}:{conch.env['PATH']}", "CONCH_AGENT_ID": "ada:1"}


def test_bash_completes(shell_env: dict[str, str], terminal: Any, workspace: Path) -> None:
    window = terminal(80, **shell_env)
    window.type("stty echo; exec bash --norc -i\n")
    window.type('PS1="rea""dy> "; eval "$(conch completion bash)"\n')
    window.read_until(b"ready> ")

    window.type("conch pas\t")
    window.read_until(b"conch pass ")
    window.type("bro\t")
    window.read_until(b"brown-bear ")
    window.type("\x15conch reserve par\t")
    window.read_until(b"parser.py ")
    window.type("\x15conch topics list --status=cl\t")

    assert window.read_until(b"--status=closed ")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(shell_env: dict[str, str], workspace: Path) -> None:
    asked = ("conch pas", "conch pass br", "conch reserve par", "conch topics list --status cl")
    script = "conch completion fish | source\n" + "\n".join(f"complete -C '{line}'" for line in asked)

    done = subprocess.run(
        ["fish", "--no-config", "-c", script],
        env=shell_env, cwd=workspace, capture_output=True, text=True, timeout=SOON, check=True,
    )  # fmt: skip

    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["pass", "brown-bear", "parser.py", "closed"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes(shell_env: dict[str, str], terminal: Any, workspace: Path) -> None:
    window = terminal(80, **shell_env)
    window.type("stty echo; exec zsh -f -i\n")
    window.type('autoload -U compinit; compinit -D -u; eval "$(conch completion zsh)"; PS1="rea""dy> "\n')
    window.read_until(b"ready> ")

    window.type("conch pas\tbro\t")

    assert window.read_until(b"brown-bear")
