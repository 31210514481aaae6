"""Scripts are known by the names they register, because their processes do not identify them: each run is a new
process, and one scheduler or CI runner starts them all.
"""

from __future__ import annotations

from conch.agents.identity import Signals
from conch.agents.records import HARNESS_SESSION, LOCK, Caller, insert_agent
from conch.ids import digest, new_id
from conch.storage.base import Store


def is_script(signals: Signals) -> bool:
    """Whether a script runs the command: there is no harness, no person at a terminal and no CONCH_AGENT_ID."""
    return signals.session_kind != HARNESS_SESSION and signals.terminal is None and signals.explicit is None


def find_script(store: Store, room_id: str, name: str) -> str | None:
    """The agent_id of the script that has registered this name in a room."""
    with store.read() as tx:
        found = tx.one("agents_by_signals", signals=[_signal(room_id, name)])
    return str(found["agent_id"]) if found else None


def _signal(room_id: str, name: str) -> str:
    return f"script:{room_id}:{name}"


def script_named(store: Store, caller: Caller, room_id: str, name: str, is_free: bool) -> Caller:
    """The script that registers under this name in a room: the one that did so before, otherwise the caller.

    A caller that has registered another name as a script is a different agent, and so is the agent of an MCP connection
    of the same process. If the name is free, this is a new agent.
    """
    signal = _signal(room_id, name)
    with store.write(LOCK) as tx:
        agent = next(iter(tx.all("agents_by_signals", signals=[signal])), None)
        if agent is None and not is_free:
            return caller  # registering will say whose name it is
        if agent is None:
            agent = tx.one("find_agent", agent_id=caller.agent_id)
            if agent is None or agent["is_timed"] or tx.all("connections_of", agent_ids=[caller.agent_id]):
                agent = insert_agent(tx, f"script:{digest(new_id(signal))[:8]}", "script", "script", None)
            tx.run("link_signal", signal=signal, agent_id=agent["agent_id"], now=tx.now)
    if agent["agent_id"] == caller.agent_id:
        return caller
    return Caller(agent["agent_id"], agent["name"], None, agent["session_kind"], caller.display_name)
