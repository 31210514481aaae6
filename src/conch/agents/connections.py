"""The connections of MCP clients. Two that are open at the same time are never one agent by accident."""

from __future__ import annotations

from collections.abc import Iterable

from conch.agents.records import LOCK, process_columns, recorded_process
from conch.bells.base import room_channel
from conch.host import processes
from conch.host.processes import Process
from conch.lean import NamedTuple
from conch.storage.base import Row, Store, Transaction

# Prefixes the parent of a connection whose client chose its agent id, so that no other connection continues it.
_OVERRIDE = "override:"
_MOST_ROOMS = 1_000


class Connection(NamedTuple):
    """The connection of one MCP client: the process that serves it, the process above, and the client's own name."""

    process: Process
    parent: str
    client_name: str

    @property
    def key(self) -> str:
        return "connection:" + ":".join(map(str, self.process))


class Served(NamedTuple):
    """A connection below a process, as the store knows it."""

    client_name: str
    agent_id: str
    is_open: bool
    is_override: bool


def process_key(process: Process) -> str:
    """The text that identifies a process in the store."""
    return "process:" + ":".join(map(str, process))


# -- recording


def record_connection(tx: Transaction, connection: Connection, agent_id: str) -> None:
    """Record the connection in place of those of this agent that have ended."""
    _note_ended(tx, connection.parent, tx.now)
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
        row = tx.one("find_connection", connection=connection)
        if row is not None:
            _note_ended(tx, row["parent"], tx.now - 1)
            tx.run("close_connection", connection=connection, now=tx.now)


def end_sessions(store: Store, agent_ids: Iterable[str]) -> None:
    """Record that the clients of these agents have ended their sessions: from now on, the agents are gone.

    Do not pass an agent whose process is known: it lives as long as that process. An agent that comes back joins its
    rooms again.
    """
    with store.write(LOCK) as tx:
        for agent_id in agent_ids:
            tx.run("touch_agent", agent_id=agent_id, now=tx.now)
            for statement in ("update_agent_process", "update_member_processes"):
                tx.run(statement, agent_id=agent_id, **process_columns(processes.ENDED))
            for row in tx.all("rooms_of_agent", agent_id=agent_id, limit=_MOST_ROOMS):
                tx.ring(room_channel(row["room_id"]))  # others may take over now


def _note_ended(tx: Transaction, parent: str, ended_at: int) -> None:
    """Record the end of connections whose process was killed before it could do so.

    This runs whenever a connection opens or closes, so a connection without a recorded end ended after all others.
    """
    for row in tx.all("connections_below", parents=[parent]):
        if row["closed_at"] is None and not _is_live(row):
            tx.run("close_connection", connection=row["connection"], now=ended_at)


def move_connection(tx: Transaction, connection: str, agent_id: str) -> None:
    """Give the connection to an agent that its client chose."""
    tx.run("move_connection", connection=connection, agent_id=agent_id, prefix=_OVERRIDE)


# -- reading


def recorded_agent(tx: Transaction, connection: Connection) -> str | None:
    """The agent that this connection was identified as before. An id that its client chose does not count."""
    row = tx.one("find_connection", connection=connection.key)
    is_open = row is not None and row["parent"] == connection.parent and row["closed_at"] is None
    return row["agent_id"] if row is not None and is_open else None


def continued_agent(tx: Transaction, connection: Connection, linked: list[str]) -> str | None:
    """The agent that this new connection continues, if there is one.

    That is the agent of the same client's last connection, if it has ended, or else a `linked` agent that only commands
    have used. An agent with a living connection is never continued.
    """
    below = _latest_first(tx.all("connections_below", parents=[connection.parent]))
    ended = [row["agent_id"] for row in below if row["client_name"] == connection.client_name and not _is_live(row)]
    connected = {row["agent_id"] for row in below}
    proposed = [*ended, *(agent_id for agent_id in linked if agent_id not in connected)]
    taken = {row["agent_id"] for row in live_connections(tx, proposed)}
    return next((agent_id for agent_id in proposed if agent_id not in taken), None)


def connections_below(tx: Transaction, parent: str) -> list[Served]:
    """The connections below a process: the open ones, then those that have ended, the latest first."""
    rows = _latest_first(tx.all("connections_below", parents=[parent, _OVERRIDE + parent]))
    found = [
        Served(row["client_name"], row["agent_id"], _is_live(row), row["parent"].startswith(_OVERRIDE)) for row in rows
    ]
    return sorted(found, key=lambda served: not served.is_open)


def is_override(tx: Transaction, agent_id: str) -> bool:
    """Whether a living connection chose this id with `agent_id_override`."""
    return any(row["parent"].startswith(_OVERRIDE) for row in live_connections(tx, [agent_id]))


def live_connections(tx: Transaction, agent_ids: list[str]) -> list[Row]:
    rows = tx.all("connections_of", agent_ids=agent_ids) if agent_ids else []
    return [row for row in rows if _is_live(row)]


def _is_live(row: Row) -> bool:
    return row["closed_at"] is None and processes.check(recorded_process(row)) != "gone"


def _latest_first(rows: list[Row]) -> list[Row]:
    """The connections, the last to end first. A connection without a recorded end comes before all others."""
    return sorted(
        rows, key=lambda row: (row["closed_at"] is None, row["closed_at"] or 0, row["opened_at"]), reverse=True
    )
