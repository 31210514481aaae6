"""Resuming the identity of an agent that is gone: only with proof that it left unfinished work.

The name, what it had reserved and what it had not accepted yet move to the new process. The one that had them keeps
its agent_id, under a generated name, and its history.
"""

from __future__ import annotations

from conch.agents.identity import LOCK, Caller
from conch.bells.base import seat_channel
from conch.bus.names import present_name
from conch.errors import AdoptionRejected
from conch.host.paths import Scope, parse_scope
from conch.members.evidence import Evidence, Traces, find_evidence, find_traces, load_past
from conch.members.names import take_over_name
from conch.members.registration import Agent, find_agent, itself, load_agents, to_agent
from conch.notices import activity
from conch.notices.events import ProtocolEvent, insert_event, load_event
from conch.rooms.log import append_event
from conch.rooms.presence import Rooms, admit
from conch.rooms.room import Snapshot, save_room
from conch.storage.base import Row, Transaction
from conch.typed import Any, NamedTuple


class Candidate(NamedTuple):
    agent: Agent
    evidence: Evidence


class Adopted(NamedTuple):
    agent: Agent
    event: ProtocolEvent
    evidence: Evidence


class Adoption:
    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    def adopt(self, caller: Caller, room_id: str, name: str, scope: str) -> Adopted:
        """Become the agent of this name (or agent_id); ADOPTION_REJECTED says why not."""
        with self._rooms.look(None, room_id) as (tx, snapshot):
            admit(snapshot, caller)
            _require_gone(snapshot, caller, _find(tx, snapshot, name))
        within = parse_scope(scope, snapshot.room.canonical_path)
        traces = find_traces(snapshot.room.canonical_path)  # asks other programs, so outside of any transaction
        with self._rooms.change(caller, room_id, LOCK) as (tx, snapshot):
            prior = _find(tx, snapshot, name)
            _require_gone(snapshot, caller, prior)
            evidence = find_evidence(traces, load_past(tx, room_id, prior, caller.agent_id), within)
            if evidence is None:
                raise _no_evidence(prior["name"], within, traces)
            event = self._move(tx, snapshot, caller, prior, within, evidence)
            agent = itself(load_agents(tx, snapshot), caller)
            return Adopted(agent, event, evidence)

    def candidates(self, caller: Caller, room_id: str) -> list[Candidate]:
        """Who could be resumed here, and why; in the room's sequence."""
        with self._rooms.look(None, room_id) as (tx, snapshot):
            gone = [
                (row, load_past(tx, room_id, row, caller.agent_id))
                for row in tx.all("room_agents", room_id=room_id)
                if row["agent_id"] != caller.agent_id and not snapshot.may_be_running(row)
            ]
        if not gone:
            return []
        traces, everything = find_traces(snapshot.room.canonical_path), Scope(".", "/")
        found = [(row, find_evidence(traces, past, everything)) for row, past in gone]
        return [Candidate(to_agent(row, snapshot), evidence) for row, evidence in found if evidence is not None]

    def _move(
        self, tx: Transaction, snapshot: Snapshot, caller: Caller, prior: Row, within: Scope, evidence: Evidence
    ) -> ProtocolEvent:
        room_id, name, member = snapshot.room.room_id, prior["name"], snapshot.member(caller.agent_id)
        self._move_stick(tx, snapshot, prior["agent_id"], caller.agent_id)  # told under the names that were good so far
        prior_name = take_over_name(tx, snapshot.room, prior["agent_id"], name, caller.agent_id)
        tx.run("register_agent", room_id=room_id, agent_id=caller.agent_id, role=prior["role"], now=tx.now)
        move = {"room_id": room_id, "from_agent_id": prior["agent_id"], "to_agent_id": caller.agent_id}
        tx.run("move_reservations", **move)
        tx.run("move_protocol_events", **move)
        payload = {
            "resume_reason": evidence.reason,
            "prior_session_agent": prior["agent_id"],
            "adopted_agent": name,
            "evidence": evidence.summary,
        }
        event_id = insert_event(tx, snapshot.room, "RESUME", payload, None, None, evidence.bead_id, within.path)
        names = {"prior_agent_id": prior["agent_id"], "prior_name": prior_name, "former_name": member.name}
        activity.record(tx, room_id, "RESUME", member._replace(name=name), event_id, names)
        return load_event(tx, event_id)

    def _move_stick(self, tx: Transaction, snapshot: Snapshot, prior_id: str, agent_id: str) -> None:
        """A stick that waits for the identity waits for the new process, and as long as for anybody."""
        if snapshot.room.reserved_for == prior_id:
            tx.ring(seat_channel(snapshot.room.room_id, agent_id))
            _, room = append_event(tx, snapshot.room, "resume", by=prior_id, to=agent_id)
            save_room(tx, room._replace(claim_expires_at=snapshot.later(snapshot.policy.claim_ttl_ms)))


def _find(tx: Transaction, snapshot: Snapshot, name: str) -> Row:
    rows = tx.all("room_agents", room_id=snapshot.room.room_id)
    agents = [to_agent(row, snapshot) for row in rows]
    agent = find_agent(agents, present_name(tx, snapshot.room.topic_id, name))
    return rows[agents.index(agent)]


def _require_gone(snapshot: Snapshot, caller: Caller, agent: Row) -> None:
    name = agent["name"]
    if agent["agent_id"] == caller.agent_id:
        raise _rejected("already_yours", f"{name} is you already.", name)
    if snapshot.may_be_running(agent):
        raise _rejected(
            "still_running", f"{name} is still at work, or may be: only an agent that is gone can be resumed.", name
        )


def _no_evidence(name: str, within: Scope, traces: Traces) -> AdoptionRejected:
    where = f"in {within.path}" if within.path != "." else "here"
    git = "" if traces.is_git else " (git could not tell)"
    message = (
        f"{name} left no unfinished work {where}: no uncommitted file that it had reserved{git}, and no work item in "
        "progress. Register a name of your own."
    )
    return _rejected("no_unfinished_work", message, name)


def _rejected(reason: str, message: str, name: str) -> AdoptionRejected:
    details: dict[str, Any] = {"reason": reason, "name": name}
    return AdoptionRejected(message, **details)
