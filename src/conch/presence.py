"""Signs of life: when a member was last seen, and from which process.

Every call of a member counts, but not every call writes: a sign is renewed when it has aged by a heartbeat interval
(or a quarter of the presence time where that is shorter), so waiting and watching cost the store nothing.
"""

from __future__ import annotations

from conch import processes
from conch.agents import Caller, process_columns
from conch.config import WEEK_MS, Policy
from conch.errors import RoomClosed, UnknownMember
from conch.rooms import Member, Snapshot
from conch.storage.base import Row, Store, Transaction


def member_columns(caller: Caller) -> Row:
    """What a member's row keeps of the caller: its process, and how to show it."""
    shown = {"session_kind": caller.session_kind, "display_name": caller.display_name}
    return process_columns(caller.process) | shown


def is_due(snapshot: Snapshot, member: Member, caller: Caller) -> bool:
    """Whether the stored sign of life is too old, or of another process."""
    return not snapshot.seen_within(member, renewal_ms(snapshot.policy)) or _moved(member, caller)


def renewal_ms(policy: Policy) -> int:
    """How old a sign of life may grow before the next call, or a wait, renews it."""
    return min(policy.heartbeat_interval_ms, max(1, policy.presence_ttl_ms // 4))


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


def touch_if_due(store: Store, snapshot: Snapshot, caller: Caller, stale_minutes: float = WEEK_MS) -> None:
    """Where liveness is judged by the minute, the sign is renewed in good time before the agent would seem stale."""
    member = snapshot.find(caller.agent_id)
    if member is None:
        return
    if is_due(snapshot, member, caller) or not snapshot.seen_within(member, int(stale_minutes * 60_000 / 4)):
        with store.write(snapshot.room.room_id) as tx:
            touch(tx, snapshot, caller)


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
