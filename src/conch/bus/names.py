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
    """What whoever had this name is called now."""
    row = tx.one("find_reservation", topic_id=topic_id, agent_name=agent_name)
    return str(row["renamed_to"]) if row is not None and row["renamed_to"] is not None else agent_name


def claim(tx: Transaction, topic: Topic, caller: Caller, agent_name: str, token: str | None) -> str:
    """The token of a name that is the caller's from now on."""
    row = tx.one("find_reservation", topic_id=topic.topic_id, agent_name=agent_name)
    if row is None:
        if _is_system(agent_name) or is_somebody_else(tx, topic.topic_id, caller, agent_name):
            raise _in_use(topic, agent_name)
        issued = os.urandom(16).hex()
        reserve(tx, topic.topic_id, agent_name, caller, issued)
        return issued
    if row["reclaim_token_hash"] is None and row["agent_id"] == caller.agent_id:
        token = os.urandom(16).hex()
    elif token is None or _hashed(token) != row["reclaim_token_hash"]:
        raise _in_use(topic, agent_name)
    tx.run(
        "claim_name",
        topic_id=topic.topic_id,
        agent_name=agent_name,
        agent_id=caller.agent_id,
        reclaim_token_hash=_hashed(token),
        now=tx.now,
    )
    return token


def is_somebody_else(tx: Transaction, topic_id: str, caller: Caller, agent_name: str) -> bool:
    """An agent is meant by its id everywhere, and on a home topic by its name in the room: nobody else takes those."""
    row = tx.one("member_named", topic_id=topic_id, name=agent_name) or tx.one("find_agent", agent_id=agent_name)
    return row is not None and row["agent_id"] != caller.agent_id


def _is_system(agent_name: str) -> bool:
    from unicodedata import normalize

    return normalize("NFKC", agent_name).casefold() == SYSTEM


def reserve(
    tx: Transaction, topic_id: str, agent_name: str, caller: Caller, token: str | None, is_own: bool = False
) -> bool:
    columns: Row = {
        "topic_id": topic_id,
        "agent_name": agent_name,
        "agent_id": caller.agent_id,
        "is_own": int(is_own),
        "reclaim_token_hash": None if token is None else _hashed(token),
    }
    is_reserved = tx.run("reserve_name", now=tx.now, **columns) > 0
    if is_reserved:
        forget_others(tx, topic_id, agent_name)
    return is_reserved


def forget_others(tx: Transaction, topic_id: str, agent_name: str) -> None:
    """Whoever takes a name that somebody had before has read nothing, and sent nothing that could be sent again."""
    tx.run("drop_cursor", topic_id=topic_id, agent_name=agent_name)
    tx.run("forget_keys", topic_id=topic_id, sender=agent_name)


def free_name(tx: Transaction, topic_id: str, agent_name: str) -> None:
    find_topic(tx, topic_id)
    present = present_name(tx, topic_id, agent_name)
    if present != agent_name:
        message = f"{agent_name} is what {present} was called before; only {present} can be freed."
        raise InvalidArgument(message, field="agent_name")
    if not tx.run("free_name", topic_id=topic_id, agent_name=agent_name):
        message = f"Nobody has the name {agent_name[:80]!r} on topic {topic_id}."
        raise InvalidArgument(message, field="agent_name")
    tx.run("drop_cursor", topic_id=topic_id, agent_name=agent_name)


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
