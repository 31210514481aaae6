"""Names on topics: who has which, what they were called before, and the tokens that reclaim them."""

from __future__ import annotations

import os

from conch.agents.identity import Caller
from conch.bus.topics import Topic, find_topic
from conch.errors import Advice, AgentNameInUse, InvalidArgument
from conch.storage.base import Row, Transaction

LONGEST_NAME = 64
LONGEST_OWN_NAME = 48
SYSTEM = "conch"  # who tells a topic what an operator did; nobody else can have this name


def present_name(tx: Transaction, topic_id: str, agent_name: str) -> str:
    """What the peer that has or had this name is called now; a name that means no peer stays as it is."""
    row = tx.one("peer_named", topic_id=topic_id, agent_name=agent_name)
    return agent_name if row is None else str(row["name"])


def claim(tx: Transaction, topic: Topic, caller: Caller, agent_name: str, token: str | None) -> tuple[Row, str]:
    """The peer of this name, which is the caller's from now on, and its token."""
    row = tx.one("peer_named", topic_id=topic.topic_id, agent_name=agent_name)
    if row is None:
        if _is_system(agent_name) or is_somebody_else(tx, topic.topic_id, caller, agent_name):
            raise _in_use(topic, agent_name)
        issued = os.urandom(16).hex()
        added = add_peer(tx, topic.topic_id, agent_name, caller, issued)
        if added is None:
            raise _in_use(topic, agent_name)
        return added, issued
    if row["reclaim_token_hash"] is None and row["agent_id"] == caller.agent_id:
        token = os.urandom(16).hex()
    elif token is None or _hashed(token) != row["reclaim_token_hash"]:
        raise _in_use(topic, agent_name)
    hashed = {"peer_id": row["peer_id"], "reclaim_token_hash": _hashed(token)}
    tx.run("claim_peer", agent_id=caller.agent_id, now=tx.now, **hashed)
    tx.run("touch_cursor", peer_id=row["peer_id"], now=tx.now)
    return row, token


def is_somebody_else(tx: Transaction, topic_id: str, caller: Caller, agent_name: str) -> bool:
    """An agent is meant by its id everywhere, and on a home topic by its name in the room: nobody else takes those."""
    row = tx.one("member_named", topic_id=topic_id, name=agent_name) or tx.one("find_agent", agent_id=agent_name)
    return row is not None and row["agent_id"] != caller.agent_id


def _is_system(agent_name: str) -> bool:
    from unicodedata import normalize

    return normalize("NFKC", agent_name).casefold() == SYSTEM


def add_peer(
    tx: Transaction, topic_id: str, name: str, caller: Caller, token: str | None, is_own: bool = False
) -> Row | None:
    """A new peer, which has read nothing yet; None where another one has the name."""
    made = insert_peer(tx, topic_id, name, caller.agent_id, None if token is None else _hashed(token), is_own)
    if not tx.run("reserve_name", topic_id=topic_id, agent_name=name, peer_id=made["peer_id"]):
        tx.run("delete_peer", peer_id=made["peer_id"])
        return None
    tx.run("add_cursor", topic_id=topic_id, peer_id=made["peer_id"], now=tx.now)
    return made


def insert_peer(
    tx: Transaction, topic_id: str, name: str, agent_id: str | None, token_hash: str | None = None, is_own: bool = False
) -> Row:
    columns: Row = {"topic_id": topic_id, "name": name, "agent_id": agent_id, "is_own": int(is_own)}
    made = tx.one("insert_peer", reclaim_token_hash=token_hash, now=tx.now, **columns)
    assert made is not None
    return {**columns, **made}


def rename_peer(tx: Transaction, peer: Row, name: str) -> None:
    """Its former name still means it. Where another peer has the new name already, nothing changes."""
    tx.run("reserve_name", topic_id=peer["topic_id"], agent_name=name, peer_id=peer["peer_id"])
    tx.run("rename_peer", peer_id=peer["peer_id"], name=name)


def hand_over_names(tx: Transaction, peer: Row, heir_id: str) -> None:
    """What a peer was called, which has just been renamed, means another agent from now on, who goes on with what was
    asked under it. Where that agent is not on the topic, the name is free."""
    heir = tx.one("own_peer", topic_id=peer["topic_id"], agent_id=heir_id)
    if heir is None:
        tx.run("free_name", topic_id=peer["topic_id"], agent_name=peer["name"])
        return
    renamed = tx.one("find_peer", peer_id=peer["peer_id"])
    assert renamed is not None
    given = {"peer_id": peer["peer_id"], "heir_id": heir["peer_id"]}
    tx.run("hand_over_names", kept=renamed["name"], **given)
    tx.run("hand_over_questions", topic_id=peer["topic_id"], **given)


def free_name(tx: Transaction, topic_id: str, agent_name: str) -> None:
    """End a peer. What it said stays its own; who takes one of its names is another peer."""
    find_topic(tx, topic_id)
    peer = tx.one("peer_named", topic_id=topic_id, agent_name=agent_name)
    if peer is None:
        message = f"Nobody has the name {agent_name[:80]!r} on topic {topic_id}."
        raise InvalidArgument(message, field="agent_name")
    if peer["name"] != agent_name:
        message = f"{agent_name} is what {peer['name']} was called before; only {peer['name']} can be freed."
        raise InvalidArgument(message, field="agent_name")
    for statement in ("free_names", "drop_cursor", "disown_peer"):
        tx.run(statement, peer_id=peer["peer_id"])


def _hashed(token: str) -> str:
    """The store keeps no token that would open a name to whoever reads the file."""
    try:
        from _blake2 import blake2b  # where hashlib has it from, but that brings OpenSSL along: 4 MB in every process
    except ImportError:
        from hashlib import blake2b
    return blake2b(token.encode(), digest_size=32).hexdigest()


def _in_use(topic: Topic, agent_name: str) -> AgentNameInUse:
    message = f"The name {agent_name!r} is reserved on topic {topic.topic_id}."
    return AgentNameInUse(
        message, Advice("reclaim_name"), field="agent_name", topic_id=topic.topic_id, agent_name=agent_name
    )
