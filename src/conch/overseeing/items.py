"""Work items (beads): which there are, and what belongs to one."""

from __future__ import annotations

from conch.agents.records import label
from conch.lean import NamedTuple
from conch.notices.events import ProtocolEvent, to_protocol_event
from conch.rooms.presence import Rooms
from conch.scopes.overlaps import Reservation, to_reservation
from conch.storage.base import Store

_MOST = 200  # reservations and notices of one item, each


class Item(NamedTuple):
    """A work item in a room, as reservations and notices show it."""

    bead_id: str
    room_id: str
    canonical_path: str
    latest_at: int
    reservations: int
    active: int
    """Reservations that still hold."""
    notices: int
    open_notices: int
    """Notices that nobody has accepted."""
    agents: list[tuple[str, str | None]]
    """The agent_ids and names of those who work on it."""


class ItemParts(NamedTuple):
    reservations: list[Reservation]
    notices: list[ProtocolEvent]


def list_items(store: Store, limit: int) -> list[Item]:
    """The latest work items of all rooms."""
    with store.read() as tx:
        rows = tx.all("work_items", now=tx.now, limit=limit)
        bead_ids = sorted({row["bead_id"] for row in rows})
        on_it = tx.all("agents_on_items", bead_ids=bead_ids) if bead_ids else []
    agents: dict[tuple[str, str], dict[str, str | None]] = {}
    for each in on_it:
        agents.setdefault((each["bead_id"], each["room_id"]), {})[each["agent_id"]] = each["name"]
    return [
        Item(
            row["bead_id"],
            row["room_id"],
            row["canonical_path"],
            int(row["latest_at"]),
            int(row["reservations"]),
            int(row["active"]),
            int(row["notices"]),
            int(row["open_notices"]),
            sorted(agents.get((row["bead_id"], row["room_id"]), {}).items(), key=lambda pair: label(*pair)),
        )
        for row in rows
    ]


def read_item(store: Store, rooms: Rooms, room_id: str, bead_id: str) -> ItemParts:
    """The latest reservations and notices of one work item."""
    about = {"room_id": room_id, "bead_id": bead_id, "limit": _MOST}
    with store.read() as tx:
        snapshot = rooms.load(tx, room_id)
        reservations = [to_reservation(row, snapshot) for row in tx.all("item_reservations", **about)]
        return ItemParts(reservations, [to_protocol_event(row) for row in tx.all("item_notices", **about)])
