"""A room as a person sees it: what each member does, what is reserved, and what is wrong.

Nothing here is stored. Everything is derived from the room, its log, its questions, notices and reservations.
"""

from __future__ import annotations

from collections.abc import Callable

from conch.bells.base import Bell, seat_channel
from conch.clock import MINUTE
from conch.host.processes import ENDED, Process
from conch.lean import Literal, NamedTuple
from conch.members.adoption import Candidate
from conch.notices.events import ProtocolEvent, to_protocol_event
from conch.rooms.log import Event, expect_grant, find_event, latest_grant, latest_notes
from conch.rooms.presence import Rooms
from conch.rooms.room import Member, Room, Snapshot, load_room
from conch.scopes.overlaps import Reservation, to_reservation
from conch.storage.base import Row, Store, Transaction
from conch.turns.stick import next_in_sequence

UNANSWERED_AFTER = 10 * MINUTE
UNACCEPTED_AFTER = 60 * MINUTE
_MOST_EVENTS = 1_000
_MOST = 200  # reservations, questions and notices that are looked at, each

_Doing = Literal["holding", "next", "waiting", "here", "watching", "gone"]
"""What a member does: it holds the stick, was offered it, waits for it, is there to take turns, only watches, or its
process has ended."""


FindEnd = Callable[[Process], int | None]
"""When a process that is gone ended; None if nobody saw that."""


class Question(NamedTuple):
    """A question on the room's own topic that is not settled."""

    question_id: str
    seq: int
    agent_id: str | None
    asked_by: str
    asked_at: int
    text: str
    answers: int


class Standing(NamedTuple):
    """What one member does."""

    member: Member
    doing: _Doing
    since: int
    """When that began, unless `is_last_seen`."""
    is_last_seen: bool
    """`since` is when it was last seen: it is idle, or nobody knows when its process ended."""
    work: str
    """What the holder works on, in an agent's words: its last note, or else what it was handed. Empty if unknown."""
    questions: list[Question]
    """Questions it asked that nobody has answered."""
    unread: int
    """Messages of the viewer that it has not read."""
    left: Candidate | None
    """The unfinished work of a member that is gone."""


class Trouble(NamedTuple):
    """Something that a person should look at. `code` says what it is, and the other fields whom or what it is about."""

    code: Literal["takeover", "unanswered", "unaccepted"]
    since: int
    is_last_seen: bool = False
    """`since` is when the member was last seen, because nobody knows when its process ended."""
    member: Member | None = None
    reason: str = ""
    question: Question | None = None
    notice: ProtocolEvent | None = None


class Survey(NamedTuple):
    viewer_id: str
    snapshot: Snapshot
    turn_since: int | None
    """When the current turn began; None if no agent has the stick."""
    next: Member | None
    """Who would get the stick now, if its holder released it."""
    standings: list[Standing]
    """In the room's sequence, without members that are gone and left nothing."""
    gone: int
    """Members that are not listed, because they are gone and left nothing, or silent in a large room."""
    reservations: list[Reservation]
    troubles: list[Trouble]
    questions: list[Question]
    """Those that are not settled, oldest first."""
    notices: list[ProtocolEvent]
    """Those to agents and people that nobody has accepted, oldest first."""
    left_out: dict[str, int] = {}
    """How many members, reservations, problems and questions are not in it, because they do not fit into a reply."""


class _Facts(NamedTuple):
    """What the store says about a room."""

    members: list[Member]
    """Those to show."""
    grant: Event | None
    offer: Event | None
    work: str
    questions: list[Question]
    notices: list[ProtocolEvent]
    reservations: list[Reservation]
    unread: dict[str, int]
    waiting_since: dict[str, int]
    ends: dict[str, int]
    """When the processes of members that are gone ended, as far as that is known."""


def _unwatched(process: Process) -> int | None:
    return None


def survey(
    store: Store,
    bell: Bell,
    rooms: Rooms,
    room_id: str,
    viewer_id: str,
    candidates: list[Candidate],
    find_end: FindEnd = _unwatched,
) -> Survey:
    """A room now. `candidates` are the agents that could be resumed, with what they left; see `Adoption.candidates`."""
    left = {candidate.agent.agent_id: candidate for candidate in candidates}
    with store.read() as tx:
        (snapshot,) = rooms.load_present(tx, [load_room(tx, room_id)])
        _expect(tx, snapshot)
        facts = _read(tx, snapshot, viewer_id, left, find_end)
    return _judge(bell, snapshot, facts, viewer_id, left)


def survey_rooms(
    store: Store, bell: Bell, rooms: Rooms, viewer_id: str, limit: int, find_end: FindEnd, *, even_closed: bool
) -> list[Survey]:
    """The rooms that changed last, at one moment. What members left in them is not looked for."""
    with store.read() as tx:
        rows = tx.all("latest_rooms", even_closed=int(even_closed), limit=limit)
        found = rooms.load_present(tx, [Room(**row) for row in rows])
        for snapshot in found:
            _expect(tx, snapshot)
        facts = [_read(tx, snapshot, viewer_id, {}, find_end) for snapshot in found]
    return [_judge(bell, snapshot, each, viewer_id, {}) for snapshot, each in zip(found, facts, strict=True)]


def _judge(bell: Bell, snapshot: Snapshot, facts: _Facts, viewer_id: str, left: dict[str, Candidate]) -> Survey:
    standings = [_standing(bell, snapshot, member, facts, left.get(member.agent_id)) for member in facts.members]
    waiting = {each.member.agent_id for each in standings if each.doing == "waiting"}
    return Survey(
        viewer_id,
        snapshot,
        facts.grant.created_at if facts.grant else None,
        next_in_sequence(snapshot, waiting) if snapshot.room.owner else None,
        standings,
        len(snapshot.members) + snapshot.left_out - len(facts.members),
        facts.reservations,
        [*_stick_trouble(snapshot, facts), *_open_troubles(snapshot, facts)],
        facts.questions,
        facts.notices,
    )


def leading(found: Survey, most: int) -> Survey:
    """The same room with at most so many members, reservations, problems and questions, and how many are left out."""
    lists = {
        "members": len(found.standings),
        "reservations": len(found.reservations),
        "problems": len(found.troubles),
        "questions": len(found.questions),
    }
    if max(lists.values()) <= most:
        return found
    return found._replace(
        standings=[
            each._replace(questions=each.questions[:most]) if len(each.questions) > most else each
            for each in found.standings[:most]
        ],
        reservations=found.reservations[:most],
        troubles=found.troubles[:most],
        questions=found.questions[:most],
        left_out={name: number - most for name, number in lists.items() if number > most},
    )


def find_gone(snapshot: Snapshot) -> frozenset[str]:
    """Which members are gone. Looking for the work that they left takes time, so look only if this value changes.

    It has the ids of the listed members that are gone, and the number of those that are not listed.
    """
    gone = frozenset(member.agent_id for member in snapshot.members if snapshot.is_gone(member))
    return gone | {f"{snapshot.left_out} more"} if snapshot.left_out else gone


def _queries(snapshot: Snapshot) -> dict[str, Row]:
    """What to ask about every room."""
    room, seen_since = snapshot.room, snapshot.later(-snapshot.policy.presence_ttl_ms)
    return {
        "open_questions": {"topic_id": room.topic_id, "limit": _MOST},
        "unaccepted_notices": {"room_id": room.room_id, "limit": _MOST},
        "active_reservations": {"room_id": room.room_id, "after": "", "lapsed": snapshot.now, "limit": _MOST},
        "waits_of_room": {"room_id": room.room_id, "since": seen_since, "limit": _MOST_EVENTS},
    }


def _expect(tx: Transaction, snapshot: Snapshot) -> None:
    """Fetch ahead what `_read` asks first."""
    expect_grant(tx, snapshot.room)
    for statement, given in _queries(snapshot).items():
        tx.ahead(statement, **given)


def _read(tx: Transaction, snapshot: Snapshot, viewer_id: str, left: dict[str, Candidate], find_end: FindEnd) -> _Facts:
    room = snapshot.room
    asked, notices, reservations, waits = (tx.all(name, **given) for name, given in _queries(snapshot).items())
    grant = latest_grant(tx, room) if room.owner else None
    offer = find_event(tx, room.pending_handoff_event_seq) if room.reserved_for else None
    questions = [_question(row) for row in asked]
    reserved = [to_reservation(row, snapshot) for row in reservations]
    busy = {*(each.agent_id for each in questions), *(each.agent_id for each in reserved), *left}
    members = _members_to_show(snapshot, busy)
    agent_ids = [member.agent_id for member in members]
    unread = tx.all("unread_of", topic_id=room.topic_id, agent_id=viewer_id, agent_ids=agent_ids) if members else []
    return _Facts(
        members,
        grant,
        offer,
        _work(tx, snapshot, grant),
        questions,
        [to_protocol_event(row) for row in notices],
        reserved,
        {row["agent_id"]: row["unread"] for row in unread},
        {row["agent_id"]: row["since"] for row in waits},
        _find_ends(tx, [member for member in members if snapshot.is_gone(member)], find_end),
    )


def _find_ends(tx: Transaction, gone: list[Member], find_end: FindEnd) -> dict[str, int]:
    """When these members ended. If nobody saw that, it is when the agent's last connection was closed.

    An agent whose session has ended did so when it was last seen.
    """
    if not gone:
        return {}
    closed = tx.all("closed_connections", agent_ids=[member.agent_id for member in gone])
    ends = {row["agent_id"]: row["closed_at"] for row in closed}
    for member in gone:
        end = member.last_seen_at if member.process == ENDED else member.process and find_end(member.process)
        if end is not None:
            ends[member.agent_id] = end
    return {member.agent_id: ends[member.agent_id] for member in gone if member.agent_id in ends}


def _work(tx: Transaction, snapshot: Snapshot, grant: Event | None) -> str:
    """What the holder of the stick works on: the last note that it wrote since, or else what it was handed."""
    if grant is None:
        return ""
    owner = snapshot.room.owner
    notes = latest_notes(tx, snapshot.room.room_id, grant.event_seq)
    own = next((note for note in notes if note.from_agent_id == owner), None)
    if own is not None:
        return str(own.details.get("note") or "")
    received = find_event(tx, grant.details.get("handoff_event_seq"))
    return str(received.handoff["next_action"]) if received and received.handoff else ""


def _question(row: Row) -> Question:
    return Question(
        row["question_id"],
        row["seq"],
        row["agent_id"],
        row["asked_by"] or "conch",
        row["asked_at"],
        row["question_text"],
        row["answers_count"],
    )


def _members_to_show(snapshot: Snapshot, busy: set[str | None]) -> list[Member]:
    """Those that are there, and those that are gone but wait for an answer, hold something or left something."""
    there = [member for member in snapshot.members if not snapshot.is_gone(member)]
    others = [snapshot.find(agent_id) for agent_id in busy | {snapshot.expected}]
    found = {member.agent_id: member for member in (*there, *others) if member is not None}
    return sorted(found.values(), key=lambda member: member.ordinal)


def _standing(bell: Bell, snapshot: Snapshot, member: Member, facts: _Facts, left: Candidate | None) -> Standing:
    room, agent_id = snapshot.room, member.agent_id
    since: int | None = None
    doing: _Doing = "here" if member.takes_turns else "watching"
    if snapshot.is_gone(member):
        doing, since = "gone", facts.ends.get(agent_id)
    elif agent_id == room.owner:
        doing, since = "holding", facts.grant.created_at if facts.grant else None
    elif agent_id == room.reserved_for:
        doing, since = "next", facts.offer.created_at if facts.offer else None
    elif bell.hears(seat_channel(room.room_id, agent_id)):
        doing, since = "waiting", facts.waiting_since.get(agent_id, snapshot.now)
    asked = [each for each in facts.questions if each.agent_id == agent_id and not each.answers]
    work = facts.work if agent_id == room.owner else ""
    began = member.last_seen_at if since is None else since
    return Standing(member, doing, began, since is None, work, asked, facts.unread.get(agent_id, 0), left)


def _stick_trouble(snapshot: Snapshot, facts: _Facts) -> list[Trouble]:
    reason, member = snapshot.takeover_reason, snapshot.find(snapshot.expected)
    if reason is None:
        return []
    room = snapshot.room
    lapsed = room.lease_expires_at if room.owner else room.claim_expires_at
    if member is None or not reason.endswith("_gone"):
        return [Trouble("takeover", lapsed or snapshot.now, False, member, reason)]
    end = facts.ends.get(member.agent_id)
    return [Trouble("takeover", member.last_seen_at if end is None else end, end is None, member, reason)]


def _open_troubles(snapshot: Snapshot, facts: _Facts) -> list[Trouble]:
    """Questions without an answer, and notices that nobody has accepted, for too long. The oldest come first."""
    unanswered = [
        Trouble("unanswered", each.asked_at, question=each)
        for each in facts.questions
        if not each.answers and snapshot.now - each.asked_at >= UNANSWERED_AFTER
    ]
    unaccepted = [
        Trouble("unaccepted", each.created_at, member=snapshot.find(each.to_agent_id), notice=each)
        for each in facts.notices
        if each.payload.get("requires_ack") is not False and snapshot.now - each.created_at >= UNACCEPTED_AFTER
    ]
    return sorted([*unanswered, *unaccepted], key=lambda trouble: trouble.since)
