"""Start-up times: a server until it answers `initialize`, and a command until it exits."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from harness import CONCH, CONCH_SCRIPT, PYTHON, Plan, Row, Scratch, milliseconds, times

Start = Callable[[], float]


# Short commands: their names in the table, and their arguments.
COMMANDS = {
    "state": ("state",),
    "state --json": ("state", "--json"),
    "send": ("send", "The parser is done"),
    "agent reserve": ("agent", "reserve", "src"),
}


def measure(scratch: Scratch, plan: Plan) -> list[Row]:
    path = scratch.workspace("starts")
    with scratch.server("bench:0000") as server:  # a harness has the store open, as in daily use
        server.call("join_path", context_path=path)
        return _rows(_interleave(plan.starts, _starts(scratch, path)))


def _starts(scratch: Scratch, path: str) -> dict[str, Start]:
    starts: dict[str, Start] = {
        "python": lambda: _until_exit(scratch, PYTHON),
        "module": lambda: _until_initialized(scratch, (*CONCH, "mcp")),
        "script": lambda: _until_initialized(scratch, (CONCH_SCRIPT, "mcp")),
    }
    for name, words in COMMANDS.items():
        starts[name] = partial(_until_exit, scratch, (*CONCH, *words, "--path", path))
    if scratch.sdk_python:
        starts["sdk"] = lambda: _until_initialized(scratch, scratch.sdk_command)
    return starts


def _interleave(count: int, starts: dict[str, Start]) -> dict[str, float]:
    """Medians. Each start is measured once per round, so that a busy moment of the machine affects all of them."""
    took: dict[str, list[float]] = {name: [] for name in starts}
    for start in starts.values():
        start()  # once without measuring, to fill the file cache and compile byte code
    for _ in range(count):
        for name, start in starts.items():
            took[name].append(start())
    return {name: median(seconds) for name, seconds in took.items()}


def _until_initialized(scratch: Scratch, command: Sequence[str]) -> float:
    started = time.perf_counter()
    server = scratch.open(command)
    try:
        server.initialize()
        return time.perf_counter() - started
    finally:
        server.close()


def _until_exit(scratch: Scratch, command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=scratch.environ(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def _rows(took: dict[str, float]) -> list[Row]:
    python = took["python"]
    bare = f"`python -c pass`: {milliseconds(python)}"
    rows = []
    for name, command in (("module", "`python -m conch mcp`"), ("script", "`conch mcp`")):
        met = took[name] <= 5 * python and took[name] < 0.100
        what = f"{command}, spawn to `initialize`"
        ratio = times(took[name], python)
        rows.append(Row(what, milliseconds(took[name]), bare, ratio, "<= 5x and < 100 ms", met))
    sdk = took.get("sdk")
    rows.append(
        Row(
            "the same, beside the official SDK",
            milliseconds(took["module"]),
            f"empty server: {milliseconds(sdk)}" if sdk else "SDK not installed",
            times(took["module"], sdk) if sdk else "",
        )
    )
    for name in COMMANDS:
        what = f"`conch {name}`, start to exit"
        ratio, met = times(took[name], python), took[name] <= 3 * python
        budget = ("", None) if "--json" in name else ("<= 3x", met)  # `json` alone takes a third of bare Python
        rows.append(Row(what, milliseconds(took[name]), bare, ratio, *budget))
    return rows
