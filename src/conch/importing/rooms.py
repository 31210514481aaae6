"""Imports the rooms, members and log of a talking stick.

A room that is new gets the log as it was. If agents have already worked in the room here, or an event could not follow
the events before it, the file's events become notes. So the stick stays where it is, and the log stays sound.
"""

from __future__ import annotations

import os

from conch.agents.records import AGENT_ID_RULE, Caller, find_obstacle, insert_agent, is_agent_id
from conch.bells.base import room_channel
from conch.bus.peers import enter_as_itself
from conch.bus.topics import make_home
from conch.clock import MILLISECOND, to_iso
from conch.config import Settings
from conch.errors import InvalidHandoff
from conch.ids import new_lease
from conch.importing.outcome import Outcome, derived_id, to_moment, to_number, to_object, to_text
from conch.lean import json
from conch.notices.events import handoff_payload
from conch.rooms.handoffs import Handoff, check_handoff
from conch.rooms.log import GRANTS, HANDOFFS, Event, find_event, next_event_seq, project
from conch.rooms.presence import member_columns
from conch.rooms.replay import Replay, Seat, follow_members
from conch.rooms.room import Room, save_room
from conch.rooms.verify import object_to
from conch.storage.base import Row, Transaction
from conch.storage.sources import Source

_SESSION = "import"  # the kind of session of an agent that only a file has named
_AT_ONCE = 500


class RoomAppeared(Exception):
    """Another process opened a room at the path at the same moment."""


def find_room_id(tx: Transaction, row: Row) -> str:
    """The room that a room of the file goes to: its own, the open one at its path, or a new one."""
    found = _find(tx, row)
    return _room_id_of(row) if found is None else str(found["room_id"])


def _find(tx: Transaction, row: Row) -> Row | None:
    return tx.one("find_room", room_id=_room_id_of(row)) or tx.one("rooms_at", paths=[_path_of(row)])


def _room_id_of(row: Row) -> str:
    return derived_id("room", "stick", to_text(row.get("room_id")), to_text(row.get("canonical_path")))


def _path_of(row: Row) -> str:
    path = to_text(row.get("canonical_path"))
    return os.path.normpath(path) if os.path.isabs(path) else path


def import_room(tx: Transaction, outcome: Outcome, settings: Settings, source: Source, row: Row) -> None:
    """Add what is new in one room."""
    tx.take_time()
    path = _path_of(row)
    if not os.path.isabs(path) or not path.isprintable():
        outcome.change("room", path, "", "Its path is not absolute here, or has characters that cannot be printed.")
        return
    history = _History(source, row)
    history.forget(_known(tx, history.ids))
    room = _find_or_add(tx, outcome, row, history)
    outcome.know("events", history.known)
    if room is None or not (history.events or history.joins):
        return
    if room.state == "closed":
        outcome.change("room", path, "", "The room is closed, so nothing can be added to it.")
        return
    writer = _Writer(tx, outcome, settings, room, history)
    writer.run()
    save_room(tx, _with_deadlines(tx, writer.replay.room, row))
    tx.ring(room_channel(room.room_id))


class _History:
    """The members and events of a room in a file, each with the id that it has in the store."""

    def __init__(self, source: Source, row: Row) -> None:
        self._room = _room_id_of(row)
        wanted = row.get("room_id")
        members = list(source.rows("room_members", "ordinal, joined_at, agent_id", room_id=wanted))
        self.members = {to_text(each.get("agent_id")): each for each in members}
        self.joins = {self.join_id(agent): agent for agent in self.members}
        rows = source.rows("room_events", "event_seq", room_id=wanted)
        self.events = {self._event_id(each): each for each in rows}
        self.ids = {*self.joins, *self.events}
        self.known = 0
        self._all = self.events

    def join_id(self, agent: str, *more: object) -> str:
        return derived_id("evt", self._room, "join", agent, *more)

    def _event_id(self, event: Row) -> str:
        return derived_id("evt", self._room, to_text(event.get("event_id")), to_number(event.get("event_seq")))

    def covers(self, event_ids: set[str]) -> bool:
        """Whether all these events of the room are from this file, so that nothing has happened in the room here."""
        later = {self.join_id(agent, event_id) for event_id, event in self._all.items() for agent in _named_in(event)}
        return event_ids <= self.ids | later

    def forget(self, known: set[str]) -> None:
        """Keep only what is not in the store yet."""
        self.known = sum(1 for event_id in self.events if event_id in known)
        self.joins = {event_id: agent for event_id, agent in self.joins.items() if event_id not in known}
        self.events = {event_id: event for event_id, event in self.events.items() if event_id not in known}


def _named_in(event: Row) -> list[str]:
    """The agents of an event, by their ids in the file."""
    return [to_text(event[key]) for key in ("from_agent_id", "to_agent_id") if event.get(key)]


def _known(tx: Transaction, event_ids: set[str]) -> set[str]:
    ids = sorted(event_ids)
    parts = [ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE)]
    return {row["event_id"] for part in parts for row in tx.all("known_events", event_ids=part)}


def _find_or_add(tx: Transaction, outcome: Outcome, row: Row, history: _History) -> Room | None:
    """The room of this file, or the open one at its path. None if everything went to a room that is closed now."""
    room_id, path, found = _room_id_of(row), _path_of(row), _find(tx, row)
    if found is not None:
        outcome.know("rooms")
        return Room(**found)
    if history.known and not history.events:
        return None
    first = [to_moment(each.get("created_at"), tx.now) or tx.now for each in history.events.values()]
    first += [to_moment(each.get("joined_at"), tx.now) or tx.now for each in history.members.values()]
    topic_id = derived_id("topic", room_id)
    created_at = min(first, default=tx.now)
    if not tx.count("insert_room", room_id=room_id, canonical_path=path, topic_id=topic_id, now=created_at):
        raise RoomAppeared
    make_home(tx, topic_id, path)
    outcome.add("rooms")
    made = tx.one("find_room", room_id=room_id)
    assert made is not None
    return Room(**made)


def _with_deadlines(tx: Transaction, room: Room, row: Row) -> Room:
    """The room with the deadlines of the file, but none in the future: no agent of the file holds a lease here."""
    if room.owner is not None and room.lease_id is None:
        until = to_moment(row.get("lease_expires_at"), tx.now)
        return room._replace(lease_id=new_lease(), lease_expires_at=tx.now if until is None else until)
    if room.reserved_for is not None and room.claim_expires_at is None:
        until = to_moment(row.get("claim_expires_at"), tx.now)
        return room._replace(claim_expires_at=tx.now if until is None else until)
    return room


class _Writer:
    """Appends what is new to the log of one room."""

    def __init__(self, tx: Transaction, outcome: Outcome, settings: Settings, room: Room, history: _History) -> None:
        self._tx = tx
        self._outcome = outcome
        self._settings = settings
        self._history = history
        self._agents: dict[str, str] = {}
        self._is_as_it_was = history.covers({row["event_id"] for row in tx.all("events_of_room", room_id=room.room_id)})
        seats = tx.all("member_seats", room_id=room.room_id)
        members = {row["agent_id"]: Seat(row["ordinal"], row["joined_at"], bool(row["takes_turns"])) for row in seats}
        self.replay = Replay(room, members)

    def run(self) -> None:
        joins = dict(self._history.joins) if self._is_as_it_was else {}
        for event_id, event in self._history.events.items():
            moment = self._moment(event.get("created_at"))
            for join_id, agent in list(joins.items()):
                if self._moment(self._history.members[agent].get("joined_at")) <= moment:
                    self._join(joins.pop(join_id), join_id)
            named = _named_in(event)
            for agent in named:
                join_id = self._history.join_id(agent)
                self._join(agent, join_id if joins.pop(join_id, None) else self._history.join_id(agent, event_id))
            self._add(event_id, event, named)
        for join_id, agent in joins.items():
            self._join(agent, join_id)

    # -- members

    def _join(self, agent: str, event_id: str) -> None:
        agent_id, room, tx = self._agent(agent), self.replay.room, self._tx
        if agent_id in self.replay.members:
            return
        facts = self._history.members.get(agent, {})
        caller = Caller(agent_id, "", None, _SESSION, to_text(facts.get("display_name") or agent))
        peer = enter_as_itself(tx, room.topic_id, caller)
        tx.run("touch_cursor", peer_id=peer.peer_id, now=self._seen(agent))
        ordinal = max((seat.ordinal for seat in self.replay.members.values()), default=-1) + 1
        given = {"room_id": room.room_id, "agent_id": agent_id, "name": peer.agent_name, "ordinal": ordinal}
        given["takes_turns"] = 1
        tx.run("insert_member", now=self._in_order(facts.get("joined_at")), **given, **member_columns(caller))
        self._append(event_id, "join", facts.get("joined_at"), by=agent_id, details={"ordinal": ordinal})
        self._outcome.add("members")

    def _agent(self, agent: str) -> str:
        """The agent_id in the store. An agent here never gets the history of an agent of the file with the same id."""
        if agent not in self._agents:
            objection = self._object(agent)
            agent_id = agent if objection is None else derived_id("imported", agent).replace("_", ":")
            if self._tx.one("find_agent", agent_id=agent_id) is None:
                insert_agent(self._tx, agent_id, agent_id.partition(":")[0], _SESSION, None)
                self._tx.run("touch_agent", agent_id=agent_id, now=self._seen(agent))
                self._outcome.add("agents")
                if objection is not None:
                    self._outcome.change("agent", agent, agent_id, f"An agent_id {objection}.")
            self._agents[agent] = agent_id
        return self._agents[agent]

    def _object(self, agent: str) -> str | None:
        """Why the agent cannot have this id here."""
        if not is_agent_id(agent):
            return AGENT_ID_RULE
        found = self._tx.one("find_agent", agent_id=agent)
        if found is not None:
            return None if found["session_kind"] == _SESSION else "cannot be used here if an agent here already has it"
        obstacle = find_obstacle(self._tx, agent)
        return None if obstacle is None else f"cannot be used here if it {obstacle.words}"

    def _seen(self, agent: str) -> int:
        """When an agent was last seen. It does not count as active, because it is not here."""
        absent = self._tx.now - self._settings.policy.presence_ttl_ms * MILLISECOND
        seen = to_moment(self._history.members.get(agent, {}).get("last_seen_at"), absent)
        return absent if seen is None else seen

    # -- events

    def _add(self, event_id: str, row: Row, named: list[str]) -> None:
        kind, handoff = to_text(row.get("event_type")), None
        if kind in HANDOFFS:
            handoff = _fit_handoff(row.get("handoff_json"))
        by, to = (self._agent(to_text(row[key])) if row.get(key) else None for key in ("from_agent_id", "to_agent_id"))
        if kind in GRANTS:  # an event of ours says in `to` who got the stick
            expected = self.replay.room.owner or self.replay.room.reserved_for
            by, to = expected if kind == "takeover" else by if to else None, to or by
        turn_id = self.replay.room.turn_id + (kind in GRANTS)
        last = self.replay.room.last_event_seq
        candidate = Event(0, "", "", turn_id, kind, by, None, to, None, handoff, None, {}, 0, last)
        if self._is_as_it_was and kind in (*GRANTS, *HANDOFFS, "close") and not object_to(self.replay, candidate):
            index = None if to is None else {"sequence_index": self.replay.members[to].ordinal}
            details = index if kind in HANDOFFS else None
            reason = to_text(row["reason"]) if row.get("reason") else self._usual_reason(kind)
            accepted = self.replay.room.pending_handoff_event_seq if kind in GRANTS else None
            event = self._append(event_id, kind, row.get("created_at"), by, to, turn_id, handoff, reason, details)
            self._notify(event, accepted)
            if kind == "close":
                topic_id = self.replay.room.topic_id
                self._tx.run("close_topic", topic_id=topic_id, reason=reason, now=event.created_at)
        elif named:
            note = {"note": _describe(row, self._moment(row.get("created_at")))}
            self._append(event_id, "note", row.get("created_at"), self._agent(named[0]), details=note)
        else:
            self._outcome.change("event", kind, "", "It names no agent.")
            return
        self._outcome.add("events")

    def _usual_reason(self, kind: str) -> str | None:
        """The reason that our own log gives for such an event. A talking stick records none for a claim."""
        if kind == "takeover":
            return "No reason was recorded."
        if kind != "claim":
            return None
        pending = find_event(self._tx, self.replay.room.pending_handoff_event_seq)
        if self.replay.room.reserved_for is None or pending is None:
            return "open_claim"
        return "direct_pass" if pending.event_type == "pass" else "sequence"

    def _append(
        self,
        event_id: str,
        kind: str,
        moment: object,
        by: str | None = None,
        to: str | None = None,
        turn_id: int | None = None,
        handoff: Handoff | None = None,
        reason: str | None = None,
        details: Row | None = None,
    ) -> Event:
        room = self.replay.room
        columns: Row = {
            "event_seq": next_event_seq(self._tx),
            "event_id": event_id,
            "room_id": room.room_id,
            "turn_id": room.turn_id if turn_id is None else turn_id,
            "event_type": kind,
            "from_agent_id": by,
            "to_agent_id": to,
            "handoff_json": None if handoff is None else json.dumps(handoff, ensure_ascii=False),
            "reason": reason,
            "details_json": json.dumps(details) if details else None,
            "created_at": self._in_order(moment),
            "previous_seq": room.last_event_seq,
        }
        self._tx.run("append_event", **columns)
        event = find_event(self._tx, columns["event_seq"])  # with the names of its agents
        assert event is not None
        self.replay = self.replay._replace(room=project(room, event))
        follow_members(self.replay.members, event)
        return event

    def _notify(self, event: Event, accepted: int | None) -> None:
        """Add the notice that goes with a handoff, and accept the one that a grant has answered."""
        tx, now = self._tx, event.created_at
        if accepted is not None and event.to_agent_id is not None:
            given = {"event_seq": accepted, "agent_id": event.to_agent_id, "name": event.to_agent, "now": now}
            tx.run("append_acceptance", room_id=event.room_id, **given)
            tx.run("accept_handoff", **given)
        if event.handoff is not None:
            both = {"from_agent_id": event.from_agent_id, "from_agent": event.from_agent}
            both |= {"to_agent_id": event.to_agent_id, "to_agent": event.to_agent}
            tx.run(
                "insert_protocol_event",
                event_id=derived_id("proto", event.event_id),
                room_id=event.room_id,
                event_type="HANDOFF",
                bead_id=None,
                holder_id=None,
                scope=None,
                payload_json=json.dumps(handoff_payload(event.handoff), ensure_ascii=False),
                handoff_event_seq=event.event_seq,
                created_at=now,
                caused_by=None,
                priority=1,
                **both,
            )

    def _in_order(self, value: object) -> int:
        """The time of an event. The log is in the order of time."""
        return max(self.replay.room.updated_at, self._moment(value))

    def _moment(self, value: object) -> int:
        found = to_moment(value, self._tx.now)
        return self.replay.room.updated_at if found is None else found


def _fit_handoff(text: object) -> Handoff:
    """The handoff of an event. If it is in another form, all of it becomes the status of a new handoff."""
    found = to_object(text) or {"imported": ""}
    try:
        check_handoff(found)
        return found
    except InvalidHandoff:
        status = found.get("imported") or json.dumps(found, ensure_ascii=False)
        next_action = found.get("next_action")
        is_text = isinstance(next_action, str) and next_action.strip()
        return {"status": str(status), "next_action": next_action if is_text else "Read the status."}


def _describe(row: Row, moment: int) -> str:
    agents = [f"{word} {to_text(row[key])}" for word, key in _ENDS if row.get(key)]
    what = " ".join([to_text(row.get("event_type")), *agents])
    lines = [f"Imported: {what}, turn {to_text(row.get('turn_id'))}, {to_iso(moment)}"]
    lines += [to_text(row[key]) for key in ("reason", "handoff_json") if row.get(key)]
    return "\n".join(lines)


_ENDS = (("from", "from_agent_id"), ("to", "to_agent_id"))
