"""The judges of our MCP server: the official clients, each in an environment of its own, and the public inspector.

`make oracle` installs them. If one is missing, the tests fail, because the server was not checked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DRIVERS = Path(__file__).with_name("drivers")


def run_driver(environment: str, driver: str, *words: str) -> str:
    """Run a driver script with the interpreter of an SDK's environment and return what it prints."""
    python = REPOSITORY / environment / "bin" / "python"
    assert python.exists(), f"{environment} is missing; `make oracle` makes it"
    ended = subprocess.run(
        [python, DRIVERS / driver, *words], capture_output=True, text=True, timeout=120, env={**os.environ}
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "workspace"
    place.mkdir()
    return place


@pytest.fixture
def play(tmp_path: Path, workspace: Path) -> Callable[[str, str, str], str]:
    """Let the client of an SDK play the whole story against our server."""

    def run(environment: str, driver: str, mode: str) -> str:
        data = tmp_path / "data"
        data.mkdir()
        return run_driver(environment, driver, mode, sys.executable, str(data), str(workspace))

    return run


@pytest.fixture
def judge() -> Callable[..., str]:
    return run_driver
