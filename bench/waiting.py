"""The cost of a server while its client waits for a turn and nothing happens."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from conch.app import open_app
from harness import Plan, Row, Scratch, Server, times

POLL_SECONDS = 0.250
BUDGET = 0.0005


class Usage(NamedTuple):
    cpu_seconds: float
    switches: int

    def since(self, before: Usage) -> Usage:
        return Usage(self.cpu_seconds - before.cpu_seconds, self.switches - before.switches)


def measure(scratch: Scratch, plan: Plan) -> list[Row]:
    path = scratch.workspace("waiting")
    with (
        scratch.server("bench:owner") as owner,
        scratch.server("bench:waiter") as waiter,
        scratch.server("bench:poller") as poller,
    ):
        for server in (owner, waiter, poller):
            room_id = server.call("join_path", context_path=path)["room_id"]
        owner.call("wait_for_turn", room_id=room_id)
        waiter.begin_wait(room_id)
        poller.call("wait_for_turn", room_id=room_id, max_wait_ms=0)
        app = open_app(scratch.environ())
        commits, before, before_polling = app.store.change_counter(), _usage(waiter), _usage(poller)
        seconds = _poll(poller, room_id, plan.idle_seconds)
        waited, polled = _usage(waiter).since(before), _usage(poller).since(before_polling)
        changed = app.store.change_counter() != commits
        app.close()
    return _rows(waited, polled, seconds, changed)


def _poll(poller: Server, room_id: str, seconds: float) -> float:
    """Let the poller poll for this long. Returns the seconds that the whole measurement took."""
    started = polled_at = time.perf_counter()
    while polled_at - started < seconds:
        polled_at += POLL_SECONDS
        time.sleep(max(0.0, polled_at - time.perf_counter()))
        poller.call("wait_for_turn", room_id=room_id, max_wait_ms=0)
    return time.perf_counter() - started


def _usage(server: Server) -> Usage:
    """The processor time and voluntary context switches of all threads so far."""
    pid = server.process.pid
    # The clock of clock_getcpuclockid(3). /proc/PID/stat has a resolution of 10 ms, which is a whole budget.
    cpu_seconds = time.clock_gettime((~pid << 3) | 2)
    switches = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        facts = dict(line.split(":", 1) for line in status.read_text().splitlines())
        switches += int(facts["voluntary_ctxt_switches"])
    return Usage(cpu_seconds, switches)


def _rows(waiter: Usage, poller: Usage, seconds: float, changed: bool) -> list[Row]:
    share, polling = waiter.cpu_seconds / seconds, poller.cpu_seconds / seconds
    wakes, poll_wakes = waiter.switches / seconds, poller.switches / seconds
    return [
        Row(
            f"one idle waiter for {seconds:.0f} s, share of a core",
            f"{share * 100:.3f} %",
            f"poll every 250 ms: {polling * 100:.3f} %",
            times(share, polling),
            "<= 0.05 %",
            share <= BUDGET,
        ),
        Row(
            "idle waiter, voluntary context switches",
            f"{wakes:.1f} /s",
            f"poll every 250 ms: {poll_wakes:.1f} /s",
            times(wakes, poll_wakes),
        ),
        Row("idle waiter, commits to the store meanwhile", "some" if changed else "none", "", "", "none", not changed),
    ]
