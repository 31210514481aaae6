"""Measure two checkouts alternately: `python bench/versus.py OLD NEW`, about ten minutes, on an idle machine.

Each checkout runs its own shortened `bench/turns.py`, `bench/bus.py` and `bench/scale.py` several times, in its own
`.venv`. Prints the medians of every cell, and the ratio of new to old: below 1, the new code is faster. The order
changes with every round, so that a machine that slows down favours neither.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from report import load, machine, table

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
    sys.argv = ["scale.py"]
    sys.exit(scale.main())
{home}.FULL = {plan}
sys.argv = ["{name}.py"]
runpy.run_path({bench!r} + "/{name}.py", run_name="__main__")
"""
LIMIT_SECONDS = 600
TIMES = {"ms": 1.0, "s": 1_000.0}
HEADINGS = ("benchmark", "what", "old", "new", "new is slower by")

Cells = dict[tuple[str, str], list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure two checkouts of conch alternately.")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=PLANS, action="append", help="one benchmark; may be repeated")
    options = parser.parse_args()
    print(f"Machine: {machine()}\n", flush=True)
    sides = {"old": options.old.resolve(), "new": options.new.resolve()}
    found: dict[str, Cells] = {"old": {}, "new": {}}
    for number in range(options.rounds):
        for name in options.only or PLANS:
            for side in sorted(sides, reverse=number % 2 == 0):
                print(f"round {number + 1}: {name}, {side} ...", file=sys.stderr, flush=True)
                for what, value in _measure(name, sides[side]):
                    found[side].setdefault((name, what), []).append(value)
    print(table(HEADINGS, list(_rows(found["old"], found["new"]))))
    print(f"\nLoad average at the end: {load()}.")
    return 0


def _measure(name: str, checkout: Path) -> Iterator[tuple[str, float]]:
    """Every number in the tables that a benchmark prints, by its row and its column."""
    script = LAUNCHER.format(bench=str(checkout / "bench"), home=HOMES[name], plan=PLANS[name], name=name)
    environ = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    python = str(checkout / ".venv/bin/python")  # its `conch` command must start the code of this checkout
    done = subprocess.run(
        [python, "-c", script], env=environ, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name} of {checkout} failed: {done.stderr[-2_000:]}")
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
    """The measured cells of a row: times as milliseconds, and rates (marked `/s`) as they are."""
    row = ", ".join(cell for cell in cells[:3] if headings[0] in ("processes", "engine")) or cells[0]
    row = re.sub(r" of [\d,]+$", "", row)
    for heading, cell in zip(headings, cells, strict=False):
        if heading == "beside it, in the same run":
            return
        if heading.endswith(("turns/s", "messages/s", "all wait")):
            if re.fullmatch(r"[\d,.]+", cell):
                yield f"{row}: {heading}", float(cell.replace(",", ""))
        elif re.fullmatch(r"[\d,.]+ (ms|s)( / [\d,.]+ ms)?", cell) and "longest" not in f"{row}{heading}":
            value, unit = cell.split(" / ")[0].split()
            yield f"{row}: {heading}", float(value.replace(",", "")) * TIMES[unit]


def _rows(old: Cells, new: Cells) -> Iterator[list[str]]:
    for key in (key for key in old if key in new):
        if not median(old[key]) or not median(new[key]):
            continue
        before, after = median(old[key]), median(new[key])
        is_rate = key[1].endswith(("/s", "all wait"))
        slower = before / after if is_rate else after / before
        yield [*key, f"{before:,.2f}", f"{after:,.2f}", f"{slower:.2f}x"]


if __name__ == "__main__":
    sys.exit(main())
