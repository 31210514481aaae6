"""What starting costs: a server until it answers `initialize`, and a command until it exits."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from statistics import median

from harness import CONCH, CONCH_SCRIPT, PYTHON, Plan, Row, Scratch, milliseconds, times

Start = Callable[[], float]


def measure(scratch: Scratch, plan: Plan) -> list[Row]:
    path = scratch.workspace("starts")
    with scratch.server("bench:0000") as server:
        server.call("join_path", context_path=path)
    state = (*CONCH, "state", "--json", "--path", path)
    took = _interleave(
        plan.starts,
        {
            "python": lambda: _until_exit(scratch, PYTHON),
            "module": lambda: _until_initialized(scratch, (*CONCH, "mcp")),
            "script": lambda: _until_initialized(scratch, (CONCH_SCRIPT, "mcp")),
            "state": lambda: _until_exit(scratch, state),
        }
        | ({"sdk": lambda: _until_initialized(scratch, scratch.sdk_command)} if scratch.sdk_python else {}),
    )
    return _rows(took)


def _interleave(count: int, starts: dict[str, Start]) -> dict[str, float]:
    """Each start once per round, so that a busy moment of the machine hits all of them; medians."""
    took: dict[str, list[float]] = {name: [] for name in starts}
    for start in starts.values():
        start()  # once unmeasured: files in the cache, byte code compiled
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
    state = took["state"]
    what = "`conch state --json`, start to exit (the 3x of hooks, as information)"
    return [*rows, Row(what, milliseconds(state), bare, times(state, python))]
