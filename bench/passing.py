"""Many processes that pass sticks, each in its own room or all in one."""

from __future__ import annotations

import sys
from statistics import median
from typing import NamedTuple

from crowd import Crowd
from harness import HERE, Object, Plan, Scratch, Spread, milliseconds

HEADINGS = (
    "processes",
    "rooms",
    "turns/s",
    "vs. one process",
    "call p99",
    "longest call",
    "handed p50",
    "handed p99",
    "longest handover",
    "refused",
)


class Outcome(NamedTuple):
    """The results of one crowd. A process that claims the stick again, because no other waits, makes no handover."""

    turns_per_second: float
    calls: Spread
    handed: Spread | None
    refused: int


def measure(scratch: Scratch, plan: Plan) -> list[list[str]]:
    """The lines of the second table."""
    outcomes: dict[tuple[int, bool], list[Outcome]] = {}
    for number in range(plan.passing_rounds):
        for crowd in plan.crowds:
            for together in (False, True):
                outcome = _pass(scratch, plan.passing_seconds, crowd, together, f"{number}-{crowd}-{together}")
                outcomes.setdefault((crowd, together), []).append(outcome)
    alone = {together: _rate(outcomes[1, together]) for together in (False, True)}
    return [
        [str(crowd), "one" if together else "one each", *_cells(rounds, alone[together])]
        for together in (False, True)
        for crowd in plan.crowds
        for rounds in [outcomes[crowd, together]]
    ]


def _pass(scratch: Scratch, seconds: float, crowd: int, together: bool, name: str) -> Outcome:
    paths = [scratch.workspace(f"passing-{name}-{0 if together else place}") for place in range(crowd)]
    commands = [(sys.executable, str(HERE / "passer.py"), path) for path in paths]
    with Crowd(scratch, commands) as passers:
        return _sum(passers.work(seconds), seconds)


def _sum(reports: list[Object], seconds: float) -> Outcome:
    calls = [took for report in reports for took in report["calls"]]
    handed = [took for report in reports for took in report["handed"]]
    turns = sum(report["turns"] for report in reports)
    refused = sum(report["refused"] for report in reports)
    return Outcome(turns / seconds, Spread.of(calls), Spread.of(handed) if handed else None, refused)


def _rate(rounds: list[Outcome]) -> float:
    return median(outcome.turns_per_second for outcome in rounds)


def _cells(rounds: list[Outcome], alone: float) -> list[str]:
    """Medians over the rounds; the longest time and the number of refusals over all of them."""
    handed = [outcome.handed for outcome in rounds if outcome.handed]
    return [
        f"{_rate(rounds):,.0f}",
        f"{_rate(rounds) / alone:.2f}x",
        milliseconds(median(outcome.calls.p99 for outcome in rounds)),
        milliseconds(max(outcome.calls.longest for outcome in rounds)),
        milliseconds(median(spread.p50 for spread in handed)) if handed else "",
        milliseconds(median(spread.p99 for spread in handed)) if handed else "",
        milliseconds(max(spread.longest for spread in handed)) if handed else "",
        str(sum(outcome.refused for outcome in rounds)),
    ]
