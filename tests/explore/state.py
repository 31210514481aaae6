"""What a state is, and when two states are the same.

A `State` is everything that decides what can happen next: the rows of the store, the time, and for each agent its
process, what it believes, and the operation it is in the middle of.

Two states with the same `key` have the same future. The key forgets what no rule looks at: how ids are spelled, which
agent is which, how many turns and events there were, and how long ago a period lapsed.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

from conch.agents.records import Caller
from conch.clock import MINUTE
from conch.errors import ConchError
from conch.host.processes import Process
from conch.rooms.presence import Lease

EPOCH = 1_800_000_000_000_000
TICK = 10 * MINUTE
"""The clock stands still during operations and moves in ticks. Every period is a minute short of a whole number of
ticks, so it does not matter that operations take no time."""

Row = dict[str, Any]
Rows = dict[str, list[Row]]


class Doing(NamedTuple):
    """An operation that is suspended between two transactions."""

    operation: str
    salt: int
    """The depth at which it began; its random ids come from it."""
    answers: list[Any] = []
    """What it has been told so far, by the store and by everything else outside."""
    seen: tuple[State, ...] = ()
    """The states in which its transactions ran."""


class Client(NamedTuple):
    """One agent outside the store: its process, and what it believes."""

    number: int
    generation: int = 0
    """Which of its processes it is; every resumed session has a new one."""
    alive: bool = True
    caller: Caller | None = None
    room_id: str | None = None
    topic_id: str | None = None
    lease: Lease | None = None
    """The lease it was granted last. It goes on as if it still had it."""
    received: frozenset[int] = frozenset()
    """The messages it has received on the room's topic, by seq."""
    silences: tuple[tuple[Any, ...], ...] = ()
    """What its process remembers about peers without news."""
    doing: Doing | None = None

    @property
    def agent_id(self) -> str | None:
        return self.caller.agent_id if self.caller else None

    @property
    def process(self) -> Process:
        return Process("here", "boot", 1_000 + self.number, self.generation)


class State(NamedTuple):
    rows: Rows
    ticks: int
    clients: tuple[Client, ...]
    depth: int = 0
    """How many steps led here."""

    @property
    def now(self) -> int:
        return EPOCH + self.ticks * TICK

    def with_client(self, client: Client) -> State:
        return self._replace(clients=tuple(client if c.number == client.number else c for c in self.clients))


class Step(NamedTuple):
    """One step from a state to the next."""

    before: State
    after: State
    client: Client | None
    """The agent that made it, as it was before; None for the clock."""
    operation: str
    showed: Lease | None = None
    """The lease that the operation presented."""
    result: Any = None
    """What a finished operation returned, or the error that refused it. None if it is suspended."""

    @property
    def succeeded(self) -> bool:
        return self.result is not None and not isinstance(self.result, ConchError)

    def __str__(self) -> str:
        who = "clock" if self.client is None else f"agent {self.client.number}"
        end = " ..." if self.result is None and self.client else ""
        refusal = f" -> {self.result.code}" if isinstance(self.result, ConchError) else ""
        return f"{who}: {self.operation}{refusal}{end}"


# -- looking at a state


def open_room(state: State) -> Row | None:
    return next((room for room in state.rows["path_rooms"] if room["state"] != "closed"), None)


def members(state: State, room: Row | None) -> list[Row]:
    """The members of a room in their order."""
    rows = [row for row in state.rows["room_members"] if room and row["room_id"] == room["room_id"]]
    return sorted(rows, key=lambda row: row["ordinal"])


def find_event(state: State, event_seq: int | None) -> Row | None:
    return next((row for row in state.rows["room_events"] if row["event_seq"] == event_seq), None)


def find_cursor(state: State, client: Client) -> Row | None:
    """The cursor of an agent on the topic of its room."""
    own = {row["peer_id"] for row in state.rows["peers"]
           if row["agent_id"] == client.agent_id and row["topic_id"] == client.topic_id}  # fmt: skip
    return next((row for row in state.rows["cursors"] if row["peer_id"] in own), None)


# -- the key

_COMPARED = (
    "room_id",
    "reserved_for",
    "pending_handoff_event_seq",
    "turn_id",
    "lease_id",
    "lease_expires_at",
    "resets",
)


def key(state: State) -> bytes:
    return _digest((_facts(state), [_doing(state, client) for client in _ordered(state)]))


def _digest(facts: Any) -> bytes:
    return blake2b(repr(facts).encode(), digest_size=16).digest()


def _facts(state: State) -> tuple[Any, ...]:
    room, clients = open_room(state), _ordered(state)
    labels = {client.agent_id: label for label, client in enumerate(clients)}
    return (
        room and _room(state, room, labels),
        [(labels[row["agent_id"]], _process(state, row)) for row in members(state, room)],
        [_agent(state, client) for client in clients],
        [_beliefs(state, client, room) for client in clients],
        [_reservation(state, row, labels) for row in _held(state, room)],
        room and _stream(state, room["topic_id"], labels),
    )


def _ordered(state: State) -> list[Client]:
    """The agents as the room has them, then those outside. So it does not matter which agent is which."""
    places = {row["agent_id"]: place for place, row in enumerate(members(state, open_room(state)))}
    return sorted(
        state.clients, key=lambda c: (places.get(c.agent_id or "", 9), c.caller is None, c.alive, c.lease is None)
    )


def _room(state: State, room: Row, labels: dict[str | None, int]) -> tuple[Any, ...]:
    pending = find_event(state, room["pending_handoff_event_seq"])
    return (
        room["state"],
        labels.get(room["owner"]),
        labels.get(room["reserved_for"]),
        _left(state, room["lease_expires_at"]),
        _left(state, room["claim_expires_at"]),
        pending and (pending["event_type"], labels.get(pending["from_agent_id"]), labels.get(pending["to_agent_id"])),
    )


def _left(state: State, moment: int | None) -> int | None:
    """How many ticks are left of a period; 0 if it has lapsed."""
    return None if moment is None else max(0, -((state.now - moment) // TICK))


def _process(state: State, row: Row) -> str:
    """Whether a recorded process is the agent's present one, and alive."""
    if row["pid"] is None:
        return "none"
    client = next(c for c in state.clients if c.process.pid == row["pid"])
    return "gone" if row["process_started_at"] != client.generation or not client.alive else "alive"


def _agent(state: State, client: Client) -> tuple[Any, ...] | None:
    row = next((row for row in state.rows["agents"] if row["agent_id"] == client.agent_id), None)
    return row and (state.now > row["last_seen_at"], _process(state, row))


def _beliefs(state: State, client: Client, room: Row | None) -> tuple[Any, ...]:
    where = None if client.room_id is None else room is not None and client.room_id == room["room_id"]
    cursor = find_cursor(state, client)
    silence = dict(client.silences).get(cursor["peer_id"]) if cursor else None
    return (
        client.alive,
        client.caller is not None,
        where,
        _relation(client.lease, room),
        sorted(client.received),
        cursor and (cursor["last_seq"], state.now > cursor["updated_at"]),
        silence if cursor and silence and silence[0] == cursor["last_seq"] else None,
    )


def _relation(lease: Lease | None, room: Row | None) -> str:
    """What a lease is worth. One whose turn is over is worth as little as none."""
    if lease is None or room is None or lease.turn_id != room["turn_id"]:
        return "over"
    return "current" if lease.lease_id == room["lease_id"] else "given up"


def _held(state: State, room: Row | None) -> list[Row]:
    rows = [row for row in state.rows["reservations"] if row["state"] == "active"]
    return sorted((row for row in rows if room and row["room_id"] == room["room_id"]), key=lambda r: r["scope_key"])


def _reservation(state: State, row: Row, labels: dict[str | None, int]) -> tuple[Any, ...]:
    return row["scope_key"], labels[row["agent_id"]], _left(state, row["expires_at"])


def _stream(state: State, topic_id: str, labels: dict[str | None, int]) -> tuple[Any, ...]:
    senders = {row["peer_id"]: labels.get(row["agent_id"]) for row in state.rows["peers"]}
    messages = [row for row in state.rows["messages"] if row["topic_id"] == topic_id]
    answers: dict[str, list[Any]] = {}
    for row in state.rows["answers"]:
        answers.setdefault(row["question_id"], []).append(senders[row["answered_by_id"]])
    questions = [
        (row["status"], senders[row["asked_by_id"]], answers.get(row["question_id"]))
        for row in state.rows["questions"]
        if row["topic_id"] == topic_id
    ]
    return [(row["message_type"], senders[row["sender_id"]]) for row in messages], questions


def _doing(state: State, client: Client) -> Any:
    """A suspended operation, and what has changed since each of its transactions."""
    if client.doing is None:
        return None
    return client.doing.operation, [_since(then, state, client) for then in client.doing.seen]


def _since(then: State, now: State, client: Client) -> tuple[Any, ...]:
    return _same(open_room(then), open_room(now)), _same(find_cursor(then, client), find_cursor(now, client))


def _same(then: Row | None, now: Row | None) -> Any:
    """Which columns are as they were."""
    return then and now and [then[column] == now[column] for column in _COMPARED if column in then]
