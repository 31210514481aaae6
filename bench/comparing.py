"""What the benchmarks share: their options, time limit and report."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

from harness import SDK_PYTHON, Row, Scratch, open_scratch
from report import figure, give_up, load, machine, rows_table, table


class Limited(Protocol):
    @property
    def limit_seconds(self) -> int: ...


def compare(what: str, full: Limited, quick: Limited, parts: Sequence[ModuleType], crowd: ModuleType) -> int:
    """Measure every part in one table, and then a crowd in a second table. They are named after the program."""
    options = _parse(what)
    if not sys.platform.startswith("linux"):
        print("This benchmark needs Linux: it reads memory and processor time from /proc.", file=sys.stderr)
        return 2
    plan = quick if options.quick else full
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(plan.limit_seconds)
    print(f"Machine: {machine()}\n", flush=True)
    sdk_python = options.sdk_python if Path(options.sdk_python).exists() else None
    with open_scratch(sdk_python) as scratch:
        _measure(scratch, plan, parts, crowd)
    return 0


def _parse(what: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=f"Measure {what}, side by side with alternatives.")
    parser.add_argument("--quick", action="store_true", help="only check that every row can be measured")
    parser.add_argument(
        "--sdk-python", default=str(SDK_PYTHON), metavar="PATH", help="a Python that has the official SDK"
    )
    return parser.parse_args()


def _measure(scratch: Scratch, plan: Limited, parts: Sequence[ModuleType], crowd: ModuleType) -> None:
    started = time.monotonic()
    rows: list[Row] = []
    for part in parts:
        print(f"measuring {part.__name__} ...", file=sys.stderr, flush=True)
        rows += part.measure(scratch, plan)
    name = Path(sys.argv[0]).stem
    print(figure(name, rows_table(rows)))
    print(f"measuring {crowd.__name__} ...", file=sys.stderr, flush=True)
    print(figure(f"{name}-{crowd.__name__}", table(crowd.HEADINGS, crowd.measure(scratch, plan))))
    print(f"Measured in {time.monotonic() - started:.0f} s; load average at the end: {load()}.")
