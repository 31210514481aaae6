"""The benchmarks run to their end. Their results are for people to read: no test asserts a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.process.figures import require_figures

BENCH = Path(__file__).parents[2] / "bench"
SECONDS = 240

TURNS = [
    "stick handed to a process that waits, p50",
    "stick handed to a process that waits, p99",
    "stick handed to a process that waits, longest",
    "`python -m conch mcp`, spawn to `initialize`",
    "`conch mcp`, spawn to `initialize`",
    "the same, beside the official SDK",
    "`conch state --json`, start to exit",
    "round trip of `ping`",
    "round trip of a read, `get_room_state`",
    "round trip of a write, `heartbeat`",
    "round trip of a write, `heartbeat`, with mail",
    "round trip of a read after 5 ms of rest",
    "round trip of a write after 5 ms of rest",
    "memory after `initialize`, RSS",
    "memory after `initialize`, PSS",
    "memory after 100 calls, RSS",
    "memory after 100 calls, PSS",
    "one idle waiter",
    "idle waiter, voluntary context switches",
    "idle waiter, commits to the store meanwhile",
    *(f"{processes} | {rooms} | " for rooms in ("one each", "one") for processes in (1, 2)),
]

BUS = [
    "message to a `sync` that waits in another process, p50",
    "message to a `sync` that waits in another process, p99",
    "message to a `sync` that waits in another process, longest",
    "round trip of the tool `ping`",
    "round trip of a read, `topic_presence`",
    "round trip of a read, `topic_presence`, with mail",
    "round trip of a send, `sync`",
    "memory after 100 calls, RSS",
    "memory after 100 calls, PSS",
    *(f"tool list, {group} | " for group in ("turns", "bus", "questions", "admin", "all")),
    *(f"`sync` of 20 new messages among {size}, p50" for size in (100, 200, 400)),
    *(f"{processes} | " for processes in (1, 2)),
]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the benchmarks read /proc")
@pytest.mark.parametrize(("script", "rows"), [("turns.py", TURNS), ("bus.py", BUS)])
def test_the_quick_benchmark_runs_to_its_end_and_prints_every_row(script: str, rows: list[str]) -> None:
    command = [sys.executable, str(BENCH / script), "--quick"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)

    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [row for row in rows if not any(line.startswith(f"| {row}") for line in lines)] == []
    require_figures(script, run.stdout)
    assert lines[0].startswith("Machine: ")
    assert lines[-1].startswith("Measured in ")


SCOPE_ROWS = [
    *(f"{verb} with {size} active" for verb in ("reserve", "check", "release") for size in ("10", "100", "1,000")),
    "`conch agent reserve`, start to exit",
]


def test_the_quick_benchmark_of_reservations_runs_to_its_end_and_prints_every_row() -> None:
    bench = BENCH / "scopes.py"

    run = subprocess.run([sys.executable, str(bench), "--quick"], capture_output=True, text=True, timeout=SECONDS)

    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [row for row in SCOPE_ROWS if not any(line.startswith(f"| {row}") for line in lines)] == []
    require_figures("scopes.py", run.stdout)
    assert lines[-1].startswith("Measured in ")
