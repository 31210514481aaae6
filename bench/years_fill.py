"""Fills a store as years of use would: one room, two agents that take turns, and messages on the room's topic.

The library takes the first turns. The others are copies of their rows with higher numbers, in a few large transactions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from conch.agents.identity import Signal, Signals, identify
from conch.agents.records import Caller
from conch.app import App
from conch.rooms.room import load_room, save_room
from conch.storage.base import Transaction

Row = dict[str, Any]

HANDOFF = {"status": "Measured one turn.", "next_action": "Measure the next one."}
TEXT = "The build of the release branch failed again; see the log of the last run, number {} of many."
_NUMBERS = {"room_events": "event_seq", "protocol_events": "number", "room_activity": "number"}


class Filled(NamedTuple):
    room_id: str
    topic_id: str


def fill(app: App, path: str, turns: int, messages: int, clock: list[int], until: int) -> Filled:
    """Fill an empty store. `clock` is the store's clock, which runs from its moment to `until`."""
    ada, bob = (_agent(app, agent_id) for agent_id in ("ada:1", "bob:1"))
    room = app.membership.join_path(ada, path).snapshot.room
    app.membership.join_path(bob, path)
    peers = [app.peers.join_as_itself(agent, room.topic_id) for agent in (ada, bob)]
    for agent in (ada, bob) * 2:  # the first round of turns begins without a handoff
        _take_turn(app, agent, room.room_id)
    started = clock[0]
    step = max(1, (until - started) // max(turns // 2, 1))
    with app.store.write(room.room_id, room.topic_id) as tx:
        tx.take_time()
        _repeat_round(tx, room.room_id, turns // 2 - 2, step)
        ids = [peer.peer_id for peer in peers]
        tx.load("messages", _messages(room.topic_id, ids, messages, started, until))
        tx.one("take_seqs", topic_id=room.topic_id, count=messages, now=until)
    clock[0] = until
    for peer in peers:
        app.messages.mark_read(peer, messages)
    return Filled(room.room_id, room.topic_id)


def _agent(app: App, agent_id: str) -> Caller:
    signals = Signals((Signal("explicit", agent_id, "bench"),), "bench", None, None, "mcp_harness", "bench")
    return identify(app.store, signals)


def _take_turn(app: App, agent: Caller, room_id: str) -> None:
    app.claims.wait_for_turn(agent, room_id, max_wait_ms=0)
    room = app.rooms.get_state(None, room_id).room
    app.turns.release_stick(agent, room_id, str(room.lease_id), room.turn_id, HANDOFF)


def _repeat_round(tx: Transaction, room_id: str, rounds: int, step: int) -> None:
    """Copy the rows of the last round of two turns: four events, two notices, and that they were accepted."""
    rows = {table: sorted(tx.dump(table), key=lambda row, n=number: row[n]) for table, number in _NUMBERS.items()}
    last = {"room_events": rows["room_events"][-4:], "protocol_events": rows["protocol_events"][-2:]}
    # The last notice is not accepted yet. What was accepted last is one turn behind.
    waiting, accepted = last["protocol_events"][-1], last["protocol_events"][-2]
    last["room_activity"] = [row for row in rows["room_activity"] if row["subject_id"] == accepted["event_id"]]
    offset = {table: rows[table][-1][number] for table, number in _NUMBERS.items()}
    tx.run("mark_accepted", event_id=waiting["event_id"], now=waiting["created_at"] + step)
    template = last["room_activity"][-1]
    tx.load("room_activity", [_accepted(template, waiting, offset["room_activity"] + 1, waiting["created_at"] + step)])
    offset["room_activity"] += 1
    tx.load("room_events", _events(last["room_events"], rounds, step))
    tx.load("protocol_events", _notices(last["protocol_events"], accepted, rounds, step))
    tx.load("room_activity", _acceptances(template, last["protocol_events"], offset["room_activity"], rounds, step))
    room = load_room(tx, room_id)
    moved = 4 * rounds
    pending = room.pending_handoff_event_seq
    save_room(
        tx,
        room._replace(
            turn_id=room.turn_id + 2 * rounds,
            last_event_seq=room.last_event_seq + moved,
            pending_handoff_event_seq=None if pending is None else pending + moved,
        ),
    )


def _events(templates: list[Row], rounds: int, step: int) -> Iterator[Row]:
    for number in range(1, rounds + 1):
        for row in templates:
            details = json.loads(row["details_json"] or "{}")
            if details.get("handoff_event_seq"):
                details["handoff_event_seq"] += 4 * number
            yield {
                **row,
                "event_seq": row["event_seq"] + 4 * number,
                "previous_seq": row["previous_seq"] + 4 * number,
                "event_id": f"{row['event_id']}-{number}",
                "turn_id": row["turn_id"] + 2 * number,
                "details_json": json.dumps(details) if details else None,
                "created_at": row["created_at"] + step * number,
            }


def _notices(templates: list[Row], accepted: Row, rounds: int, step: int) -> Iterator[Row]:
    for number in range(1, rounds + 1):
        for row in templates:
            created_at, is_last = row["created_at"] + step * number, number == rounds and row is templates[-1]
            done = created_at + (0 if row is templates[0] else step)
            yield {
                **row,
                "number": row["number"] + 2 * number,
                "event_id": f"{row['event_id']}-{number}",
                "handoff_event_seq": row["handoff_event_seq"] + 4 * number,
                "created_at": created_at,
                "state": "unread" if is_last else "accepted",
                "seen_at": None if is_last else done,
                "accepted_at": None if is_last else done,
            }


def _acceptances(template: Row, notices: list[Row], offset: int, rounds: int, step: int) -> Iterator[Row]:
    place = offset
    for number in range(1, rounds + 1):
        for row in notices:
            if number == rounds and row is notices[-1]:
                return
            place += 1
            moment = row["created_at"] + step * number + (0 if row is notices[0] else step)
            notice = {"event_id": f"{row['event_id']}-{number}", "to_agent_id": row["to_agent_id"]}
            yield _accepted(template, {**notice, "to_agent": row["to_agent"]}, place, moment)


def _accepted(template: Row, notice: Row, number: int, moment: int) -> Row:
    who = {"agent_id": notice["to_agent_id"], "agent_name": notice["to_agent"]}
    return {**template, **who, "number": number, "subject_id": notice["event_id"], "created_at": moment}


def _messages(topic_id: str, senders: list[int], count: int, start: int, until: int) -> Iterator[Row]:
    for number in range(count):
        yield {
            "message_id": f"msg_{number}",
            "topic_id": topic_id,
            "seq": number + 1,
            "sender_id": senders[number % 2],
            "message_type": "message",
            "content_markdown": TEXT.format(number),
            "created_at": start + (until - start) * number // count,
            "own_seq": number // 2 + 1,
        }
