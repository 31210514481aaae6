"""Measure how conch scales: `python bench/scale.py`, a few minutes, or `--quick` to see that everything still runs.

It measures growing numbers of agents and rooms, on SQLite and on its own PostgreSQL server. The agents are real callers
with real transactions. A few worker processes play them, because machines are small. Two tables have real
`conch mcp` processes. Prints Markdown. Linux only: open files come from /proc.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time

from harness import open_scratch
from report import figure, give_up, load, machine, table
from scale_cells import Plan
from scale_stores import open_engines
from scale_tables import TABLES, Tables

FULL = Plan(
    agents=(10, 100, 1_000),
    rooms=(1, 10, 100),
    workers=8,
    distant=8,
    relay_seconds=1.5,
    rounds=6,
    wakes=100,
    wake_seconds=3,
    crowd_seconds=2,
    clients=10,
    client_handoffs=200,
    connected=20,
    crowd=100,
    cell_seconds=60,
)
QUICK = Plan(
    agents=(4,),
    rooms=(1, 4),
    workers=2,
    distant=2,
    relay_seconds=0.1,
    rounds=1,
    wakes=4,
    wake_seconds=2,
    crowd_seconds=0.1,
    clients=3,
    client_handoffs=6,
    connected=3,
    crowd=4,
    cell_seconds=60,
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure many agents in many rooms, on both engines.")
    parser.add_argument("--quick", action="store_true", help="only check that every kind of row can be measured")
    parser.add_argument("--only", choices=TABLES, action="append", help="one table; may be repeated")
    given = parser.parse_args()
    if not sys.platform.startswith("linux"):
        print("bench/scale.py needs Linux: it counts open files in /proc.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # exit normally, so that the server is stopped
    started = time.monotonic()
    with open_scratch(None) as scratch, open_engines(scratch) as engines:
        print(f"Machine: {machine(f'PostgreSQL {engines[-1].version}')}\n", flush=True)
        tables = Tables(scratch, engines, QUICK if given.quick else FULL)
        for name in given.only or TABLES:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            headings, rows = TABLES[name]
            print(figure(f"scale-{name}", table(tables.head(headings), list(rows(tables)))), flush=True)
    print(f"Measured in {time.monotonic() - started:.0f} s; load average at the end: {load()}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
