"""Why a scope cannot be reserved or released: the errors that name every agent in the way."""

from __future__ import annotations

from conch.agents.records import Caller, label
from conch.clock import to_iso
from conch.errors import (
    Advice,
    ConchError,
    ReleaseForbidden,
    ReservationConflict,
    ReservationNotFound,
    ReservationStale,
    some_of,
)
from conch.host.paths import Scope, spell
from conch.lean import Any
from conch.rooms.room import Snapshot
from conch.scopes.overlaps import Held, holder
from conch.storage.base import Transaction


def refuse_reservation(scope: str, wanted: Scope, blocking: list[Held], silence: str, holds_stick: bool) -> ConchError:
    """The error that names the reservations in the way. It offers a takeover only if no owner is active.

    `silence` is a sentence about owners that did not get a notice.
    """
    active = any(held.reservation.liveness == "active" for held in blocking)
    everything = wanted.path == "."
    what = "The whole workspace cannot be reserved" if everything else f"{spell(scope, wanted.path)} is reserved"
    stick = " You hold the stick, but what others have reserved stays theirs." if holds_stick else ""
    message = f"{what}: {_names(blocking)}.{stick}{silence}"
    facts: dict[str, Any] = {"scope": scope, "holders": [holder(held) for held in blocking]}
    facts |= {"holds_stick": True} if holds_stick else {}
    if active:
        return ReservationConflict(f"{message} Work elsewhere, or ask them to release it.", None, **facts)
    return ReservationStale(message, Advice("take_over_reservation"), **facts)


def refuse_release(
    tx: Transaction, snapshot: Snapshot, scope: str, wanted: Scope, found: list[Held], caller: Caller
) -> ConchError:
    what, loss = spell(scope, wanted.path), _describe_loss(tx, snapshot, wanted, caller)
    exact = next((held for held in found if held.kind == "exact" and held.reservation.is_active), None)
    if exact is not None:
        message = f"Only {exact.reservation.label} can release {what}: ask them to do so.{loss}"
        return ReleaseForbidden(message, scope=scope, holders=[holder(exact)])
    own = [held for held in found if held.reservation.agent_id == caller.agent_id]
    advice = f" You have reserved {some_of([held.reservation.spelled for held in own])}." if own else ""
    message = f"There is no reservation of exactly {what}.{loss}{advice}"
    return ReservationNotFound(message, None if own else Advice("find_reservations"), field="scope", scope=scope)


def refuse_release_for(who: str, scope: str, wanted: Scope, theirs: list[Held]) -> ConchError:
    advice = f" It has reserved {some_of([held.reservation.spelled for held in theirs])}." if theirs else ""
    message = f"{who} has no reservation of exactly {spell(scope, wanted.path)}.{advice}"
    return ReservationNotFound(message, None if theirs else Advice("find_reservations"), field="scope", scope=scope)


def _describe_loss(tx: Transaction, snapshot: Snapshot, wanted: Scope, caller: Caller) -> str:
    """A sentence that says which agent took this scope from the caller; empty if none did."""
    given = {"room_id": snapshot.room.room_id, "agent_id": caller.agent_id, "scope_key": wanted.key}
    lost = tx.one("latest_lost_reservation", **given)
    if lost is None or lost["taken_by_id"] == caller.agent_id:
        return ""
    by = label(lost["taken_by_id"], lost["taken_by"])
    if lost["kind"] == "released":
        return f" {by} ended your reservation."
    how = "took it over from you" if lost["ended_at"] < lost["expires_at"] else "reserved it after yours expired"
    return f" {by} {how}."


def _names(blocking: list[Held]) -> str:
    shown = [
        f"{held.reservation.spelled} by {held.reservation.label} ({held.reservation.liveness}) until "
        f"{to_iso(held.reservation.expires_at)}"
        for held in blocking
    ]
    return some_of(shown)
