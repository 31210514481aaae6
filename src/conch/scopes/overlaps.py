"""Reservations as they stand at one moment, with the liveness of their owners."""

from __future__ import annotations

from conch.host.paths import Overlap, Scope, classify
from conch.rooms.room import Liveness, Snapshot
from conch.storage.base import Row, Transaction
from conch.typed import NamedTuple


class Reservation(NamedTuple):
    reservation_id: str
    room_id: str
    agent_id: str
    name: str
    scope: str
    scope_key: str
    bead_id: str | None
    state: str
    created_at: int
    expires_at: int
    liveness: Liveness
    """Its owner's."""

    @property
    def is_active(self) -> bool:
        return self.state == "active"


class Held(NamedTuple):
    """A reservation that overlaps a scope, and how."""

    reservation: Reservation
    kind: Overlap


def to_reservation(row: Row, snapshot: Snapshot) -> Reservation:
    """One whose time is over is expired, although nobody has archived it yet."""
    lapsed = row["state"] == "active" and row["expires_at"] <= snapshot.now
    return Reservation(
        reservation_id=row["reservation_id"],
        room_id=row["room_id"],
        agent_id=row["agent_id"],
        name=row["name"],
        scope=row["scope"],
        scope_key=row["scope_key"],
        bead_id=row["bead_id"],
        state="expired" if lapsed else row["state"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        liveness=snapshot.liveness(row),
    )


def find_overlapping(tx: Transaction, snapshot: Snapshot, wanted: Scope) -> list[Held]:
    """What is not archived yet and overlaps a scope, by path.

    It is found by the keys above the scope and the range of keys inside it.
    """
    rows = tx.all(
        "overlapping_reservations",
        room_id=snapshot.room.room_id,
        keys=[*wanted.ancestors, wanted.key],
        key=wanted.key,
        end=wanted.end,
    )
    rows.sort(key=lambda row: row["scope_key"])
    found = [to_reservation(row, snapshot) for row in rows]
    return [Held(reservation, classify(wanted.key, reservation.scope_key)) for reservation in found]
