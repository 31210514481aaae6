"""What a grant of the stick is made of: a lease, and how long it lasts."""

from __future__ import annotations

from conch.clock import MILLISECOND
from conch.ids import new_lease
from conch.rooms.log import find_event
from conch.rooms.room import Room, Snapshot
from conch.storage.base import Transaction


def granted(snapshot: Snapshot, room: Room) -> Room:
    """The room with a lease for its new owner."""
    return room._replace(lease_id=new_lease(), lease_expires_at=later(snapshot, snapshot.policy.owner_lease_ttl_ms))


def renew(tx: Transaction, snapshot: Snapshot) -> Snapshot:
    """The room with its lease extended."""
    room = snapshot.room
    until = later(snapshot, snapshot.policy.owner_lease_ttl_ms)
    # Always another moment than before, even if the clock stands still: `give_back` goes by it.
    room = room._replace(lease_expires_at=until + (until == room.lease_expires_at))
    tx.run(
        "extend_lease",
        room_id=room.room_id,
        lease_id=room.lease_id,
        lease_expires_at=room.lease_expires_at,
        now=snapshot.now,
    )
    return snapshot.with_room(room)


def later(snapshot: Snapshot, milliseconds: int) -> int:
    return snapshot.now + milliseconds * MILLISECOND


def prior_owner(tx: Transaction, room: Room) -> str | None:
    """Who wrote the handoff that waits to be claimed."""
    pending = find_event(tx, room.pending_handoff_event_seq)
    return pending.from_agent_id if pending else None
