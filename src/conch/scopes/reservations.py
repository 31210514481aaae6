"""Reservations: which agent is about to change which part of the workspace.

Active reservations of different agents never overlap, because each is decided inside a write transaction under the
room's lock. Expiry and liveness are derived at every read. Ended reservations are archived, not deleted.
"""

from __future__ import annotations

from functools import partial

from conch.agents.records import Caller
from conch.calls import Call
from conch.clock import MINUTE, to_iso
from conch.errors import ConchError, RateLimited, no_cursor
from conch.host.paths import Scope, parse_scope, shown
from conch.ids import new_id
from conch.lean import TYPE_CHECKING, NamedTuple
from conch.notices import activity
from conch.notices.events import MOST_PER_MINUTE, Posted, insert_event, post
from conch.rooms.log import latest_grant
from conch.rooms.presence import Ahead, Rooms
from conch.rooms.room import Snapshot
from conch.scopes.overlaps import (
    Held,
    Holding,
    Holdings,
    Reservation,
    end,
    expect_overlapping,
    find_overlapping,
    hand_over,
    record,
    to_reservation,
)
from conch.scopes.refusals import refuse_release, refuse_release_for, refuse_reservation
from conch.storage.base import NO_LIMIT, Transaction
from conch.warnings import Warnings, warning

if TYPE_CHECKING:
    from conch.agents.people import Person

TTL_MINUTES = 120
_STICK_HELD = "STICK_HELD"
SHORTEST_TTL, LONGEST_TTL = 5, 1_440


class Grant(NamedTuple):
    reservation: Reservation
    renewed: bool
    taken_over: list[Reservation]
    warnings: Warnings
    holding: Holding | None
    """None if the agent may know of it from elsewhere: then it is not withdrawn."""

    def read(self) -> None:
        """Note that the client has read the reply."""
        if self.holding is not None:
            self.holding.read()

    @property
    def stick_held(self) -> bool:
        """Whether another agent holds the stick, so that two agents may change the same files."""
        return any(warning["code"] == _STICK_HELD for warning in self.warnings)

    @property
    def holder_is_silent(self) -> bool:
        """Whether that agent does not answer, so that nobody can coordinate with it."""
        return any("takeover_reason" in warning.get("context", {}) for warning in self.warnings)


class Reservations:
    def __init__(self, rooms: Rooms, holdings: Holdings) -> None:
        self._rooms = rooms
        self._holdings = holdings

    def reserve(
        self,
        caller: Caller,
        room_id: str,
        scope: str,
        ttl_minutes: int = TTL_MINUTES,
        takeover_stale: bool = False,
        bead_id: str | None = None,
        call: Call | None = None,
    ) -> Grant:
        """Reserve a scope, or raise an error that names every owner in the way. Reserving it again extends it."""
        wanted, root = self._locate(room_id, scope)
        warnings: Warnings = []
        if bead_id is not None:
            from conch.host.beads import check_bead  # few workspaces have Beads

            warnings = check_bead(root, bead_id)
        call = call or Call()
        decide = partial(self._decide, caller, room_id, scope, wanted, ttl_minutes, takeover_stale, bead_id, call)
        decided = self._rooms.briefly(decide)
        if isinstance(decided, ConchError):
            raise decided  # after the commit, which keeps the notices
        return decided._replace(warnings=warnings + decided.warnings)

    def _decide(
        self,
        caller: Caller,
        room_id: str,
        scope: str,
        wanted: Scope,
        ttl_minutes: int,
        takeover_stale: bool,
        bead_id: str | None,
        call: Call,
    ) -> Grant | ConchError:
        """Grant the scope, or refuse it. The owners learn of a refusal too."""
        with self._rooms.change(caller, room_id, ahead=_expecting(wanted)) as (tx, snapshot):
            found = find_overlapping(tx, snapshot, wanted)
            blocking = [held for held in found if held.reservation.is_active and not _is_of(held, caller)]
            granted = not blocking or (
                takeover_stale and all(held.reservation.liveness != "active" for held in blocking)
            )
            warnings = _warn_of_stick(tx, snapshot, caller) if granted else []
            is_known = _record_incursions(tx, snapshot, caller, shown(scope, wanted.path), blocking, granted)
            if granted:
                _archive(tx, snapshot, caller, found)
                mine = _own_exact(found, caller)
                until = tx.now + ttl_minutes * MINUTE
                taken = [held.reservation._replace(state="expired") for held in blocking]
                if mine is None:
                    held = _insert(tx, snapshot, caller, scope, wanted, until, bead_id)
                else:
                    held = _extend(tx, mine, scope, until, bead_id)
                holding = self._holdings.tell(mine, held, call.reply)
                grant = Grant(held, mine is not None, taken, warnings, holding)
                call.undo = partial(self.withdraw, caller, grant)
                return grant
        silence = (
            ""
            if is_known
            else f" Not every owner got a notice, because you caused {MOST_PER_MINUTE} in the last minute."
        )
        return refuse_reservation(scope, wanted, blocking, silence, snapshot.room.owner == caller.agent_id)

    def report_incursion(self, caller: Caller, room_id: str, scope: str) -> None:
        """Send the active owners of a scope an INCURSION: the caller was about to change it, or is changing it."""
        wanted, _ = self._locate(room_id, scope)
        self._rooms.briefly(partial(self._report, caller, room_id, wanted))

    def _report(self, caller: Caller, room_id: str, wanted: Scope) -> None:
        with self._rooms.change(caller, room_id, ahead=_expecting(wanted)) as (tx, snapshot):
            found = find_overlapping(tx, snapshot, wanted)
            active = [held for held in found if held.reservation.is_active and held.reservation.liveness == "active"]
            blocking = [held for held in active if not _is_of(held, caller)]
            _record_incursions(tx, snapshot, caller, wanted.path, blocking, granted=False)

    def release(self, caller: Caller, room_id: str, *scopes: str) -> list[Reservation]:
        """End some of the caller's reservations, or none if one is refused. Each must be exactly what was reserved."""
        wanted = [self._locate(room_id, scope)[0] for scope in scopes]

        def end_all() -> list[Reservation]:
            with self._rooms.change(caller, room_id, ahead=_expecting(*wanted)) as (tx, snapshot):
                return [_release(tx, snapshot, caller, *each) for each in zip(scopes, wanted, strict=True)]

        return self._rooms.briefly(end_all)

    def release_for(self, person: Person, room_id: str, agent_id: str, scope: str, reason: str) -> Reservation:
        """End a reservation of another member, by a person."""
        wanted, _ = self._locate(room_id, scope)
        with self._rooms.change(person.caller, room_id) as (tx, snapshot):
            found = find_overlapping(tx, snapshot, wanted)
            theirs = [held for held in found if held.reservation.agent_id == agent_id and held.reservation.is_active]
            exact = next((held.reservation for held in theirs if held.kind == "exact"), None)
            if exact is None:
                raise refuse_release_for(snapshot.who(agent_id), scope, wanted, theirs)
            return end(tx, exact, "released", snapshot.member(person.caller.agent_id), reason)

    def withdraw(self, caller: Caller, grant: Grant, unread: bool = False) -> None:
        """Undo a reservation whose reply was lost, or stays `unread`. One that was adopted goes back.

        It is kept if another reply may tell the caller of it, or if something else has extended it; see `Telling`.
        """
        if grant.holding is None:
            return
        grant.holding.lose()
        if grant.holding.telling.is_lost(unread):
            self._rooms.briefly(partial(self._withdraw, caller, grant.reservation, grant.holding, unread))

    def _withdraw(self, caller: Caller, reservation: Reservation, holding: Holding, unread: bool) -> None:
        with self._rooms.undo(reservation.room_id) as (tx, snapshot):
            found = find_overlapping(tx, snapshot, Scope(reservation.path, reservation.scope_key))
            mine = _own_exact(found, caller)
            if mine is None or mine.reservation_id != reservation.reservation_id or not holding.is_lost(mine, unread):
                return
            prior = snapshot.find(holding.prior_id)
            if prior is None:
                end(tx, mine, "released", mine)
            else:
                hand_over(tx, mine, prior)

    def check(
        self,
        caller: Caller | None,
        room_id: str,
        path: str,
        after: str | None = None,
        limit: int = NO_LIMIT,
        field: str = "path",
    ) -> list[Held]:
        """The active reservations that overlap a path, after a reservation_id. Nothing is changed.

        An error names the path by `field`.
        """
        wanted = parse_scope(path, self._rooms.root(room_id), field)
        ahead = partial(expect_overlapping, wanted, limit)
        with self._rooms.look(caller, room_id, ahead) as (tx, snapshot):
            _, key = _position(tx, room_id, after)
            found = find_overlapping(tx, snapshot, wanted, key, limit=limit)
            active = [held for held in found if held.reservation.is_active]
            if len(active) < len(found) == limit:  # others may come after the lapsed ones
                active = find_overlapping(tx, snapshot, wanted, key, snapshot.now, limit)
            return active

    def list_reservations(
        self,
        caller: Caller | None,
        room_id: str,
        include_ended: bool = False,
        after: str | None = None,
        limit: int = NO_LIMIT,
    ) -> list[Reservation]:
        """The active reservations by path; with `include_ended`, all of them, newest first. After a reservation_id."""
        with self._rooms.look(caller, room_id) as (tx, snapshot):
            number, key = _position(tx, room_id, after)
            given = {"room_id": room_id, "limit": limit}
            if include_ended:
                rows = tx.all("active_reservations", **given | {"after": "", "lapsed": 0, "limit": NO_LIMIT})
                rows = [row for row in rows if row["number"] < number]
                rows += tx.all("ended_reservations", before=number, **given)
                rows = sorted(rows, key=lambda row: row["number"], reverse=True)[:limit]
            else:
                rows = tx.all("active_reservations", after=key, lapsed=snapshot.now, **given)
            return [to_reservation(row, snapshot) for row in rows]

    def _locate(self, room_id: str, scope: str) -> tuple[Scope, str]:
        """The scope and the room's root. Done before the transaction, because a filesystem can be slow."""
        root = self._rooms.root(room_id)
        return parse_scope(scope, root), root


def _release(tx: Transaction, snapshot: Snapshot, caller: Caller, scope: str, wanted: Scope) -> Reservation:
    found = find_overlapping(tx, snapshot, wanted)
    mine = _own_exact(found, caller)
    if mine is None:
        raise refuse_release(tx, snapshot, scope, wanted, found, caller)
    return end(tx, mine, "released", mine)


def _expecting(*wanted: Scope) -> Ahead:
    """Fetches ahead the reservations that overlap these scopes."""

    def expect(tx: Transaction, room_id: str) -> None:
        for each in wanted:
            expect_overlapping(each, NO_LIMIT, tx, room_id)

    return expect


def _position(tx: Transaction, room_id: str, reservation_id: str | None) -> tuple[int, str]:
    """Where a list goes on after a reservation, ended or not: its number and its key."""
    if reservation_id is None:
        return NO_LIMIT, ""
    row = tx.one("find_reservation", reservation_id=reservation_id, room_id=room_id)
    if row is None:
        raise no_cursor()
    return row["number"], row["scope_key"]


def _is_of(held: Held, caller: Caller) -> bool:
    return held.reservation.agent_id == caller.agent_id


def _warn_of_stick(tx: Transaction, snapshot: Snapshot, caller: Caller) -> Warnings:
    """The holder of the stick can change any file, so an agent that reserves some must know of it."""
    room = snapshot.room
    if room.owner is None or room.owner == caller.agent_id:
        return []
    grant, owner = latest_grant(tx, room), snapshot.member(room.owner)
    since = to_iso(grant.created_at if grant else room.updated_at)
    about = {"agent_id": owner.agent_id, "name": owner.name, "since": since}
    held = f"{owner.label} has held the stick since {since}"
    if snapshot.takeover_reason is None:
        return [
            warning(
                _STICK_HELD, f"{held} and may change any file. Coordinate with it before you change these.", **about
            )
        ]
    message = f"{held} and does not answer. Look at what it has left before you change these."
    return [warning(_STICK_HELD, message, **about, takeover_reason=snapshot.takeover_reason)]


def _own_exact(found: list[Held], caller: Caller) -> Reservation | None:
    return next((held.reservation for held in found if held.kind == "exact" and _is_of(held, caller)), None)


# -- writing


def _archive(tx: Transaction, snapshot: Snapshot, caller: Caller, found: list[Held]) -> None:
    """End what a new reservation replaces: other agents' reservations, and the caller's own lapsed ones.

    The caller's reservation of exactly this scope is renewed instead.
    """
    for held in found:
        renewed = held.kind == "exact" and _is_of(held, caller)
        if not renewed and not (_is_of(held, caller) and held.reservation.is_active):
            end(tx, held.reservation, "expired", snapshot.member(caller.agent_id))


def _insert(
    tx: Transaction, snapshot: Snapshot, caller: Caller, given: str, wanted: Scope, expires_at: int, bead_id: str | None
) -> Reservation:
    new = Reservation(
        reservation_id=new_id("res"),
        room_id=snapshot.room.room_id,
        agent_id=caller.agent_id,
        name=snapshot.member(caller.agent_id).name,
        scope=given,
        path=wanted.path,
        scope_key=wanted.key,
        bead_id=bead_id,
        state="active",
        created_at=tx.now,
        expires_at=expires_at,
        liveness="active",
    )
    columns = new._asdict() | {"scope": wanted.path, "given": given}
    for derived in ("path", "name", "state", "liveness"):
        del columns[derived]
    tx.run("insert_reservation", **columns)
    record(tx, new, "reserved", new)
    return new


def _extend(tx: Transaction, mine: Reservation, given: str, expires_at: int, bead_id: str | None) -> Reservation:
    # Reserving again with a shorter time must not shorten the reservation. But the time always changes: `withdraw` uses
    # it to see whether the reservation was renewed.
    expires_at = max(expires_at, mine.expires_at + 1)
    bead_id = bead_id or mine.bead_id
    later = mine._replace(scope=given, state="active", expires_at=expires_at, bead_id=bead_id, liveness="active")
    changed = {"given": given, "expires_at": expires_at, "bead_id": bead_id}
    tx.run("extend_reservation", reservation_id=mine.reservation_id, **changed)
    record(tx, later, "renewed", later)
    return later


# -- incursions


def _record_incursions(
    tx: Transaction, snapshot: Snapshot, caller: Caller, scope: str, blocking: list[Held], granted: bool
) -> bool:
    """Send each owner an INCURSION: its reservation was taken over, or the newcomer ran into it.

    Returns whether all owners got it. An owner that already got too many from the newcomer gets none about a refusal.
    """
    newcomer, is_known = snapshot.member(caller.agent_id), True
    for held in blocking:
        owner = held.reservation
        payload = {
            "incursion_kind": held.kind,
            "owner_agent": owner.name,
            "incoming_agent": newcomer.name,
            "owner_liveness": owner.liveness,
            "resolution_hint": _hint(owner, newcomer.label, granted),
        }
        given = (tx, snapshot.room, "INCURSION", payload, None, owner)
        try:
            if granted:  # the owner loses its reservation, so the limit does not apply
                posted = Posted(insert_event(*given, owner.bead_id, scope), is_new=True)
            else:
                posted = post(*given, newcomer, owner.bead_id, scope)
        except RateLimited:
            is_known = False
            continue
        if posted.is_new:
            first = {"to_agent_id": owner.agent_id}  # an heir may get the notice later
            activity.record(tx, snapshot.room.room_id, "INCURSION", newcomer, posted.event_id, first)
    return is_known


def _hint(owner: Reservation, incoming: str, granted: bool) -> str:
    scope = owner.spelled
    if granted:
        return f"{incoming} has taken over. {owner.label} should stop changing {scope} and ask {incoming} first."
    if owner.liveness == "active":
        return f"{owner.label} should release {scope} when done; {incoming} should work elsewhere until then."
    return f"{owner.label} can come back to {scope}, or {incoming} can take it over."
