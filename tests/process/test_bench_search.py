"""The benchmarks of search and of years run to their ends. Their results are for people: no test asserts a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_the_quick_benchmark_of_search_runs_to_its_end_and_prints_every_row() -> None:
    run = subprocess.run(
        [sys.executable, str(BENCH / "search.py"), "--quick"], capture_output=True, text=True, timeout=240
    )

    assert run.returncode == 0, run.stderr
    rows = ["SQLite | 200", "SQLite | 400", "PostgreSQL | 200", "fts", "semantic", "hybrid"]
    assert [row for row in rows if f"| {row}" not in run.stdout] == []


def test_the_quick_benchmark_of_years_runs_to_its_end_and_leaves_a_sound_store() -> None:
    run = subprocess.run(
        [sys.executable, str(BENCH / "years.py"), "--quick"], capture_output=True, text=True, timeout=240
    )

    assert run.returncode == 0, run.stderr
    rows = ["size of the store's file", "`join_path` of the room, fastest", "`full`", "when it has finished"]
    assert [row for row in rows if f"| {row}" not in run.stdout] == []
    assert "`conch db verify` found 0 problems" in run.stdout
