"""The connections of MCP clients. Two that are open at the same time are never one agent by accident."""

from __future__ import annotations

from conch.agents.records import LOCK, process_columns, recorded_process
from conch.host import processes
from conch.host.processes import Process
from conch.lean import NamedTuple
from conch.storage.base import Row, Store, Transaction

_OVERRIDE = "override"  # in place of the parent: a connection with an id of its own choice is continued by no other


class Connection(NamedTuple):
    """The connection of one MCP client: the process that serves it, the process above, and the client's own name."""

    process: Process
    parent: str
    client_name: str

    @property
    def key(self) -> str:
        return "connection:" + ":".join(map(str, self.process))


def record_connection(tx: Transaction, connection: Connection, agent_id: str) -> None:
    """Record the connection in place of those of this agent that have ended."""
    for row in tx.all("connections_of", agent_ids=[agent_id]):
        if not _is_live(row):
            tx.run("forget_connection", connection=row["connection"])
    tx.run(
        "open_connection",
        connection=connection.key,
        agent_id=agent_id,
        parent=connection.parent,
        client_name=connection.client_name,
        now=tx.now,
        **process_columns(connection.process),
    )


def close_connection(store: Store, connection: str) -> None:
    """Record that the client has closed its connection. The next one of that client may be the same agent."""
    with store.write(LOCK) as tx:
        tx.run("close_connection", connection=connection, now=tx.now)


def move_connection(tx: Transaction, connection: str, agent_id: str) -> None:
    """Give the connection to an agent that its client chose. It ends with the connection."""
    tx.run("move_connection", connection=connection, agent_id=agent_id, parent=_OVERRIDE)


def is_override(tx: Transaction, agent_id: str) -> bool:
    """Whether a living connection chose this id with `agent_id_override`."""
    return any(row["parent"] == _OVERRIDE for row in live_connections(tx, [agent_id]))


def continued_agent(tx: Transaction, connection: Connection, linked: list[str]) -> str | None:
    """The agent that this connection already is or continues, if there is one.

    That is the agent of the latest connection of the same client that has ended, or a `linked` one that only commands
    have used. An agent with another living connection is never the caller.
    """
    below = tx.all("connections_below", parent=connection.parent)
    itself = [row["agent_id"] for row in below if row["connection"] == connection.key]
    ended = [row["agent_id"] for row in below if row["client_name"] == connection.client_name and not _is_live(row)]
    connected = {row["agent_id"] for row in below}
    proposed = itself or [*ended, *(agent_id for agent_id in linked if agent_id not in connected)]
    taken = {row["agent_id"] for row in live_connections(tx, proposed) if row["connection"] != connection.key}
    return next((agent_id for agent_id in proposed if agent_id not in taken), None)


def live_connections(tx: Transaction, agent_ids: list[str]) -> list[Row]:
    rows = tx.all("connections_of", agent_ids=agent_ids) if agent_ids else []
    return [row for row in rows if _is_live(row)]


def _is_live(row: Row) -> bool:
    return row["closed_at"] is None and processes.check(recorded_process(row)) != "gone"
