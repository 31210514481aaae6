"""What agents are called: each has one name in every room, and one of its own for everywhere else.

In a room, and on its home topic, a name means one agent. Another room may have another agent of that name; outside of
the rooms it belongs to whoever had it first.
"""

from __future__ import annotations

from itertools import chain

from conch.agents.petnames import propose_names
from conch.bus.names import hand_over_names, rename_peer
from conch.ids import digest
from conch.rooms.room import Room
from conch.storage.base import Row, Transaction


def rename(tx: Transaction, room: Room, agent_id: str, name: str) -> list[Row]:
    """Give a member another name, which is free in the room; elsewhere too, where nobody else in the store has it.

    Under the agents' lock. The names that the agent has in other rooms stay. What is addressed to its former name still
    means it. Returns the peers that it is on topics, as they were.
    """
    tx.run("rename_member", room_id=room.room_id, agent_id=agent_id, name=name)
    own = tx.one("own_peer", topic_id=room.topic_id, agent_id=agent_id)
    peers = [] if own is None else [own]
    if tx.one("agent_named", name=name) is None:
        agent = tx.one("find_agent", agent_id=agent_id)
        assert agent is not None
        peers += tx.all("free_peers_named", agent_id=agent_id, name=agent["name"])
        tx.run("rename_agent", agent_id=agent_id, name=name)
    for peer in peers:
        rename_peer(tx, peer, name)
    return peers


def take_over_name(tx: Transaction, room: Room, prior_id: str, name: str, agent_id: str) -> str:
    """Give a member's name to another one, with what was asked under it. Returns what the first is called now."""
    prior_name = _generate_name(tx, room, prior_id)
    for peer in rename(tx, room, prior_id, prior_name):
        hand_over_names(tx, peer, agent_id)
    rename(tx, room, agent_id, name)
    return prior_name


def find_holder(tx: Transaction, room: Room, name: str) -> Row | None:
    """Who is meant by a name in a room: a member, an agent of that very id, or who has spoken as that.

    Nobody takes the name of one who has left, unless an operator frees it: what was said under it would change hands.
    """
    return (
        tx.one("member_named", topic_id=room.topic_id, name=name)
        or tx.one("find_agent", agent_id=name)
        or tx.one("peer_named", topic_id=room.topic_id, agent_name=name)
    )


def _generate_name(tx: Transaction, room: Room, agent_id: str) -> str:
    """A name for an agent that nobody has in the room; its own one if that can be."""
    agent = tx.one("find_agent", agent_id=agent_id)
    own = [str(agent["name"])] if agent else []
    names = chain(own, propose_names(digest(agent_id)))
    return next(name for name in names if _is_free(tx, room, agent_id, name))


def _is_free(tx: Transaction, room: Room, agent_id: str, name: str) -> bool:
    elsewhere = tx.one("agent_named", name=name)
    if elsewhere is not None and elsewhere["agent_id"] != agent_id:
        return False
    return find_holder(tx, room, name) is None
