"""Many processes that send on one topic, each one message after the other, as fast as they can."""

from __future__ import annotations

import sys
from statistics import median
from typing import NamedTuple

from bus_plan import BusPlan
from crowd import Crowd
from harness import HERE, Scratch, Spread, milliseconds

BUDGETS = {1: 2_000, 8: 2_000, 32: 1_500}
LONGEST_SECONDS = 1.0
HEADINGS = ("processes", "messages/s", "vs. one process", "p50", "p99", "longest wait", "refused", "budget", "met")


class Outcome(NamedTuple):
    messages_per_second: float
    calls: Spread
    refused: int


def measure(scratch: Scratch, plan: BusPlan) -> list[list[str]]:
    """The lines of the second table."""
    outcomes: dict[int, list[Outcome]] = {crowd: [] for crowd in plan.crowds}
    for number in range(plan.sending_rounds):
        for crowd in plan.crowds:
            outcomes[crowd].append(_send(scratch, plan.sending_seconds, crowd, f"sending-{number}-{crowd}"))
    alone = _rate(outcomes[1])
    return [[str(crowd), *_cells(rounds, alone, BUDGETS.get(crowd))] for crowd, rounds in outcomes.items()]


def _send(scratch: Scratch, seconds: float, crowd: int, topic: str) -> Outcome:
    commands = [(sys.executable, str(HERE / "sender.py"), topic, f"sender-{place}") for place in range(crowd)]
    with Crowd(scratch, commands) as senders:
        reports = senders.work(seconds)
    took = [seconds for report in reports for seconds in report["took"]]
    return Outcome(len(took) / seconds, Spread.of(took), sum(report["refused"] for report in reports))


def _rate(rounds: list[Outcome]) -> float:
    return median(outcome.messages_per_second for outcome in rounds)


def _cells(rounds: list[Outcome], alone: float, budget: int | None) -> list[str]:
    """Medians over the rounds; the longest time and the number of refusals over all of them."""
    rate, refused = _rate(rounds), sum(outcome.refused for outcome in rounds)
    longest = max(outcome.calls.longest for outcome in rounds)
    is_met = rate >= (budget or 0) and not refused and longest < LONGEST_SECONDS
    return [
        f"{rate:,.0f}",
        f"{rate / alone:.2f}x",
        milliseconds(median(outcome.calls.p50 for outcome in rounds)),
        milliseconds(median(outcome.calls.p99 for outcome in rounds)),
        milliseconds(longest),
        str(refused),
        f">= {budget:,}/s, < 1 s, none refused" if budget else "",
        "" if budget is None else "yes" if is_met else "**no**",
    ]
