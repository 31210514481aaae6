"""Real clients, one `conch mcp` process each, that hand one stick around while all the others wait."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from harness import HANDOFF, Object, Scratch, Server, Spread
from scale_stores import Engine


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


def measure(scratch: Scratch, engine: Engine, clients: int, handoffs: int) -> Outcome:
    name = f"{engine.name}-clients".lower()
    scratch = StoreScratch(scratch.folder, engine.make(name))
    path = scratch.workspace(name)
    with ExitStack() as stack:
        servers = [stack.enter_context(scratch.server(f"bench:{number:04d}")) for number in range(clients)]
        for server in servers:
            room_id = server.call("join_path", context_path=path)["room_id"]
        turn = servers[0].call("wait_for_turn", room_id=room_id)
        waits = {server: server.begin_wait(room_id) for server in servers[1:]}
        at_rest = engine.held([server.process.pid for server in servers])
        handed = _hand_around(servers, turn, waits, handoffs)
    return Outcome(Spread.of(handed), at_rest)


def _hand_around(servers: list[Server], turn: Object, waits: dict[Server, int], handoffs: int) -> list[float]:
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
