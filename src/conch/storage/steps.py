"""Migration steps that need Python. A step runs after its SQL script, in the same transaction.

The sixth migration adds agents' names to older room events, which have only agent_ids. An event gets the name that its
agent had at the time. That is today's name, unless the agent was renamed or left since then. In that case the room's
activity or log has recorded the earlier name.

The ninth migration finds the priority of notices in their payloads. The tenth writes down what each name looks like,
and the twenty-fifth and the twenty-seventh do so again. The thirteenth finds the addressees of messages in their
metadata.
"""

from __future__ import annotations

from collections import defaultdict

from conch.lean import NamedTuple, json
from conch.letters.names import skeletons
from conch.storage.base import Execute, Row

_MEMBERS = "SELECT room_id, agent_id, name FROM room_members"
_RENAMINGS = """
SELECT room_id, agent_id, agent_name, details_json, created_at FROM room_activity
WHERE kind IN ('registered', 'RESUME') AND details_json IS NOT NULL
"""
_DEPARTURES = """
SELECT room_id, from_agent_id, details_json, created_at FROM room_events
WHERE event_type = 'leave' AND details_json IS NOT NULL
"""
_OWN_NAMES = """
SELECT r.room_id, own.agent_id, own.name
FROM peers own JOIN path_rooms r ON r.topic_id = own.topic_id WHERE own.is_own = 1
"""
_NAME_THEN = """
UPDATE room_events SET {role} = :name
WHERE room_id = :room_id AND {role}_id = :agent_id AND created_at <= :until AND {role} IS NULL
"""
_NAME_NOW = """
UPDATE room_events SET {role} = COALESCE(
  (SELECT m.name FROM room_members m WHERE m.room_id = room_events.room_id AND m.agent_id = room_events.{role}_id),
  (SELECT own.name FROM peers own JOIN path_rooms r ON r.topic_id = own.topic_id
   WHERE r.room_id = room_events.room_id AND own.agent_id = room_events.{role}_id AND own.is_own = 1),
  {role}_id
)
WHERE {role} IS NULL AND {role}_id IS NOT NULL
"""
_REORDERINGS = """
SELECT event_seq, room_id, details_json, created_at FROM room_events
WHERE event_type = 'reorder' AND details_json IS NOT NULL
"""
_ALL_NAMES = """
SELECT name FROM topics UNION SELECT agent_name FROM agent_name_reservations UNION SELECT name FROM room_members
UNION SELECT name FROM agents UNION SELECT agent_id FROM agents
"""
_ADD_SKELETON = """
INSERT INTO name_skeletons (skeleton, name) VALUES (:skeleton, :name) ON CONFLICT (skeleton, name) DO NOTHING
"""
_LISTED_NAMES = "SELECT DISTINCT name FROM name_skeletons"
_BLOCKED = "SELECT number, payload_json FROM protocol_events WHERE event_type = 'BLOCKED'"
_SET_PRIORITY = "UPDATE protocol_events SET priority = :priority WHERE number = :number"
_PRIORITIES = {"high": 0, "low": 2}  # any other urgency is 1
_ADDRESSED = """
SELECT topic_id, seq, sender_id, metadata_json FROM messages WHERE metadata_json LIKE '%"to"%'
"""
_LONGEST_ADDRESSEE = 200
_ADD_ADDRESSEE = """
INSERT INTO message_addressees (addressee, topic_id, seq, sender_id) VALUES (:addressee, :topic_id, :seq, :sender_id)
"""
_SET_DETAILS = "UPDATE room_events SET details_json = :details_json WHERE event_seq = :event_seq"


class _Agent(NamedTuple):
    room_id: str
    agent_id: str


class _Until(NamedTuple):
    """The name an agent had until a moment."""

    moment: int
    name: str


def run_step(version: int, execute: Execute) -> None:
    """Run the step of the migration to this version, if it has one."""
    if version == 6:
        _write_names(execute)
    if version == 9:
        for row in execute(_BLOCKED, {}):
            priority = _PRIORITIES.get(json.loads(row["payload_json"]).get("urgency"), 1)
            execute(_SET_PRIORITY, {"priority": priority, "number": row["number"]})
    if version == 10:
        _write_skeletons(execute, _ALL_NAMES)
    if version == 13:
        for row in execute(_ADDRESSED, {}):
            _write_addressees(execute, row)
    if version in (25, 27):
        _write_skeletons(execute, _LISTED_NAMES)


def _write_skeletons(execute: Execute, names: str) -> None:
    listed = [row["name"] for row in execute(names, {})]
    execute("DELETE FROM name_skeletons", {})
    for name in listed:
        for skeleton in skeletons(name):
            execute(_ADD_SKELETON, {"skeleton": skeleton, "name": name})


def _write_addressees(execute: Execute, row: Row) -> None:
    to = json.loads(row.pop("metadata_json")).get("to")
    names = [to] if isinstance(to, str) else to if isinstance(to, list) else []
    for name in {name for name in names if isinstance(name, str) and len(name) <= _LONGEST_ADDRESSEE}:
        execute(_ADD_ADDRESSEE, {**row, "addressee": name})


def _write_names(execute: Execute) -> None:
    today = {_Agent(row["room_id"], row["agent_id"]): row["name"] for sql in (_OWN_NAMES, _MEMBERS)
             for row in execute(sql, {})}  # fmt: skip
    history = _history(execute, today)
    for role in ("from_agent", "to_agent"):
        for agent, earlier in history.items():
            for until in earlier:
                given = {**agent._asdict(), "until": until.moment, "name": until.name}
                execute(_NAME_THEN.format(role=role), given)
        execute(_NAME_NOW.format(role=role), {})
    for row in execute(_REORDERINGS, {}):
        _name_order(execute, row, today, history)


def _history(execute: Execute, today: dict[_Agent, str]) -> dict[_Agent, list[_Until]]:
    """The earlier names of every agent whose name has changed, oldest first."""
    found = defaultdict[_Agent, set[_Until]](set)
    for row in execute(_RENAMINGS, {}):
        details, room_id, moment = json.loads(row["details_json"]), row["room_id"], row["created_at"]
        if "former_name" in details:
            found[_Agent(room_id, row["agent_id"])].add(_Until(moment, details["former_name"]))
        if "prior_agent_id" in details:  # the agent that resumed the work took over this agent's name
            found[_Agent(room_id, details["prior_agent_id"])].add(_Until(moment, row["agent_name"]))
    for row in execute(_DEPARTURES, {}):
        details = json.loads(row["details_json"])
        if "name" in details:
            found[_Agent(row["room_id"], row["from_agent_id"])].add(_Until(row["created_at"], details["name"]))
    return {agent: _changes(sorted(untils), today.get(agent)) for agent, untils in found.items()}


def _changes(untils: list[_Until], name: str | None) -> list[_Until]:
    """Only the entries after which the name was different. The others are true but useless, and each
    would cost an update: an agent may leave and come back with the same name many times.
    """
    changes: list[_Until] = []
    for until in reversed(untils):
        if until.name != name:
            changes.append(until)
            name = until.name
    return changes[::-1]


def _name_order(execute: Execute, row: Row, today: dict[_Agent, str], history: dict[_Agent, list[_Until]]) -> None:
    details = json.loads(row["details_json"])
    agents = [_Agent(row["room_id"], agent_id) for agent_id in details.get("order", ())]
    names = [
        next((until.name for until in history.get(agent, ()) if until.moment >= row["created_at"]), None)
        or today.get(agent, agent.agent_id)
        for agent in agents
    ]
    text = json.dumps({**details, "names": names})
    execute(_SET_DETAILS, {"details_json": text, "event_seq": row["event_seq"]})
