"""The figures of the documents are written by `bench/figures.py`, and only by a run of everything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.process.figures import FIGURE, OWN, PAGES, PARTS, Done, collect, figures_in, judge

ROOT = Path(__file__).parents[2]
NAMES = {*OWN, *(name for part in PARTS.values() for name in part.figures)}


def read(page: str) -> str:
    return (ROOT / "docs" / page).read_text()


def read_by_hand(page: str) -> str:
    """What people write about what was measured. The rest of the page about scaling tells how to run a server."""
    return FIGURE.sub("", read(page).partition("\n## Roles")[0])


def test_every_figure_that_is_measured_stands_in_a_page_and_no_page_names_another() -> None:
    found = [name for page in PAGES for name in re.findall(r"<!-- begin: (\S+) -->", read(page))]

    assert set(found) == NAMES
    assert [name for name in found if found.count(name) > 1] == ["run", "run"]  # each page tells which run it shows


@pytest.mark.parametrize("page", PAGES)
def test_every_begin_has_its_end_and_none_is_inside_another(page: str) -> None:
    marks = re.findall(r"<!-- (begin|end): (\S+) -->", read(page))

    assert marks == [(mark, name) for name in figures_in(read(page)) for mark in ("begin", "end")]


@pytest.mark.parametrize("page", PAGES)
def test_no_figure_is_written_by_hand(page: str) -> None:
    text = read_by_hand(page)
    cells = [cell.strip(" *") for line in text.splitlines() if line.startswith("|") for cell in line.split("|")]

    assert len(cells) > 20
    assert [cell for cell in cells if re.fullmatch(r"[\d.,]+ ?(ms|s|MB|KB|GB|x|/s|%)?", cell)] == []
    assert re.findall(r"\d\.\d+ ?(?:ms|s|MB|KB|GB|x|%)(?!\w)", text) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["hook", "--to", "elsewhere"], "only written by a run of everything"),
        (["--quick"], "--old CHECKOUT"),
        (["nonsense"], "there is no benchmark nonsense"),
    ],
)
def test_a_run_of_only_some_benchmarks_writes_no_page(tmp_path: Path, given: list[str], told: str) -> None:
    command = [sys.executable, str(ROOT / "bench" / "figures.py"), *given]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert done.returncode == 2
    assert told in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_benchmark_that_failed_leaves_no_older_figures() -> None:
    failed = "Not measured in this run: `bench/turns.py` failed."

    assert collect({"turns": None}) == {"turns": failed, "turns-passing": failed}


def test_missed_budgets_are_found_in_all_tables() -> None:
    rows = (
        "| what | conch | budget | met |\n| --- | --- | --- | --- |\n| a | 1 ms | <= 2 ms | yes |\n| b | 3 ms |  |  |"
    )
    crowd = "| processes | messages/s | budget | met |\n| --- | --- | --- | --- |\n| 8 | 90 | >= 100 | **no** |"

    told = judge({"bus": Done(f"{rows}\n\n{crowd}\n", 1.0, "0.0"), "turns": None})

    assert told.startswith("1 of 2 budgets are met. Missed:")
    assert told.endswith("| `bench/bus.py` | processes: 8 | messages/s: 90 | >= 100 |")
