"""Scripts are known by the names they register, because their processes tell nothing: each run has a new one, and a
scheduler or a CI runner starts them all.
"""

from __future__ import annotations

from conch.agents.identity import Signals
from conch.agents.records import HARNESS_SESSION, LOCK, Caller, insert_agent
from conch.ids import digest, new_id
from conch.storage.base import Store


def is_script(signals: Signals) -> bool:
    """Whether neither a harness nor a person at a terminal nor a CONCH_AGENT_ID is behind a command."""
    return signals.session_kind != HARNESS_SESSION and signals.terminal is None and signals.explicit is None


def script_named(store: Store, caller: Caller, room_id: str, name: str, is_free: bool) -> Caller:
    """The script that registers under this name in a room: the one that did so before, otherwise the caller.

    A caller that has registered another name, as a script, is not this one, and neither is the agent of an MCP
    connection, which the same process may have. If the name is free, it is a new agent.
    """
    signal = f"script:{room_id}:{name}"
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
