"""A room at one moment: its row, its members, and everything derived from them.

Nothing runs in the background, so the store never says that a lease has expired or a process has ended. Every
`Snapshot` works that out.
"""

from __future__ import annotations

from conch.agents.records import is_person, label, read_label, recorded_process
from conch.clock import MILLISECOND, MINUTE
from conch.config import Settings
from conch.errors import Advice, UnknownMember, UnknownRoom
from conch.host import processes
from conch.host.processes import Life, Process
from conch.lean import Any, Literal, NamedTuple, json
from conch.storage.base import Row, Transaction

Liveness = Literal["active", "stale", "evicted"]
Kind = Literal["agent", "observer", "person"]


class Room(NamedTuple):
    """The stored row. `state` here is one of idle, owned, reserved, closed."""

    room_id: str
    canonical_path: str
    topic_id: str
    sequence_index: int
    owner: str | None
    reserved_for: str | None
    pending_handoff_event_seq: int | None
    turn_id: int
    lease_id: str | None
    lease_expires_at: int | None
    claim_expires_at: int | None
    state: str
    policy_json: str
    last_event_seq: int
    created_at: int
    updated_at: int


class Member(NamedTuple):
    agent_id: str
    name: str
    ordinal: int
    joined_at: int
    last_seen_at: int
    process: Process | None
    session_kind: str
    display_name: str | None
    takes_turns: bool
    """Whether the member has a place in the sequence. An observer has none."""

    @property
    def kind(self) -> Kind:
        """`agent`, `observer` for a person without a place in the sequence, `person` for one who asked for it."""
        if not is_person(self.agent_id):
            return "agent"
        return "person" if self.takes_turns else "observer"

    @property
    def label(self) -> str:
        return label(self.agent_id, self.name)


def load_room(tx: Transaction, room_id: str) -> Room:
    row = tx.one("find_room", room_id=room_id)
    if row is None:
        message = f"There is no room {room_id!r}."
        raise UnknownRoom(message, Advice("find_rooms"), field="room_id", room_id=room_id)
    return Room(**row)


def save_room(tx: Transaction, room: Room) -> None:
    columns = room._asdict()
    for fixed in ("canonical_path", "topic_id", "created_at"):  # these never change
        del columns[fixed]
    tx.run("update_room", **columns)


def to_member(row: Row) -> Member:
    return Member(  # in the order of its fields, because keywords are slow and a room may have a thousand members
        row["agent_id"],
        row["name"],
        row["ordinal"],
        row["joined_at"],
        row["last_seen_at"],
        recorded_process(row),
        row["session_kind"],
        row["display_name"],
        bool(row["takes_turns"]),
    )


class Snapshot:
    """A room with its members at one moment, and everything derived from them."""

    def __init__(self, room: Room, members: list[Member], settings: Settings, now: int) -> None:
        self.room = room
        self.members = members
        self._settings = settings
        # Few rooms override anything, and the others then need not import `json`.
        overrides = {} if room.policy_json == "{}" else json.loads(room.policy_json)
        self.policy = settings.policy.merged(overrides)
        self.stale_minutes = settings.stale_minutes
        self.now = now
        self._lives: dict[str | None, Life] = {}

    def with_room(self, room: Room) -> Snapshot:
        """The same moment with a changed room."""
        return self._copy(room, self.members)

    def with_member(self, member: Member) -> Snapshot:
        """The same moment with this member updated."""
        return self._copy(self.room, [member if m.agent_id == member.agent_id else m for m in self.members])

    def _copy(self, room: Room, members: list[Member]) -> Snapshot:
        return Snapshot(room, members, self._settings, self.now)

    def find(self, agent_id: str | None) -> Member | None:
        return next((member for member in self.members if member.agent_id == agent_id), None)

    def called(self, text: str) -> Member | None:
        """The member that a text means: its name, its agent_id or its label. A name wins over another agent's id."""
        typed = read_label(text)
        named = typed and (
            member for member in self.members if member.name == typed.name and typed.fits(member.agent_id)
        )
        exact = next((member for member in self.members if member.name == text), None) or self.find(text)
        return exact or next(iter(named or ()), None)

    def member(self, agent_id: str) -> Member:
        member = self.find(agent_id)
        if member is None:
            message = f"You are not a member of room {self.room.room_id}."
            raise UnknownMember(message, Advice("join_room"), agent_id=agent_id, room_id=self.room.room_id)
        return member

    # -- who is there

    def who(self, agent_id: str | None) -> str:
        """What people call an agent of the room."""
        member = self.find(agent_id)
        return label(agent_id, member.name if member else None)

    def life(self, agent_id: str | None) -> Life:
        """Whether a member's process is alive, gone or unknown. Checked once per snapshot."""
        if agent_id in self._lives:
            return self._lives[agent_id]
        member = self.find(agent_id)
        return "unknown" if member is None else self._life_of(member)

    def _life_of(self, member: Member) -> Life:
        """The same without a search, because a room may have a thousand members."""
        if member.agent_id not in self._lives:
            self._lives[member.agent_id] = processes.check(member.process)
        return self._lives[member.agent_id]

    def later(self, milliseconds: int) -> int:
        return self.now + milliseconds * MILLISECOND

    def seen_within(self, member: Member, milliseconds: int) -> bool:
        return self.now - member.last_seen_at < milliseconds * MILLISECOND

    def is_active(self, member: Member) -> bool:
        """Whether a member was seen within `presence_ttl_ms` and its process is not gone."""
        return self.seen_within(member, self.policy.presence_ttl_ms) and not self.is_gone(member)

    def is_gone(self, member: Member) -> bool:
        return self._life_of(member) == "gone"

    @property
    def _is_deserted(self) -> bool:
        """Whether no member was seen recently and no member's process is known to be alive."""
        return not any(self.is_active(m) or self._life_of(m) == "alive" for m in self.members)

    def liveness(self, agent: Row) -> Liveness:
        """Whether an agent is still at work, by the time since its last call. If its process is gone, it is evicted."""
        return liveness_of(agent, processes.check(recorded_process(agent)), self.now, self.stale_minutes)

    def may_be_running(self, agent: Row) -> bool:
        """Whether the agent's process may be alive. If it cannot be checked, an active agent counts as running."""
        life = processes.check(recorded_process(agent))
        return life == "alive" or (life == "unknown" and self.liveness(agent) == "active")

    # -- the state of the room

    @property
    def state(self) -> str:
        """One of eight states. If several apply, it is the one that calls for action first."""
        room = self.room
        if room.state == "closed":
            return "closed"
        if room.owner is not None:
            if self.life(room.owner) == "gone":
                return "owner_gone"
            if self._lease_lapsed:
                return "stale_owner"
        elif room.reserved_for is not None and self.life(room.reserved_for) == "gone":
            return "recipient_gone"
        return "dormant" if self._is_deserted else room.state

    @property
    def facts(self) -> dict[str, Any]:
        """What a refusal says about the room. It is slow to compute, because finding the state checks processes."""
        return {"current_owner": self.room.owner, "current_turn_id": self.room.turn_id, "room_state": self.state}

    @property
    def _lease_lapsed(self) -> bool:
        expires = self.room.lease_expires_at
        return expires is not None and expires <= self.now

    @property
    def _claim_lapsed(self) -> bool:
        expires = self.room.claim_expires_at
        return expires is not None and expires <= self.now

    @property
    def takeover_reason(self) -> str | None:
        """Why another member may take over the stick now. If several reasons apply, a process that is gone wins."""
        room = self.room
        if room.owner is not None:
            if self.life(room.owner) == "gone":
                return "owner_gone"
            return "owner_timeout" if self._lease_lapsed else None
        if room.reserved_for is not None:
            if self.life(room.reserved_for) == "gone":
                return "recipient_gone"
            return "claim_timeout" if self._claim_lapsed else None
        return None

    @property
    def expected(self) -> str | None:
        """The agent that the room waits for: the owner, or the recipient it is reserved for."""
        return self.room.owner or self.room.reserved_for

    def may_take_over(self, agent_id: str, prior_owner: str | None) -> bool:
        """Whether this member may take over now."""
        if self.takeover_reason is None or agent_id == self.expected:
            return False
        if self.takeover_reason != "claim_timeout" or agent_id != prior_owner:
            return True
        # The agent that has just handed over the stick takes it back only if no other active member can take over.
        # Observers may take over, but they do not stand in the way.
        others = [m for m in self.members if m.takes_turns and m.agent_id not in (agent_id, self.room.reserved_for)]
        return not any(self.is_active(member) for member in others)


def liveness_of(agent: Row, life: Life, now: int, stale_minutes: float) -> Liveness:
    """Whether an agent is still at work, by the life of its process and the time since its last call."""
    if life == "gone":
        return "evicted"
    silence, threshold = now - agent["last_seen_at"], int(stale_minutes * MINUTE)
    if silence < threshold:
        return "active"
    return "stale" if silence < 2 * threshold else "evicted"


# -- the lease of an owner


def renew(tx: Transaction, snapshot: Snapshot) -> Snapshot:
    """Extend the lease of the owner and return the room with it."""
    room = snapshot.room
    until = snapshot.later(snapshot.policy.owner_lease_ttl_ms)
    # The time always changes, even if the clock stands still: `give_back` uses it to see whether the lease was renewed.
    room = room._replace(lease_expires_at=until + (until == room.lease_expires_at))
    tx.run(
        "extend_lease",
        room_id=room.room_id,
        lease_id=room.lease_id,
        lease_expires_at=room.lease_expires_at,
        now=snapshot.now,
    )
    return snapshot.with_room(room)
