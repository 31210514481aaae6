"""Who speaks on a topic: reserved names, the tokens that reclaim them, cursors and presence.

An agent goes by its name in the room on a home topic, and by its own one on the others, where it speaks from the
command line. Names that are chosen with `topic_join` belong to whoever has their token.
"""

from __future__ import annotations

from itertools import islice

from conch.agents.identity import Caller, recorded_process
from conch.bus.names import LONGEST_NAME, LONGEST_OWN_NAME, SYSTEM, claim, is_somebody_else, present_name, reserve
from conch.bus.topics import Topic, check_name, find_topic, require_open, resolve
from conch.clock import SECOND
from conch.errors import Advice, AgentNotJoined, InvalidArgument, TopicNotFound
from conch.host import processes
from conch.storage.base import Row, Store, Transaction
from conch.typed import NamedTuple

SIGN_OF_LIFE_EVERY = SECOND  # of one who calls more often than that, each one would cost a write


class Peer(NamedTuple):
    """A caller under its name on one topic. A name that was freed and taken again is another peer."""

    topic_id: str
    agent_name: str
    reserved_at: int
    agent_id: str
    former_names: tuple[str, ...] = ()
    """What it was called here before: what was said under these names is its own too."""

    @property
    def names(self) -> list[str]:
        return [self.agent_name, *self.former_names]

    def is_meant(self, addressees: list[str]) -> bool:
        return bool(addressees) and not {self.agent_id, *self.names}.isdisjoint(addressees)


class Joined(NamedTuple):
    topic: Topic
    peer: Peer
    reclaim_token: str


class Standing(NamedTuple):
    """A topic as one peer finds it."""

    status: str
    highest_seq: int
    last_seq: int
    is_fresh: bool
    """The peer's last sign of life is so young that another would tell nobody anything."""
    resets: int
    """How often the cursor was set by hand."""


class Presence(NamedTuple):
    agent_name: str
    last_seq: int
    updated_at: int
    age_seconds: float


class Peers:
    def __init__(self, store: Store) -> None:
        self._store = store

    def join(
        self,
        caller: Caller,
        agent_name: str,
        topic_id: str | None,
        name: str | None,
        reclaim_token: str | None,
        allow_closed: bool = False,
    ) -> Joined:
        """Reserve a name on a topic, or reclaim it with the token that came with it."""
        check_name("agent_name", agent_name, LONGEST_NAME)
        if (topic_id is None) == (name is None):
            raise InvalidArgument("Give exactly one of topic_id and name.", field="topic_id")
        if topic_id is None:
            with self._store.read() as tx:
                topic_id = resolve(tx, name or "", allow_closed).topic_id
        with self._store.write(topic_id) as tx:
            topic = find_topic(tx, topic_id)
            if not allow_closed:
                require_open(topic_id, topic.status)
            agent_name = present_name(tx, topic_id, agent_name)
            token = claim(tx, topic, caller, agent_name, reclaim_token)
            return Joined(topic, _enter(tx, topic_id, agent_name, caller), token)

    def join_as_itself(self, caller: Caller, topic_id: str) -> Peer:
        """The caller under its own name, joined now if it was not."""
        with self._store.read() as tx:
            find_topic(tx, topic_id)
            peer = own_peer(tx, topic_id, caller.agent_id)
        if peer is None:
            with self._store.write(topic_id) as tx:
                peer = enter_as_itself(tx, topic_id, caller)
        return peer

    def find_own(self, caller: Caller, topic_id: str) -> Peer:
        """The caller under its own name; AgentNotJoined if it has none here, TopicNotFound where no topic is."""
        with self._store.read() as tx:
            peer = own_peer(tx, topic_id, caller.agent_id)
            if peer is None:
                find_topic(tx, topic_id)
                raise _not_joined(topic_id)
        return peer

    def reset_cursor(self, peer: Peer, last_seq: int) -> int:
        with self._store.write(peer.topic_id) as tx:
            peer, standing = load_standing(tx, peer)
            check_seq("last_seq", last_seq, standing)
            tx.run("touch_agent", agent_id=peer.agent_id, now=tx.now)
            tx.run("set_cursor", topic_id=peer.topic_id, agent_name=peer.agent_name, last_seq=last_seq, now=tx.now)
        return last_seq

    def list_present(self, topic_id: str, window_seconds: int, limit: int) -> list[Presence]:
        """Who was here lately, the latest first. A process that is proven gone is not here, however lately."""
        with self._store.read() as tx:
            find_topic(tx, topic_id)
            since = tx.now - window_seconds * SECOND
            rows = tx.all("recent_peers", topic_id=topic_id, since=since)
            now = tx.now
        here = (row for row in rows if processes.check(recorded_process(row)) != "gone")
        return [
            Presence(
                row["agent_name"],
                row["last_seq"],
                row["updated_at"],
                round(max(0, now - row["updated_at"]) / SECOND, 3),
            )
            for row in islice(here, limit)
        ]

    def name_of(self, topic_id: str, agent_id: str) -> str | None:
        """What an agent is called on a topic when it speaks as itself."""
        with self._store.read() as tx:
            row = tx.one("own_reservation", topic_id=topic_id, agent_id=agent_id)
        return None if row is None else str(row["agent_name"])

    def known_names(self, topic_id: str, names: set[str]) -> set[str]:
        """Those that mean somebody on a topic, by name or by agent_id."""
        with self._store.read() as tx:
            rows = tx.all("names_on_topic", topic_id=topic_id, names=sorted(names))
        return names & {name for row in rows for name in (row["agent_name"], row["agent_id"])}


def system_peer(topic_id: str) -> Peer:
    return Peer(topic_id, SYSTEM, reserved_at=0, agent_id="")


def load_standing(tx: Transaction, peer: Peer) -> tuple[Peer, Standing]:
    """The peer, under the name that it has by now, and how it stands to the topic.

    TopicNotFound, or AgentNotJoined when the peer's name has been freed meanwhile.
    """
    row = tx.one("peer_state", topic_id=peer.topic_id, agent_name=peer.agent_name)
    if row is None:
        message = f"There is no topic {peer.topic_id!r} any more."
        raise TopicNotFound(message, field="topic_id", topic_id=peer.topic_id)
    if (row["reserved_at"], row["renamed_to"], row["former_names"]) != (peer.reserved_at, None, len(peer.former_names)):
        return load_standing(tx, _renamed(tx, peer))
    is_fresh = 0 <= tx.now - (row["updated_at"] or 0) < SIGN_OF_LIFE_EVERY
    return peer, Standing(row["status"], row["next_seq"] - 1, row["last_seq"] or 0, is_fresh, row["resets"] or 0)


def _renamed(tx: Transaction, peer: Peer) -> Peer:
    """The same peer as it is called on the topic by now."""
    name = present_name(tx, peer.topic_id, peer.agent_name)
    rows = tx.all("names_of_peer", topic_id=peer.topic_id, agent_name=name)
    for now in (_to_peer(peer.topic_id, peer.agent_id, rows), own_peer(tx, peer.topic_id, peer.agent_id)):
        if now is not None and now.reserved_at == peer.reserved_at and now != peer:
            return now
    raise _not_joined(peer.topic_id)


def check_seq(field: str, seq: int, standing: Standing) -> None:
    if not 0 <= seq <= standing.highest_seq:
        message = f"{field} must be from 0 to {standing.highest_seq}, the highest seq of this topic."
        raise InvalidArgument(message, field=field, highest_seq=standing.highest_seq)


def own_peer(tx: Transaction, topic_id: str, agent_id: str) -> Peer | None:
    """The agent under its own name, if it has one here."""
    return _to_peer(topic_id, agent_id, tx.all("names_of_itself", topic_id=topic_id, agent_id=agent_id))


def _to_peer(topic_id: str, agent_id: str, rows: list[Row]) -> Peer | None:
    if not rows:
        return None
    former_names = tuple(row["former_name"] for row in rows if row["former_name"] is not None)
    return Peer(topic_id, rows[0]["agent_name"], rows[0]["created_at"], agent_id, former_names)


def enter_as_itself(tx: Transaction, topic_id: str, caller: Caller) -> Peer:
    """Join under the agent's own name, or where somebody has taken that, under the next one like it."""
    peer, number = own_peer(tx, topic_id, caller.agent_id), 1
    known = {"agent_id": caller.agent_id}
    agent = tx.one("member_on_topic", topic_id=topic_id, **known) or tx.one("find_agent", **known)
    own = agent["name"] if agent else caller.name  # another door of this agent may have renamed it
    while peer is None:
        name = own if number == 1 else f"{own[: LONGEST_OWN_NAME - len(str(number)) - 1].rstrip('-')}-{number}"
        is_free = not is_somebody_else(tx, topic_id, caller, name)
        if is_free and reserve(tx, topic_id, name, caller, None, is_own=True):
            peer = _enter(tx, topic_id, name, caller)
        number += 1
    return peer


def _enter(tx: Transaction, topic_id: str, agent_name: str, caller: Caller) -> Peer:
    tx.run("add_cursor", topic_id=topic_id, agent_name=agent_name, now=tx.now)
    tx.run("touch_agent", agent_id=caller.agent_id, now=tx.now)
    rows = tx.all("names_of_peer", topic_id=topic_id, agent_name=agent_name)
    peer = _to_peer(topic_id, caller.agent_id, rows)
    assert peer is not None
    return peer


def _not_joined(topic_id: str) -> AgentNotJoined:
    message = f"You have no name on topic {topic_id}."
    return AgentNotJoined(message, Advice("join_topic"), field="topic_id", topic_id=topic_id)
