"""The members of a room: joining, leaving and their order; the room's policy, notes and end."""

from __future__ import annotations

from collections import Counter
from functools import partial

from conch.agents.records import Caller, is_person
from conch.bus.peers import enter_as_itself, expect_own_peer
from conch.bus.topics import close_topic, make_home
from conch.config import Settings, check_heartbeat, check_length, check_policy
from conch.errors import Advice, InvalidArgument, StickHeld, StoreCorrupt, some_of
from conch.host.workspaces import ancestor_chain, canonicalize, workspace_root
from conch.ids import new_id
from conch.lean import TYPE_CHECKING, Any, NamedTuple, json
from conch.rooms.log import Event, append_event, expect_event, latest_grant
from conch.rooms.presence import Lease, Rooms, member_columns, require_open
from conch.rooms.room import Member, Room, Shown, Snapshot, expect_shown, save_room
from conch.scopes.overlaps import Reservation, release_all
from conch.storage.base import NO_LIMIT, NOW, Store, Transaction
from conch.warnings import Warnings, warning

if TYPE_CHECKING:
    from conch.agents.people import Person

_HEARTBEAT = {"heartbeat_interval_ms", "owner_lease_ttl_ms"}  # values that limit each other


class Joined(NamedTuple):
    snapshot: Snapshot
    shown: Shown
    created: bool
    warnings: Warnings


class Kicked(NamedTuple):
    """A member that a person has removed, whether that made the stick free, and the reservations that it ended."""

    member: Member
    opens_stick: bool
    released: list[Reservation]
    room: Room


class Membership:
    def __init__(self, store: Store, rooms: Rooms, settings: Settings) -> None:
        self._store = store
        self._rooms = rooms
        self._settings = settings

    # -- joining and leaving

    def open_room(self, context_path: str) -> str:
        """The id of the room of a workspace, which is created if there is none. Nobody joins it."""
        return self._find_or_create(canonicalize(context_path), force_new=False)[0]

    def join_path(self, caller: Caller, context_path: str, force_new: bool = False, limit: int = NO_LIMIT) -> Joined:
        """Join the room of a workspace; create it if there is none. Joining again only refreshes presence.

        Returns at most `limit` members to list.
        """
        directory = canonicalize(context_path)
        while True:
            room_id, topic_id, created, warnings = self._find_or_create(directory, force_new)
            joined = self._store.briefly(partial(self._join, caller, room_id, topic_id, limit))
            if joined is not None:
                self._rooms.note_touch(caller)
                return Joined(*joined, created, warnings)

    def _join(self, caller: Caller, room_id: str, topic_id: str, limit: int) -> tuple[Snapshot, Shown] | None:
        """The room with the caller, and the members to list.

        None if the room was closed since it was found. Then a new one takes its place.
        """
        with self._store.write(room_id) as tx:
            tx.run("touch_agent", agent_id=caller.agent_id, now=NOW)
            expect_own_peer(tx, topic_id, caller)
            expect_shown(tx, room_id, limit)
            if caller.overridden:  # such a join is always logged
                expect_event(tx)
            snapshot = self._rooms.load(tx, room_id, caller.agent_id)
            if snapshot.room.state == "closed":
                return None
            snapshot.find(snapshot.expected)  # read now, because nothing can be read after the transaction
            before, present = snapshot.find(caller.agent_id), self._place(tx, snapshot, caller)
            joined = snapshot.with_member(present)
            shown = joined.roll.shown(limit=limit)
            if before is None or before.is_gone:
                shown = _shown_with(shown, present, limit, was_gone=before is not None)
            joined.look_around().roll.mark_gone(tx)
            return joined.with_room(self._seat(tx, snapshot, caller, present)), shown

    def _find_or_create(self, directory: str, force_new: bool) -> tuple[str, str, bool, Warnings]:
        """The ids of the room and of its home topic, whether it is new, and warnings."""
        root = workspace_root(directory)
        found = self._deepest(ancestor_chain(directory, root))
        if found is None:
            return *self._create(root), []
        if not force_new or found.canonical_path == directory:
            return found.room_id, found.topic_id, False, []
        message = f"There is another room above this one, at {found.canonical_path}. Its members do not see this room."
        about = {"room_id": found.room_id, "canonical_path": found.canonical_path}
        return *self._create(directory), [warning("ANCESTOR_ROOM_EXISTS", message, **about)]

    def _deepest(self, paths: list[str]) -> Room | None:
        with self._store.look() as tx:
            rooms = [Room(**row) for row in tx.all("rooms_at", paths=paths)]
        return max(rooms, key=lambda room: len(room.canonical_path), default=None)

    def _create(self, path: str) -> tuple[str, str, bool]:
        """The ids of the room at exactly this path and of its topic, and whether it is new.

        The database lets only one of two creators succeed.
        """
        room_id = new_id("room")
        with self._store.write(room_id) as tx:
            topic_id = new_id("topic")
            if tx.count("insert_room", room_id=room_id, canonical_path=path, topic_id=topic_id, now=NOW):
                make_home(tx, topic_id, path)
            found = tx.last("rooms_at", paths=[path])
        row = next(iter(found()), None)
        if row is None:
            raise StoreCorrupt(f"The index of the rooms has lost the room at {path}.", Advice("verify_store"))
        return row["room_id"], row["topic_id"], row["room_id"] == room_id

    def _place(self, tx: Transaction, snapshot: Snapshot, caller: Caller) -> Member:
        """The caller as a member of the room, with its place and its name there."""
        member, peer = snapshot.find(caller.agent_id), enter_as_itself(tx, snapshot.room.topic_id, caller)
        return Member(
            agent_id=caller.agent_id,
            name=member.name if member else peer.agent_name,
            # A new member goes to the end of the sequence. A person only watches, unless `take_turns` is called.
            ordinal=member.ordinal if member else _place_at_the_end(tx, snapshot.room),
            joined_at=member.joined_at if member else tx.now,
            last_seen_at=tx.now,
            process=caller.process,
            session_kind=caller.session_kind,
            display_name=caller.display_name,
            takes_turns=member.takes_turns if member else not is_person(caller.agent_id),
        )

    def _seat(self, tx: Transaction, snapshot: Snapshot, caller: Caller, member: Member) -> Room:
        """Record a member that enters the room."""
        room, columns, is_new = snapshot.room, member_columns(caller), snapshot.find(caller.agent_id) is None
        if is_new:
            seat = {"name": member.name, "ordinal": member.ordinal, "takes_turns": int(member.takes_turns)}
            tx.run("insert_member", room_id=room.room_id, agent_id=caller.agent_id, now=tx.now, **seat, **columns)
        else:
            tx.run("update_member_process", room_id=room.room_id, agent_id=caller.agent_id, **columns)
        # Every join under a chosen id is logged, so that the log shows who acted under which id.
        if is_new or caller.overridden:
            details = {"ordinal": member.ordinal} | ({"agent_id_override": True} if caller.overridden else {})
            return self._log(tx, snapshot, "join", caller, details=details)[1]
        return room

    def take_turns(self, caller: Caller, room_id: str) -> Snapshot:
        """Give the caller a place in the sequence. Agents have one already; people only watch until they ask."""
        with self._rooms.change(caller, room_id, ahead=_expect_log) as (tx, snapshot):
            member = snapshot.member(caller.agent_id)
            if member.takes_turns:
                return snapshot
            tx.run("take_turns", room_id=room_id, agent_id=caller.agent_id)
            details = {"ordinal": member.ordinal, "takes_turns": True}
            _, room = self._log(tx, snapshot, "join", caller, details=details)
            return snapshot.with_room(room).with_member(member._replace(takes_turns=True))

    def leave_path(self, caller: Caller, room_id: str) -> Room:
        """Leave the room. An owner must hand over the stick first; a stick reserved for the caller becomes free."""

        def expect(tx: Transaction, room_id: str) -> None:
            tx.ahead("reservations_of", agent_id=caller.agent_id, room_id=room_id)
            expect_event(tx)

        with self._rooms.change(caller, room_id, ahead=expect) as (tx, snapshot):
            member = snapshot.member(caller.agent_id)
            if snapshot.room.owner == caller.agent_id:
                raise StickHeld(
                    "You hold the stick.", Advice("hand_over"), room_id=room_id, turn_id=snapshot.room.turn_id
                )
            release_all(tx, snapshot, caller.agent_id)
            _, room = self._log(tx, snapshot, "leave", caller, details={"name": member.name})
            tx.run("delete_member", room_id=room_id, agent_id=caller.agent_id)
            return room

    def enter(self, caller: Caller, room_id: str) -> Room:
        """Join this very room, unless the caller is in it already."""
        return self._store.briefly(partial(self._enter, caller, room_id))

    def _enter(self, caller: Caller, room_id: str) -> Room:
        with self._store.write(room_id) as tx:
            tx.run("touch_agent", agent_id=caller.agent_id, now=NOW)
            snapshot = self._rooms.load(tx, room_id)
            require_open(snapshot)
            if snapshot.find(caller.agent_id) is None:
                self._seat(tx, snapshot, caller, self._place(tx, snapshot, caller))
            return snapshot.room

    def kick(self, person: Person, room_id: str, agent_id: str, reason: str) -> Kicked:
        """End the membership of another member, by a person. Its reservations end and its stick becomes free. The next
        owner gets the handoff that the member had.
        """
        return self._rooms.briefly(partial(self._kick, person, room_id, agent_id, reason))

    def _kick(self, person: Person, room_id: str, agent_id: str, reason: str) -> Kicked:
        with self._rooms.change(person.caller, room_id) as (tx, snapshot):
            member, room = snapshot.member(agent_id), snapshot.room
            if agent_id == person.caller.agent_id:
                raise InvalidArgument("agent is you.", Advice("leave_room"), field="agent")
            released = release_all(tx, snapshot, agent_id, snapshot.member(person.caller.agent_id), reason)
            grant = latest_grant(tx, room) if room.owner == agent_id else None
            handed = grant.details.get("handoff_event_seq") if grant else room.pending_handoff_event_seq
            details = {"name": member.name, "handoff_event_seq": handed}
            _, after = append_event(
                tx, room, "kick", by=person.caller.agent_id, to=agent_id, reason=reason, details=details
            )
            save_room(tx, after)
            tx.run("delete_member", room_id=room_id, agent_id=agent_id)
            return Kicked(member, snapshot.expected == agent_id, released, after)

    # -- the room's own rules

    def reorder_members(self, caller: Caller, room_id: str, order: list[str]) -> Snapshot:
        """Put these members first, in this sequence. The others keep their order, after them."""
        self._rooms.briefly(partial(self._reorder, caller, room_id, order))
        return self._rooms.get_state(None, room_id)

    def _reorder(self, caller: Caller, room_id: str, order: list[str]) -> None:
        def expect(tx: Transaction, room_id: str) -> None:
            tx.ahead("room_members", room_id=room_id)
            expect_event(tx)

        with self._rooms.change(caller, room_id, ahead=expect) as (tx, snapshot):
            order = _whole_order(snapshot, order)
            for ordinal, agent_id in enumerate(order):
                tx.run("update_ordinal", room_id=room_id, agent_id=agent_id, ordinal=ordinal)
            # The sequence index must point to the same member in the new order.
            pointed = next((m for m in snapshot.roll.everyone() if m.ordinal == snapshot.room.sequence_index), None)
            index = order.index(pointed.agent_id) if pointed else 0
            names = [snapshot.member(agent_id).name for agent_id in order]
            self._log(
                tx, snapshot, "reorder", caller, details={"order": order, "names": names, "sequence_index": index}
            )

    def set_room_policy(self, caller: Caller, room_id: str, policy: dict[str, Any]) -> Snapshot:
        """Override settings for this room; null restores the installation's default."""
        check_policy({name: value for name, value in policy.items() if value is not None})
        with self._rooms.change(caller, room_id, ahead=_expect_log) as (tx, snapshot):
            merged = {**json.loads(snapshot.room.policy_json), **policy}
            overrides = {name: value for name, value in merged.items() if value is not None}
            if not _HEARTBEAT.isdisjoint(policy):  # other values must not fail because of what an older version stored
                check_heartbeat(overrides, self._settings.policy)
            return snapshot.with_room(self._log(tx, snapshot, "policy", caller, details={"policy": overrides})[1])

    def append_note(self, caller: Caller, room_id: str, note: str) -> Event:
        """Add a note to the room's log. The stick stays where it is."""
        check_length("note", note, self._settings.max_note_chars, "max_note_chars")
        with self._rooms.change(caller, room_id, ahead=_expect_log) as (tx, snapshot):
            return self._log(tx, snapshot, "note", caller, details={"note": note})[0]

    def close_room(
        self, caller: Caller, room_id: str, lease_id: str, expected_turn_id: int, reason: str | None
    ) -> Room:
        """Close the room; only its owner may. The log stays, and joining the path again opens a new room."""
        check_length("reason", reason or "", self._settings.max_reason_chars, "max_reason_chars")
        lease = Lease(lease_id, expected_turn_id)
        with self._rooms.change(caller, room_id, lease=lease, ahead=_expect_log) as (tx, snapshot):
            close_topic(tx, snapshot.room.topic_id, reason)
            return self._log(tx, snapshot, "close", caller, reason=reason)[1]

    def _log(
        self,
        tx: Transaction,
        snapshot: Snapshot,
        event_type: str,
        caller: Caller,
        *,
        reason: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> tuple[Event, Room]:
        event, room = append_event(tx, snapshot.room, event_type, by=caller.agent_id, reason=reason, details=details)
        save_room(tx, room)
        return event, room


def _expect_log(tx: Transaction, room_id: str) -> None:
    expect_event(tx)


def _shown_with(shown: Shown, present: Member, limit: int, was_gone: bool) -> Shown:
    """The members to list, with one that has just come, or come back."""
    if any(member.agent_id == present.agent_id for member in shown.members):
        return shown
    members = sorted([*shown.members, present], key=lambda member: member.ordinal)
    return Shown(members[:limit], shown.gone - was_gone)


def _place_at_the_end(tx: Transaction, room: Room) -> int:
    last = tx.one("last_place", room_id=room.room_id)
    return 0 if last is None or last["ordinal"] is None else int(last["ordinal"]) + 1


def _whole_order(snapshot: Snapshot, order: list[str]) -> list[str]:
    """The agent_ids in order, then those of the members that were left out."""
    everyone = snapshot.roll.everyone()
    order = [member.agent_id if (member := snapshot.called(text)) else text for text in order]
    named = Counter(order)
    unknown = [agent_id for agent_id in named if snapshot.find(agent_id) is None]
    repeated = [snapshot.who(agent_id) for agent_id, times in named.items() if times > 1]
    problems = {"not a member": unknown, "more than once": repeated}
    found = [f"{what}: {some_of(agent_ids)}" for what, agent_ids in problems.items() if agent_ids]
    if found or not order:
        why = "; ".join(found) or "it is empty"
        raise InvalidArgument(f"The new order must name members, each of them once ({why}).", field="order")
    return [*order, *(member.agent_id for member in everyone if member.agent_id not in named)]
