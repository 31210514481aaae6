"""`python -m tests`, which `make test` uses: a test that fails beside others gets one more chance, alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
FAILS_ONCE = """
from pathlib import Path

def test_fails_once():
    mark = Path(__file__).with_name("mark")
    first = not mark.exists()
    mark.touch()
    assert not first
"""
FAILS = "def test_fails():\n    assert False\n"
PASSES = "def test_passes():\n    assert True\n"


@pytest.fixture
def run(tmp_path):
    """Run these tests in a folder of their own, and return the status and what was printed."""

    def run(*sources):
        for number, source in enumerate(sources):
            (tmp_path / f"test_{number}.py").write_text(source)
        command = [sys.executable, "-m", "tests", "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
        environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        ended = subprocess.run([*command, "."], cwd=tmp_path, env=environ, capture_output=True, text=True)
        return ended.returncode, ended.stdout

    return run


def test_a_test_that_passes_alone_is_named_and_the_run_succeeds(run):
    status, printed = run(PASSES, FAILS_ONCE)

    assert status == 0
    assert printed.endswith("Passed only when run alone:\n  test_1.py::test_fails_once\n")


def test_a_test_that_fails_again_fails_the_run(run):
    status, printed = run(FAILS_ONCE, FAILS)

    assert status == 1
    assert printed.endswith("Passed only when run alone:\n  test_0.py::test_fails_once\n")
    assert "FAILED test_1.py::test_fails" in printed.partition("runs once more")[2]


def test_if_too_many_fail_none_runs_again(run):
    status, printed = run(*[FAILS_ONCE.replace("mark", f"mark{number}") for number in range(6)])

    assert status == 1
    assert "More than 5 tests failed" in printed


def test_if_none_fails_none_runs_again(run):
    status, printed = run(PASSES)

    assert status == 0
    assert "once more" not in printed
