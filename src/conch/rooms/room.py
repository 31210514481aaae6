"""A room at one moment: its row, its members, and everything derived from them.

A room remembers all its members, so after a year most of them are gone. What a call costs must not depend on how many
there are. So a `Roll` reads members as they are needed: one by its id or its name, or some of the sequence, until the
call has found what it looks for.

Nothing runs in the background, so the store never says that a lease has expired or a process has ended. Every
`Snapshot` works that out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from conch.agents.records import is_person, label, read_label, recorded_process
from conch.clock import MILLISECOND, MINUTE
from conch.config import Settings
from conch.errors import Advice, UnknownMember, UnknownRoom
from conch.host import processes
from conch.host.processes import Life, Process
from conch.lean import Any, Literal, NamedTuple, TypeVar, json
from conch.storage.base import NO_LIMIT, NOW, Reader, Row, Transaction

Found = TypeVar("Found")
Liveness = Literal["active", "stale", "evicted"]
Kind = Literal["agent", "observer", "person"]

CHUNK = 2  # members that a walk reads at first; it usually ends with one of them
LARGE_CHUNK = 50
LARGEST_CHUNK = 500
MOST_SILENT = 300  # the first members are listed even if they are silent; others only if they may be there
MOST_COUNTED = 1_000  # of the members that are not listed: after years, to count all of them would take long
_EVER = 2**62  # longer ago than anything happened


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


def kind_of(agent_id: str, takes_turns: bool) -> Kind:
    """`agent`, `observer` for a person without a place in the sequence, `person` for one who asked for it."""
    if not is_person(agent_id):
        return "agent"
    return "person" if takes_turns else "observer"


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
    is_gone: bool = False
    """Whether a change of the room has found the process gone and marked it. It may be gone without the mark."""

    @property
    def kind(self) -> Kind:
        return kind_of(self.agent_id, self.takes_turns)

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


def _to_member(row: Row) -> Member:
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
        bool(row["is_gone"]),
    )


class Shown(NamedTuple):
    """The members that a reply lists, and how many it leaves out because they are gone and hold nothing."""

    members: list[Member]
    gone: int
    """See `at_least`."""


def at_least(number: int) -> str:
    """A number of members that are not listed, for people and models. Larger numbers are not counted to their end."""
    return str(number) if number < MOST_COUNTED else f"{MOST_COUNTED} or more"


def expect_walk(tx: Transaction, room_id: str, agent_id: str, within: int, chunk: int) -> bool:
    """Fetch ahead the first members after this one that were seen `within` so many microseconds.

    Returns whether that is done.
    """
    return tx.ahead("members_after", now=NOW, **_walk_from(room_id, agent_id, within, chunk))


def expect_called(text: str, tx: Transaction, room_id: str) -> None:
    """Fetch ahead what `present_name_in_room` and `Snapshot.called` ask about a name, an agent_id or a label."""
    if text.isprintable():
        typed = read_label(text)
        for name in (text, *([] if typed is None else [typed.name])):
            tx.ahead("member_called", room_id=room_id, name=name)
            tx.ahead("peer_named_in_room", room_id=room_id, agent_name=name)
        tx.ahead("some_members", room_id=room_id, agent_ids=[text])


def expect_shown(tx: Transaction, room_id: str, limit: int) -> None:
    """Fetch ahead what `Roll.shown` reads, unless it finds members that are gone and not marked yet."""
    tx.ahead("count_members", room_id=room_id, is_gone=1, most=MOST_COUNTED)
    tx.ahead("gone_holders", room_ids=[room_id], now=NOW)
    places = {"after": -1, "through": NO_LIMIT}
    tx.ahead(
        "members_from", room_id=room_id, now=NOW, within=_EVER, host_id="", limit=min(limit, LARGEST_CHUNK), **places
    )


def _walk_from(room_id: str, agent_id: str, within: int, chunk: int) -> Row:
    return {"room_id": room_id, "agent_id": agent_id, "within": within, "limit": chunk}


class Roll:
    """The members of a room in one transaction. What was read stays known when the transaction has ended."""

    def __init__(self, tx: Reader, room_id: str, expected: str | None, first: str | None = None) -> None:
        """`expected` is the agent that the room waits for. Almost every call needs it, so it is read with `first`.

        `first` is an agent that was fetched ahead.
        """
        self._tx = tx
        self._room_id = room_id
        self._expected = expected
        self._first = first
        self._first_of_walk = first
        self._known: dict[str, Member | None] = {}
        self._present: list[Member] | None = None
        self._everyone: list[Member] | None = None
        self.hidden = 0
        """How many members `present` has left out because they are marked as gone and hold nothing. See `at_least`."""
        self.silent = 0
        """How many members `present` has left out although they are not marked as gone. See `at_least`."""
        self._lives: dict[Process | None, Life] = {}

    def with_member(self, member: Member) -> Roll:
        """The same members with this one updated."""
        changed = Roll(self._tx, self._room_id, self._expected, first=self._first)
        changed._first_of_walk = self._first_of_walk
        changed._known = {**self._known, member.agent_id: member}
        changed._lives = self._lives
        return changed

    # -- some of them

    def find(self, agent_id: str | None) -> Member | None:
        if agent_id is None:
            return None
        if agent_id not in self._known:
            self._read(agent_id)
        return self._known.get(agent_id)

    def _read(self, agent_id: str) -> None:
        if self._first is not None:
            first, self._first = self._first, None
            self._note_some({first, self._expected or first}, "people_of_room", agent_id=first)
        if wanted := {agent_id, self._expected or agent_id} - self._known.keys():
            self._note_some(wanted, "some_members", agent_ids=sorted(wanted))

    def _note_some(self, wanted: set[str], statement: str, **given: Any) -> None:
        self._known |= dict.fromkeys(wanted - self._known.keys())
        for row in self._tx.all(statement, room_id=self._room_id, **given):
            self._note(row)

    def named(self, name: str) -> Member | None:
        if self._everyone is not None:
            return next((member for member in self._everyone if member.name == name), None)
        row = self._tx.one("member_called", room_id=self._room_id, name=name)
        return None if row is None else self._note(row)

    def known(self) -> list[Member]:
        """Those that were read so far."""
        return [member for member in self._known.values() if member is not None]

    def learn_present(self, rows: list[Row], marked: int) -> None:
        """Remember the members in these rows, for `present`. `marked` is the number of all members marked as gone."""
        self._present = sorted(map(self._note, rows), key=lambda member: member.ordinal)
        self.hidden = marked if marked == MOST_COUNTED else marked - sum(member.is_gone for member in self._present)

    def present(self, ttl_ms: int) -> list[Member]:
        """The members in their sequence, except those that are marked as gone and hold nothing.

        In a large room, the first ones are followed only by those that were seen within `ttl_ms`, have a process that
        can be checked, or hold something.
        """
        if self._present is None:
            marked, holders = self._marked()
            members = list(islice(self.walk(chunk=MOST_SILENT), MOST_SILENT))
            if len(members) == MOST_SILENT:
                members += self._there_after(members[-1].ordinal, ttl_ms)
                self.silent = self._count(is_gone=False, most=len(members) + MOST_COUNTED) - len(members)
            self.hidden = marked
            self._present = sorted([*members, *holders], key=lambda member: member.ordinal)
        return self._present

    def _there_after(self, place: int, ttl_ms: int) -> list[Member]:
        rows = self._tx.all(
            "members_there",
            room_id=self._room_id,
            after=place,
            since=self._tx.now - ttl_ms * MILLISECOND,
            host_id=processes.host_id(),
            agent_ids=sorted(self._busy()),
        )
        return [self._note(row) for row in rows]

    def everyone(self) -> list[Member]:
        """All members in their sequence, however many there once were."""
        if self._everyone is None:
            self._everyone = [self._note(row) for row in self._tx.all("room_members", room_id=self._room_id)]
        return self._everyone

    def walk(
        self, after: int = -1, wrap: int = -1, within: int = _EVER, host_id: str = "", chunk: int = CHUNK
    ) -> Iterator[Member]:
        """The members after a place and then those up to the place `wrap`, without those marked as gone.

        It may leave out members that were not seen `within` so many microseconds, and with `host_id`, those without a
        process on that host.
        """
        if self._present is not None and not self.silent:
            since = self._tx.now - within
            inside = [m for m in self._present if m.last_seen_at > since and not m.is_gone]
            yield from [m for m in inside if m.ordinal > after] + [m for m in inside if m.ordinal <= wrap]
            return
        through = NO_LIMIT
        while True:
            around = self._around(after, wrap, within, chunk)
            if around is None:
                given = {"after": after, "through": through, "now": self._tx.now, "within": within}
                rows = self._tx.all("members_from", room_id=self._room_id, host_id=host_id, limit=chunk, **given)
            else:
                rows = around
            yield from map(self._note, rows)
            is_over = len(rows) < chunk  # this lap, or both
            if is_over and (wrap < 0 or around is not None):
                return
            after, chunk = -1 if is_over else rows[-1]["ordinal"], min(8 * chunk, LARGEST_CHUNK)
            if after <= wrap:  # in the second lap
                through, wrap = wrap, -1

    def _around(self, after: int, wrap: int, within: int, chunk: int) -> list[Row] | None:
        """The rows that `expect_walk` has fetched, if they begin at this place."""
        start = self._known.get(self._first_of_walk or "")
        if start is None or not start.ordinal == after == wrap:
            return None
        self._first_of_walk = None
        given = _walk_from(self._room_id, start.agent_id, within, chunk)
        return self._tx.all("members_after", now=self._tx.now, **given)

    def _note(self, row: Row) -> Member:
        """The member of a row. One that is known already may be newer than what the row says."""
        known = self._known.get(row["agent_id"])
        if known is None:
            known = self._known[row["agent_id"]] = _to_member(row)
        return known

    # -- those to list

    def shown(self, after: int = -1, *, limit: int) -> Shown:
        """The members after a place, without those that are gone and hold nothing.

        A member can hold the stick, an offer of it, or a reservation. A member without a mark counts as gone only if it
        was looked at.
        """
        marked, holders = self._marked()
        members, gone = self._sift(self.walk(after, chunk=min(limit, LARGEST_CHUNK)), limit)
        members += [member for member in holders if member.ordinal > after]
        return Shown(sorted(members, key=lambda member: member.ordinal)[:limit], marked + gone)

    def shown_of(self, present: list[Member]) -> Shown:
        """What `present` has returned, without members that are gone and hold nothing."""
        members, gone = self._sift(present, NO_LIMIT)
        return Shown(members, self.hidden + gone)

    def _sift(self, found: Iterable[Member], limit: int) -> tuple[list[Member], int]:
        """The members to list, and how many others are gone and hold nothing. Marked ones in `found` hold something."""
        busy: set[str] | None = None
        members: list[Member] = []
        gone = 0
        for member in found:
            if not member.is_gone and self.life(member) == "gone":
                busy = self._busy() if busy is None else busy  # usually, all members are there
                if member.agent_id not in busy:
                    gone += 1
                    continue
            members.append(member)
            if len(members) == limit:
                break
        return members, gone

    def _marked(self) -> tuple[int, list[Member]]:
        """How many members are marked as gone and hold nothing, and those that are marked and hold something."""
        if self._present is not None:
            return self.hidden, [member for member in self._present if member.is_gone]
        marked = self._count(is_gone=True)
        if not marked:
            return 0, []
        rows = self._tx.all("gone_holders", room_ids=[self._room_id], now=self._tx.now)
        hidden = marked if marked == MOST_COUNTED else marked - len(rows)
        return hidden, [self._note(row) for row in rows]

    def _busy(self) -> set[str]:
        rows = self._tx.all("reserving_agents", room_ids=[self._room_id], now=self._tx.now)
        return {row["agent_id"] for row in rows} | {self._expected or ""}

    def _count(self, *, is_gone: bool, most: int = MOST_COUNTED) -> int:
        row = self._tx.one("count_members", room_id=self._room_id, is_gone=int(is_gone), most=most)
        return int(row["total"]) if row else 0

    # -- their processes

    def life(self, member: Member) -> Life:
        """Whether a member's process is alive, gone or unknown. Checked once per transaction."""
        return "gone" if member.is_gone else self.life_of(member.process)

    def life_of(self, process: Process | None) -> Life:
        if process not in self._lives:
            self._lives[process] = processes.check(process)
        return self._lives[process]

    def was_found_gone(self, member: Member) -> bool:
        """Whether `life` has looked at the member's process and found that it is gone."""
        return self._lives.get(member.process) == "gone"

    def mark_gone(self, tx: Transaction) -> None:
        """Mark those that were found gone, in a write transaction that happens anyway. Nothing has to read them again.

        A process that has ended never comes back. If its agent does, it is in another process, which takes the mark
        away.
        """
        found = [m.agent_id for m in self.known() if not m.is_gone and self.was_found_gone(m)]
        if found:
            tx.run("mark_gone", room_id=self._room_id, agent_ids=found)


class Snapshot:
    """A room with its members at one moment, and everything derived from them.

    It reads members as they are needed, inside the transaction that made it. Afterwards only those that were read are
    known. Asking for others fails, unless it was made to be used afterwards.
    """

    def __init__(self, room: Room, roll: Roll, settings: Settings, now: int) -> None:
        self.room = room
        self.roll = roll
        self._settings = settings
        # Few rooms override anything, and the others then need not import `json`.
        overrides = {} if room.policy_json == "{}" else json.loads(room.policy_json)
        self.policy = settings.policy.merged(overrides)
        self.stale_minutes = settings.stale_minutes
        self.now = now
        self._deserted: bool | None = None

    def with_room(self, room: Room) -> Snapshot:
        """The same moment with a changed room."""
        copy = self._copy(room, self.roll)
        copy._deserted = self._deserted
        return copy

    def with_member(self, member: Member) -> Snapshot:
        """The same moment with this member updated."""
        return self._copy(self.room, self.roll.with_member(member))

    def _copy(self, room: Room, roll: Roll) -> Snapshot:
        return Snapshot(room, roll, self._settings, self.now)

    @property
    def members(self) -> list[Member]:
        """The members in their sequence, without those that are long gone. See `Roll.present`."""
        return self.roll.present(self.policy.presence_ttl_ms)

    @property
    def left_out(self) -> int:
        """How many members are not among `members`."""
        self.roll.present(self.policy.presence_ttl_ms)
        return self.roll.hidden + self.roll.silent

    def shown(self) -> Shown:
        """Those of `members` to list in one piece. See `Roll.shown`."""
        return self.roll.shown_of(self.members)

    def find(self, agent_id: str | None) -> Member | None:
        return self.roll.find(agent_id)

    def called(self, text: str) -> Member | None:
        """The member that a text means: its name, its agent_id or its label. A name wins over another agent's id."""
        if not text.isprintable():  # nobody has such a name, and half a letter cannot be looked up
            return None
        exact = self.roll.named(text) or self.find(text)
        typed = None if exact else read_label(text)
        named = self.roll.named(typed.name) if typed else None
        return exact or (named if named and typed and typed.fits(named.agent_id) else None)

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
        """Whether a member's process is alive, gone or unknown."""
        member = self.find(agent_id)
        return "unknown" if member is None else self.roll.life(member)

    def later(self, milliseconds: int) -> int:
        return self.now + milliseconds * MILLISECOND

    def seen_within(self, member: Member, milliseconds: int) -> bool:
        return self.now - member.last_seen_at < milliseconds * MILLISECOND

    def is_active(self, member: Member) -> bool:
        """Whether a member was seen within `presence_ttl_ms` and its process is not gone."""
        return self.seen_within(member, self.policy.presence_ttl_ms) and not self.is_gone(member)

    def is_gone(self, member: Member) -> bool:
        return self.roll.life(member) == "gone"

    def active_members(self, place: int = -1, chunk: int = CHUNK) -> Iterator[Member]:
        """The active members in sequence, beginning after a place and ending there."""
        within = self.policy.presence_ttl_ms * MILLISECOND
        return filter(self.is_active, self.roll.walk(place, place, within, chunk=chunk))

    def look_around(self) -> Snapshot:
        """Find out whether anyone is there while the store can be asked, so that `state` is known afterwards."""
        if self._deserted is None:
            self._deserted = not any(map(self.is_there, self.roll.known()))
            self._deserted = self._deserted and not any(map(self.is_there, self._likely_there()))
        return self

    def _likely_there(self) -> Iterator[Member]:
        """First those seen recently, because most of an old room is not there, whatever its processes are."""
        yield from self.roll.walk(within=self.policy.presence_ttl_ms * MILLISECOND)
        yield from self.roll.walk(host_id=processes.host_id())

    def is_there(self, member: Member) -> bool:
        """Whether a member was seen recently or its process is known to be alive."""
        return self.is_active(member) or self.roll.life(member) == "alive"

    @property
    def _is_deserted(self) -> bool:
        return bool(self.look_around()._deserted)

    def liveness(self, agent: Row) -> Liveness:
        """Whether an agent is still at work, by the time since its last call. If its process is gone, it is evicted."""
        return liveness_of(agent, self.roll.life_of(recorded_process(agent)), self.now, self.stale_minutes)

    def may_be_running(self, agent: Row) -> bool:
        """Whether the agent's process may be alive. If it cannot be checked, an active agent counts as running."""
        life = self.roll.life_of(recorded_process(agent))
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

    @property
    def found_gone(self) -> Process | None:
        """The process of the expected agent, if a check in this transaction has found it gone.

        The check came after the room was read, so the agent may have let go of the stick in between; see `look_surely`.
        """
        member = self.find(self.expected)
        return member.process if member and not member.is_gone and self.roll.was_found_gone(member) else None

    def may_take_over(self, agent_id: str, prior_owner: str | None) -> bool:
        """Whether this member may take over now."""
        if self.takeover_reason is None or agent_id == self.expected:
            return False
        if self.takeover_reason != "claim_timeout" or agent_id != prior_owner:
            return True
        # The agent that has just handed over the stick takes it back only if no other active member can take over.
        # Observers may take over, but they do not stand in the way.
        theirs = (agent_id, self.room.reserved_for)
        return not any(m.takes_turns and m.agent_id not in theirs for m in self.active_members())


def look_surely(look: Callable[[], tuple[Snapshot, Found]]) -> tuple[Snapshot, Found]:
    """Look at a room, and look again if the agent that it waits for is found gone.

    The agent may have let go of the stick and ended after the room was read. It cannot have done so if its process was
    known to be gone before the room was read.
    """
    known = None
    while True:
        snapshot, found = look()
        gone = snapshot.found_gone
        if gone is None or gone == known:
            return snapshot, found
        known = gone


def liveness_of(agent: Row, life: Life, now: int, stale_minutes: float) -> Liveness:
    """Whether an agent is still at work, by the life of its process and the time since its last call."""
    if life == "gone":
        return "evicted"
    silence, threshold = now - agent["last_seen_at"], int(stale_minutes * MINUTE)
    if silence < threshold:
        return "active"
    return "stale" if silence < 2 * threshold else "evicted"


# -- the lease of an owner


def renew(tx: Transaction, snapshot: Snapshot) -> Room:
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
    return room
