"""Agents by their ids, as if each had exported its CONCH_AGENT_ID."""

from __future__ import annotations

from conch.agents.identity import Signal, Signals, identify
from conch.agents.records import Caller
from conch.host.processes import Process
from conch.storage.base import Store


def named(store: Store, agent_id: str, process: Process | None = None) -> Caller:
    """The agent with this id, and no process unless one is given."""
    signal = Signal("explicit", agent_id, "CONCH_AGENT_ID")
    caller = identify(store, Signals((signal,), "agent", process, None, "mcp_harness", ""))
    return caller._replace(display_name=None)


def person(store: Store, user: str) -> Caller:
    """A person at a terminal, with no process."""
    signal = Signal("person", f"human:{user}:pts1@{user}", "terminal pts/1")
    return identify(store, Signals((signal,), "human", None, None, "human_guardian", "pts/1"))
