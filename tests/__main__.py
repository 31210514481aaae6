"""Run the tests beside each other, then each one that failed once more, alone:  python -m tests [PYTEST OPTION...]

Tests with real processes can fail because the machine is busy. One that passes alone is named, so that it gets fixed.
The run fails if a test fails again, or if more than five failed the first time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MOST_AGAIN = 5
MEMORY, NEEDED_BYTES = Path("/dev/shm"), 6_000_000_000
PREFIX = "conch-tests-"


class Failures:
    """The tests that failed, in any of their phases and on any worker."""

    def __init__(self) -> None:
        self.tests: dict[str, None] = {}  # keeps their order

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.tests[report.nodeid] = None


def remove_leftovers() -> None:
    """Delete what killed runs have left in the memory."""
    for folder in MEMORY.glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).split("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def fast_scratch() -> Iterator[None]:
    """Thousands of stores come and go. Where the memory has room for their files, no test waits for a disk."""
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < NEEDED_BYTES:
        yield
        return
    remove_leftovers()
    with tempfile.TemporaryDirectory(
        prefix=f"{PREFIX}{os.getpid()}-", dir=MEMORY, ignore_cleanup_errors=True
    ) as folder:
        os.chmod(folder, 0o711)  # PostgreSQL runs as another user, if root runs the tests
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        yield


def main(options: list[str]) -> int:
    with fast_scratch():
        return run(options)


def run(options: list[str]) -> int:
    failures = Failures()
    status = pytest.main(options, plugins=[failures])
    if status != pytest.ExitCode.TESTS_FAILED or not failures.tests:
        return status
    if len(failures.tests) > MOST_AGAIN:
        print(f"\nMore than {MOST_AGAIN} tests failed, so none of them runs again.", flush=True)
        return status
    return run_alone(list(failures.tests))


def run_alone(tests: list[str]) -> int:
    print("\nEach test that failed runs once more, alone.", flush=True)
    passed = [test for test in tests if subprocess.run([sys.executable, "-m", "pytest", test]).returncode == 0]
    if passed:
        print("\nPassed only when run alone:", *passed, sep="\n  ", flush=True)
    return pytest.ExitCode.OK if passed == tests else pytest.ExitCode.TESTS_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
