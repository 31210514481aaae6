"""The tables of `bench/scale.py`: what is measured in each, and how it is shown."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence

import scale_cells
import scale_clients
import scale_distance
from harness import Row, Scratch, Spread, milliseconds, times
from report import HEADINGS as ROW_HEADINGS
from report import MET
from scale_cells import Plan
from scale_stores import Engine

CELL_HEADINGS = (
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
    "{distant} processes: bare / one topic / own topics",
)
CLIENT_HEADINGS = ("engine", "`conch mcp` processes", "wake p50", "wake p99", "open at rest")
CROWD_HEADINGS = ("engine", "waiting agents read the store", "wake p50", "wake p99", "turns/s, all wait")
CONNECTION_HEADINGS = ("`conch mcp` processes", "of them wait", "connections", "memory of the server for each")
LEAST_OF_BARE = 0.5
LONGEST_HANDOFF = 0.003
EVERYONE, IN_A_ROOM, SECONDS_PER_TURN = 100_000, 10, 60
PER_SERVER = 2_000


class Tables:
    """Measures one table after the other, and keeps what later tables are calculated from."""

    def __init__(self, scratch: Scratch, engines: Sequence[Engine], plan: Plan) -> None:
        self._scratch = scratch
        self._engines = engines
        self._plan = plan
        self._cells: dict[tuple[str, int, int], scale_cells.Outcome] = {}
        self._distances: dict[float, scale_distance.Outcome] = {}
        self._memory: float | None = None

    def head(self, headings: Sequence[str]) -> list[str]:
        return [heading.format(distant=self._plan.distant) for heading in headings]

    def turns(self) -> Iterator[list[str]]:
        for agents, rooms in self._plan.cells():
            for engine in self._engines:
                cell = [engine.name, f"{agents:,}", f"{rooms:,}"]

                def measure() -> list[str]:
                    outcome = scale_cells.measure(self._scratch, engine, self._plan, agents, rooms)  # noqa: B023
                    self._cells[engine.name, agents, rooms] = outcome  # noqa: B023
                    return cell + _cells(outcome, engine.unit)  # noqa: B023

                yield self._bounded(measure, cell)

    def clients(self) -> Iterator[list[str]]:
        count = self._plan.clients
        for engine in self._engines:
            outcome = scale_clients.measure(self._scratch, engine, count, self._plan.client_handoffs)
            yield [engine.name, str(count), *_spread(outcome.handed), f"{outcome.at_rest:,} {engine.unit}"]

    def distance(self) -> Iterator[list[str]]:
        engine = self._engines[-1]
        for delay in scale_distance.DELAYS:
            cell = [f"{engine.name}, {delay:g} ms"]

            def measure() -> list[str]:
                outcome = scale_distance.measure(self._scratch, engine, self._plan, delay)  # noqa: B023
                self._distances[delay] = outcome  # noqa: B023
                took = (outcome.sent, outcome.handed, outcome.woken)
                return cell + [_distance(each.p50, delay) for each in took] + _rates(outcome)  # noqa: B023

            yield self._bounded(measure, cell)

    def targets(self) -> Iterator[list[str]]:
        """The budgets for the rows above, and whether they are met."""
        for delay, outcome in self._distances.items():
            for count in self._plan.compared():
                ours, bare = outcome.one_topic[count], outcome.bare[count]
                what = f"messages/s on one topic, {_counted(count)}, {delay:g} ms away"
                is_met = ours >= LEAST_OF_BARE * bare
                yield _row(Row(what, _rate(ours), f"bare loop: {_rate(bare)}", times(ours, bare), ">= 0.5x", is_met))
        if local := self._distances.get(0.0):
            took = local.handed.p50
            yield _row(Row("handoff, 0 ms away, p50", milliseconds(took), "", "", "<= 3 ms", took <= LONGEST_HANDOFF))

    def crowd(self) -> Iterator[list[str]]:
        """The same room, with and without the limit on how often those who wait read the store."""
        agents = self._plan.crowd
        for engine in self._engines:
            for limited in (True, False):
                cell = [engine.name, "at most 200 times a second" if limited else "whenever the bell rings"]

                def measure() -> list[str]:
                    outcome = scale_cells.measure(self._scratch, engine, self._plan, agents, 1, limited)  # noqa: B023
                    return [*cell, *_spread(outcome.handed), _rate(outcome.crowd_turns_per_second)]  # noqa: B023

                yield self._bounded(measure, cell, len(CROWD_HEADINGS))

    def connections(self) -> Iterator[list[str]]:
        count = self._plan.connected
        found = scale_clients.measure_connections(self._scratch, self._engines[-1], count)
        self._memory = found.memory
        yield [str(count), str(count - 1), str(found.connections), f"{found.memory / 1e6:.1f} MB"]

    def estimate(self) -> Iterator[list[str]]:
        """What 100,000 agents would need, by what was measured."""
        *_, (agents, rooms, outcome) = (
            (agents, rooms, outcome)
            for (engine, agents, rooms), outcome in self._cells.items()
            if engine == self._engines[-1].name and outcome.crowd_turns_per_second
        )
        assert self._memory is not None
        needed = EVERYONE / IN_A_ROOM / SECONDS_PER_TURN
        waiting = outcome.crowd_turns_per_second
        yield [
            f"turns/s that {EVERYONE // IN_A_ROOM:,} rooms with {IN_A_ROOM} agents need, one a minute",
            _rate(needed),
        ]
        yield [
            f"turns/s of one server with {agents:,} agents in {rooms} rooms, none waits",
            _rate(outcome.turns_per_second),
        ]
        yield ["the same while all others wait", _rate(waiting)]
        yield ["connections of all processes, if all wait", f"{2 * EVERYONE:,}"]
        yield ["memory of the servers for them", f"{2 * EVERYONE * self._memory / 1e9:,.0f} GB"]
        yield [f"memory of one server with {PER_SERVER:,} connections", f"{PER_SERVER * self._memory / 1e9:.1f} GB"]
        yield ["such servers", f"{2 * EVERYONE // PER_SERVER:,}"]

    def _bounded(self, measure: Callable[[], list[str]], cell: list[str], width: int = 0) -> list[str]:
        """The cells of a row, or that it took too long."""
        signal.alarm(self._plan.cell_seconds)
        try:
            return measure()
        except TimeoutError:
            return [*cell, f"not done in {self._plan.cell_seconds} s", *[""] * (width - len(cell) - 1)]
        finally:
            signal.alarm(0)


TABLES = {
    "turns": (CELL_HEADINGS, Tables.turns),
    "clients": (CLIENT_HEADINGS, Tables.clients),
    "distance": (DISTANCE_HEADINGS, Tables.distance),
    "targets": (ROW_HEADINGS, Tables.targets),
    "crowd": (CROWD_HEADINGS, Tables.crowd),
    "connections": (CONNECTION_HEADINGS, Tables.connections),
    "estimate": (("100,000 agents", ""), Tables.estimate),
}


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


def _distance(seconds: float, delay: float) -> str:
    return milliseconds(seconds) + (f", {seconds * 1_000 / delay:.1f}x" if delay else "")


def _rates(outcome: scale_distance.Outcome) -> list[str]:
    return [
        f"{_rate(outcome.bare[count])} / {_rate(outcome.one_topic[count])} / {_rate(outcome.own_topics[count])}"
        for count in outcome.bare
    ]


def _row(row: Row) -> list[str]:
    return [*row[:5], MET[row.met]]


def _counted(count: int) -> str:
    return f"{count} process" + ("es" if count > 1 else "")


def _spread(spread: Spread | None) -> list[str]:
    return [milliseconds(spread.p50), milliseconds(spread.p99)] if spread else ["", ""]


def _rate(per_second: float | None) -> str:
    return "" if per_second is None else f"{per_second:,.1f}" if per_second < 10 else f"{per_second:,.0f}"
