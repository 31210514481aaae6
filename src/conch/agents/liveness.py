"""Whether an agent is still at work: `active`, `stale` or `evicted`, derived whenever somebody looks."""

from __future__ import annotations

from conch.agents.identity import recorded_process
from conch.clock import MINUTE
from conch.host import processes
from conch.storage.base import Row
from conch.typed import Literal

Liveness = Literal["active", "stale", "evicted"]


def liveness(agent: Row, now: int, stale_minutes: float) -> Liveness:
    """By the time since the agent's last call; a process that is proven gone is evicted at once."""
    if processes.check(recorded_process(agent)) == "gone":
        return "evicted"
    silence, threshold = now - agent["last_seen_at"], int(stale_minutes * MINUTE)
    if silence < threshold:
        return "active"
    return "stale" if silence < 2 * threshold else "evicted"


def may_be_running(agent: Row, now: int, stale_minutes: float) -> bool:
    """Whether the agent's process lives, or may: one that cannot be looked at counts as living while it is active."""
    life = processes.check(recorded_process(agent))
    return life == "alive" or (life == "unknown" and liveness(agent, now, stale_minutes) == "active")
