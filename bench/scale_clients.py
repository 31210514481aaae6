"""Real clients, one `conch mcp` process each, that hand one stick around while all the others wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from harness import HANDOFF, Object, Scratch, Server, Spread
from scale_stores import Engine

Waits = dict[Server, int]
"""The open `wait_for_turn` of each that waits."""


class StoreScratch(Scratch):
    """A scratch whose servers use a given store."""

    def __init__(self, folder: Path, store: str) -> None:
        super().__init__(folder, None)
        self._store = store

    def environ(self, agent_id: str = "bench:0000") -> dict[str, str]:
        return {**super().environ(agent_id), "CONCH_STORE": self._store}


class Outcome(NamedTuple):
    handed: Spread
    at_rest: int


class Connections(NamedTuple):
    connections: int
    memory: float
    """Bytes of the server for each, where pages that several processes share count in part."""


def measure(scratch: Scratch, engine: Engine, clients: int, handoffs: int) -> Outcome:
    with _gathered(scratch, engine, clients, "clients") as (servers, turn, waits):
        at_rest = engine.held([server.process.pid for server in servers])
        handed = _hand_around(servers, turn, waits, handoffs)
    return Outcome(Spread.of(handed), at_rest)


def measure_connections(scratch: Scratch, engine: Engine, clients: int) -> Connections:
    with _gathered(scratch, engine, clients, "connections") as (servers, _, _):
        count = engine.held([server.process.pid for server in servers])
        return Connections(count, engine.memory() / count)


@contextmanager
def _gathered(
    scratch: Scratch, engine: Engine, clients: int, what: str
) -> Iterator[tuple[list[Server], Object, Waits]]:
    """Clients of one room: the first has the stick, all others wait."""
    name = f"{engine.name}-{what}".lower()
    scratch = StoreScratch(scratch.folder, engine.make(name))
    path = scratch.workspace(name)
    with ExitStack() as stack:
        servers = [stack.enter_context(scratch.server(f"bench:{number:04d}")) for number in range(clients)]
        for server in servers:
            room_id = server.call("join_path", context_path=path)["room_id"]
        turn = servers[0].call("wait_for_turn", room_id=room_id)
        yield servers, turn, {server: server.begin_wait(room_id) for server in servers[1:]}


def _hand_around(servers: list[Server], turn: Object, waits: Waits, handoffs: int) -> list[float]:
    """Seconds from the owner's call until the next client has its answer."""
    handed = []
    for number in range(handoffs):
        owner, recipient = servers[number % len(servers)], servers[(number + 1) % len(servers)]
        fence = {"room_id": turn["room_id"], "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
        started = time.perf_counter()
        released = owner.begin("release_stick", handoff=HANDOFF, **fence)
        turn = recipient.answer(waits.pop(recipient))
        handed.append(time.perf_counter() - started)
        owner.answer(released)
        waits[owner] = owner.begin_wait(turn["room_id"])
    return handed
