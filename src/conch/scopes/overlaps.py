"""Reservations at one moment: their owners, which of them overlap a scope, and how they end."""

from __future__ import annotations

from conch.agents.records import label
from conch.calls import Latest, Telling
from conch.clock import to_iso
from conch.host.paths import Overlap, Scope, classify, shows_path, spell
from conch.lean import Any, NamedTuple
from conch.notices import activity
from conch.rooms.room import Liveness, Member, Snapshot
from conch.storage.base import NO_LIMIT, Row, Transaction


class Reservation(NamedTuple):
    reservation_id: str
    room_id: str
    agent_id: str
    name: str
    scope: str
    """As it was given."""
    path: str
    """What it means, relative to the workspace."""
    scope_key: str
    bead_id: str | None
    state: str
    created_at: int
    expires_at: int
    liveness: Liveness
    """The owner's liveness."""

    @property
    def label(self) -> str:
        """What people call its owner."""
        return label(self.agent_id, self.name)

    @property
    def is_active(self) -> bool:
        return self.state == "active"

    @property
    def spelled(self) -> str:
        """The scope for use in a sentence."""
        return spell(self.scope, self.path)

    @property
    def place(self) -> dict[str, str]:
        """The scope for programs, with its path if the scope does not show it."""
        path = {} if shows_path(self.scope, self.path) else {"path": self.path}
        return {"scope": self.scope, **path}


class Held(NamedTuple):
    """A reservation that overlaps a scope, and how it overlaps."""

    reservation: Reservation
    kind: Overlap


class Holding(NamedTuple):
    """A reservation that this process has given to an agent, which may not know of it yet."""

    telling: Telling
    reply: object
    """Identifies a reply that tells the agent of it."""
    prior_id: str | None
    """The agent that is gone, if the reservation was adopted from it."""

    def told_again(self, reply: object, until: int) -> Holding:
        self.telling.again(reply, until)
        return self._replace(reply=reply)

    def read(self) -> None:
        self.telling.read(self.reply)

    def lose(self) -> None:
        self.telling.lose(self.reply)

    def is_lost(self, now: Reservation, unread: bool) -> bool:
        """Whether to take back the reservation, as it is now, after the reply was lost or left `unread`."""
        return self.telling.explains(now.expires_at) and self.telling.is_lost(unread)


class Holdings:
    """The reservations that this process has given lately."""

    def __init__(self) -> None:
        self._latest: Latest[Holding] = Latest()

    def begin(self, held: Reservation, reply: object, prior_id: str | None = None) -> Holding:
        """Note that this reply is the first one that tells an agent of its reservation."""
        holding = Holding(Telling(reply, held.expires_at), reply, prior_id)
        self._latest.note(held.reservation_id, holding)
        return holding

    def tell(self, before: Reservation | None, held: Reservation, reply: object) -> Holding | None:
        """Note that this reply tells of a reservation, which was made or extended."""
        if before is None:
            return self.begin(held, reply)
        holding = self.find(before)
        return holding and holding.told_again(reply, held.expires_at)

    def find(self, held: Reservation) -> Holding | None:
        """None if this process did not give the reservation to its owner, or if the owner may know of it."""
        holding = self._latest.get(held.reservation_id)
        return holding if holding is not None and holding.telling.explains(held.expires_at) else None


def to_reservation(row: Row, snapshot: Snapshot) -> Reservation:
    """The reservation in a row. A lapsed one counts as expired even before it is archived."""
    lapsed = row["state"] == "active" and row["expires_at"] <= snapshot.now
    return Reservation(
        reservation_id=row["reservation_id"],
        room_id=row["room_id"],
        agent_id=row["agent_id"],
        name=row["name"],
        scope=row["given"] or row["scope"],
        path=row["scope"],
        scope_key=row["scope_key"],
        bead_id=row["bead_id"],
        state="expired" if lapsed else row["state"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        liveness=snapshot.liveness(row),
    )


def expect_overlapping(wanted: Scope, limit: int, tx: Transaction, room_id: str) -> None:
    """Fetch ahead the reservations that overlap a scope."""
    tx.ahead("overlapping_reservations", **_overlapping(room_id, wanted, "", 0, limit))


def _overlapping(room_id: str, wanted: Scope, after: str, lapsed: int, limit: int) -> Row:
    # An overlapping reservation has the same key, the key of a folder above, or a key inside (from `key` to `end`).
    return {
        "room_id": room_id,
        "keys": [key for key in (*wanted.ancestors, wanted.key) if key > after] or [""],  # no reservation has this key
        "key": max(wanted.key, after),
        "end": wanted.end,
        "lapsed": lapsed,
        "limit": limit,
    }


def find_overlapping(
    tx: Transaction, snapshot: Snapshot, wanted: Scope, after: str = "", lapsed: int = 0, limit: int = NO_LIMIT
) -> list[Held]:
    """The reservations that overlap a scope and are not archived yet, by path.

    Only those after the key `after` are returned, without those that lapsed before the moment `lapsed`.
    """
    rows = tx.all("overlapping_reservations", **_overlapping(snapshot.room.room_id, wanted, after, lapsed, limit))
    found = [to_reservation(row, snapshot) for row in rows]
    return [Held(reservation, classify(wanted.key, reservation.scope_key)) for reservation in found]


def holder(held: Held) -> dict[str, Any]:
    """The details of an overlapping reservation, for programs."""
    reservation = held.reservation
    return {
        "kind": held.kind,
        "owner": reservation.name,
        "agent_id": reservation.agent_id,
        "liveness": reservation.liveness,
        **reservation.place,
        "reservation_id": reservation.reservation_id,
        **({} if reservation.bead_id is None else {"bead_id": reservation.bead_id}),
        "expires_at": to_iso(reservation.expires_at),
    }


# -- writing


def release_all(
    tx: Transaction, snapshot: Snapshot, agent_id: str, by: activity.Named | None = None, reason: str | None = None
) -> list[Reservation]:
    """Release all reservations of an agent that leaves the room, or that a person has removed for a reason."""
    rows = tx.all("reservations_of", agent_id=agent_id, room_id=snapshot.room.room_id)
    found = [to_reservation(row, snapshot) for row in rows]
    return [end(tx, each, "released", by or each, reason) for each in found]


def end(
    tx: Transaction, reservation: Reservation, state: str, by: activity.Named, reason: str | None = None
) -> Reservation:
    tx.run("end_reservation", reservation_id=reservation.reservation_id, state=state, now=tx.now)
    record(tx, reservation, state, by, reason)
    return reservation._replace(state=state)


def hand_over(tx: Transaction, reservation: Reservation, to: Member, is_recorded: bool = True) -> None:
    """Let another agent own a reservation. The record of an adoption says so for all of them at once."""
    tx.run("move_reservation", reservation_id=reservation.reservation_id, to_agent_id=to.agent_id)
    if is_recorded:
        record(tx, reservation._replace(agent_id=to.agent_id, name=to.name), "renewed", to)


def record(tx: Transaction, reservation: Reservation, kind: str, by: activity.Named, reason: str | None = None) -> None:
    details = {
        **reservation.place,
        "owner": reservation.name,
        "owner_agent_id": reservation.agent_id,
        "expires_at": reservation.expires_at,
        **({"reason": reason} if reason else {}),
    }
    activity.record(tx, reservation.room_id, kind, by, reservation.reservation_id, details)
