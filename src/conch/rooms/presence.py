"""Signs of life: when a member was last seen, and from which process.

Every call of a member counts, and so does waiting, but not every call writes: a sign is renewed when it has aged by a
heartbeat interval, or by a quarter of the time after which its agent would seem inactive or stale where that is
shorter. So waiting and watching cost the store next to nothing.
"""

from __future__ import annotations

from conch.agents.identity import Caller, process_columns
from conch.clock import MILLISECOND
from conch.config import Policy, Settings
from conch.errors import RoomClosed, UnknownMember
from conch.host import processes
from conch.rooms.room import Member, Snapshot
from conch.storage.base import Row, Store, Transaction

SHORTEST_RENEWAL_MS = 50
MINUTE_MS = 60_000


def member_columns(caller: Caller) -> Row:
    """What a member's row keeps of the caller: its process, and how to show it."""
    shown = {"session_kind": caller.session_kind, "display_name": caller.display_name}
    return process_columns(caller.process) | shown


def is_due(snapshot: Snapshot, member: Member, caller: Caller, stale_minutes: float) -> bool:
    """Whether the stored sign of life is too old, or of another process."""
    return not snapshot.seen_within(member, renewal_ms(snapshot.policy, stale_minutes)) or _moved(member, caller)


def renewal_ms(policy: Policy, stale_minutes: float) -> int:
    """How old a sign of life may grow before the next call, or a wait, renews it."""
    soonest = min(policy.presence_ttl_ms // 4, int(stale_minutes * MINUTE_MS / 4))
    return max(SHORTEST_RENEWAL_MS, min(policy.heartbeat_interval_ms, soonest))


def touch(tx: Transaction, snapshot: Snapshot, caller: Caller) -> Snapshot:
    """Record that a member is here now, and see the room with it. In a write that happens anyway it costs little."""
    member = snapshot.member(caller.agent_id)
    tx.run("touch_agent", agent_id=caller.agent_id, now=tx.now)
    if _moved(member, caller):
        tx.run(
            "update_member_process",
            room_id=snapshot.room.room_id,
            agent_id=caller.agent_id,
            **member_columns(caller),
        )
    return snapshot.with_member(member._replace(last_seen_at=tx.now, process=caller.process or member.process))


def touch_if_due(store: Store, snapshot: Snapshot, caller: Caller, stale_minutes: float) -> None:
    """After a look at a room: renew the sign of life of a member in good time."""
    member = snapshot.find(caller.agent_id)
    if member is not None and is_due(snapshot, member, caller, stale_minutes):
        with store.write(snapshot.room.room_id) as tx:
            touch(tx, snapshot, caller)


def stay_active(store: Store, caller: Caller, settings: Settings) -> None:
    """The same for one who waits where no room is looked at."""
    with store.read() as tx:
        row = tx.one("agent_seen", agent_id=caller.agent_id)
        age = 0 if row is None else tx.now - row["last_seen_at"]
    if age >= renewal_ms(settings.policy, settings.stale_minutes) * MILLISECOND:
        with store.write(caller.agent_id) as tx:
            tx.run("touch_agent", agent_id=caller.agent_id, now=tx.now)


def take_seat(tx: Transaction, caller: Caller, room_id: str, defaults: Policy) -> Snapshot:
    """The room as it is open to a living member, who is here now."""
    snapshot = Snapshot.load(tx, room_id, defaults)
    if snapshot.room.state == "closed":
        raise RoomClosed(f"Room {room_id} is closed; its log stays readable.", room_id=room_id)
    require_living_member(snapshot, caller)
    return touch(tx, snapshot, caller)


def require_living_member(snapshot: Snapshot, caller: Caller) -> Member:
    """The caller as a member. One whose process is proven gone cannot act, even if something still speaks for it."""
    member = snapshot.member(caller.agent_id)
    if is_gone(member, caller):
        message = f"The process that {caller.agent_id} joined with is gone. Call join_path again to come back."
        raise UnknownMember(message, agent_id=caller.agent_id, room_id=snapshot.room.room_id)
    return member


def is_gone(member: Member, caller: Caller) -> bool:
    return processes.check(caller.process or member.process) == "gone"


def _moved(member: Member, caller: Caller) -> bool:
    return caller.process is not None and caller.process != member.process
