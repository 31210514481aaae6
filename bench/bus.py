"""Measure the bus: `python bench/bus.py`, about two minutes, or `--quick` to see that everything still runs.

Both sides of every comparison are measured in turns in the same run, because machines are noisy; the ratio is what
to look at. Prints Markdown. Linux only: memory comes from /proc.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

import bus_calls
import reading
import sending
import waking
from bus_plan import FULL, QUICK, BusPlan
from harness import SDK_PYTHON, Row, Scratch, open_scratch
from report import give_up, load, machine, rows_table, table


def main() -> int:
    options = _parse()
    if not sys.platform.startswith("linux"):
        print("bench/bus.py needs Linux: it reads memory from /proc.", file=sys.stderr)
        return 2
    plan = QUICK if options.quick else FULL
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(plan.limit_seconds)
    print(f"Machine: {machine()}\n", flush=True)
    sdk_python = options.sdk_python if Path(options.sdk_python).exists() else None
    with open_scratch(sdk_python) as scratch:
        _measure(scratch, plan)
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the bus, side by side with what it is compared with.")
    parser.add_argument("--quick", action="store_true", help="every row, from too few measurements to mean much")
    parser.add_argument(
        "--sdk-python", default=str(SDK_PYTHON), metavar="PATH", help="a Python that has the official SDK"
    )
    return parser.parse_args()


def _measure(scratch: Scratch, plan: BusPlan) -> None:
    started = time.monotonic()
    rows: list[Row] = []
    for part in (waking, bus_calls, reading):
        print(f"measuring {part.__name__} ...", file=sys.stderr, flush=True)
        rows += part.measure(scratch, plan)
    print(rows_table(rows))
    print("measuring sending ...", file=sys.stderr, flush=True)
    print("\n" + table(sending.HEADINGS, sending.measure(scratch, plan)))
    print(f"\nMeasured in {time.monotonic() - started:.0f} s; load average at the end: {load()}.")


if __name__ == "__main__":
    sys.exit(main())
