"""The store and the agents' processes at a glance."""

from __future__ import annotations

from conch.agents.records import recorded_process
from conch.host import processes
from conch.host.processes import Life
from conch.lean import NamedTuple
from conch.rooms.room import Liveness, liveness_of
from conch.storage.base import Store


class Process(NamedTuple):
    """An agent, and whether its process is there."""

    agent_id: str
    name: str
    pid: int | None
    life: Life
    liveness: Liveness
    last_seen_at: int
    rooms: int
    """How many rooms it is a member of."""


class Health(NamedTuple):
    engine: str
    schema: str
    size_bytes: int
    rooms: int
    agents: int
    processes: list[Process]
    """The agents that were seen last."""


def examine(store: Store, stale_minutes: float, limit: int) -> Health:
    with store.read() as tx:
        engine, counts = tx.one("engine_facts"), tx.one("rooms_and_agents")
        rows = tx.all("latest_agents", limit=limit)
        now = tx.now
    assert engine is not None and counts is not None
    found = []
    for row in rows:
        life = processes.check(recorded_process(row))
        liveness = liveness_of(row, life, now, stale_minutes)
        found.append(
            Process(row["agent_id"], row["name"], row["pid"], life, liveness, row["last_seen_at"], row["rooms"])
        )
    return Health(
        engine["engine"], counts["schema_version"], engine["size_bytes"], counts["rooms"], counts["agents"], found
    )
