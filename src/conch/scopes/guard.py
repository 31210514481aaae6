"""The guard: whether an agent may change a file now, or another agent has reserved it or holds the stick."""

from __future__ import annotations

import os

from conch.clock import to_iso
from conch.errors import InvalidArgument
from conch.host.paths import parse_scope
from conch.host.workspaces import ancestor_chain, canonicalize, workspace_root
from conch.lean import NamedTuple
from conch.rooms.presence import Rooms
from conch.rooms.room import Room, Snapshot
from conch.scopes.overlaps import Held, find_overlapping
from conch.storage.base import Store, Transaction


class Objection(NamedTuple):
    """Why a file should not be changed now."""

    path: str
    """Relative to the workspace."""
    room_id: str
    room_path: str
    holder: str
    """The label of the agent that has reserved it, or that holds the stick."""
    scope: str
    """What that agent has reserved; empty for the stick."""
    since: str | None
    until: str | None
    is_refused: bool
    """Whether the room's policy forbids the change. Otherwise it is only a warning."""


class Guard:
    def __init__(self, store: Store, rooms: Rooms) -> None:
        self._store = store
        self._rooms = rooms

    def judge(self, agent_id: str | None, paths: list[str], is_strict: bool = False) -> list[Objection]:
        """The objections to a change of these files by an agent, which may have no id yet. It changes nothing.

        With `is_strict`, a policy that only warns counts as one that forbids.
        """
        return [objection for path in paths for objection in self._judge(agent_id, path, is_strict)]

    def _judge(self, agent_id: str | None, path: str, is_strict: bool) -> list[Objection]:
        """A folder can be the root of a workspace, and also a part of the one around it. Both may object."""
        above = _nearest_directory(os.path.dirname(os.path.abspath(path)))
        found = self._judge_in(above, agent_id, path, is_strict)
        if os.path.isdir(path):
            found += [each for each in self._judge_in(path, agent_id, path, is_strict) if each not in found]
        return found

    def _judge_in(self, folder: str, agent_id: str | None, path: str, is_strict: bool) -> list[Objection]:
        try:
            directory = canonicalize(folder)
            chain = ancestor_chain(directory, workspace_root(directory))
            with self._store.read() as tx:
                rooms = [Room(**row) for row in tx.all("rooms_at", paths=chain)]
                room = max(rooms, key=lambda each: len(each.canonical_path), default=None)
                if room is None:
                    return []
                return self._object(tx, self._rooms.snapshot(tx, room), agent_id, path, is_strict)
        except InvalidArgument:  # not a path inside the workspace
            return []

    def _object(
        self, tx: Transaction, snapshot: Snapshot, agent_id: str | None, path: str, is_strict: bool
    ) -> list[Objection]:
        policy, room = snapshot.policy.guard, snapshot.room
        if policy == "off":
            return []
        wanted = parse_scope(path, room.canonical_path, "path")
        found = find_overlapping(tx, snapshot, wanted, lapsed=snapshot.now)
        owns_stick = room.owner is not None and room.owner == agent_id
        # The holder of the stick may change any file, but it must know of the reservation.
        is_refused = (is_strict or policy != "warn") and not owns_stick
        objections = [
            _reserved(held, wanted.path, snapshot, is_refused)
            for held in found
            if held.reservation.agent_id != agent_id and held.reservation.liveness == "active"
        ]
        has_reserved = any(held.reservation.agent_id == agent_id for held in found)
        if policy == "enforce_stick" and not objections and not has_reserved and not owns_stick:
            objections += _stick(tx, snapshot, wanted.path)
        return objections


def _reserved(held: Held, path: str, snapshot: Snapshot, is_refused: bool) -> Objection:
    reservation, room = held.reservation, snapshot.room
    return Objection(
        path,
        room.room_id,
        room.canonical_path,
        reservation.label,
        reservation.spelled,
        to_iso(reservation.created_at),
        to_iso(reservation.expires_at),
        is_refused,
    )


def _stick(tx: Transaction, snapshot: Snapshot, path: str) -> list[Objection]:
    """The stick in the hand of another agent, unless anyone may take it over."""
    room = snapshot.room
    if room.owner is None or snapshot.takeover_reason is not None:
        return []
    from conch.rooms.log import latest_grant  # few edits need it, and hooks pay for each import

    grant = latest_grant(tx, room)
    since = to_iso(grant.created_at if grant else room.updated_at)
    return [Objection(path, room.room_id, room.canonical_path, snapshot.who(room.owner), "", since, None, True)]


def _nearest_directory(folder: str) -> str:
    """The folder, or the nearest one above that exists."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder
