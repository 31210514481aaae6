"""The benchmark of search runs to its end. Its results are for people to read: no test asserts a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "search.py"


def test_the_quick_benchmark_of_search_runs_to_its_end_and_prints_every_row() -> None:
    run = subprocess.run([sys.executable, str(BENCH), "--quick"], capture_output=True, text=True, timeout=240)

    assert run.returncode == 0, run.stderr
    rows = ["SQLite | 200", "SQLite | 400", "PostgreSQL | 200", "fts", "semantic", "hybrid"]
    assert [row for row in rows if f"| {row}" not in run.stdout] == []
