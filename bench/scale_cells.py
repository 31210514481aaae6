"""One cell of the table: a number of agents in a number of rooms of one store, played by a few worker processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from harness import Object, Scratch, Spread
from scale_stores import Engine

HEAD_START_SECONDS = 0.2
CLOSE_SECONDS = 5.0
SAMPLE_SECONDS = 0.05

Place = tuple[str, str]


class Plan(NamedTuple):
    """How much is measured. Everything is bounded, so a run ends by itself."""

    agents: tuple[int, ...]
    rooms: tuple[int, ...]
    workers: int
    distant: int
    """Processes that send at the same time to a server at a distance, compared with one."""
    relay_seconds: float
    rounds: int
    """What is compared takes turns, because other work on the machine comes and goes."""
    wakes: int
    wake_seconds: float
    crowd_seconds: float
    clients: int
    client_handoffs: int
    connected: int
    """`conch mcp` processes whose connections are counted."""
    crowd: int
    """Agents of the room in which all wait, with and without a limit on how often they read the store."""
    cell_seconds: int
    """How long one cell may take before it is given up."""

    def compared(self) -> tuple[int, int]:
        return 1, self.distant

    def cells(self) -> list[tuple[int, int]]:
        """Numbers of agents and rooms; no room is empty."""
        return [(agents, rooms) for agents in self.agents for rooms in self.rooms if rooms <= agents]


class Outcome(NamedTuple):
    """`calls` and `turns_per_second` are from a relay in which no agent waits.

    Then all agents wait: `handed` is from the start of a release to the end of the claim in another process. `handed`
    and `crowd_turns_per_second` are None if every agent is alone in its room.
    """

    turns_per_second: float
    calls: Spread
    handed: Spread | None
    crowd_turns_per_second: float | None
    at_rest: int
    peak: int
    refusals: list[str]


class Roster:
    """The agents of each room in sequence, and their workers: neighbours in a room are in different processes."""

    def __init__(self, agents: int, rooms: int, workers: int) -> None:
        self.sequences = [[f"bench:{agent:04d}" for agent in range(room, agents, rooms)] for room in range(rooms)]
        self.is_lonely = agents == rooms
        self.worker_of = {
            agent_id: (place + room) % workers
            for room, sequence in enumerate(self.sequences)
            for place, agent_id in enumerate(sequence)
        }
        self._after = {
            agent_id: sequence[place - len(sequence) + 1]
            for sequence in self.sequences
            for place, agent_id in enumerate(sequence)
        }

    def after(self, agent_id: str) -> str:
        """The next agent in sequence."""
        return self._after[agent_id]

    def places(self, rooms: Sequence[str]) -> dict[int, list[Place]]:
        """Every agent with its room, by the worker that plays it."""
        found: dict[int, list[Place]] = {worker: [] for worker in set(self.worker_of.values())}
        for room, sequence in zip(rooms, self.sequences, strict=True):
            for agent_id in sequence:
                found[self.worker_of[agent_id]].append((agent_id, room))
        return found


class Workers:
    """The worker processes, which all get their orders at the same time."""

    def __init__(self, environ: dict[str, str], count: int, *options: str) -> None:
        command = [sys.executable, str(Path(__file__).with_name("scale_worker.py")), *options]
        pipe = subprocess.PIPE
        self._processes = [
            subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environ, text=True) for _ in range(count)
        ]
        self.pids = [process.pid for process in self._processes]

    def order(self, what: str, orders: dict[int, Object]) -> list[Object]:
        for number, order in orders.items():
            pipe = self._processes[number].stdin
            assert pipe is not None
            pipe.write(json.dumps({"do": what, **order}) + "\n")
            pipe.flush()
        return [self._read(self._processes[number]) for number in orders]

    def _read(self, process: subprocess.Popen[str]) -> Object:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("a worker ended early; its error is above")
        message: Object = json.loads(line)
        return message

    def close(self) -> None:
        """Close the input of every worker, which ends it; kill those that do not react."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        deadline = time.monotonic() + CLOSE_SECONDS
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()


def measure(
    scratch: Scratch, engine: Engine, plan: Plan, agents: int, rooms: int, limited: bool | None = None
) -> Outcome:
    """`limited` says whether there is a limit on how often those who wait read the store, as there usually is."""
    name = "-".join([engine.name, str(agents), str(rooms), *([] if limited is None else [str(limited)])]).lower()
    environ = {**scratch.environ(), "CONCH_STORE": engine.make(name)}
    count = min(plan.workers, agents)
    paths = [scratch.workspace(f"{name}-{room}") for room in range(rooms)]
    workers = Workers(environ, count, *(["--unlimited"] if limited is False else []))
    try:
        return _Cell(workers, Roster(agents, rooms, count), engine).run(paths, plan)
    finally:
        workers.close()


class _Cell:
    def __init__(self, workers: Workers, roster: Roster, engine: Engine) -> None:
        self._workers = workers
        self._roster = roster
        self._engine = engine
        self._peak = 0

    def run(self, paths: list[str], plan: Plan) -> Outcome:
        room_ids = self._join(paths)
        crowds: list[Object] = []
        handed: list[float] = []
        with self._sampled():
            relays = self._relay(room_ids, plan.relay_seconds)
            if not self._roster.is_lonely:
                self._gather(room_ids)
            at_rest = self._engine.held(self._workers.pids)
            if not self._roster.is_lonely:
                owners = [agent_id for report in relays for agent_id, _ in report["expected"]]
                handed = self._hand_on(owners, plan)
                crowds = self._take_turns(plan.crowd_seconds)
        return Outcome(
            turns_per_second=_sum(relays, "turns") / plan.relay_seconds,
            calls=Spread.of([took for report in relays for took in report["calls"]]),
            handed=Spread.of(handed) if handed else None,
            crowd_turns_per_second=_sum(crowds, "turns") / plan.crowd_seconds if crowds else None,
            at_rest=at_rest,
            peak=max(self._peak, at_rest),
            refusals=[refusal for report in (*relays, *crowds) for refusal in report["refusals"]],
        )

    def _join(self, paths: list[str]) -> list[str]:
        """The rooms' ids. All agents join in parallel, then every room gets its sequence."""
        places = self._roster.places(paths)
        reports = self._workers.order("join", {worker: {"places": own} for worker, own in places.items()})
        ids = {path: room_id for report in reports for path, room_id in report["rooms"].items()}
        for path, sequence in zip(paths, self._roster.sequences, strict=True):
            self._workers.order("reorder", {0: {"room_id": ids[path], "order": sequence}})
        return [ids[path] for path in paths]

    def _relay(self, room_ids: list[str], seconds: float) -> list[Object]:
        count = len(self._workers.pids)
        first = [(sequence[0], room) for sequence, room in zip(self._roster.sequences, room_ids, strict=True)]
        start = time.monotonic() + HEAD_START_SECONDS
        orders = {
            number: {"expected": own, "start": start, "seconds": seconds}
            for number in range(count)
            if (own := first[number::count])
        }
        return self._workers.order("relay", orders)

    def _gather(self, room_ids: list[str]) -> None:
        """All agents wait for the stick; none has to release it yet."""
        places = self._roster.places(room_ids)
        self._workers.order("gather", {worker: {"places": own} for worker, own in places.items()})

    def _hand_on(self, owners: list[str], plan: Plan) -> list[float]:
        """Hand over one stick at a time, room by room, while all agents wait; returns the seconds each took."""
        handed: list[float] = []
        deadline = time.monotonic() + plan.wake_seconds
        while time.monotonic() < deadline and len(handed) < plan.wakes:
            owner = owners.pop(0)
            recipient = self._roster.after(owner)
            self._workers.order("let_go", {self._roster.worker_of[owner]: {"agent_id": owner}})
            reports = self._workers.order("handed", {self._roster.worker_of[recipient]: {"agent_id": recipient}})
            handed.append(reports[0]["seconds"])
            owners.append(recipient)
            self._workers.order("settle", {self._roster.worker_of[owner]: {"agent_id": owner}})
        return handed

    def _take_turns(self, seconds: float) -> list[Object]:
        return self._workers.order(
            "take_turns", {worker: {"seconds": seconds} for worker in set(self._roster.worker_of.values())}
        )

    @contextmanager
    def _sampled(self) -> Iterator[None]:
        """Keep the highest number that the engine reports meanwhile."""
        over = threading.Event()

        def sample() -> None:
            while not over.wait(SAMPLE_SECONDS):
                self._peak = max(self._peak, self._engine.held(self._workers.pids))

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            yield
        finally:
            over.set()
            sampler.join()


def _sum(reports: Sequence[Object], field: str) -> Any:
    return sum(report[field] for report in reports)
