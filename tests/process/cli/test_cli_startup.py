"""What a command imports: every agent pays for it many times a day."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

# Prints the modules that a command has loaded, beyond those that Python starts with here.
DRIVER = """
import json, os, sys
before = set(sys.modules)
from conch.main import main
status = main(sys.argv[1:])
os.write(2, json.dumps(sorted(set(sys.modules) - before)).encode())
"""
HEAVY = {
    "asyncio", "concurrent", "ctypes", "dataclasses", "email", "http", "importlib.metadata", "inspect", "logging",
    "pathlib", "random", "secrets", "shutil", "socket", "ssl", "subprocess", "tempfile", "unittest", "urllib", "uuid",
    "xml", "zipfile",
}  # fmt: skip


@pytest.fixture
def modules(conch: Any) -> Any:
    """The modules that a command loads."""
    conch("join")

    def run(*words: str) -> set[str]:
        command = [sys.executable, "-c", DRIVER, *words]
        env = {**conch.env, "CONCH_AGENT_ID": "ada:1"}
        done = subprocess.run(
            command, env=env, cwd=conch.workspace, stdin=subprocess.DEVNULL, capture_output=True, timeout=30
        )
        loaded: set[str] = set(json.loads(done.stderr))
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


def test_the_mcp_server_loads_nothing_heavy_and_nothing_of_the_command_line(modules: Any) -> None:
    loaded = modules("mcp")

    assert loaded & {*HEAVY, "argparse", "gettext"} == set()
    assert not [name for name in loaded if name.startswith("conch.doors.cli")]


def test_a_claim_without_a_guardian_starts_no_process_and_loads_nothing_for_it(modules: Any) -> None:
    assert "subprocess" not in modules("wait", "--timeout", "0")
