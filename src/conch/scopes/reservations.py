"""Who is about to change which part of the workspace.

Two active reservations of different agents never overlap: every reservation is decided inside a write transaction
under the room's lock. Lapse and liveness are derived whenever somebody looks; what is over is archived, not deleted.
"""

from __future__ import annotations

from conch.agents.identity import Caller
from conch.clock import MINUTE
from conch.host.beads import check_bead
from conch.host.paths import Scope, parse_scope
from conch.ids import new_id
from conch.notices import activity
from conch.rooms.presence import Rooms
from conch.rooms.room import Snapshot
from conch.scopes.incursions import record_incursions, refuse_release, refuse_reservation
from conch.scopes.overlaps import Held, Reservation, find_overlapping, to_reservation
from conch.storage.base import Transaction
from conch.typed import NamedTuple
from conch.warnings import Warnings

TTL_MINUTES = 120
SHORTEST_TTL, LONGEST_TTL = 5, 1_440
MOST_ENDED = 500


class Grant(NamedTuple):
    reservation: Reservation
    renewed: bool
    taken_over: list[Reservation]
    warnings: Warnings


class Reservations:
    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    def reserve(
        self,
        caller: Caller,
        room_id: str,
        scope: str,
        ttl_minutes: int = TTL_MINUTES,
        takeover_stale: bool = False,
        bead_id: str | None = None,
    ) -> Grant:
        """Granted whole, or refused naming everybody in the way. Reserving the same again extends it."""
        wanted, root = self._locate(room_id, scope)
        warnings = check_bead(root, bead_id)
        with self._rooms.change(caller, room_id) as (tx, snapshot):
            found = find_overlapping(tx, snapshot, wanted)
            met = [held for held in found if held.reservation.is_active and not _is_of(held, caller)]
            granted = not met or (takeover_stale and all(held.reservation.liveness != "active" for held in met))
            record_incursions(tx, snapshot, caller, wanted, met, granted)
            if granted:
                _archive(tx, snapshot, caller, found)
                mine = _own_exact(found, caller)
                until = tx.now + ttl_minutes * MINUTE
                taken = [held.reservation._replace(state="expired") for held in met]
                if mine is not None:
                    return Grant(_extend(tx, mine, until, bead_id), True, taken, warnings)
                return Grant(_insert(tx, snapshot, caller, wanted, until, bead_id), False, taken, warnings)
        raise refuse_reservation(wanted, met)  # only now: raised inside, it would undo the record of the incursion

    def release(self, caller: Caller, room_id: str, scope: str) -> Reservation:
        """Give back what the caller has reserved, named exactly."""
        wanted, _ = self._locate(room_id, scope)
        with self._rooms.change(caller, room_id) as (tx, snapshot):
            found = find_overlapping(tx, snapshot, wanted)
            mine = _own_exact(found, caller)
            if mine is None:
                raise refuse_release(tx, snapshot, wanted, found, caller)
            return _end(tx, mine, "released", mine)

    def check(self, caller: Caller | None, room_id: str, path: str) -> list[Held]:
        """Every reservation that a path meets now; nothing is changed."""
        with self._rooms.look(caller, room_id) as (tx, snapshot):
            wanted = parse_scope(path, snapshot.room.canonical_path, "path")
            found = find_overlapping(tx, snapshot, wanted)
        return [held for held in found if held.reservation.is_active]

    def list_reservations(self, caller: Caller | None, room_id: str, include_ended: bool = False) -> list[Reservation]:
        """What is reserved now, by path; or everything, newest first, with the latest of those that are over."""
        with self._rooms.look(caller, room_id) as (tx, snapshot):
            rows = tx.all("active_reservations", room_id=room_id)
            if include_ended:
                rows += tx.all("ended_reservations", room_id=room_id, limit=MOST_ENDED)
                rows.sort(key=lambda row: row["number"], reverse=True)
            found = [to_reservation(row, snapshot) for row in rows]
        return [reservation for reservation in found if include_ended or reservation.is_active]

    def _locate(self, room_id: str, scope: str) -> tuple[Scope, str]:
        """Before the transaction: a filesystem may take its time."""
        root = self._rooms.root(room_id)
        return parse_scope(scope, root), root


def release_all(tx: Transaction, snapshot: Snapshot, agent_id: str) -> None:
    """An agent that leaves a room has nothing reserved in it any more."""
    for row in tx.all("reservations_of", agent_id=agent_id, room_id=snapshot.room.room_id):
        mine = to_reservation(row, snapshot)
        _end(tx, mine, "released", mine)


def _is_of(held: Held, caller: Caller) -> bool:
    return held.reservation.agent_id == caller.agent_id


def _own_exact(found: list[Held], caller: Caller) -> Reservation | None:
    return next((held.reservation for held in found if held.kind == "exact" and _is_of(held, caller)), None)


# -- writing


def _archive(tx: Transaction, snapshot: Snapshot, caller: Caller, found: list[Held]) -> None:
    """End what a new reservation supersedes: everything of others, and the caller's own that has lapsed elsewhere."""
    for held in found:
        renewed = held.kind == "exact" and _is_of(held, caller)
        if not renewed and not (_is_of(held, caller) and held.reservation.is_active):
            _end(tx, held.reservation, "expired", snapshot.member(caller.agent_id))


def _insert(
    tx: Transaction, snapshot: Snapshot, caller: Caller, wanted: Scope, expires_at: int, bead_id: str | None
) -> Reservation:
    new = Reservation(
        reservation_id=new_id("res"),
        room_id=snapshot.room.room_id,
        agent_id=caller.agent_id,
        name=snapshot.member(caller.agent_id).name,
        scope=wanted.path,
        scope_key=wanted.key,
        bead_id=bead_id,
        state="active",
        created_at=tx.now,
        expires_at=expires_at,
        liveness="active",
    )
    columns = new._asdict()
    for derived in ("name", "state", "liveness"):
        del columns[derived]
    tx.run("insert_reservation", **columns)
    _record(tx, new, "reserved", new)
    return new


def _extend(tx: Transaction, mine: Reservation, expires_at: int, bead_id: str | None) -> Reservation:
    later = mine._replace(
        state="active", expires_at=max(expires_at, mine.expires_at), bead_id=bead_id or mine.bead_id, liveness="active"
    )
    tx.run("extend_reservation", reservation_id=mine.reservation_id, expires_at=later.expires_at, bead_id=later.bead_id)
    _record(tx, later, "renewed", later)
    return later


def _end(tx: Transaction, reservation: Reservation, state: str, by: activity.Named) -> Reservation:
    tx.run("end_reservation", reservation_id=reservation.reservation_id, state=state, now=tx.now)
    _record(tx, reservation, state, by)
    return reservation._replace(state=state)


def _record(tx: Transaction, reservation: Reservation, kind: str, by: activity.Named) -> None:
    details = {"scope": reservation.scope, "owner": reservation.name, "expires_at": reservation.expires_at}
    activity.record(tx, reservation.room_id, kind, by, reservation.reservation_id, details)
