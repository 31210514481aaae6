"""Which agent a command speaks for: a person at a terminal, a harness, or the agent that CONCH_AGENT_ID names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from conch.agents.connections import Connection, process_key
from conch.agents.identity import Signal, Signals, identify
from conch.app import open_app
from conch.host import processes

Shell = Callable[[str], Any]
Terminal = Callable[[], Any]
Conch = Callable[..., Any]


def shown_id(terminal: Any) -> str:
    """The agent_id that `whoami` shows in a terminal."""
    envelope = json.loads(terminal.run("whoami", "--json").splitlines()[0])
    return str(envelope["data"]["agent_id"])


def test_two_terminals_are_two_people(terminal: Terminal) -> None:
    one, other = shown_id(terminal()), shown_id(terminal())

    assert one.startswith("human:ada:pts") and other.startswith("human:ada:pts")
    assert one != other


def test_one_terminal_is_one_person_from_command_to_command(terminal: Terminal) -> None:
    window = terminal()

    assert shown_id(window) == shown_id(window)


def test_a_command_of_a_harness_is_that_harness_s_agent(shell: Shell) -> None:
    claude, codex = shell("claude"), shell("codex")

    first = claude.run("whoami", "--json").data
    again = claude.run("whoami", "--json").data
    other = codex.run("whoami", "--json").data

    assert first["agent_id"].startswith("claude-code:")
    assert first["process"]["pid"] == claude.pid
    assert again == first
    assert other["agent_id"].startswith("codex:")


def test_two_harnesses_of_a_kind_are_two_agents(shell: Shell) -> None:
    one, other = shell("claude"), shell("claude")

    assert one.run("whoami", "--json").data["agent_id"] != other.run("whoami", "--json").data["agent_id"]


def test_an_exported_agent_id_wins_over_a_harness(shell: Shell) -> None:
    answer = shell("claude").run("whoami", "--json", CONCH_AGENT_ID="reviewer:1")

    assert answer.data["agent_id"] == "reviewer:1"


def test_an_exported_agent_id_wins_over_a_terminal(terminal: Terminal) -> None:
    window = terminal()

    window.type("export CONCH_AGENT_ID=ada:desk\n")

    assert shown_id(window) == "ada:desk"


def test_an_agent_id_that_cannot_be_one_is_refused_by_the_name_of_its_variable(conch: Conch) -> None:
    refused = conch("whoami", "--json", agent="no spaces, please")

    assert (refused.status, refused.error["code"]) == (2, "invalid_setting")
    assert refused.error["setting"] == "CONCH_AGENT_ID"


def test_the_explanation_names_every_signal_and_marks_the_winner(shell: Shell) -> None:
    claude = shell("claude")
    mine = claude.run("whoami", "--json").data["agent_id"]

    answer = claude.run("whoami", "--explain", CODEX_THREAD_ID="inherited")
    data = claude.run("whoami", "--explain", "--json").data

    assert answer.out.splitlines()[0].startswith("You are claude·")
    assert f"({mine})" in answer.out.splitlines()[0]
    assert f"process {claude.pid} (claude-code)" in answer.out
    assert [(signal["kind"], signal["linked_to"], signal["wins"]) for signal in data["signals"]] == [
        ("process", mine, True)
    ]


def test_the_explanation_says_what_a_command_beside_several_connections_is(shell: Shell, env: dict[str, str]) -> None:
    harness = shell("claude")
    parent = processes.look_up(harness.pid)
    assert parent is not None
    app = open_app(env)
    one, other = (identify(app.store, serving(parent, os.getpid() if itself else 1)) for itself in (True, False))
    app.close()

    said = harness.run("whoami", "--explain").out

    assert all(caller.agent_id in said for caller in (one, other))
    assert "the commands of your process are an agent of their own" in said and "set CONCH_AGENT_ID" in said


def serving(parent: processes.Process, pid: int) -> Signals:
    """What a server below this parent sees."""
    server = processes.look_up(pid)
    assert server is not None
    signal = Signal("process", process_key(parent), f"process {parent.pid}")
    connection = Connection(server, signal.value, "someharness")
    return Signals((signal,), "someharness", parent, None, "mcp_harness", "someharness", connection)


def test_the_explanation_changes_nothing(conch: Conch) -> None:
    conch("join", agent="bob:2")

    explained = conch("whoami", "--explain", "--json", agent="new:1").data

    assert explained["is_new"]
    assert conch("whoami", "--explain", "--json", agent="new:1").data["is_new"]
