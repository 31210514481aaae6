"""The output of a run: the machine, tables in Markdown, and the load."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from harness import Row

HEADINGS = ("what", "conch", "beside it, in the same run", "ratio", "budget", "met")


def rows_table(rows: Sequence[Row]) -> str:
    return table(HEADINGS, [[*row[:5], {True: "yes", False: "**no**", None: ""}[row.met]] for row in rows])


def give_up(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("the benchmark takes far longer than it should; something hangs")


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [headings, ["---"] * len(headings), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def machine() -> str:
    """The facts that the numbers depend on, without anything that identifies the machine."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].partition(":")[2].strip() if names else platform.machine()
    return (
        f"{len(os.sched_getaffinity(0))} cores ({processor}), Linux {platform.release()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}; "
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, load average before the run {load()}."
    )


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"
