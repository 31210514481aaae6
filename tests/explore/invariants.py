"""The rules, one function each. A rule looks at one step, and raises AssertionError if the step breaks it."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

from tests.explore.state import (
    GRANTS,
    Client,
    Row,
    State,
    Step,
    find_cursor,
    find_event,
    key,
    members,
    open_room,
    without_doings,
)
from tests.explore.world import World

from conch.errors import ConchError
from conch.host.paths import classify
from conch.rooms.verify import verify_rooms
from conch.storage.base import Problem, Store
from conch.turns.waiting import Wait

LONG_ENOUGH = 3  # ticks after which every period has lapsed
REPLAYED = ("path_rooms", "room_members", "room_events")
STEPPING_IN = ("force", "kick_next")  # what only people do


# -- the stick


def each_turn_has_one_owner(world: World, step: Step, is_new: bool) -> None:
    owners: dict[tuple[str, int], set[str]] = defaultdict(set)
    for event in step.after.rows["room_events"]:
        if event["event_type"] in GRANTS:
            owners[event["room_id"], event["turn_id"]].add(event["to_agent_id"])
    for room in step.after.rows["path_rooms"]:
        if room["owner"] is not None:
            owners[room["room_id"], room["turn_id"]].add(room["owner"])
    shared = {turn: agents for turn, agents in owners.items() if len(agents) > 1}
    assert not shared, f"A turn has two owners: {shared}"


def each_grant_is_a_new_turn(world: World, step: Step, is_new: bool) -> None:
    turns: dict[str, list[int]] = defaultdict(list)
    for event in step.after.rows["room_events"]:
        if event["event_type"] in GRANTS:
            turns[event["room_id"]].append(event["turn_id"])
    for granted in turns.values():
        assert granted == list(range(1, len(granted) + 1)), f"The turns were granted in this order: {granted}"


def an_owner_with_time_left_keeps_the_stick(world: World, step: Step, is_new: bool) -> None:
    """A grant takes the stick from nobody whose process lives and whose lease or claim has not lapsed.

    Only a person may do so, by force.
    """
    before, after = open_room(step.before), open_room(step.after)
    if (
        step.operation in STEPPING_IN
        or before is None
        or after is None
        or after["turn_id"] == before["turn_id"]
        or step.client is None
    ):
        return
    expected = before["owner"] or before["reserved_for"]
    deadline = before["lease_expires_at"] or before["claim_expires_at"]
    if expected not in (None, step.client.agent_id):
        lapsed = deadline is not None and deadline <= step.before.now
        assert lapsed or _is_gone(step.before, before, expected), f"{expected} lost the stick while it had time left"


def only_the_current_lease_is_accepted(world: World, step: Step, is_new: bool) -> None:
    if step.showed is None or not step.succeeded or step.client is None:
        return
    room = next(row for row in step.before.rows["path_rooms"] if row["room_id"] == step.client.room_id)
    current = (room["owner"], room["lease_id"], room["turn_id"])
    shown = (step.client.agent_id, step.showed.lease_id, step.showed.turn_id)
    assert shown == current, f"{step.operation} accepted {shown}, but the room has {current}"


def the_owner_is_a_member(world: World, step: Step, is_new: bool) -> None:
    _require_member(step.after, "owner")


def the_recipient_is_a_member(world: World, step: Step, is_new: bool) -> None:
    _require_member(step.after, "reserved_for")


def deadlines_belong_to_what_they_limit(world: World, step: Step, is_new: bool) -> None:
    for room in step.after.rows["path_rooms"]:
        assert (room["claim_expires_at"] is not None) == (room["reserved_for"] is not None), f"claim deadline of {room}"
        assert (room["lease_expires_at"] is not None) == (room["owner"] is not None), f"lease deadline of {room}"


def a_handoff_reaches_the_next_claimer(world: World, step: Step, is_new: bool) -> None:
    """No claim leaves a handoff behind, and the reply has what the last owner wrote."""
    before, after = open_room(step.before), open_room(step.after)
    pending = find_event(step.before, before["pending_handoff_event_seq"] if before else None)
    if before is None or after is None or pending is None:
        return
    if after["turn_id"] == before["turn_id"]:
        kept = after["pending_handoff_event_seq"] == pending["event_seq"]
        assert kept, f"{step.operation} lost a handoff that no one has claimed"
    elif isinstance(step.result, Wait):
        assert step.result.from_agent_id == pending["from_agent_id"], "The claimer got no handoff"
        assert step.result.handoff is not None, "The claimer got an empty handoff"


def the_log_replays_to_the_room(world: World, step: Step, is_new: bool) -> None:
    if any(step.after.rows[name] is not step.before.rows[name] for name in REPLAYED):
        differences = world.verify(step.after, _replay)
        assert not differences, f"The log and the room differ: {differences}"


def _replay(store: Store) -> list[Problem]:
    with store.read() as tx:
        return verify_rooms(tx)[1]


def every_living_agent_can_get_the_stick(world: World, step: Step, is_new: bool) -> None:
    """If all the others fall silent, patience is enough. What they hold does not stay theirs for ever.

    An agent in the middle of an operation gives it up first. After that many states are the same; each is tried once.
    """
    later = without_doings(step.after)._replace(ticks=step.after.ticks + LONG_ENOUGH)
    if not is_new or (end := key(later)) in world.tried:
        return
    world.tried.add(end)
    for client in later.clients:
        if client.alive:
            last = world.step(later, client.number, "insist", whole=True)
            refusal = last.result if isinstance(last.result, ConchError) else None
            assert refusal is None, f"Agent {client.number} can never get the stick and the files: {refusal}"
            room = open_room(last.after)
            assert room and room["owner"] == client.agent_id, f"Agent {client.number} can never get the stick"


# -- reservations


def reservations_of_different_agents_are_disjoint(world: World, step: Step, is_new: bool) -> None:
    state = step.after
    held = [row for row in state.rows["reservations"] if row["state"] == "active" and row["expires_at"] > state.now]
    for one, other in combinations(held, 2):
        if one["room_id"] == other["room_id"] and one["agent_id"] != other["agent_id"]:
            overlap = classify(one["scope_key"], other["scope_key"])
            assert overlap == "disjoint", f"{one['agent_id']} and {other['agent_id']} both hold {one['scope_key']}"


def an_active_reservation_is_not_taken(world: World, step: Step, is_new: bool) -> None:
    """Only its owner, or a person, ends a reservation, while it has time left and its owner was seen lately."""
    if step.operation in STEPPING_IN:
        return
    ended = {row["reservation_id"] for row in step.after.rows["reservations"] if row["state"] != "active"}
    for row in step.before.rows["reservations"]:
        if row["state"] == "active" and row["reservation_id"] in ended and row["expires_at"] > step.before.now:
            owner = next(client for client in step.before.clients if client.agent_id == row["agent_id"])
            assert owner == step.client or not _is_active(step.before, owner), (
                f"{row['scope']} was taken from its owner"
            )


def those_outside_hold_nothing(world: World, step: Step, is_new: bool) -> None:
    inside = {(row["room_id"], row["agent_id"]) for row in step.after.rows["room_members"]}
    for row in step.after.rows["reservations"]:
        if row["state"] == "active":
            assert (row["room_id"], row["agent_id"]) in inside, f"{row['agent_id']} left and still holds {row['scope']}"


# -- messages and questions


def the_stream_has_no_holes(world: World, step: Step, is_new: bool) -> None:
    for topic in step.after.rows["topic_seq"]:
        numbers = [row["seq"] for row in step.after.rows["messages"] if row["topic_id"] == topic["topic_id"]]
        assert sorted(numbers) == list(range(1, topic["next_seq"])), f"The topic has the messages {numbers}"


def a_cursor_stays_within_the_stream(world: World, step: Step, is_new: bool) -> None:
    ends = {row["topic_id"]: row["next_seq"] - 1 for row in step.after.rows["topic_seq"]}
    for cursor in step.after.rows["cursors"]:
        assert 0 <= cursor["last_seq"] <= ends[cursor["topic_id"]], f"The cursor {cursor} is beyond the end"


def a_cursor_moves_back_only_by_a_reset(world: World, step: Step, is_new: bool) -> None:
    after = {row["peer_id"]: row for row in step.after.rows["cursors"]}
    for before in step.before.rows["cursors"]:
        now = after[before["peer_id"]]
        forward = now["last_seq"] >= before["last_seq"] or now["resets"] > before["resets"]
        assert forward, f"{step.operation} moved a cursor back from {before['last_seq']} to {now['last_seq']}"


def a_reader_misses_nothing(world: World, step: Step, is_new: bool) -> None:
    """Everything from others before a cursor was received, or is in the reply that is under way."""
    for client in step.after.clients:
        cursor = find_cursor(step.after, client)
        if cursor is None or client.doing is not None:
            continue
        missed = [
            row["seq"]
            for row in step.after.rows["messages"]
            if row["topic_id"] == client.topic_id
            and row["sender_id"] != cursor["peer_id"]
            and row["seq"] <= cursor["last_seq"]
            and row["seq"] not in client.received
        ]
        assert not missed, f"Agent {client.number} has missed the messages {missed}"


def answers_come_from_others_once(world: World, step: Step, is_new: bool) -> None:
    asked = {row["question_id"]: row["asked_by_id"] for row in step.after.rows["questions"]}
    answers = [(row["question_id"], row["answered_by_id"]) for row in step.after.rows["answers"]]
    assert len(answers) == len(set(answers)), "A peer has answered a question twice"
    assert all(asked[question] != peer for question, peer in answers), "A peer has answered its own question"


def an_ended_question_takes_no_answer(world: World, step: Step, is_new: bool) -> None:
    ended = {row["question_id"] for row in step.before.rows["questions"] if row["status"] != "pending"}
    before = {row["answer_id"] for row in step.before.rows["answers"]}
    late = [row for row in step.after.rows["answers"] if row["answer_id"] not in before and row["question_id"] in ended]
    assert not late, f"{step.operation} answered a question that had ended"


def only_members_that_are_gone_are_marked(world: World, step: Step, is_new: bool) -> None:
    for room in step.after.rows["path_rooms"]:
        for row in members(step.after, room):
            wrong = row["is_gone"] and not _is_gone(step.after, room, row["agent_id"])
            assert not wrong, f"{row['agent_id']} lives, but it is marked as gone"


RULES = (
    each_turn_has_one_owner,
    each_grant_is_a_new_turn,
    an_owner_with_time_left_keeps_the_stick,
    only_the_current_lease_is_accepted,
    the_owner_is_a_member,
    the_recipient_is_a_member,
    deadlines_belong_to_what_they_limit,
    a_handoff_reaches_the_next_claimer,
    reservations_of_different_agents_are_disjoint,
    an_active_reservation_is_not_taken,
    those_outside_hold_nothing,
    the_stream_has_no_holes,
    a_cursor_stays_within_the_stream,
    a_cursor_moves_back_only_by_a_reset,
    a_reader_misses_nothing,
    answers_come_from_others_once,
    an_ended_question_takes_no_answer,
    the_log_replays_to_the_room,
    only_members_that_are_gone_are_marked,
    every_living_agent_can_get_the_stick,
)


def _require_member(state: State, column: str) -> None:
    for room in state.rows["path_rooms"]:
        inside = [row["agent_id"] for row in members(state, room)]
        assert room[column] is None or room[column] in inside, f"{column} {room[column]} is not in the room"


def _is_gone(state: State, room: Row, agent_id: str) -> bool:
    """Whether the process that a member joined with has ended."""
    row = next(row for row in members(state, room) if row["agent_id"] == agent_id)
    living = {client.process for client in state.clients if client.alive}
    return (row["pid"], row["process_started_at"]) not in {(p.pid, p.started_at) for p in living}


def _is_active(state: State, client: Client) -> bool:
    row = next(row for row in state.rows["agents"] if row["agent_id"] == client.agent_id)
    return client.alive and row["last_seen_at"] == state.now
