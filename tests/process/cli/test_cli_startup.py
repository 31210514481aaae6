"""What a command imports: every agent pays for it many times a day."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

# Prints the modules that a command has loaded, beyond those that Python starts with.
DRIVER = """
import sys
before = set(sys.modules)
from conch.main import main
status = main(sys.argv[1:])
sys.stderr.write(" ".join(set(sys.modules) - before))
"""
HEAVY = {
    "asyncio", "concurrent", "ctypes", "dataclasses", "email", "http", "importlib.metadata", "inspect", "logging",
    "pathlib", "random", "secrets", "shutil", "socket", "ssl", "subprocess", "tempfile", "unittest", "urllib", "uuid",
    "xml", "zipfile",
}  # fmt: skip
# The modules of ours that every short command may load: settings, the store, who calls, the room, the command line.
ROOM = {
    *("agents", "agents.connections", "agents.identity", "agents.records", "agents.signals"),
    *("app", "bells", "bells.base", "bells.file"),
    *("calls", "clock", "config", "doors", "doors.cli", "doors.cli.catalogue", "doors.cli.command"),
    "doors.cli.catalogue.options",
    *("doors.cli.context", "doors.cli.output", "doors.cli.parser"),
    *("doors.cli.run", "doors.cli.terminal", "doors.exits"),
    *("errors", "host", "host.linux", "host.marks", "host.ownership", "host.processes"),
    *("host.workspaces", "ids", "lean"),
    *("main", "notices", "notices.mail"),
    *("rooms", "rooms.handoffs", "rooms.presence", "rooms.room", "storage", "storage.base", "storage.opening"),
    *("storage.replacement", "storage.sqlite", "storage.sqlite.connections", "storage.sqlite.errors"),
    *("storage.sqlite.files", "storage.sqlite.places", "storage.sqlite.queue"),
    *("storage.sqlite.headers", "storage.sqlite.lending", "storage.sqlite.logs", "storage.sqlite.recognition"),
    "storage.sqlite.schema",
    *("tools.offers", "tools.own_ids"),
    *("storage.sqlite.store", "storage.sqlite.transaction", "storage.statements", "tools", "tools.advice"),
    *("tools.fields", "tools.replies", "tools.schema", "tools.session", "tools.text"),
}
BUS = {
    "bus",
    "bus.drafts",
    "bus.peers",
    "bus.stream",
    "bus.sync",
    "bus.topics",
    "bells.waits",
    "warnings",
}
NOTICES = {"notices", "notices.activity", "notices.events", "rooms.log", "host.paths", "warnings"}
LEAN = {
    ("state",): ROOM
    | {"doors.cli.catalogue.rooms", "doors.cli.paging", "doors.cli.rooms", "doors.cli.tables"}
    | {"tools.pages", "tools.turns_view"},
    ("send", "m"): ROOM
    | BUS
    | {"doors.cli.catalogue.talk", "doors.cli.messages", "doors.cli.sending", "tools.bus_view"},
    ("agent", "reserve", "src/x"): ROOM
    | NOTICES
    | {"doors.cli.catalogue.agents", "doors.cli.scopes"}
    | {"scopes", "scopes.overlaps", "scopes.refusals", "scopes.reservations"}
    | {"tools.pages", "tools.registry", "tools.scopes", "tools.scopes_view"},
}
# What a short command does without, because it takes longer to import than the command takes to run.
UNNEEDED = {"argparse", "enum", "gettext", "importlib.util", "json", "locale", "re", "select", "signal"}
UNNEEDED |= {"datetime", "importlib", "threading", "typing", "warnings"}


@pytest.fixture
def modules(conch: Any) -> Any:
    """The modules that a command loads."""
    conch("join")

    def run(*words: str) -> set[str]:
        command = [sys.executable, "-S", "-c", DRIVER, *words]  # -S: what an environment loads by itself hides nothing
        env = {**conch.env, "CONCH_AGENT_ID": "ada:1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(
            command, env=env, cwd=conch.workspace, stdin=subprocess.DEVNULL, capture_output=True, timeout=30
        )
        loaded = set(done.stderr.decode().split())
        assert "conch.storage.sqlite.store" in loaded
        return loaded

    return run


@pytest.mark.parametrize(
    "words",
    [
        ("state", "--json"),
        ("state",),
        ("rooms",),
        ("events",),
        ("note", "n"),
        ("whoami",),
        ("db", "path"),
        ("send", "m"),
        ("read",),
        ("questions",),
        ("topics", "show"),
    ],
    ids=" ".join,
)
def test_a_plain_command_loads_nothing_heavy(modules: Any, words: tuple[str, ...]) -> None:
    assert modules(*words) & HEAVY == set()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a command looks at processes in another way")
@pytest.mark.parametrize("words", LEAN, ids=" ".join)
def test_a_short_command_loads_only_what_it_needs(modules: Any, words: tuple[str, ...]) -> None:
    loaded = modules(*words)

    ours = {name.removeprefix("conch.") for name in loaded if name.startswith("conch.")}
    assert ours - LEAN[words] == set()
    assert loaded & (HEAVY | UNNEEDED) == set()


def test_the_mcp_server_loads_nothing_heavy_and_nothing_of_the_command_line(modules: Any) -> None:
    loaded = modules("mcp")

    assert loaded & {*HEAVY, "argparse", "gettext"} == set()
    assert not [name for name in loaded if name.startswith("conch.doors.cli")]


def test_a_claim_without_a_guardian_starts_no_process_and_loads_nothing_for_it(modules: Any) -> None:
    assert "subprocess" not in modules("wait", "--timeout", "0")


def test_the_installed_program_loads_nothing_more_for_a_hook(conch: Any) -> None:
    conch("join")
    program = os.path.join(os.path.dirname(sys.executable), "conch")
    command = [sys.executable, "-S", "-X", "importtime", program, "hook", "PostToolUse", "--harness", "claude-code"]
    env = {**conch.env, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    done = subprocess.run(command, env=env, cwd=conch.workspace, input=b'{"session_id": "1"}', capture_output=True)

    loaded = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}
    assert "conch.storage.sqlite.store" in loaded
    assert loaded & (HEAVY | UNNEEDED) == set()
