"""Forgets agents that were last seen long ago, if nothing refers to them: memberships, names on topics, and agents.

Only an agent that was not seen for the whole time is forgotten. It must hold nothing, have nothing to accept, and have
chosen no name. As long as a message of it is left, its name on that topic stays, and so does the agent.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from conch.agents.records import LOCK, recorded_process
from conch.host import processes
from conch.lean import NamedTuple
from conch.rooms.log import append_event
from conch.rooms.room import load_room, save_room
from conch.storage.base import NO_LIMIT, Row, Store, Transaction

_STEP = 50  # agents in one transaction: a few milliseconds
_REASON = "not seen for a long time"
# A row is deleted before the rows that it refers to.
_PEER_ROWS = ("forget_cursors", "forget_topic_names", "forget_peers")
_AGENT_ROWS = ("forget_marks", "forget_listeners", "forget_connections", "forget_signals", "forget_agents")


class Left(NamedTuple):
    """How many were forgotten, or would be."""

    members: int
    agents: int


class Leavers:
    def __init__(self, store: Store, unseen_since: int, between: Callable[[], object]) -> None:
        """Forget agents that were last seen before `unseen_since`. `between` is called between two steps."""
        self._store = store
        self._unseen_since = unseen_since
        self._between = between

    def survey(self, tx: Transaction, room_ids: Iterable[str]) -> Left:
        """At least how many can go. Removing members comes first, after which more agents may be forgotten."""
        members = sum(len(self._members(tx, room_id, most=NO_LIMIT)[0]) for room_id in room_ids)
        rows = _without_alive(self._find(tx, "agents_to_forget", "", NO_LIMIT))
        return Left(members, len({row["id"] for row in rows} - _recorded(tx)))

    def remove_members(self, room_ids: Iterable[str]) -> int:
        """Let members leave their rooms, step by step. The logs of the rooms say so."""
        return sum(map(self._remove_members, room_ids))

    def forget_agents(self) -> int:
        """Forget the agents that nothing refers to, step by step."""
        with self._store.read() as tx:
            tx.take_time()
            # These sets may be old: an agent that does anything after this counts as seen, so it stays.
            peers, agents = {row["peer_id"] for row in tx.all("peers_with_questions")}, _recorded(tx)
        self._forget("peers_to_forget", 0, _PEER_ROWS, peers)
        return self._forget("agents_to_forget", "", _AGENT_ROWS, agents)

    def _members(self, tx: Transaction, room_id: str, after: int = -1, most: int = _STEP) -> tuple[list[Row], int]:
        """The next members that can leave, and the place to go on from."""
        given = {"room_id": room_id, "after": after, "most": most, "unseen_since": self._unseen_since}
        rows = tx.all("members_to_part_with", **given)
        return _without_alive(rows), rows[-1]["ordinal"] if rows else NO_LIMIT

    def _remove_members(self, room_id: str) -> int:
        count, after = 0, -1
        with self._store.read() as tx:
            found = bool(self._members(tx, room_id)[0])  # most rooms have none
        while found and after < NO_LIMIT:
            self._between()
            with self._store.write(room_id) as tx:
                room = load_room(tx, room_id)
                leaving, after = self._members(tx, room_id, after)
                for row in leaving:
                    details = {"name": row["name"]}
                    _, room = append_event(tx, room, "leave", by=row["agent_id"], reason=_REASON, details=details)
                    tx.run("delete_member", room_id=room_id, agent_id=row["agent_id"])
                save_room(tx, room)
            count += len(leaving)
        return count

    def _forget(self, found_by: str, after: int | str, statements: tuple[str, ...], kept: Container[object]) -> int:
        total = 0
        while True:
            self._between()
            with self._store.write(LOCK) as tx:
                rows = self._find(tx, found_by, after, _STEP)
                ids = [row["id"] for row in _without_alive(rows) if row["id"] not in kept]
                for statement in statements if ids else ():
                    tx.run(statement, ids=ids)
            if not rows:
                return total
            total, after = total + len(ids), rows[-1]["id"]

    def _find(self, tx: Transaction, statement: str, after: int | str, most: int) -> list[Row]:
        return tx.all(statement, unseen_since=self._unseen_since, after=after, most=most)


def _recorded(tx: Transaction) -> set[str]:
    """The agents that a log or a record names. Their events have to be pruned first."""
    return {row["agent_id"] for row in tx.all("recorded_agents")}


def _without_alive(rows: list[Row]) -> list[Row]:
    """A process that runs keeps its agent, however silent it is."""
    return [row for row in rows if processes.check(recorded_process(row)) != "alive"]
