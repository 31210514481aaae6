"""The gate into a room, and the signs of life of its members.

A member changes a room through `Rooms.change`, where `admit` decides who may pass. Only joining again and taking
back what a lost reply granted need no admission.

Every call and every wait of a member is a sign of life. Not every call writes it: a sign is renewed once it is older
than `renewal_ms`. So waiting and watching cost the store almost nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from conch.agents.records import Caller, label, process_columns
from conch.clock import MILLISECOND
from conch.config import Policy, Settings
from conch.errors import (
    Advice,
    ConchError,
    FencingError,
    RoomClosed,
    StaleLease,
    StoreError,
    TurnMismatch,
    UnknownMember,
    no_cursor,
)
from conch.host import processes
from conch.host.workspaces import ancestor_chain, canonicalize, workspace_root
from conch.lean import NamedTuple, Protocol
from conch.rooms.room import MOST_COUNTED, MOST_SILENT, Member, Roll, Room, Shown, Snapshot, load_room, look_surely
from conch.storage.base import NO_LIMIT, NOW, Afterwards, Made, Reader, Row, Store, Transaction

_SHORTEST_RENEWAL_MS = 50  # even with a very short policy, presence must not flood the store with writes
_MINUTE_MS = 60_000
_RECENT = 10_000  # events; a refusal does not look further back for its cause
_LONGEST_REASON = 500  # characters of a reason in a refusal; the log has all of it


class Lease(NamedTuple):
    """What a caller shows to prove that it holds the stick."""

    lease_id: str
    turn_id: int


Ahead = Callable[[Transaction, str], None]


def _nothing(tx: Transaction, room_id: str) -> None:
    pass


class Rooms:
    """The rooms of a store, each under its own policy. All domains share one instance."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._roots: dict[str, str] = {}  # the workspaces of known rooms; a room never moves
        self._policies: dict[str, Policy] = {}  # of known rooms; other processes may have changed them
        self._renewal_ms = renewal_ms(settings)
        self._active_until: dict[str, float] = {}  # when each agent's sign of life is due again

    @contextmanager
    def change(
        self,
        caller: Caller,
        room_id: str,
        *locks: str,
        lease: Lease | None = None,
        even_closed: bool = False,
        ahead: Ahead = _nothing,
    ) -> Iterator[tuple[Transaction, Snapshot]]:
        """Open a write transaction and load the room, with the caller recorded as present. `admit` may refuse.

        `ahead` fetches ahead what the change will need.
        """
        refused: ConchError | None = None
        try:
            with self._store.write(room_id, *locks) as tx:
                tx.run("touch_agent", agent_id=caller.agent_id, now=NOW)
                ahead(tx, room_id)
                snapshot = self.load(tx, room_id, caller.agent_id)
                try:
                    _admit(snapshot, caller, lease, even_closed)
                except (FencingError, UnknownMember) as refusal:
                    refused = refusal
                    raise
                touched = _touch(tx, snapshot, caller)
                yield tx, touched
                touched.roll.mark_gone(tx)
        except (FencingError, UnknownMember) as refusal:
            if refusal is refused:  # only now, because others wait for the lock of the room
                with suppress(StoreError), self._store.look() as tx:
                    explain_loss(tx, snapshot.room, caller, refusal)
            raise
        self.note_touch(caller)  # only now: a transaction that fails has recorded nothing

    @contextmanager
    def undo(self, room_id: str, *locks: str, ahead: Ahead = _nothing) -> Iterator[tuple[Transaction, Snapshot]]:
        """Open a write transaction and load the room, to take back what a lost reply granted.

        That needs no admission: the agent may be gone. It is no sign of life either.
        """
        with self._store.write(room_id, *locks) as tx:
            ahead(tx, room_id)
            yield tx, self.load(tx, room_id)

    def briefly(self, work: Callable[[], Made]) -> Made:
        """Make a change of a room that may have to read much; see `Store.briefly`."""
        return self._store.briefly(work)

    @contextmanager
    def look(
        self, caller: Caller | None, room_id: str, ahead: Ahead | None = None
    ) -> Iterator[tuple[Transaction, Snapshot]]:
        """Open a read transaction and load the room. Afterwards the caller, if it is a member, counts as seen.

        With `ahead`, everything that is needed is fetched ahead, so it need not be a whole transaction.
        """
        with self._store.read() if ahead is None else self._store.look() as tx:
            if ahead is not None:
                ahead(tx, room_id)
            snapshot = self.load(tx, room_id, caller.agent_id if caller else None)
            if caller is not None:
                snapshot.find(caller.agent_id)  # read now, because nothing can be read after the transaction
            yield tx, snapshot
        if caller is not None:
            self.touch_if_due(snapshot, caller)

    def require_turn(self, caller: Caller, room_id: str, turn_id: int, lease_id: str | None = None) -> None:
        """Refuse, as a change would, a caller that may not change the room in this turn."""
        with self.look(caller, room_id) as (tx, snapshot):
            admit(tx, snapshot, caller, None if lease_id is None else Lease(lease_id, turn_id))
            require_turn(snapshot, caller, turn_id)

    def root(self, room_id: str) -> str:
        """The workspace of a room, for lookups that must happen before a transaction."""
        if room_id not in self._roots:
            with self._store.read() as tx:
                self._roots[room_id] = load_room(tx, room_id).canonical_path
        return self._roots[room_id]

    # -- finding

    def list_rooms(self, context_path: str, caller: Caller | None = None, after: str | None = None) -> list[Snapshot]:
        """The open rooms from a path up to its workspace root, deepest first. The caller counts as seen in them.

        With `after`, only the rooms above this one.
        """
        directory = canonicalize(context_path)
        chain = ancestor_chain(directory, workspace_root(directory))
        with self._store.read() as tx:
            if after is not None:
                below = tx.one("find_room", room_id=after)
                if below is None:
                    raise no_cursor()
                chain = [path for path in chain if len(path) < len(below["canonical_path"])]
            rooms = [Room(**row) for row in tx.all("rooms_at", paths=chain)] if chain else []
            rooms.sort(key=lambda room: -len(room.canonical_path))
            found = self.load_present(tx, rooms)
        if caller is not None:
            for snapshot in found:
                self.touch_if_due(snapshot, caller)
        return found

    def all_rooms(self) -> list[Snapshot]:
        """Every room of the store, closed ones too."""
        with self._store.read() as tx:
            return self.load_present(tx, [Room(**row) for row in tx.all("all_rooms")])

    def get_state(self, caller: Caller | None, room_id: str) -> Snapshot:
        """The room now with its members. The caller, if it is a member, counts as seen."""

        def look() -> tuple[Snapshot, None]:
            with self._store.read() as tx:
                _expect_present(tx, [room_id])
                (snapshot,) = self.load_present(tx, [load_room(tx, room_id)])
            snapshot.life(snapshot.expected)
            return snapshot, None

        snapshot, _ = look_surely(look)
        if caller is not None:
            self.touch_if_due(snapshot, caller)
        return snapshot

    def get_shown(self, caller: Caller, room_id: str, limit: int, after: int = -1) -> tuple[Snapshot, Shown]:
        """The room now and the members to list after a place. The caller, if it is a member, counts as seen."""

        def look() -> tuple[Snapshot, Shown]:
            with self._store.read() as tx:
                snapshot = self.load(tx, room_id, caller.agent_id)
                shown = snapshot.roll.shown(after, limit=limit)  # first: it often reads all that the rest needs
                for agent_id in (caller.agent_id, snapshot.expected):
                    snapshot.find(agent_id)
                return snapshot.look_around(), shown

        snapshot, shown = look_surely(look)
        self.touch_if_due(snapshot, caller)
        return snapshot, shown

    def visit(self, caller: Caller | None, room_id: str) -> Room:
        """The row of the room now. The caller, if it is a member, counts as seen."""
        with self.look(caller, room_id, _nothing) as (_, snapshot):
            return snapshot.room

    def policy(self, room_id: str) -> Policy:
        """The policy that this process last saw in the room. It only tells what a change will probably need."""
        return self._policies.get(room_id, self._settings.policy)

    def count_members(self, room_id: str) -> int:
        """How many members the room has, without those marked as gone."""
        return int(self._store.glance("count_members", room_id=room_id, is_gone=0, most=NO_LIMIT)[0]["total"])

    # -- loading

    def load(self, tx: Transaction, room_id: str, agent_id: str | None = None) -> Snapshot:
        """The room. An agent that will be needed is read together with it."""
        is_ahead = agent_id is not None and tx.ahead("people_of_room", room_id=room_id, agent_id=agent_id)
        return self.snapshot(tx, load_room(tx, room_id), first=agent_id if is_ahead else None)

    def load_present(self, tx: Transaction, rooms: list[Room]) -> list[Snapshot]:
        """These rooms with their members, to be used after the transaction, too. See `Roll.present`."""
        if not rooms:
            return []
        room_ids = [room.room_id for room in rooms]
        _expect_present(tx, room_ids)
        rows = tx.all("members_of_rooms", room_ids=room_ids, most=MOST_SILENT)
        marked = {
            row["room_id"]: int(row["total"]) for row in tx.all("count_gone", room_ids=room_ids, most=MOST_COUNTED)
        }
        if any(marked.values()):
            rows += tx.all("gone_holders", room_ids=room_ids, now=tx.now)
        members: dict[str, list[Row]] = {room_id: [] for room_id in room_ids}
        for row in rows:
            members[row["room_id"]].append(row)
        found = [self.snapshot(Afterwards(self._store, tx.now), room) for room in rooms]
        for snapshot, room_id in zip(found, room_ids, strict=True):
            if sum(not row["is_gone"] for row in members[room_id]) < MOST_SILENT:
                snapshot.roll.learn_present(members[room_id], marked[room_id])
        return found

    def snapshot(self, tx: Reader, room: Room, first: str | None = None) -> Snapshot:
        """A room that was read or changed in this transaction."""
        self._roots[room.room_id] = room.canonical_path  # saves `root` a query
        roll = Roll(tx, room.room_id, room.owner or room.reserved_for, first)
        snapshot = Snapshot(room, roll, self._settings, tx.now)
        self._policies[room.room_id] = snapshot.policy
        return snapshot

    # -- signs of life

    def touch_if_due(self, snapshot: Snapshot, caller: Caller) -> bool:
        """Renew the caller's sign of life after a look at the room, if the caller is a member and it is due.

        Returns whether it was renewed.
        """
        member = snapshot.find(caller.agent_id)
        if member is None:
            return False
        due = is_due(snapshot, member, caller)
        if due:
            if _is_gone(member, caller):  # a command that outlives its harness must not keep the agent alive
                return False
            with self._store.write(snapshot.room.room_id) as tx:
                tx.run("touch_agent", agent_id=caller.agent_id, now=NOW)
                _touch(tx, snapshot, caller)
        self.note_touch(caller)
        return due

    def stay_active(self, caller: Caller) -> None:
        """Renew the caller's sign of life after a call that looks at no room, unless the caller's process is gone.

        It asks the store at most once per renewal interval.
        """
        if not self._may_be_due(caller):
            return
        with self._store.look() as tx:
            row = tx.one("agent_seen", agent_id=caller.agent_id)
            age = 0 if row is None else tx.now - row["last_seen_at"]
        if age >= self._renewal_ms * MILLISECOND and processes.check(caller.process) != "gone":
            with self._store.write(caller.agent_id) as tx:
                tx.run("touch_agent", agent_id=caller.agent_id, now=tx.now)
        self.note_touch(caller)

    def renewing(self, caller: Caller) -> AbstractContextManager[None]:
        """Let a sign of life that may be due travel with the first transaction of a call, if that saves time."""
        if not self._may_be_due(caller) or processes.check(caller.process) == "gone":
            return nullcontext()

        def note(rows: list[Row]) -> None:
            if any(row["is_fresh"] for row in rows):
                self.note_touch(caller)

        interval = self._renewal_ms * MILLISECOND
        return self._store.beforehand("renew_agent", note, agent_id=caller.agent_id, interval=interval)

    def _may_be_due(self, caller: Caller) -> bool:
        return time.monotonic() >= self._active_until.get(caller.agent_id, 0.0)

    def note_touch(self, caller: Caller) -> None:
        """The caller's sign of life was just recorded."""
        self._active_until[caller.agent_id] = time.monotonic() + self._renewal_ms / 1_000


# -- the gate


def admit(
    tx: Transaction, snapshot: Snapshot, caller: Caller, lease: Lease | None = None, even_closed: bool = False
) -> Member:
    """Return the caller as a member that may change the room; with a lease, as its owner.

    Refuses, in this order: a closed room (unless `even_closed`), another turn, a lease that is not current, a caller
    that is not a member, and a caller whose process is gone. If another member took the stick or the membership from
    the caller, the refusal says who and why.
    """
    try:
        return _admit(snapshot, caller, lease, even_closed)
    except (FencingError, UnknownMember) as refusal:
        explain_loss(tx, snapshot.room, caller, refusal)
        raise


def explain_loss(tx: Transaction, room: Room, caller: Caller, refusal: ConchError) -> None:
    """Add to a refusal who took the stick from the caller, or ended its membership, and why."""
    me, since = caller.agent_id, room.last_event_seq - _RECENT
    last = tx.one("latest_event_of", room_id=room.room_id, agent_id=me, since=since)
    if last is None:
        return
    reason = " ".join((last["reason"] or "").split())[:_LONGEST_REASON].rstrip(".")
    if (last["event_type"], last["from_agent_id"]) == ("takeover", me):
        by, name, what = last["to_agent_id"], last["to_agent"], "took the stick from you"
    elif last["event_type"] == "kick":
        by, name, what = last["from_agent_id"], last["from_agent"], "ended your membership"
        refusal.advice = Advice("ask_before_joining")
    else:
        return
    refusal.add_cause(f"{label(by, name)} {what}: {reason}.", taken_by=by, reason=reason)


def _admit(snapshot: Snapshot, caller: Caller, lease: Lease | None, even_closed: bool) -> Member:
    if not even_closed:
        require_open(snapshot)
    if lease is not None:
        _require_lease(snapshot, caller, lease)
    member = snapshot.member(caller.agent_id)
    if _is_gone(member, caller):
        raise _refuse_gone(snapshot, caller, lease)
    return member


def require_open(snapshot: Snapshot) -> None:
    room_id = snapshot.room.room_id
    if snapshot.room.state == "closed":
        message = f"Room {room_id} is closed. Its log can still be read."
        raise RoomClosed(message, Advice("open_room"), room_id=room_id)


def _require_lease(snapshot: Snapshot, caller: Caller, lease: Lease) -> None:
    room = snapshot.room
    require_turn(snapshot, caller, lease.turn_id)  # first, because a new turn also explains why the lease is stale
    if (room.owner, room.lease_id) != (caller.agent_id, lease.lease_id):
        step = "keep_stick" if room.owner == caller.agent_id else "stop"
        raise StaleLease("The supplied lease is no longer current for this room.", Advice(step), **snapshot.facts)


def require_turn(snapshot: Snapshot, caller: Caller, expected_turn_id: int) -> None:
    room = snapshot.room
    if expected_turn_id == room.turn_id:
        return
    message = f"The room is at turn {room.turn_id}, not at turn {expected_turn_id}."
    if room.owner == caller.agent_id:  # it got this turn through another door, such as `conch wait`
        raise TurnMismatch(f"{message} Turn {room.turn_id} is yours.", Advice("keep_stick"), **snapshot.facts)
    raise TurnMismatch(message, Advice("stop"), **snapshot.facts)


def _refuse_gone(snapshot: Snapshot, caller: Caller, lease: Lease | None) -> ConchError:
    if lease is not None:
        message = "The process that holds this lease is gone, so other members may take over."
        return StaleLease(message, Advice("come_back"), **snapshot.facts)
    message = "The process that you joined with is gone."
    return UnknownMember(message, Advice("come_back"), agent_id=caller.agent_id, room_id=snapshot.room.room_id)


def _is_gone(member: Member, caller: Caller) -> bool:
    return processes.check(caller.process or member.process) == "gone"


# -- how old a sign of life may get


class Timing(Protocol):
    """Anything with a policy and a stale time: the settings, or a room that overrides them."""

    @property
    def policy(self) -> Policy: ...

    @property
    def stale_minutes(self) -> float: ...


def _expect_present(tx: Transaction, room_ids: list[str]) -> None:
    """Fetch ahead what `load_present` reads."""
    tx.ahead("members_of_rooms", room_ids=room_ids, most=MOST_SILENT)
    tx.ahead("count_gone", room_ids=room_ids, most=MOST_COUNTED)


def renewal_ms(timing: Timing) -> int:
    """How old a sign of life may get before the next call or wait renews it.

    One heartbeat interval, or a quarter of the time after which the agent would count as inactive or stale, whichever
    is shorter.
    """
    soonest = min(timing.policy.presence_ttl_ms // 4, int(timing.stale_minutes * _MINUTE_MS / 4))
    return max(_SHORTEST_RENEWAL_MS, min(timing.policy.heartbeat_interval_ms, soonest))


def is_due(snapshot: Snapshot, member: Member, caller: Caller) -> bool:
    """Whether the stored sign of life is too old, or belongs to another process."""
    return not snapshot.seen_within(member, renewal_ms(snapshot)) or _moved(member, caller)


def member_columns(caller: Caller) -> Row:
    """The columns of a member's row that come from the caller: its process, and how to show it."""
    shown = {"session_kind": caller.session_kind, "display_name": caller.display_name}
    return process_columns(caller.process) | shown


def _touch(tx: Transaction, snapshot: Snapshot, caller: Caller) -> Snapshot:
    """Record in which process a member is here now, and return the updated room."""
    member = snapshot.member(caller.agent_id)
    if _moved(member, caller):
        tx.run(
            "update_member_process",
            room_id=snapshot.room.room_id,
            agent_id=caller.agent_id,
            **member_columns(caller),
        )
    return snapshot.with_member(member._replace(last_seen_at=tx.now, process=caller.process or member.process))


def _moved(member: Member, caller: Caller) -> bool:
    return caller.process is not None and caller.process != member.process
