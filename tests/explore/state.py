"""What a state is, and when two states are the same.

A `State` is everything that decides what can happen next: the rows of the store, the time, and for each agent its
process, what it believes, and the operation it is in the middle of.

Two states with the same `key` have the same future. The key forgets what no rule looks at: how ids are spelled, which
agent is which, how many turns and events there were, and how long ago a period lapsed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from itertools import permutations
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

GRANTS = ("claim", "takeover")
NO_LEASE = Lease("lease_none", 0)
"""What an agent shows that was never granted a lease."""

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
    has_kicks: bool = False
    """Members may be kicked, which makes an old handoff pending again."""

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


def without_doings(state: State) -> State:
    """The state after every agent has given up what it was in the middle of."""
    return state._replace(clients=tuple(client._replace(doing=None) for client in state.clients))


# -- the key


def key(state: State) -> bytes:
    facts = min(repr(_facts(state, clients)) for clients in _orders(state))
    return blake2b(facts.encode(), digest_size=16).digest()


def _facts(state: State, clients: list[Client]) -> tuple[Any, ...]:
    room = open_room(state)
    labels = {client.agent_id: label for label, client in enumerate(clients)}
    return (
        room and _room(state, room, labels),
        [(labels[row["agent_id"]], _process(state, row), row["is_gone"]) for row in members(state, room)],
        [_agent(state, client, room) for client in clients],
        [_reservation(state, row, labels) for row in _held(state, room)],
        _streams(state, room, clients, labels),
        [_doing(state, client, clients) for client in clients],
    )


def _orders(state: State) -> Iterator[list[Client]]:
    """The agents as the room has them, then those outside in every order: it does not matter which agent is which."""
    places = {row["agent_id"]: place for place, row in enumerate(members(state, open_room(state)))}
    inside = [client for client in state.clients if client.agent_id in places]
    outside = [client for client in state.clients if client.agent_id not in places]
    for others in permutations(outside):
        yield [*sorted(inside, key=lambda client: places[client.agent_id or ""]), *others]


def _room(state: State, room: Row, labels: dict[str | None, int]) -> tuple[Any, ...]:
    pending = find_event(state, room["pending_handoff_event_seq"])
    return (
        room["state"],
        labels.get(room["owner"]),
        labels.get(room["reserved_for"]),
        _left(state, room["lease_expires_at"]),
        _left(state, room["claim_expires_at"]),
        _event(pending, labels),
        state.has_kicks and [_event(event, labels) for event in _recalled(state, room)],
    )


def _event(event: Row | None, labels: dict[str | None, int]) -> tuple[Any, ...] | None:
    return event and (event["event_type"], labels.get(event["from_agent_id"]), labels.get(event["to_agent_id"]))


def _recalled(state: State, room: Row) -> Iterator[Row | None]:
    """The handoff that a kick of the owner brings back, and the one that it would bring back after a takeover."""
    events = sorted((row for row in state.rows["room_events"] if row["room_id"] == room["room_id"]), key=_place)
    grants = [row for row in events if row["event_type"] in GRANTS and row["turn_id"] == room["turn_id"]]
    handed = json.loads(grants[-1]["details_json"]).get("handoff_event_seq") if room["owner"] and grants else None
    yield find_event(state, handed)
    yield next((row for row in reversed(events) if row["event_type"] in ("release", "pass")), None)


def _place(event: Row) -> int:
    return int(event["event_seq"])


def _left(state: State, moment: int | None) -> int | None:
    """How many ticks are left of a period; 0 if it has lapsed."""
    return None if moment is None else max(0, -((state.now - moment) // TICK))


def _process(state: State, row: Row) -> str:
    """Whether a recorded process is the agent's present one, and alive."""
    if row["pid"] is None:
        return "none"
    client = next(c for c in state.clients if c.process.pid == row["pid"])
    return "gone" if row["process_started_at"] != client.generation or not client.alive else "alive"


def _agent(state: State, client: Client, room: Row | None) -> tuple[Any, ...]:
    """An agent: its record, its process, and what it believes."""
    row = next((row for row in state.rows["agents"] if row["agent_id"] == client.agent_id), None)
    cursor = find_cursor(state, client)
    silence = dict(client.silences).get(cursor["peer_id"], (0, 0)) if cursor else (0, 0)
    return (
        row and (state.now > row["last_seen_at"], _process(state, row)),
        client.alive,
        client.caller is not None,
        _whereabouts(state, client, room),
        sorted(client.received),
        cursor and (cursor["last_seq"], state.now > cursor["updated_at"]),
        silence if silence[1] > silence[0] else None,
    )


def _whereabouts(state: State, client: Client, room: Row | None) -> Any:
    """Which room an agent believes to be in, and what its lease is worth there."""
    if room is None or client.room_id != room["room_id"]:
        inside = any((row["room_id"], row["agent_id"]) == (client.room_id, client.agent_id)
                     for row in state.rows["room_members"])  # fmt: skip
        return "outside", client.room_id is not None, inside, room and room["turn_id"] > 1
    lease = client.lease or NO_LEASE
    return lease.lease_id == room["lease_id"], max(-1, lease.turn_id - room["turn_id"])


def _held(state: State, room: Row | None) -> list[Row]:
    rows = [row for row in state.rows["reservations"] if row["state"] == "active"]
    return sorted((row for row in rows if room and row["room_id"] == room["room_id"]), key=lambda r: r["scope_key"])


def _reservation(state: State, row: Row, labels: dict[str | None, int]) -> tuple[Any, ...]:
    return row["scope_key"], labels[row["agent_id"]], _left(state, row["expires_at"])


def _streams(state: State, room: Row | None, clients: list[Client], labels: dict[str | None, int]) -> tuple[Any, ...]:
    """The stream of the room, and those of closed rooms: their questions can still be answered and cancelled."""
    own = [room["topic_id"]] if room else []
    closed = [each for each in dict.fromkeys(row["topic_id"] for row in state.rows["messages"]) if each not in own]
    where = {topic_id: place for place, topic_id in enumerate(closed)}
    streams = [_stream(state, topic_id, labels) for topic_id in own + closed]
    return streams, where and [where.get(client.topic_id or "") for client in clients]


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


# -- what a suspended operation remembers


def _doing(state: State, client: Client, clients: list[Client]) -> Any:
    if client.doing is None:
        return None
    operation, seen = client.doing.operation, client.doing.seen
    if operation in ("wait", "wait_in_vain", "take_over"):
        looks, gone = _looking(seen, client.room_id, None if operation == "take_over" else client.agent_id)
        if gone is not None:
            return operation, _gone(state, gone, clients)
        if operation == "take_over":
            return operation, _same(open_room(seen[looks - 1]), open_room(state), "room_id", "turn_id")
        return operation, operation == "wait_in_vain" and _claiming(seen[looks:], state, client, clients)
    if operation == "reverse_order":  # after the change it only looks
        _, gone = _looking(seen[1:], client.room_id, None)
        return operation, gone and _gone(state, gone, clients)
    if operation in ("release", "force", "kick_next"):  # the second transaction looks at everything again
        return operation
    if operation == "join":
        return operation, _joining(seen, state)
    if operation in ("sync", "sync_in_vain"):
        return operation, _reading(seen, state, client)
    if operation == "wait_in_vain":
        return operation, _claiming(seen, state, client, clients)
    return operation, [_seen(then, state, client, clients) for then in seen]


def _looking(seen: tuple[State, ...], room_id: str | None, own: str | None) -> tuple[int, Row | None]:
    """An agent that waits or takes over looks, and looks again if it finds another agent gone than before.

    A wait does not check its `own` process. Returns how many of the transactions were looks, and the member that was
    found gone if the agent will look again.
    """
    known: Row | None = None
    for number, then in enumerate(seen, start=1):
        gone = _found_gone(then, room_id, own)
        if gone is None or (known is not None and _is_same_process(gone, known)):
            return number, None
        known = gone
    return len(seen), known


def _found_gone(state: State, room_id: str | None, own: str | None) -> Row | None:
    """The member that the room waits for, if its process is found gone."""
    room = open_room(state)
    if room is None or room["room_id"] != room_id:
        return None
    expected = room["owner"] or room["reserved_for"]
    member = next((row for row in members(state, room) if row["agent_id"] == expected), None)
    if member is None or expected == own or member["is_gone"]:
        return None
    return member if _process(state, member) == "gone" else None


def _gone(state: State, gone: Row, clients: list[Client]) -> tuple[int | None, bool]:
    """Which agent was found gone, and whether it is still recorded with that process."""
    label = next((label for label, each in enumerate(clients) if each.agent_id == gone["agent_id"]), None)
    rows = members(state, open_room(state))
    return label, any(row["agent_id"] == gone["agent_id"] and _is_same_process(row, gone) for row in rows)


def _is_same_process(one: Row, other: Row) -> bool:
    return bool(one["pid"] == other["pid"] and one["process_started_at"] == other["process_started_at"])


def _claiming(seen: tuple[State, ...], now: State, client: Client, clients: list[Client]) -> Any:
    """After its looks, waiting looks once more and claims. A lost reply then undoes the claim, unless it is no longer
    the last one or was renewed after a tick."""
    if not seen:
        return None
    before, room = open_room(seen[0]), open_room(now)
    if before is None or room is None or room["room_id"] != before["room_id"]:
        return "void"
    is_last = (room["owner"], room["turn_id"]) == (client.agent_id, before["turn_id"] + 1)
    if not is_last or room["lease_expires_at"] > seen[0].now + TICK:
        return "void"
    return _room(now._replace(rows=seen[0].rows), before, {each.agent_id: label for label, each in enumerate(clients)})


def _joining(seen: tuple[State, ...], now: State) -> tuple[str, bool]:
    """Joining finds a room or creates one, and then enters it. If it was closed meanwhile, it begins anew."""
    upcoming, target = "find", None
    for then in seen:
        room = open_room(then)
        if upcoming == "enter":
            upcoming, target = "find", None
        elif room is not None:
            upcoming, target = "enter", room["room_id"]
        elif upcoming == "find":
            upcoming = "create"
        else:
            upcoming, target = "enter", now.rows["path_rooms"][len(then.rows["path_rooms"])]["room_id"]
    room = open_room(now)
    return upcoming, room is not None and room["room_id"] == target


def _reading(seen: tuple[State, ...], now: State, client: Client) -> tuple[Any, ...]:
    """Reading finds the next message of others, and then moves the cursor there. A lost reply moves it back at last."""
    then, cursor, present = seen[0], find_cursor(seen[0], client), find_cursor(now, client)
    assert cursor is not None and present is not None
    if len(seen) > 1:
        return ("moved", cursor["last_seq"])
    unread = [
        row["seq"]
        for row in then.rows["messages"]
        if row["topic_id"] == client.topic_id
        and row["sender_id"] != cursor["peer_id"]
        and row["seq"] > cursor["last_seq"]
    ]
    is_fresh = cursor["updated_at"] == then.now
    return cursor["last_seq"], min(unread, default=None), is_fresh, cursor["resets"] == present["resets"]


def _seen(then: State, now: State, client: Client, clients: list[Client]) -> tuple[Any, ...]:
    """All that one of its transactions may have seen, and what of it is as it was."""
    alone = without_doings(then)
    columns = ("room_id", "turn_id", "lease_id", "lease_expires_at", "reserved_for", "pending_handoff_event_seq")
    return (
        _facts(alone, [alone.clients[each.number] for each in clients]),
        min(now.ticks - then.ticks, 3),
        _same(open_room(then), open_room(now), *columns),
        _same(find_cursor(then, client), find_cursor(now, client), "resets"),
    )


def _same(then: Row | None, now: Row | None, *columns: str) -> Any:
    """Which columns are as they were."""
    return then and now and [then[column] == now[column] for column in columns]
