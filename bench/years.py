"""Measure years of use: `python bench/years.py`, about a minute, or `--quick` to see that everything still runs.

In a store of 100,000 turns and 1,000,000 messages, one message is redacted. Then the store is pruned, while another
process writes. It also measures what commits with `full` cost compared with `normal`, and what a long reader leaves
behind. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from conch.agents.people import Person
from conch.app import App, open_app
from conch.bus.drafts import Draft
from conch.clock import DAY, system_clock
from conch.overseeing.steering import Steering
from conch.retention.retention import Retention
from conch.tools.session import Session
from conch.upkeep.verify import verify_store
from harness import CONCH, Scratch, Spread, milliseconds, open_scratch, times
from report import figure, load, machine, table
from years_fill import fill

YEARS = 2
KEPT_DAYS = 90


class Plan(NamedTuple):
    turns: int
    messages: int
    calls: int
    starts: int
    sends: int
    rounds: int


FULL = Plan(turns=100_000, messages=1_000_000, calls=50, starts=7, sends=300, rounds=5)
QUICK = Plan(turns=40, messages=600, calls=3, starts=1, sends=10, rounds=1)


class Facts(NamedTuple):
    size: int
    start: float
    join: float
    state: float


SHOWN: dict[str, Callable[[Facts], str]] = {
    "size of the store's file": lambda facts: f"{facts.size / 1e6:,.1f} MB",
    "`conch mcp`, spawn to `initialize`, fastest": lambda facts: milliseconds(facts.start),
    "`join_path` of the room, fastest": lambda facts: milliseconds(facts.join),
    "`get_room_state`, fastest": lambda facts: milliseconds(facts.state),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure a store that was used for years.")
    parser.add_argument("--quick", action="store_true", help="only check that every row can be measured")
    plan = QUICK if parser.parse_args().quick else FULL
    print(f"Machine: {machine()}\n", flush=True)
    measures = {"years": _measure_pruning, "years-commits": _measure_commits, "years-reader": _measure_reader}
    for name, measure in measures.items():
        with open_scratch(None) as scratch:
            print(figure(name, measure(scratch, plan)), flush=True)
    print(f"Load average at the end: {load()}.")
    return 0


# -- pruning


def _measure_pruning(scratch: Scratch, plan: Plan) -> str:
    clock = [system_clock() - YEARS * 365 * DAY]
    path = scratch.workspace("years")
    app = open_app(scratch.environ(), lambda: clock[0])
    began = time.perf_counter()
    filled = fill(app, path, plan.turns, plan.messages, clock, system_clock())
    print(f"filled in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    app.store.tidy(compact=False)
    full = _look(scratch, path, plan)
    redacting, rewriting = _redact(app, filled.topic_id)
    retention = Retention(app.store, app.bell, app.settings)
    rival = _Rival(scratch, filled.topic_id, path)
    began = time.perf_counter()
    outcome = retention.prune(KEPT_DAYS * DAY)
    seconds, waits = time.perf_counter() - began, rival.stop()
    pruned = _look(scratch, path, plan)
    retention.prune(KEPT_DAYS * DAY, compact=True)
    compacted = _look(scratch, path, plan)
    problems = len(verify_store(app.store).problems)
    app.close()
    rows = [[what, *(shown(facts) for facts in (full, pruned, compacted))] for what, shown in SHOWN.items()]
    counts = outcome.pruned
    total = counts.messages + counts.events + counts.notices
    return (
        f"{table(('what', 'full', 'pruned', 'compacted'), rows)}\n\nIn {seconds:.0f} s, {counts.messages:,} messages, "
        f"{counts.events:,} events and {counts.notices:,} notices were pruned ({total / seconds:,.0f} rows/s). Another "
        f"process sent {waits.size:,} messages meanwhile, each in {milliseconds(waits.p50)} (p50), "
        f"{milliseconds(waits.p99)} (p99), {milliseconds(waits.longest)} at the longest. `conch db verify` found "
        f"{problems} problems afterwards.\n\nRedacting one message of the full store took {redacting:.1f} s, and "
        f"rewriting the file {rewriting:.1f} s more."
    )


def _redact(app: App, topic_id: str) -> tuple[float, float]:
    """Seconds until a secret is out of the rows of the store, and then until it is out of its file."""
    caller, secret = Session(app, "mcp").caller(), "correct-horse-battery"
    peer = app.peers.join_as_itself(caller, topic_id)
    pasted = app.messages.send(peer, [Draft(f"the password is {secret}")])[0].message
    began = time.perf_counter()
    Steering(app).redact(Person(caller), pasted.message_id, "a password was pasted", secret)
    redacted = time.perf_counter()
    app.store.tidy(compact=True)
    return redacted - began, time.perf_counter() - redacted


def _look(scratch: Scratch, path: str, plan: Plan) -> Facts:
    starts, joins, states = [], [], []
    for _ in range(plan.starts):
        began = time.perf_counter()
        server = scratch.open((*CONCH, "mcp"), "carol:1")
        server.initialize()
        starts.append(time.perf_counter() - began)
        for _ in range(plan.calls):
            began = time.perf_counter()
            room_id = server.call("join_path", context_path=path)["room_id"]
            joined = time.perf_counter()
            server.call("get_room_state", room_id=room_id)
            joins.append(joined - began)
            states.append(time.perf_counter() - joined)
        server.close()
    size = Path(scratch.environ()["CONCH_DATA_DIR"], "rooms.sqlite").stat().st_size
    return Facts(size, min(starts), min(joins), min(states))  # other work on the machine only adds to them


class _Rival:
    """A `conch mcp` process that sends message after message until it is stopped."""

    def __init__(self, scratch: Scratch, topic_id: str, path: str) -> None:
        self._server = scratch.open((*CONCH, "mcp"), "dave:1")
        self._server.initialize()
        self._server.call("join_path", context_path=path)
        self._topic_id = topic_id
        self._took: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._took or not self._is_over.is_set():
            began = time.perf_counter()
            self._server.call("sync", topic_id=self._topic_id, outbox=[{"content_markdown": "still here"}], max_items=1)
            self._took.append(time.perf_counter() - began)
            time.sleep(0.01)

    def stop(self) -> Spread:
        self._is_over.set()
        self._thread.join()
        self._server.close()
        return Spread.of(self._took)


# -- what a commit costs, and what a reader leaves behind


def _measure_commits(scratch: Scratch, plan: Plan) -> str:
    took: dict[str, list[float]] = {"normal": [], "full": []}
    for _ in range(plan.rounds):
        for value, spent in took.items():
            app, send = _sender(scratch, CONCH_SYNCHRONOUS=value)
            for _ in range(plan.sends):
                began = time.perf_counter()
                send()
                spent.append(time.perf_counter() - began)
            app.close()
    spreads = {value: Spread.of(spent) for value, spent in took.items()}
    base = spreads["normal"]
    rows = [
        [f"`{value}`", milliseconds(each.p50), milliseconds(each.p99), times(each.p50, base.p50)]
        for value, each in spreads.items()
    ]
    return table(("CONCH_SYNCHRONOUS", "a message sent, p50", "p99", "vs. `normal`"), rows)


def _sender(scratch: Scratch, **variables: str) -> tuple[App, Callable[[], object]]:
    environ = {**scratch.environ(), **variables}
    app = open_app(environ)
    topic, _ = app.topics.create("talk", None, "reuse")
    peer = app.peers.join_as_itself(Session(app, "mcp").caller(), topic.topic_id)
    return app, lambda: app.messages.send(peer, [Draft("x" * 1_000)])


def _measure_reader(scratch: Scratch, plan: Plan) -> str:
    """A reader keeps its view for as long as it likes, so SQLite cannot move what comes after it out of `-wal`."""
    app, send = _sender(scratch)
    wal = Path(scratch.environ()["CONCH_DATA_DIR"], "rooms.sqlite-wal")
    sends = plan.sends * plan.rounds * 4
    sizes = [_grown(wal, send, sends)]
    reader = open_app(scratch.environ())
    with reader.store.read() as tx:
        tx.one("newest_number")  # from now on it has a view of its own
        sizes.append(_grown(wal, send, sends))
    reader.close()
    sizes.append(_grown(wal, send, plan.sends))
    app.close()
    names = (f"after {sends:,} messages", "the same while a process reads", "when it has finished")
    return table(("`-wal`", "size"), [[name, f"{size / 1e6:.1f} MB"] for name, size in zip(names, sizes, strict=True)])


def _grown(wal: Path, send: Callable[[], object], times: int) -> int:
    for _ in range(times):
        send()
    return wal.stat().st_size


if __name__ == "__main__":
    sys.exit(main())
