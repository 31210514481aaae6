"""The output of a run: the machine, figures in Markdown under their names, and the load."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from harness import Row

HEADINGS = ("what", "conch", "compared with, in the same run", "ratio", "budget", "met")
MET = {True: "yes", False: "**no**", None: ""}
FIGURE = re.compile(r"<!-- begin: (?P<name>[\w-]+) -->\n(?P<text>.*?)<!-- end: (?P=name) -->", re.DOTALL)
"""A figure under its name, as the benchmarks print it and as it stands in the documents."""


def figure(name: str, text: str) -> str:
    """What `bench/figures.py` finds in the output of a benchmark and puts into the documents under this name."""
    return f"<!-- begin: {name} -->\n\n{text}\n\n<!-- end: {name} -->\n"


def figures_in(text: str) -> dict[str, str]:
    return {found["name"]: found["text"].strip() for found in FIGURE.finditer(text)}


def rows_table(rows: Sequence[Row]) -> str:
    return table(HEADINGS, [[*row[:5], MET[row.met]] for row in rows])


def give_up(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("the benchmark takes far longer than it should; something hangs")


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [headings, ["---"] * len(headings), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def hardware(*versions: str) -> str:
    """The facts that the numbers depend on, without anything that identifies the machine."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].partition(":")[2].strip() if names else platform.machine()
    programs = [f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}", *versions]
    return f"{len(os.sched_getaffinity(0))} cores ({processor}), Linux {platform.release()}, {', '.join(programs)}"


def machine(*versions: str) -> str:
    today = time.strftime("%Y-%m-%d", time.gmtime())
    return f"{hardware(*versions)}; {today}, load average before the run {load()}."


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"
