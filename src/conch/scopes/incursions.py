"""What happens when somebody reserves what others have reserved: they are told, and a refusal names them all."""

from __future__ import annotations

from conch.agents.identity import Caller
from conch.clock import to_iso
from conch.errors import ConchError, ReleaseForbidden, ReservationConflict, ReservationNotFound, ReservationStale
from conch.host.paths import Scope, spell
from conch.notices import activity
from conch.notices.events import insert_event
from conch.rooms.room import Snapshot
from conch.scopes.overlaps import Held, Reservation
from conch.storage.base import Transaction
from conch.typed import Any

MOST_IN_MESSAGE = 5


def record_incursions(
    tx: Transaction, snapshot: Snapshot, caller: Caller, wanted: Scope, met: list[Held], granted: bool
) -> None:
    """One INCURSION for each reservation that was met, to its owner: taken over, or in the way of the newcomer."""
    newcomer = snapshot.member(caller.agent_id)
    for held in met:
        owner = held.reservation
        payload = {
            "incursion_kind": held.kind,
            "owner_agent": owner.name,
            "incoming_agent": newcomer.name,
            "owner_liveness": owner.liveness,
            "resolution_hint": _hint(owner, newcomer.name, granted),
        }
        event_id = insert_event(tx, snapshot.room, "INCURSION", payload, None, owner, owner.bead_id, wanted.path)
        activity.record(tx, snapshot.room.room_id, "INCURSION", newcomer, event_id)


def _hint(owner: Reservation, incoming: str, granted: bool) -> str:
    scope = spell(owner.scope)
    if granted:
        return f"{incoming} has taken over; {owner.name} stops changing {scope} and asks {incoming} before more."
    if owner.liveness == "active":
        return f"{owner.name} releases {scope} when it is done, or {incoming} works elsewhere meanwhile."
    return f"{owner.name} comes back to {scope}, or {incoming} reserves again with takeover_stale."


# -- refusals


def refuse_reservation(wanted: Scope, met: list[Held]) -> ConchError:
    """An active owner beats every flag; owners that are all stale or evicted can be taken over."""
    active = any(held.reservation.liveness == "active" for held in met)
    advice = (
        "Work elsewhere, or ask them to release it."
        if active
        else "They seem to be gone: reserve with takeover_stale to take over."
    )
    what = "The whole workspace cannot be reserved" if wanted.path == "." else f"{wanted.path} is reserved"
    message = f"{what}: {_names(met)}. {advice}"
    kind = ReservationConflict if active else ReservationStale
    return kind(message, scope=wanted.path, holders=[holder(held) for held in met])


def refuse_release(tx: Transaction, snapshot: Snapshot, wanted: Scope, found: list[Held], caller: Caller) -> ConchError:
    loss = _tell_loss(tx, snapshot, wanted, caller)
    exact = next((held for held in found if held.kind == "exact" and held.reservation.is_active), None)
    if exact is not None:
        message = f"Only {exact.reservation.name} can release {spell(wanted.path)}.{loss}"
        return ReleaseForbidden(message, scope=wanted.path, holders=[holder(exact)])
    own = [held for held in found if held.reservation.agent_id == caller.agent_id]
    advice = f" You have reserved {', '.join(spell(held.reservation.scope) for held in own)}." if own else ""
    message = f"Nobody has reserved exactly {spell(wanted.path)}.{loss}{advice}"
    return ReservationNotFound(message, field="scope", scope=wanted.path)


def _tell_loss(tx: Transaction, snapshot: Snapshot, wanted: Scope, caller: Caller) -> str:
    """To whom the caller lost this very scope, if it had it and did not release it."""
    given = {"room_id": snapshot.room.room_id, "agent_id": caller.agent_id, "scope_key": wanted.key}
    lost = tx.one("latest_lost_reservation", **given)
    if lost is None or lost["taken_by_id"] == caller.agent_id:
        return ""
    how = "took it over from you" if lost["ended_at"] < lost["expires_at"] else "reserved after your time was over"
    return f" {lost['taken_by']} {how}."


def holder(held: Held) -> dict[str, Any]:
    """One who stands in the way, for programs."""
    reservation = held.reservation
    return {
        "kind": held.kind,
        "owner": reservation.name,
        "agent_id": reservation.agent_id,
        "liveness": reservation.liveness,
        "scope": reservation.scope,
        "reservation_id": reservation.reservation_id,
        "bead_id": reservation.bead_id,
        "expires_at": to_iso(reservation.expires_at),
    }


def _names(met: list[Held]) -> str:
    shown = [
        f"{spell(held.reservation.scope)} by {held.reservation.name} ({held.reservation.liveness}) until "
        f"{to_iso(held.reservation.expires_at)}"
        for held in met[:MOST_IN_MESSAGE]
    ]
    rest = len(met) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
