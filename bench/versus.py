"""Measure two checkouts alternately: `python bench/versus.py OLD NEW`, about ten minutes, on an idle machine.

Each checkout runs its own shortened `bench/turns.py`, `bench/bus.py` and `bench/scale.py` several times, in its own
`.venv`. Prints the medians of every cell, and the ratio of new to old: below 1, the new code is faster. The order
changes with every round, so that a machine that slows down favours neither.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from report import figure, load, machine, table

# Where each benchmark keeps its plan, and the values that are shorter here. Both checkouts must have these names.
PLANS = {
    "turns": "harness.FULL._replace(rounds=5, handoffs=300, polled_handoffs=5, calls=1_000, rested_calls=50, starts=7, "
    "idle_seconds=1, passing_rounds=1, passing_seconds=1)",
    "bus": "bus_plan.FULL._replace(rounds=5, wakes=300, polled_wakes=5, calls=1_000, sizes=(10_000,), reads=100, "
    "sending_rounds=1, sending_seconds=1)",
    "scale": "scale.FULL._replace(rooms=(1, 100), relay_seconds=1, wakes=40, crowd_seconds=1, client_handoffs=100)",
}
HOMES = {"turns": "harness", "bus": "bus_plan", "scale": "scale"}
LAUNCHER = """
import runpy, sys
sys.path.insert(0, {bench!r})
import {home}
if {name!r} == "scale":
    scale.FULL = {plan}
    only = ["--only", "turns", "--only", "clients"] if hasattr(scale, "TABLES") else []  # the tables that both have
    sys.argv = ["scale.py", *only]
    sys.exit(scale.main())
{home}.FULL = {plan}
sys.argv = ["{name}.py"]
runpy.run_path({bench!r} + "/{name}.py", run_name="__main__")
"""
LIMIT_SECONDS = 300
ATTEMPTS = 2  # one failure should not cost the results of several minutes
LABELS = ("what", "engine", "processes", "rooms", "agents", "`conch mcp` processes")
"""The columns that say what a row is about, not what was measured."""
HEADINGS = ("benchmark", "what", "old", "new", "new costs")
NEARLY = 1.05  # ratios up to this count as the same

Cells = dict[tuple[str, str], list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure two checkouts of conch alternately.")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="only check that every row can be measured")
    parser.add_argument("--only", choices=PLANS, action="append", help="one benchmark; may be repeated")
    options = parser.parse_args()
    print(f"Machine: {machine()}\n", flush=True)
    sides = {"old": options.old.resolve(), "new": options.new.resolve()}
    found: dict[str, Cells] = {"old": {}, "new": {}}
    for number in range(options.rounds):
        for name in options.only or PLANS:
            for side in sorted(sides, reverse=number % 2 == 0):
                print(f"round {number + 1}: {name}, {side} ...", file=sys.stderr, flush=True)
                for what, value in _measure(name, sides[side], options.quick):
                    found[side].setdefault((name, what), []).append(value)
    rows = list(_rows(found["old"], found["new"]))
    shown = table(HEADINGS, [[*row[:4], f"{row[4]:.2f}x"] for row in rows])
    print(figure("versus", f"{_sum_up([row[4] for row in rows], options.rounds)}\n\n{shown}"))
    print(f"Load average at the end: {load()}.")
    return 0


def _measure(name: str, checkout: Path, quick: bool) -> Iterator[tuple[str, float]]:
    """Every number in the tables that a benchmark prints, by its row and its column."""
    plan = f"{HOMES[name]}.QUICK" if quick else PLANS[name]
    script = LAUNCHER.format(bench=str(checkout / "bench"), home=HOMES[name], plan=plan, name=name)
    environ = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    python = str(checkout / ".venv/bin/python")  # its `conch` command must start the code of this checkout
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            [python, "-c", script], env=environ, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
        if not done.returncode:
            break
        print(f"{name} of {checkout} failed: {done.stderr[-2_000:]}", file=sys.stderr, flush=True)
    else:
        raise RuntimeError(f"{name} of {checkout} failed")
    headings: list[str] = []
    for line in done.stdout.splitlines():
        if not line.startswith("|"):
            headings = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not headings:
            headings = cells
        elif not set(cells[0]) <= set("-"):
            yield from _numbers(headings, cells)


def _numbers(headings: list[str], cells: list[str]) -> Iterator[tuple[str, float]]:
    """The measured cells of a row: times as milliseconds, sizes and rates as they are."""
    labels = list(itertools.takewhile(lambda pair: pair[0] in LABELS, zip(headings, cells, strict=False)))
    row = ", ".join(cell if heading in ("what", "engine") else f"{heading} {cell}" for heading, cell in labels)
    for heading, cell in list(zip(headings, cells, strict=False))[len(labels) :]:
        if heading.endswith("in the same run"):
            return
        what = re.sub(r", p50 / p99$|, p50$", " p50", re.sub(r" of [\d,]+$", "", row))
        what = what if heading == "conch" else f"{what}: {heading}"
        if "longest" in what:
            continue
        if heading.endswith(("turns/s", "messages/s", "all wait")) and re.fullmatch(r"[\d,.]+", cell):
            yield what, float(cell.replace(",", ""))
        elif measured := re.fullmatch(r"([\d,.]+) (ms|s|MB|KB)( / [\d,.]+ ms)?", cell):
            unit = "ms" if measured[2] == "s" else measured[2]
            yield f"{what} ({unit})", float(measured[1].replace(",", "")) * (1_000 if measured[2] == "s" else 1)


def _sum_up(ratios: Sequence[float], rounds: int) -> str:
    more = sum(ratio > NEARLY for ratio in ratios)
    less = sum(ratio < 1 / NEARLY for ratio in ratios)
    source = "from one round" if rounds == 1 else f"medians of {rounds} rounds"
    return (
        f"{len(ratios)} rows, {source}. {less} cost less than before, {more} more than {NEARLY} "
        f"times as much, and {len(ratios) - less - more} the same. The median row costs {median(ratios):.2f}x."
    )


def _rows(old: Cells, new: Cells) -> Iterator[tuple[str, str, str, str, float]]:
    for key in (key for key in old if key in new):
        if not median(old[key]) or not median(new[key]):
            continue
        before, after = median(old[key]), median(new[key])
        is_rate = "/s" in key[1]
        slower = before / after if is_rate else after / before
        yield *key, f"{before:,.2f}", f"{after:,.2f}", slower


if __name__ == "__main__":
    sys.exit(main())
