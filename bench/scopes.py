"""Measure reservations: `python bench/scopes.py`, a few seconds, or `--quick` to see that everything still runs.

Reserve, check and release with more and more active reservations in the room. None of the three may read all of them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from conch.agents.identity import Signal, Signals, identify
from conch.agents.records import Caller
from conch.app import App, open_app
from harness import CONCH, PYTHON, Row, Scratch, Spread, milliseconds, open_scratch, times
from report import figure, load, rows_table

CHECK_BUDGET = 0.001


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure reservations in rooms with few and with many of them.")
    parser.add_argument("--quick", action="store_true", help="only check that every row can be measured")
    quick = parser.parse_args().quick
    sizes, count, starts = ((10, 100, 1_000), 20, 1) if quick else ((10, 1_000, 10_000), 500, 15)
    started = time.monotonic()
    with open_scratch(None) as scratch:
        rows = [*measure_rooms(scratch, sizes, count), measure_command(scratch, starts)]
    print(figure("scopes", rows_table(rows)))
    print(f"Measured in {time.monotonic() - started:.0f} s; load average at the end: {load()}.")
    return 0


def measure_rooms(scratch: Scratch, sizes: tuple[int, ...], count: int) -> list[Row]:
    app = open_app(scratch.environ())
    rooms = [_fill(app, scratch, size) for size in sizes]
    me = _agent(app, "bench:me")
    took = _interleave(app, me, rooms, count)
    app.close()
    return [
        _row(verb, size, took[verb, size], took[verb, sizes[0]], sizes[0])
        for verb in ("reserve", "check", "release")
        for size in sizes
    ]


def _agent(app: App, agent_id: str) -> Caller:
    return identify(
        app.store, Signals((Signal("explicit", agent_id, "bench"),), "bench", None, None, "script", "bench")
    )


def _fill(app: App, scratch: Scratch, size: int) -> tuple[int, str]:
    """A room in which another agent has reserved `size` files, a hundred per directory."""
    other = _agent(app, "bench:other")
    path = scratch.workspace(f"scopes-{size}")
    room_id = app.membership.join_path(other, path).snapshot.room.room_id
    app.membership.join_path(_agent(app, "bench:me"), path)
    app.reservations.reserve(other, room_id, "first")
    with app.store.write(room_id) as tx:
        row = next(row for row in tx.dump("reservations") if row["room_id"] == room_id)
        del row["number"]
        scopes = [f"src/d{number // 100}/f{number}.py" for number in range(size - 1)]
        tx.load(
            "reservations",
            [row | {"reservation_id": f"{room_id}-{s}", "scope": s, "scope_key": f"/{s}/"} for s in scopes],
        )
    return size, room_id


def _interleave(app: App, me: Caller, rooms: list[tuple[int, str]], count: int) -> dict[tuple[str, int], Spread]:
    took: dict[tuple[str, int], list[float]] = {}
    for number in range(count):
        path = f"src/d0/mine-{number}.py"
        for size, room_id in rooms:
            steps: list[tuple[str, Callable[[], object]]] = [
                ("reserve", lambda: app.reservations.reserve(me, room_id, path)),  # noqa: B023
                ("check", lambda: app.reservations.check(me, room_id, path)),  # noqa: B023
                ("release", lambda: app.reservations.release(me, room_id, path)),  # noqa: B023
            ]
            for verb, step in steps:
                began = time.perf_counter()
                step()
                took.setdefault((verb, size), []).append(time.perf_counter() - began)
    return {key: Spread.of(seconds) for key, seconds in took.items()}


def _row(verb: str, size: int, ours: Spread, smallest: Spread, fewest: int) -> Row:
    return Row(
        f"{verb} with {size:,} active reservations, p50 / p99 of {ours.size}",
        f"{milliseconds(ours.p50)} / {milliseconds(ours.p99)}",
        f"with {fewest}: {milliseconds(smallest.p50)}",
        times(ours.p50, smallest.p50),
        "p50 < 1 ms" if verb == "check" else "",
        ours.p50 < CHECK_BUDGET if verb == "check" else None,
    )


def measure_command(scratch: Scratch, starts: int) -> Row:
    path = scratch.workspace("command")
    _run(scratch, *CONCH, "join", path)
    took: dict[str, list[float]] = {"python": [], "reserve": []}
    for number in range(starts + 1):
        took["python"].append(_run(scratch, *PYTHON))
        took["reserve"].append(_run(scratch, *CONCH, "agent", "reserve", f"src/f{number}.py", "--path", path))
    python, reserve = (median(seconds[1:]) for seconds in took.values())  # the first of each warms the caches
    bare = f"`python -c pass`: {milliseconds(python)}"
    return Row("`conch agent reserve`, start to exit", milliseconds(reserve), bare, times(reserve, python))


def _run(scratch: Scratch, *command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=scratch.environ(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
