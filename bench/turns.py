"""Measure the turns: `python bench/turns.py`, about three minutes, or `--quick` to see that everything still runs.

Both sides of every comparison are measured in turns in the same run, because machines are noisy; the ratio is what
to look at. Prints Markdown. Linux only: memory and processor time come from /proc.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import calls
import handoffs
import passing
import starts
import waiting
from harness import FULL, HERE, QUICK, Plan, Row, Scratch, open_scratch

SDK_PYTHON = HERE.parent / ".venv-mcp2" / "bin" / "python"
HEADINGS = ("what", "conch", "beside it, in the same run", "ratio", "budget", "met")


def main() -> int:
    options = _parse()
    if not sys.platform.startswith("linux"):
        print("bench/turns.py needs Linux: it reads memory and processor time from /proc.", file=sys.stderr)
        return 2
    plan = QUICK if options.quick else FULL
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(plan.limit_seconds)
    print(f"Machine: {_machine()}\n", flush=True)
    sdk_python = options.sdk_python if Path(options.sdk_python).exists() else None
    with open_scratch(sdk_python) as scratch:
        _measure(scratch, plan)
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the turns, side by side with what they are compared with.")
    parser.add_argument("--quick", action="store_true", help="every row, from too few measurements to mean much")
    parser.add_argument(
        "--sdk-python", default=str(SDK_PYTHON), metavar="PATH", help="a Python that has the official SDK"
    )
    return parser.parse_args()


def _measure(scratch: Scratch, plan: Plan) -> None:
    started = time.monotonic()
    rows: list[Row] = []
    for part in (handoffs, starts, calls, waiting):
        print(f"measuring {part.__name__} ...", file=sys.stderr, flush=True)
        rows += part.measure(scratch, plan)
    print(_table(HEADINGS, [[*row[:5], {True: "yes", False: "**no**", None: ""}[row.met]] for row in rows]))
    print("measuring passing ...", file=sys.stderr, flush=True)
    print("\n" + _table(passing.HEADINGS, passing.measure(scratch, plan)))
    print(f"\nMeasured in {time.monotonic() - started:.0f} s; load average at the end: {_load()}.")


def _give_up(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("the benchmark takes far longer than it should; something hangs")


def _table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [headings, ["---"] * len(headings), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _machine() -> str:
    """What the numbers depend on, and nothing that names the machine."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].partition(":")[2].strip() if names else platform.machine()
    return (
        f"{len(os.sched_getaffinity(0))} cores ({processor}), Linux {platform.release()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}; "
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, load average before the run {_load()}."
    )


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    sys.exit(main())
