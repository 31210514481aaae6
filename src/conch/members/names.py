"""What agents are called: each has one name in every room, and one of its own for everywhere else.

In a room, and on its home topic, a name means one agent. Another room may have another agent of that name; outside of
the rooms it belongs to whoever had it first.
"""

from __future__ import annotations

from itertools import chain

from conch.agents.petnames import propose_names
from conch.bus.names import forget_others
from conch.ids import digest
from conch.rooms.room import Room
from conch.storage.base import Row, Transaction


def rename(tx: Transaction, room: Room, agent_id: str, name: str) -> None:
    """Give a member another name, which is free in the room; elsewhere too, where nobody else in the store has it.

    Under the agents' lock. The names that the agent has in other rooms stay. What it said under its former name stays
    its own, and what is addressed to that name still means it.
    """
    _rename(tx, room, agent_id, name, keeps_former=True)


def take_over_name(tx: Transaction, room: Room, prior_id: str, name: str, agent_id: str) -> str:
    """Give a member's name to another one, with what was asked under it. Returns what the first is called now."""
    prior_name = generate_name(tx, room, prior_id)
    _rename(tx, room, prior_id, prior_name, keeps_former=False)
    _rename(tx, room, agent_id, name, keeps_former=True)
    return prior_name


def find_holder(tx: Transaction, room: Room, name: str) -> Row | None:
    """Who is meant by a name in a room: a member, an agent of that very id, or who has spoken as that.

    Nobody takes the name of one who has left, unless an operator frees it: what was said under it would change hands.
    """
    return (
        tx.one("member_named", topic_id=room.topic_id, name=name)
        or tx.one("find_agent", agent_id=name)
        or tx.one("find_reservation", topic_id=room.topic_id, agent_name=name)
    )


def generate_name(tx: Transaction, room: Room, agent_id: str) -> str:
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


def _rename(tx: Transaction, room: Room, agent_id: str, name: str, keeps_former: bool) -> None:
    tx.run("rename_member", room_id=room.room_id, agent_id=agent_id, name=name)
    own = tx.one("own_reservation", topic_id=room.topic_id, agent_id=agent_id)
    if own is not None:
        _rename_on_topic(tx, room.topic_id, own["agent_name"], name, keeps_former)
    if tx.one("agent_named", name=name) is None:
        _rename_elsewhere(tx, agent_id, name, keeps_former)


def _rename_elsewhere(tx: Transaction, agent_id: str, name: str, keeps_former: bool) -> None:
    agent = tx.one("find_agent", agent_id=agent_id)
    assert agent is not None
    tx.run("rename_agent", agent_id=agent_id, name=name)
    for row in tx.all("free_topics_as", agent_id=agent_id, name=agent["name"]):
        _rename_on_topic(tx, row["topic_id"], agent["name"], name, keeps_former)


def _rename_on_topic(tx: Transaction, topic_id: str, former: str, name: str, keeps_former: bool) -> None:
    """Where somebody else has the name already, the former one stays."""
    own = tx.one("find_reservation", topic_id=topic_id, agent_name=former)
    taken = tx.one("find_reservation", topic_id=topic_id, agent_name=name)
    topic = tx.one("highest_seq", topic_id=topic_id)
    assert own is not None and topic is not None
    after_seq = topic["highest_seq"]
    if taken is not None:
        if taken["renamed_to"] != former:
            return
        tx.run("free_name", topic_id=topic_id, agent_name=name)  # it is called so again
        after_seq = taken["after_seq"]
    else:
        forget_others(tx, topic_id, name)
    tx.run("rename_cursor", topic_id=topic_id, former=former, name=name)
    tx.run("rename_reservation", topic_id=topic_id, former=former, name=name, after_seq=after_seq)
    if keeps_former:
        tx.run("rename_again", topic_id=topic_id, former=former, name=name)
        tx.run("keep_former_name", topic_id=topic_id, former=former, name=name, after_seq=own["after_seq"])
    else:
        _leave_former_names(tx, topic_id, former, topic["highest_seq"])


def _leave_former_names(tx: Transaction, topic_id: str, name: str, highest_seq: int) -> None:
    """They go with the name to whoever has it next, who has said nothing under them yet."""
    for row in tx.all("former_names", topic_id=topic_id, name=name):
        forget_others(tx, topic_id, row["agent_name"])
    tx.run("begin_former_names", topic_id=topic_id, name=name, after_seq=highest_seq)
