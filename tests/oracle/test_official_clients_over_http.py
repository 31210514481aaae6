"""The official clients do over HTTP, with `conch serve`, what they do with `conch mcp`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.oracle.test_official_clients import check, check_introduction


@pytest.fixture
def play(tmp_path: Path, workspace: Path, judge: Callable[..., str]) -> Iterator[Callable[[str, str, str], str]]:
    """Let the client of an SDK play the whole story against a console."""
    environ = {**os.environ, "CONCH_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path)}
    server = subprocess.Popen(
        [sys.executable, "-m", "conch", "serve", "--port", "0"], env=environ, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    address, _, token = server.stdout.readline().strip().partition("/?token=")

    yield lambda environment, driver, mode: judge(environment, driver, mode, address, token, str(workspace))

    server.terminate()
    assert server.wait(20) == 0
    server.stdout.close()


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25"])
def test_the_client_of_sdk_1_calls_every_tool(play: Callable[[str, str, str], str], version: str) -> None:
    report = json.loads(play(".venv-mcp1", "sdk1.py", version))

    check(report, version)
    check_introduction(report)


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_the_client_of_sdk_2_calls_every_tool(play: Callable[[str, str, str], str], mode: str, version: str) -> None:
    report = json.loads(play(".venv-mcp2", "sdk2.py", mode))

    check(report, version)
    check_introduction(report)
