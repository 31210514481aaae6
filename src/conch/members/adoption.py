"""Resuming the identity of an agent that is gone, which needs evidence that it left unfinished work.

The caller gets the name, the reservations and the unaccepted notices of that agent. The prior agent keeps its agent_id
and its history, under a generated name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from conch.agents.records import LOCK, Caller, label, read_label
from conch.bells.base import seat_channel
from conch.bus.peers import present_name_in_room
from conch.calls import Call, Latest, Telling
from conch.errors import AdoptionRejected, Advice, some_of
from conch.host.beads import WorkItem, in_progress_items
from conch.host.paths import Scope, classify, make_scope, parse_scope, shown
from conch.host.workspaces import folds_case, workspace_root
from conch.lean import Any, NamedTuple, json
from conch.members.names import Agent, find_agent, load_itself, no_agent, take_over_name, to_agent
from conch.notices import activity
from conch.notices.events import ProtocolEvent, insert_event, load_event, to_protocol_event
from conch.rooms.log import append_event
from conch.rooms.presence import Rooms, admit
from conch.rooms.room import Room, Snapshot, expect_called, save_room
from conch.scopes.overlaps import Holding, Holdings, Reservation, hand_over, to_reservation
from conch.storage.base import NO_LIMIT, Row, Transaction

NO_EVIDENCE = "no_unfinished_work"  # the reason of a refusal that a person may overrule
_MOST_NAMED = 3
_MOST_BEADS = 20
_EVERYTHING = Scope(".", "/")


class Candidate(NamedTuple):
    agent: Agent
    evidence: Evidence


class Adopted(NamedTuple):
    agent: Agent
    event: ProtocolEvent
    evidence: Evidence
    stick_held_by: str | None
    """The agent that is gone, if it holds the stick. Adopting does not move the stick; the caller can take it over."""
    moved: Moved


class Moved(NamedTuple):
    """What an adoption has moved from an agent that is gone. Other agents may be waiting for it."""

    prior_id: str
    reservations: dict[str, Holding]
    """By their ids."""
    offer: Telling | None
    """Of the turn for which the stick was offered to that agent."""
    reply: object
    """Identifies a reply that tells of the adoption."""

    def has_lost_offer(self, room: Room, unread: bool) -> bool:
        """Whether to take back the offer, if the stick is still offered, after the reply was lost or left `unread`."""
        return self.offer is not None and self.offer.explains(room.turn_id) and self.offer.is_lost(unread)

    def has_lost(self, held: Reservation, unread: bool) -> bool:
        """Whether to take back a reservation, after the reply was lost or left `unread`."""
        holding = self.reservations.get(held.reservation_id)
        return holding is not None and holding.is_lost(held, unread)

    def read(self) -> None:
        if self.offer is not None:
            self.offer.read(self.reply)
        for holding in self.reservations.values():
            holding.read()

    def lose(self) -> None:
        if self.offer is not None:
            self.offer.lose(self.reply)
        for holding in self.reservations.values():
            holding.lose()


class Adoption:
    def __init__(self, rooms: Rooms, holdings: Holdings) -> None:
        self._rooms = rooms
        self._holdings = holdings
        self._offers: Latest[Telling] = Latest()

    def adopt(
        self,
        caller: Caller,
        room_id: str,
        name: str,
        scope: str,
        confirmed: bool = False,
        call: Call | None = None,
    ) -> Adopted:
        """Become the agent with this name or agent_id. AdoptionRejected says why not.

        Without evidence, a person may have `confirmed` it. The record then says so.
        """
        # Refuse what can be refused before git and bd are run; the transaction below checks again.
        with self._rooms.look(None, room_id) as (tx, snapshot):
            admit(tx, snapshot, caller)
            is_again = _is_resumed(tx, snapshot, name, caller)
            if not is_again:
                _require_gone(snapshot, caller, _find(tx, snapshot, name))
        reply = (call or Call()).reply
        if is_again:
            return self._rooms.briefly(partial(self._adopt_again, caller, room_id, name, reply))
        within = parse_scope(scope, snapshot.room.canonical_path)
        traces = _find_traces(snapshot.room.canonical_path)  # runs git and bd, so outside of any transaction

        def become() -> tuple[Agent, Callable[[], list[Row]], Evidence, str | None, Moved]:
            with self._rooms.change(caller, room_id, LOCK, ahead=partial(expect_called, name)) as (tx, snapshot):
                prior, own = _find(tx, snapshot, name), load_itself(tx, snapshot, caller)
                _require_gone(snapshot, caller, prior)
                past = _load_past(tx, snapshot.room, prior, caller.agent_id)
                evidence = _require_evidence(traces, past, within, prior, _CONFIRMED if confirmed else None)
                moved = self._move_work(tx, snapshot, prior["agent_id"], caller, reply)  # before the names change
                event = self._move(tx, snapshot, caller, prior, shown(scope, within.path), evidence)
                agent = own._replace(name=prior["name"], role=prior["role"] or own.role, is_registered=True)
                return agent, event, evidence, snapshot.room.owner if past.holds_stick else None, moved

        agent, event, evidence, holder, moved = self._rooms.briefly(become)
        (row,) = event()
        return Adopted(agent, to_protocol_event(row), evidence, holder, moved)

    def _adopt_again(self, caller: Caller, room_id: str, name: str, reply: object) -> Adopted:
        """The same answer again. Its first reply may be lost, and `give_back` may have undone a part of it."""
        with self._rooms.change(caller, room_id, LOCK) as (tx, snapshot):
            resumed, own = _find_resumed(tx, room_id, caller.agent_id), load_itself(tx, snapshot, caller)
            if resumed is None:  # the store was replaced meanwhile
                raise no_agent(name, [])
            prior_id, event = resumed.prior_id, load_event(tx, resumed.event_id)
            moved = self._move_work(tx, snapshot, prior_id, caller, reply, event.created_at)
            evidence = Evidence(event.payload["resume_reason"], event.payload["evidence"], event.bead_id)
            return Adopted(own, event, evidence, prior_id if snapshot.room.owner == prior_id else None, moved)

    def give_back(self, caller: Caller, room_id: str, moved: Moved, unread: bool = False) -> None:
        """Let other agents have what they may wait for, if a reply of an adoption was lost, or stays `unread`.

        The reservations and the offer of the stick return to the agent that is gone, unless another reply may tell the
        caller of them. The caller also keeps what overlaps a reservation that it keeps. If it asks again, it gets the
        rest again. It keeps the name and the notices, which block nobody.
        """
        moved.lose()
        with self._rooms.undo(room_id, LOCK) as (tx, snapshot):
            held, prior = _load_reservations(tx, snapshot, caller.agent_id), snapshot.find(moved.prior_id)
            if prior is None:  # it has left meanwhile, so nothing can return to it
                return
            for group in _group(held):
                if all(moved.has_lost(each, unread) for each in group):
                    for each in group:
                        hand_over(tx, each, prior)
            room = snapshot.room
            if room.reserved_for == caller.agent_id and moved.has_lost_offer(room, unread):
                _, room = append_event(tx, room, "resume", by=caller.agent_id, to=moved.prior_id)
                save_room(tx, room)

    def examine(self, caller: Caller, room_id: str, name: str, scope: str) -> Evidence:
        """Why an agent could be resumed. AdoptionRejected says why not. The caller need not be a member."""
        with self._rooms.look(None, room_id) as (tx, snapshot):
            prior = _find(tx, snapshot, name)
            _require_gone(snapshot, caller, prior)
            past = _load_past(tx, snapshot.room, prior, caller.agent_id)
        within = parse_scope(scope, snapshot.room.canonical_path)
        return _require_evidence(_find_traces(snapshot.room.canonical_path), past, within, prior)

    def candidates(self, caller: Caller, room_id: str) -> list[Candidate]:
        """The agents that could be resumed here, with the evidence, in the room's sequence."""
        state = self._rooms.get_state(None, room_id)
        if not state.left_out and all(state.roll.life(member) == "alive" for member in state.members):
            return []  # saves running git and bd
        items = in_progress_items(state.room.canonical_path)
        with self._rooms.look(None, room_id) as (tx, snapshot):
            gone = [
                (row, _load_past(tx, snapshot.room, row, caller.agent_id))
                for row in _find_workers(tx, snapshot, items)
                if row["agent_id"] != caller.agent_id and not snapshot.may_be_running(row)
            ]
        if not gone:
            return []
        traces = _find_traces(snapshot.room.canonical_path, items)
        found = [(row, _find_evidence(traces, past, _EVERYTHING)) for row, past in gone]
        return [Candidate(to_agent(row, snapshot), evidence) for row, evidence in found if evidence is not None]

    def _move(
        self, tx: Transaction, snapshot: Snapshot, caller: Caller, prior: Row, scope: str, evidence: Evidence
    ) -> Callable[[], list[Row]]:
        """Returns the function that reads the notice of the adoption after the commit."""
        room_id, name, member = snapshot.room.room_id, prior["name"], snapshot.member(caller.agent_id)
        prior_name = take_over_name(tx, snapshot.room, prior["agent_id"], name, caller.agent_id)
        tx.run("register_agent", room_id=room_id, agent_id=caller.agent_id, role=prior["role"], now=tx.now)
        move = {"room_id": room_id, "from_agent_id": prior["agent_id"], "to_agent_id": caller.agent_id}
        tx.run("move_protocol_events", **move)
        payload = {
            "resume_reason": evidence.reason,
            "prior_session_agent": prior["agent_id"],
            "adopted_agent": name,
            "evidence": evidence.summary,
        }
        event_id = insert_event(tx, snapshot.room, "RESUME", payload, None, None, evidence.bead_id, scope)
        names = {"prior_agent_id": prior["agent_id"], "prior_name": prior_name, "former_name": member.name}
        # The timeline shows the agent under the name that it has from now on.
        activity.record(tx, room_id, "RESUME", member._replace(name=name), event_id, names)
        return tx.last("find_protocol_event", event_id=event_id)

    def _move_work(
        self,
        tx: Transaction,
        snapshot: Snapshot,
        prior_id: str,
        caller: Caller,
        reply: object,
        until: int | None = None,
    ) -> Moved:
        """Move the reservations made until then, and the offer of the stick, with the full time to claim it."""
        agent_id = caller.agent_id
        heir, moved = snapshot.member(agent_id), {}
        for each in _load_reservations(tx, snapshot, agent_id):
            holding = self._holdings.find(each)
            if holding is not None and holding.prior_id == prior_id:  # asked again: this reply tells of it, too
                moved[each.reservation_id] = holding.told_again(reply, each.expires_at)
        for each in _load_reservations(tx, snapshot, prior_id):
            if until is None or each.created_at <= until:
                hand_over(tx, each, heir, is_recorded=until is not None)
                moved[each.reservation_id] = self._holdings.begin(each, reply, prior_id)
        return Moved(prior_id, moved, self._move_offer(tx, snapshot, prior_id, agent_id, reply), reply)

    def _move_offer(
        self, tx: Transaction, snapshot: Snapshot, prior_id: str, agent_id: str, reply: object
    ) -> Telling | None:
        room, adoption = snapshot.room, " ".join((snapshot.room.room_id, prior_id, agent_id))
        offer = self._offers.get(adoption)
        if room.reserved_for == prior_id:
            tx.ring(seat_channel(room.room_id, agent_id))
            _, moved = append_event(tx, room, "resume", by=prior_id, to=agent_id)
            save_room(tx, moved._replace(claim_expires_at=snapshot.later(snapshot.policy.claim_ttl_ms)))
            offer = Telling(reply, moved.turn_id)
            self._offers.note(adoption, offer)
        elif offer is not None:  # asked again: this reply tells of it, too
            offer.again(reply)
        return offer


def _load_reservations(tx: Transaction, snapshot: Snapshot, agent_id: str) -> list[Reservation]:
    rows = tx.all("reservations_of", agent_id=agent_id, room_id=snapshot.room.room_id)
    return [to_reservation(row, snapshot) for row in rows]


def _group(held: list[Reservation]) -> list[list[Reservation]]:
    """Reservations in groups. Those of different groups do not overlap."""
    groups: list[list[Reservation]] = []
    for each in sorted(held, key=lambda reservation: reservation.scope_key):  # what lies inside follows
        if not groups or not each.scope_key.startswith(groups[-1][0].scope_key):
            groups.append([])
        groups[-1].append(each)
    return groups


class _Resumed(NamedTuple):
    """The agent that another one has resumed, and the record of that."""

    prior_id: str
    event_id: str
    at: int


def _is_resumed(tx: Transaction, snapshot: Snapshot, text: str, caller: Caller) -> bool:
    """Whether this names the identity that the caller resumed last, now or before it was resumed."""
    resumed, typed = _find_resumed(tx, snapshot.room.room_id, caller.agent_id), read_label(text)
    if resumed is None:
        return False
    if typed and typed.fits(resumed.prior_id) and typed.name == snapshot.member(caller.agent_id).name:
        return True
    agent = _find(tx, snapshot, text)
    has_come_back = agent["last_seen_at"] > resumed.at
    return agent["agent_id"] == caller.agent_id or (agent["agent_id"] == resumed.prior_id and not has_come_back)


def _find_resumed(tx: Transaction, room_id: str, agent_id: str) -> _Resumed | None:
    """What an agent resumed last."""
    rows = [row for row in tx.all("resumptions", room_id=room_id) if row["agent_id"] == agent_id]
    prior_id = json.loads(rows[-1]["details_json"] or "{}").get("prior_agent_id") if rows else None
    return None if prior_id is None else _Resumed(prior_id, rows[-1]["subject_id"], rows[-1]["created_at"])


def _find(tx: Transaction, snapshot: Snapshot, name: str) -> Row:
    return find_agent(tx, snapshot, present_name_in_room(tx, snapshot.room.room_id, name))


def _find_workers(tx: Transaction, snapshot: Snapshot, items: list[WorkItem]) -> list[Row]:
    """The agents that may have unfinished work, in the room's sequence. Even a long list of members has few of them.

    They reserved something and did not release it, had the stick since the last handoff, or have a work item.
    """
    room_id, heirs = snapshot.room.room_id, _find_heirs(tx, snapshot.room.room_id)
    assigned = [member.agent_id for item in items if (member := snapshot.called(item.assignee))]
    working = [row["agent_id"] for row in tx.all("agents_with_work", room_id=room_id)]
    agent_ids = {heirs.get(each, each) for each in (*assigned, *working)}
    rows = [tx.one("room_agent", room_id=room_id, agent_id=agent_id) for agent_id in agent_ids]
    return sorted([row for row in rows if row is not None], key=lambda row: int(row["ordinal"]))


def _require_gone(snapshot: Snapshot, caller: Caller, agent: Row) -> None:
    name, shown_as = agent["name"], label(agent["agent_id"], agent["name"])
    if agent["agent_id"] == caller.agent_id:
        raise _rejected("already_yours", f"You are already {shown_as}.", name)
    if snapshot.may_be_running(agent):
        raise _rejected(
            "still_running", f"{shown_as} may still be running. Only an agent that is gone can be resumed.", name
        )


def _require_evidence(
    traces: _Traces, past: _Past, within: Scope, prior: Row, otherwise: Evidence | None = None
) -> Evidence:
    evidence = _find_evidence(traces, past, within) or otherwise
    if evidence is None:
        raise _no_evidence(prior, within, traces)
    return evidence


def _no_evidence(prior: Row, within: Scope, traces: _Traces) -> AdoptionRejected:
    where = f"in {within.path}" if within.path != "." else "here"
    git = "" if traces.is_git else " (git could not list the changed files)"
    who = label(prior["agent_id"], prior["name"])
    message = (
        f"conch found no unfinished work of {who} {where}: no uncommitted file that it had reserved or "
        f"could change with the stick{git}, and no work item in progress."
    )
    return _rejected(NO_EVIDENCE, message, prior["name"], Advice("own_name"))


def _rejected(reason: str, message: str, name: str, advice: Advice | None = None) -> AdoptionRejected:
    details: dict[str, Any] = {"reason": reason, "name": name}
    return AdoptionRejected(message, advice, **details)


# -- the evidence


class Evidence(NamedTuple):
    """Why an identity may be resumed."""

    reason: str
    """`uncommitted_scope`, `in_progress_ownership` or `person_decided`."""
    summary: str
    bead_id: str | None
    files: int = 0
    """How many uncommitted files there are."""


_CONFIRMED = Evidence("person_decided", "A person decided, without evidence of unfinished work.", None)


class _Traces(NamedTuple):
    """Signs of unfinished work in a workspace, of all agents."""

    changed: list[Scope]
    is_git: bool
    items: list[WorkItem]


class _Past(NamedTuple):
    """An agent's work as its room knows it."""

    name: str
    agent_ids: list[str]
    """Its own id and those it resumed. Empty if it was itself resumed: its work belongs to another agent now."""
    reserved: list[Row]
    """What it reserved and did not release, including what has expired or was partly taken over.

    The whole workspace, if it had the stick and no agent has handed over since.
    """
    held: list[str]
    """The keys that other agents have reserved since."""
    holds_stick: bool

    def is_lost(self, key: str) -> bool:
        return any(key.startswith(held) for held in self.held)


def _load_past(tx: Transaction, room: Room, agent: Row, caller_id: str) -> _Past:
    """The agent's past. The caller's own reservations do not count as taken by others."""
    room_id, agent_id = room.room_id, agent["agent_id"]
    heirs = _find_heirs(tx, room_id)
    agent_ids = [each for each in {agent_id: None, **heirs} if heirs.get(each, each) == agent_id]
    reserved = tx.all("reservations_of", agent_id=agent_id, room_id=room_id)
    if agent_ids:
        reserved += tx.all("expired_reservations_of", agent_ids=agent_ids, room_id=room_id)
    active = tx.all("active_reservations", room_id=room_id, after="", lapsed=0, limit=NO_LIMIT)
    others = [row for row in active if row["agent_id"] not in (agent_id, caller_id)]
    held = [row["scope_key"] for row in others if row["expires_at"] > tx.now]
    if _had_stick(tx, room, agent_ids, caller_id):
        reserved.append({"scope_key": _EVERYTHING.key, "bead_id": None})
    return _Past(agent["name"], agent_ids, reserved, held, room.owner in agent_ids)


def _had_stick(tx: Transaction, room: Room, agent_ids: list[str], caller_id: str) -> bool:
    """Whether an agent got the stick last, and neither it nor another agent has handed over since.

    If an agent other than the caller took the stick over, the work is that agent's now.
    """
    if not agent_ids or room.owner not in (None, caller_id, *agent_ids):
        return False
    return tx.one("unfinished_turn", room_id=room.room_id, agent_ids=agent_ids) is not None


def _find_heirs(tx: Transaction, room_id: str) -> dict[str, str]:
    """For every resumed agent_id: the agent that continues its work now, through any chain of adoptions."""
    heirs: dict[str, str] = {}
    for row in tx.all("resumptions", room_id=room_id):
        prior_id, heir = json.loads(row["details_json"] or "{}").get("prior_agent_id"), row["agent_id"]
        if prior_id is not None:  # records of older versions do not have this detail
            heirs |= {each: heir for each, former in heirs.items() if former == prior_id}
            heirs[prior_id] = heir
    return heirs


def _find_traces(root: str, items: list[WorkItem] | None = None) -> _Traces:
    """Ask git and Beads for unfinished work in the workspace."""
    from conch.host.git import changed_files  # few calls need it, and every command would pay for the import

    files, folds = changed_files(workspace_root(root)), folds_case(root)
    changed = [scope for path in files or () if (scope := make_scope(path, root, folds)) is not None]
    return _Traces(changed, files is not None, in_progress_items(root) if items is None else items)


def _find_evidence(traces: _Traces, past: _Past, within: Scope) -> Evidence | None:
    """The evidence inside a scope: uncommitted files that the agent had reserved, else its work items."""
    changed = [scope for scope in traces.changed if within.contains(scope.key) and not past.is_lost(scope.key)]
    # A path is inside a scope if its key starts with the key of the scope.
    touched = [row for row in past.reserved if any(scope.key.startswith(row["scope_key"]) for scope in changed)]
    files = [scope.path for scope in changed if any(scope.key.startswith(row["scope_key"]) for row in touched)]
    if files:
        beads = list(dict.fromkeys(row["bead_id"] for row in touched if row["bead_id"]))
        linked = f" Work items: {_enumerate(beads, _MOST_BEADS)}." if beads else ""
        summary = f"Not committed: {_enumerate(files)}.{linked}"
        return Evidence("uncommitted_scope", summary, next(iter(beads), None), len(files))
    own = [item.bead_id for item in traces.items if item.assignee == past.name or item.assignee in past.agent_ids]
    items = [bead_id for bead_id in own if _is_relevant(bead_id, past.reserved, within)]
    if items:
        return Evidence("in_progress_ownership", f"In progress: {_enumerate(items, _MOST_BEADS)}.", items[0])
    return None


def _is_relevant(bead_id: str, reserved: list[Row], within: Scope) -> bool:
    """Whether a work item belongs to a scope. It does not if the agent's reservations for it are all elsewhere."""
    places = [row["scope_key"] for row in reserved if row["bead_id"] == bead_id]
    return not places or any(classify(within.key, place) != "disjoint" for place in places)


def _enumerate(things: list[str], most: int = _MOST_NAMED) -> str:
    # File names need not be UTF-8, but everything in the store must be.
    return some_of([os.fsencode(thing).decode(errors="backslashreplace") for thing in things], most)
