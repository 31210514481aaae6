"""What a distance between the agents and PostgreSQL costs, compared with a bare loop of the driver in the same run.

The bare loop is what a program without conch would do for a message: insert a row, notify, commit.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import psycopg

import scale_cells
from harness import HERE, Object, Scratch, Spread
from scale_cells import Plan, Workers
from scale_stores import Engine

DELAYS = (0.0, 1.0, 10.0)
BARE = "CREATE TABLE bare (number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sender INT, content TEXT)"


class Outcome(NamedTuple):
    """At one distance: how long it takes to send a message, to hand the stick to another process, and to wake a `sync`.

    The rates are by the number of processes: of the bare loop, of messages on one topic, and on one topic each.
    """

    sent: Spread
    handed: Spread
    woken: Spread
    bare: dict[int, float]
    one_topic: dict[int, float]
    own_topics: dict[int, float]


class Distant:
    """An engine behind the delaying proxy."""

    def __init__(self, engine: Engine, delay: float) -> None:
        self._engine = engine
        self._delay = delay
        self._proxy: subprocess.Popen[str] | None = None
        self.name, self.version, self.unit = f"{engine.name}-{delay:g}ms", engine.version, engine.unit

    def make(self, name: str) -> str:
        address = self._engine.make(name)
        if not self._delay:  # a server on this machine, without a proxy
            return address
        parts, folder = urlsplit(address), parse_qs(urlsplit(address).query)["host"][0]
        command = [sys.executable, str(HERE / "delay.py"), f"{folder}/.s.PGSQL.5432", str(self._delay)]
        self.close()
        self._proxy = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._proxy.stdout is not None
        port = int(self._proxy.stdout.readline())
        return f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable&gssencmode=disable"

    def held(self, pids: Sequence[int]) -> int:
        return self._engine.held(pids)

    def memory(self) -> int:
        return self._engine.memory()

    def close(self) -> None:
        if self._proxy is not None:
            self._proxy.communicate()


@contextmanager
def _distant(engine: Engine, delay: float) -> Iterator[Engine]:
    distant = Distant(engine, delay)
    try:
        yield distant
    finally:
        distant.close()


def measure(scratch: Scratch, engine: Engine, plan: Plan, delay: float) -> Outcome:
    with _distant(engine, delay) as distant:
        handed = scale_cells.measure(scratch, distant, plan, 2, 1).handed
        store = distant.make(f"distance-{delay:g}")
        with psycopg.connect(store, autocommit=True) as connection:
            connection.execute(BARE)
        workers = Workers({**scratch.environ(), "CONCH_STORE": store}, plan.distant)
        try:
            return _measure(workers, plan, handed)
        finally:
            workers.close()


def _measure(workers: Workers, plan: Plan, handed: Spread | None) -> Outcome:
    everyone = range(plan.distant)
    workers.order("enter", {number: {"place": number} for number in everyone})
    reports: dict[tuple[str, int], list[Object]] = {}
    for count in plan.compared() * plan.rounds:
        for what, shares in (("bare", False), ("send", True), ("send", False)):
            orders = {
                number: {"seconds": plan.relay_seconds / plan.rounds, "shares": shares} for number in range(count)
            }
            reports.setdefault((f"{what} {shares}", count), []).extend(workers.order(what, orders))
    alone = [took for report in reports["send True", 1] for took in report["took"]]
    assert handed is not None
    return Outcome(
        Spread.of(alone),
        handed,
        Spread.of(_wake(workers, plan.wakes)),
        *(
            {
                count: sum(len(each["took"]) for each in reports[kind, count]) / plan.relay_seconds
                for count in plan.compared()
            }
            for kind in ("bare False", "send True", "send False")
        ),
    )


def _wake(workers: Workers, wakes: int) -> list[float]:
    """Seconds from a send in one process until a waiting `sync` in another returns the message."""
    took: list[float] = []
    for _ in range(wakes):
        workers.order("await_message", {1: {}})
        workers.order("send_once", {0: {}})
        took += [report["seconds"] for report in workers.order("heard", {1: {}})]
    return took
