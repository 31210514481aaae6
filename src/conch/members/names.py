"""The agents of a room: their names, roles and liveness.

An agent has one name in each room, and its own name everywhere else. In a room and on its home topic, a name refers to
one agent. In another room, another agent can have the same name. Outside rooms, a name belongs to the first agent that
had it.
"""

from __future__ import annotations

from functools import partial
from itertools import chain

from conch.agents.connections import live_connections
from conch.agents.petnames import propose_names
from conch.agents.records import HARNESS_SESSION, LOCK, Caller, find_like, label, likeness, live_by_timer, note_name
from conch.bus.peers import LONGEST_OWN_NAME, hand_over_names, rename_peer
from conch.errors import Advice, AgentNotFound, DuplicateAgentName, InvalidAgentName, some_of
from conch.ids import digest
from conch.lean import NamedTuple, re
from conch.notices import activity
from conch.rooms.presence import Rooms
from conch.rooms.room import Kind, Liveness, Room, Snapshot, kind_of
from conch.storage.base import NO_LIMIT, Row, Transaction

_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
_SHORTEST_NAME, _LONGEST_NAME = 3, LONGEST_OWN_NAME


class Agent(NamedTuple):
    agent_id: str
    name: str
    role: str | None
    liveness: Liveness
    last_seen_at: int
    is_registered: bool
    ordinal: int
    kind: Kind

    @property
    def label(self) -> str:
        return label(self.agent_id, self.name)


class Registration:
    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    def register(
        self, caller: Caller, room_id: str, name: str | None = None, role: str | None = None, by_command: bool = False
    ) -> Agent:
        """Take a chosen name, or keep the generated one. Registering again with the same values changes nothing.

        A script or person that takes a name `by_command` no longer depends on a process: only the time since its last
        call shows whether it is alive, and other processes can act under that name.
        """
        if name is not None:
            check_name(name)
        return self._rooms.briefly(partial(self._register, caller, room_id, name, role, by_command))

    def _register(self, caller: Caller, room_id: str, name: str | None, role: str | None, by_command: bool) -> Agent:
        with self._rooms.change(caller, room_id, LOCK, ahead=partial(_expect_itself, caller)) as (tx, snapshot):
            before = load_itself(tx, snapshot, caller)
            is_timed = name is not None and by_command and not _has_harness(tx, caller)
            if name is not None and name != before.name:
                _require_free(tx, snapshot, caller.agent_id, name)
                _rename(tx, snapshot.room, _plan_renaming(tx, snapshot.room, caller.agent_id, name))
            tx.run("register_agent", room_id=room_id, agent_id=caller.agent_id, role=role, now=tx.now)
            if is_timed:
                live_by_timer(tx, caller.agent_id)
            after = before._replace(
                name=name or before.name, role=before.role if role is None else role, is_registered=True
            )
            # Presence alone is not a change worth recording.
            if after._replace(last_seen_at=0) != before._replace(last_seen_at=0):
                details = {"role": after.role, "former_name": before.name}
                activity.record(tx, room_id, "registered", after, details=details)
        return after

    def require_free(self, agent_id: str, room_id: str, name: str) -> None:
        """Refuse, as `register` would, a name that this agent cannot take. It need not be a member."""
        with self._rooms.look(None, room_id) as (tx, snapshot):
            member = snapshot.find(agent_id)
            if member is None or member.name != name:
                _require_free(tx, snapshot, agent_id, name)

    def heartbeat(self, caller: Caller, room_id: str) -> Agent:
        """Record that the caller is still working."""
        with self._rooms.change(caller, room_id, ahead=partial(_expect_itself, caller)) as (tx, snapshot):
            return load_itself(tx, snapshot, caller)

    def find(self, room_id: str, text: str) -> Agent:
        """A member of the room by its name, agent_id or label."""
        with self._rooms.look(None, room_id) as (tx, snapshot):
            return to_agent(find_agent(tx, snapshot, text), snapshot)

    def find_itself(self, caller: Caller, room_id: str) -> Agent:
        """The caller, if it is a member of the room."""
        with self._rooms.look(None, room_id) as (tx, snapshot):
            return load_itself(tx, snapshot, caller)

    def list_agents(self, caller: Caller | None, room_id: str, after: int = -1, limit: int = NO_LIMIT) -> list[Agent]:
        """The members of the room after a place in its sequence."""
        with self._rooms.look(None, room_id) as (tx, snapshot):
            rows = tx.all("room_agents", room_id=room_id, after=after, limit=limit)
            agents = [to_agent(row, snapshot) for row in rows]
            snapshot.find(caller.agent_id if caller else None)
        if caller is not None and self._rooms.touch_if_due(snapshot, caller):
            return self.list_agents(None, room_id, after, limit)  # load again, now that the caller is active
        return agents


def _has_harness(tx: Transaction, caller: Caller) -> bool:
    return caller.session_kind == HARNESS_SESSION or bool(live_connections(tx, [caller.agent_id]))


def _require_free(tx: Transaction, snapshot: Snapshot, agent_id: str, name: str) -> None:
    """Raise DuplicateAgentName if the name is taken. Only adoption, with evidence, takes over a name."""
    _check_like(name)
    holder = _find_holder(tx, snapshot.room, name)
    like = find_like(tx, "name_like_on_topic", name, topic_id=snapshot.room.topic_id) if holder is None else None
    if like is not None:
        message = f"{name} {likeness(name, like, 'which is another name in this room')}. Choose another name."
        raise DuplicateAgentName(message, field="name", name=name, reason="confusable", like=like)
    if holder is not None and (holder["agent_id"] != agent_id or _is_chosen(holder)):
        why, advice = _why_taken(snapshot, agent_id, holder, name)
        raise DuplicateAgentName(f"{name} {why}", advice, field="name", name=name, agent_id=holder["agent_id"])


def _is_chosen(holder: Row) -> bool:
    """Whether the name was chosen with `topic_join` on the room's topic, so that its agent has two names there."""
    return holder.get("is_own") == 0


def _why_taken(snapshot: Snapshot, agent_id: str, holder: Row, name: str) -> tuple[str, Advice | None]:
    if "peer_id" in holder and holder["name"] != name:
        return (
            f"is a former name of {label(holder['agent_id'], holder['name'])} in this room. Choose another name.",
            None,
        )
    if holder["agent_id"] == agent_id:
        return "is already yours: you took it on the home topic.", Advice("free_name", {"name": name})
    means = f"already belongs to {label(holder['agent_id'], holder['name'])} in this room."
    if snapshot.find(holder["agent_id"]) is None:
        return means, Advice("free_name_of_leaver", {"name": name})
    return means, Advice("adopt_name")


def check_name(name: str) -> None:
    if not re.fullmatch(_NAME, name) or not _SHORTEST_NAME <= len(name) <= _LONGEST_NAME:
        message = (
            f"{name[:80]!r} is not a valid name. A name has {_SHORTEST_NAME} to {_LONGEST_NAME} characters: lower-case "
            "letters and digits, in words joined by single hyphens, such as amber-otter."
        )
        raise InvalidAgentName(message, field="name")


def check_new_name(name: str) -> None:
    """Refuse a new name that no agent can take, in any room. Agents from before this rule may have such names."""
    check_name(name)
    _check_like(name)


def _check_like(name: str) -> None:
    from conch.letters.names import poses_as  # only a new name needs it

    if (reserved := poses_as(name)) is not None:
        message = f"{name} {likeness(name, reserved, 'which no agent can be called')}. Choose another name."
        raise InvalidAgentName(message, field="name", reason="confusable", like=reserved)


def _expect_itself(caller: Caller, tx: Transaction, room_id: str) -> None:
    """Fetch ahead what `load_itself` reads."""
    tx.ahead("room_agent", room_id=room_id, agent_id=caller.agent_id)


def load_itself(tx: Transaction, snapshot: Snapshot, caller: Caller) -> Agent:
    """The caller as an agent of the room, without reading the others."""
    row = tx.one("room_agent", room_id=snapshot.room.room_id, agent_id=caller.agent_id)
    if row is None:
        raise AgentNotFound("You are not in this room.", Advice("join_room"), name=caller.name)
    return to_agent(row, snapshot)


def find_agent(tx: Transaction, snapshot: Snapshot, text: str) -> Row:
    """The row of an agent by its name, agent_id or label, without reading the others."""
    found = snapshot.called(text)
    row = tx.one("room_agent", room_id=snapshot.room.room_id, agent_id=found.agent_id) if found else None
    if row is None:
        raise no_agent(text, [member.label for member in snapshot.members])
    return row


def no_agent(text: str, labels: list[str]) -> AgentNotFound:
    names = some_of(labels) or "none"
    return AgentNotFound(f"There is no agent {text[:80]!r} in this room. Its agents: {names}.", name=text[:80])


def to_agent(row: Row, snapshot: Snapshot) -> Agent:
    return Agent(
        agent_id=row["agent_id"],
        name=row["name"],
        role=row["role"],
        liveness=snapshot.liveness(row),
        last_seen_at=row["last_seen_at"],
        is_registered=row["registered_at"] is not None,
        ordinal=row["ordinal"],
        kind=kind_of(row["agent_id"], bool(row["takes_turns"])),
    )


# -- giving names


class _Renaming(NamedTuple):
    """What changes when a member gets a name that is free in the room.

    If no other agent has it, it is also the agent's name elsewhere. The agent keeps its names in other rooms, and its
    former name still refers to it.
    """

    agent_id: str
    name: str
    peers: list[Row]
    """As they were before."""
    is_everywhere: bool


def _plan_renaming(tx: Transaction, room: Room, agent_id: str, name: str, after: _Renaming | None = None) -> _Renaming:
    """Call it under the agents' lock. `after` is another renaming, which comes first."""
    own, agent = tx.one("own_peer", topic_id=room.topic_id, agent_id=agent_id), tx.one("find_agent", agent_id=agent_id)
    assert agent is not None
    former = tx.all("free_peers_named", agent_id=agent_id, name=agent["name"])
    named = tx.one("agent_named", name=name)
    given_up = after is not None and after.is_everywhere and named is not None and named["agent_id"] == after.agent_id
    is_everywhere = named is None or given_up
    return _Renaming(
        agent_id, name, [each for each in (own, *(former if is_everywhere else ())) if each], is_everywhere
    )


def _rename(tx: Transaction, room: Room, renaming: _Renaming) -> None:
    agent_id, name = renaming.agent_id, renaming.name
    tx.run("rename_member", room_id=room.room_id, agent_id=agent_id, name=name)
    note_name(tx, name)
    if renaming.is_everywhere:
        tx.run("rename_agent", agent_id=agent_id, name=name)
    for peer in renaming.peers:
        rename_peer(tx, peer, name)


def take_over_name(tx: Transaction, room: Room, prior_id: str, name: str, agent_id: str) -> str:
    """Give a member's name, and the questions asked under it, to another member. Returns the first one's new name."""
    given_up = _plan_renaming(tx, room, prior_id, _generate_name(tx, room, prior_id))
    taken = _plan_renaming(tx, room, agent_id, name, after=given_up)
    heirs = [tx.one("own_peer", topic_id=peer["topic_id"], agent_id=agent_id) for peer in given_up.peers]
    # The prior agent gives up the name first, because a name refers to one agent only.
    _rename(tx, room, given_up)
    for peer, heir in zip(given_up.peers, heirs, strict=True):
        hand_over_names(tx, peer, heir)
    _rename(tx, room, taken)
    return given_up.name


def _find_holder(tx: Transaction, room: Room, name: str) -> Row | None:
    """What a name refers to in a room: a member, an agent with that id, or a peer of the home topic.

    The name of an agent that left stays taken until an operator frees it. Otherwise its messages would seem to be
    from another agent.
    """
    return (
        tx.one("member_named", topic_id=room.topic_id, name=name)
        or tx.one("find_agent", agent_id=name)
        or tx.one("peer_named", topic_id=room.topic_id, agent_name=name)
    )


def _generate_name(tx: Transaction, room: Room, agent_id: str) -> str:
    """Find a name that is free in the room: the agent's own name if possible."""
    agent = tx.one("find_agent", agent_id=agent_id)
    own = [str(agent["name"])] if agent else []
    names = chain(own, propose_names(digest(agent_id)))
    return next(name for name in names if _is_free(tx, room, agent_id, name))


def _is_free(tx: Transaction, room: Room, agent_id: str, name: str) -> bool:
    elsewhere = tx.one("agent_named", name=name)
    if elsewhere is not None and elsewhere["agent_id"] != agent_id:
        return False
    like = find_like(tx, "name_like_on_topic", name, topic_id=room.topic_id)
    return like is None and _find_holder(tx, room, name) is None
