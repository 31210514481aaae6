"""Measure how conch scales: `python bench/scale.py`, some minutes, or `--quick` to see that everything still runs.

It measures growing numbers of agents and rooms, on SQLite and on its own PostgreSQL server. The agents are real callers
with real transactions. A few worker processes play them, because machines are small. The second table has real
`conch mcp` processes. Prints Markdown. Linux only: open files come from /proc.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import scale_cells
import scale_clients
import scale_distance
from harness import Scratch, Spread, milliseconds, open_scratch
from scale_cells import Plan
from scale_stores import Engine, open_engines

FULL = Plan(
    agents=(10, 100, 1_000),
    rooms=(1, 10, 100),
    workers=8,
    relay_seconds=1.5,
    wakes=100,
    wake_seconds=3,
    crowd_seconds=2,
    clients=10,
    client_handoffs=200,
    cell_seconds=60,
)
QUICK = Plan(
    agents=(4,),
    rooms=(1, 4),
    workers=2,
    relay_seconds=0.2,
    wakes=8,
    wake_seconds=2,
    crowd_seconds=0.2,
    clients=3,
    client_handoffs=6,
    cell_seconds=60,
)
HEADINGS = (
    "engine",
    "agents",
    "rooms",
    "turns/s",
    "call p99",
    "wake p50",
    "wake p99",
    "turns/s, all wait",
    "open at rest / at most",
    "refused",
)
DISTANCE_HEADINGS = (
    "engine, delay",
    "send",
    "handoff",
    "wake by a message",
    "1 process: bare / one topic / own topic",
    "8 processes: bare / one topic / own topics",
)
CLIENT_HEADINGS = ("engine", "`conch mcp` processes", "wake p50", "wake p99", "open at rest")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure many agents in many rooms, on both engines.")
    parser.add_argument("--quick", action="store_true", help="only check that every kind of row can be measured")
    parser.add_argument("--only", choices=TABLES, action="append", help="one table; may be repeated")
    given = parser.parse_args()
    plan, wanted = QUICK if given.quick else FULL, given.only or TABLES
    if not sys.platform.startswith("linux"):
        print("bench/scale.py needs Linux: it counts open files in /proc.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGALRM, _give_up)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # exit normally, so that the server is stopped
    started = time.monotonic()
    with open_scratch(None) as scratch, open_engines(scratch) as engines:
        print(f"Machine: {_machine(engines)}\n", flush=True)
        for name in wanted:
            headings, rows = TABLES[name]
            _print_table(headings, rows(scratch, engines, plan))
            print()
    print(f"Measured in {time.monotonic() - started:.0f} s; load average at the end: {_load()}.")
    return 0


def _cell_rows(scratch: Scratch, engines: Sequence[Engine], plan: Plan) -> Iterator[list[str]]:
    for agents, rooms in plan.cells():
        for engine in engines:
            cell = [engine.name, f"{agents:,}", f"{rooms:,}"]
            signal.alarm(plan.cell_seconds)
            try:
                yield cell + _cells(scale_cells.measure(scratch, engine, plan, agents, rooms), engine.unit)
            except TimeoutError:
                yield [*cell, f"not done in {plan.cell_seconds} s", *[""] * (len(HEADINGS) - 4)]
            finally:
                signal.alarm(0)


def _cells(outcome: scale_cells.Outcome, unit: str) -> list[str]:
    if outcome.refusals:
        print(f"refused: {outcome.refusals[0]}", file=sys.stderr)
    return [
        _rate(outcome.turns_per_second),
        milliseconds(outcome.calls.p99),
        *_spread(outcome.handed),
        _rate(outcome.crowd_turns_per_second),
        f"{outcome.at_rest:,} / {outcome.peak:,} {unit}",
        f"{len(outcome.refusals):,}",
    ]


def _client_rows(scratch: Scratch, engines: Sequence[Engine], plan: Plan) -> Iterator[list[str]]:
    for engine in engines:
        outcome = scale_clients.measure(scratch, engine, plan.clients, plan.client_handoffs)
        yield [engine.name, str(plan.clients), *_spread(outcome.handed), f"{outcome.at_rest:,} {engine.unit}"]


def _distance_rows(scratch: Scratch, engines: Sequence[Engine], plan: Plan) -> Iterator[list[str]]:
    engine = engines[-1]
    for delay in scale_distance.DELAYS:
        cell = [f"{engine.name}, {delay:g} ms"]
        signal.alarm(plan.cell_seconds)
        try:
            outcome = scale_distance.measure(scratch, engine, plan, delay)
            times = (outcome.sent, outcome.handed, outcome.woken)
            yield cell + [_distance(each.p50, delay) for each in times] + _rates(outcome)
        except TimeoutError:
            yield [*cell, f"not done in {plan.cell_seconds} s", *[""] * (len(DISTANCE_HEADINGS) - 2)]
        finally:
            signal.alarm(0)


def _distance(seconds: float, delay: float) -> str:
    return milliseconds(seconds) + (f", {seconds * 1_000 / delay:.1f}x" if delay else "")


def _rates(outcome: scale_distance.Outcome) -> list[str]:
    return [
        f"{_rate(outcome.bare[count])} / {_rate(outcome.one_topic[count])} / {_rate(outcome.own_topics[count])}"
        for count in scale_distance.PROCESSES
    ]


TABLES = {
    "turns": (HEADINGS, _cell_rows),
    "clients": (CLIENT_HEADINGS, _client_rows),
    "distance": (DISTANCE_HEADINGS, _distance_rows),
}


def _spread(spread: Spread | None) -> list[str]:
    return [milliseconds(spread.p50), milliseconds(spread.p99)] if spread else ["", ""]


def _rate(per_second: float | None) -> str:
    return "" if per_second is None else f"{per_second:,.1f}" if per_second < 10 else f"{per_second:,.0f}"


def _print_table(headings: Sequence[str], rows: Iterator[list[str]]) -> None:
    """Print each row as soon as it is measured."""
    print(f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def _give_up(number: int, frame: FrameType | None) -> None:
    raise TimeoutError


def _machine(engines: Sequence[Engine]) -> str:
    """The facts that the numbers depend on, without anything that identifies the machine."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].partition(":")[2].strip() if names else platform.machine()
    versions = ", ".join(f"{engine.name} {engine.version}" for engine in engines)
    return (
        f"{len(os.sched_getaffinity(0))} cores ({processor}), Linux {platform.release()}, "
        f"Python {platform.python_version()}, {versions}; "
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, load average before the run {_load()}."
    )


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    sys.exit(main())
