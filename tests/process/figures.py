"""What `bench/figures.py` expects of a benchmark, for the tests of the benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from figures import OWN, PAGES, PARTS, Done, collect, judge
from report import FIGURE, figures_in

__all__ = ["FIGURE", "OWN", "PAGES", "PARTS", "Done", "collect", "figures_in", "judge", "require_figures"]


def require_figures(script: str, output: str) -> None:
    """The benchmark has printed all figures that the documents have of it, none of them empty."""
    found = figures_in(output)

    assert tuple(found) == PARTS[script.removesuffix(".py")].figures
    assert [name for name, text in found.items() if "| --- |" not in text] == []
