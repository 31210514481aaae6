"""An agent id that a caller chooses for itself, with `join_path(agent_id_override=...)`."""

from __future__ import annotations

from conch.agents.connections import live_connections, move_connection
from conch.agents.records import (
    AGENT_ID_RULE,
    LOCK,
    Caller,
    Obstacle,
    find_like,
    find_obstacle,
    insert_agent,
    is_agent_id,
    record_process,
    recorded_process,
)
from conch.clock import MILLISECOND
from conch.errors import InvalidArgument
from conch.host import processes
from conch.storage.base import Row, Store, Transaction


def adopt_override(store: Store, caller: Caller, override: str, active_ms: int) -> Caller:
    """The caller under an agent id of its own choice. The process stays the caller's own.

    Refused if another living process or connection has that id, or if the id holds a stick: its lease is not the
    caller's. An agent whose process is unknown counts as living for `active_ms` after its last call.
    """
    if not is_agent_id(override):
        raise InvalidArgument(f"agent_id_override {AGENT_ID_RULE}.", field="agent_id_override")
    if caller.overridden and caller.agent_id == override and _is_known(store, override):
        return caller
    with store.write(LOCK) as tx:
        agent = tx.one("find_agent", agent_id=override)
        if agent is None:
            _refuse_likeness(tx, override, caller)
            itself = tx.one("find_agent", agent_id=caller.agent_id)
            harness = itself["harness"] if itself else "agent"
            agent = insert_agent(tx, override, harness, caller.session_kind, caller.process)
        elif override != caller.agent_id:
            _refuse_living(tx, agent, caller, active_ms)
            agent = record_process(tx, agent, caller.process)
        if caller.connection is not None and override != caller.agent_id:
            move_connection(tx, caller.connection, override)
    return caller._replace(agent_id=override, name=agent["name"], overridden=True)


def _is_known(store: Store, agent_id: str) -> bool:
    """Whether the store has the agent. A prune forgets an agent that nobody has seen for long."""
    with store.look() as tx:
        return tx.one("find_agent", agent_id=agent_id) is not None


def _refuse_likeness(tx: Transaction, override: str, caller: Caller) -> None:
    obstacle = find_obstacle(tx, override)
    if obstacle is None:
        other = find_like(tx, "name_of_another_like", override, agent_id=caller.agent_id)
        if other is None:
            return
        words = f"is or looks like {other}, which is or was the name of another agent"
        obstacle = Obstacle(words, {"reason": "taken", "like": other})
    message = f"{override} {obstacle.words}. Choose another agent_id_override."
    raise InvalidArgument(message, field="agent_id_override", **obstacle.facts)


def _refuse_living(tx: Transaction, agent: Row, caller: Caller, active_ms: int) -> None:
    agent_id, recorded = agent["agent_id"], recorded_process(agent)
    life = "mine" if recorded is not None and recorded == caller.process else processes.check(recorded)
    seen_lately = tx.now - agent["last_seen_at"] < active_ms * MILLISECOND
    connected = any(row["connection"] != caller.connection for row in live_connections(tx, [agent_id]))
    if connected or life == "alive" or (life == "unknown" and seen_lately):
        message = f"{agent_id} is another agent, and it is still running. Choose another agent_id_override."
        raise InvalidArgument(message, field="agent_id_override")
    held = tx.one("room_owned_by", agent_id=agent_id)
    if held is not None:
        message = (
            f"{agent_id} still holds the stick of room {held['room_id']}, and its lease is not yours. Take the stick "
            "over first, or choose another agent_id_override."
        )
        raise InvalidArgument(message, field="agent_id_override")
