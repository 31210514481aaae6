"""The peers of a topic: their names, cursors and presence.

An agent can speak on a topic as itself. On a home topic its name is its name in the room; on any other topic it is the
agent's own name. A name chosen with `topic_join` belongs to the agent that has its reclaim token.
"""

from __future__ import annotations

import os
from functools import partial
from itertools import islice

from conch.agents.records import (
    DOT,
    PERSON,
    PERSON_SESSION,
    Caller,
    find_like,
    label,
    likeness,
    lock_names,
    note_name,
    read_label,
    recorded_process,
)
from conch.bells.base import agent_channel
from conch.bus.topics import Topic, check_name, find_topic, require_fit, require_open, resolve
from conch.clock import SECOND
from conch.errors import Advice, AgentNameInUse, AgentNotJoined, InvalidArgument, TopicNotFound
from conch.host import processes
from conch.lean import NamedTuple
from conch.storage.base import NOW, Query, Reader, Row, Store, Transaction

_MOST_AT_ONCE = 500  # names per query: its time grows with the square of their number, and each engine has a limit
NO_PEER = 0  # no peer has this id
LONGEST_NAME = 64
LONGEST_OWN_NAME = 48
_SYSTEM = "conch"  # the sender of system messages; no agent can take this name
PRESENCE_INTERVAL = SECOND  # at most one presence write per second


class Peer(NamedTuple):
    """A sender and reader on a topic. If it has no peer_id yet, `load_standing` finds the agent's own peer."""

    topic_id: str
    agent_id: str
    peer_id: int | None = None
    agent_name: str = ""
    names: tuple[str, ...] = ()
    """Its names, former ones too: all of them after `with_names`, else only those that some messages mention."""

    @property
    def label(self) -> str:
        return label(self.agent_id, self.agent_name)

    def is_meant(self, addressees: list[str]) -> bool:
        return bool(addressees) and not {self.agent_id, self.agent_name, *self.names}.isdisjoint(addressees)


class Joined(NamedTuple):
    topic: Topic
    peer: Peer
    reclaim_token: str


class Standing(NamedTuple):
    """The state of a topic, seen from one peer."""

    status: str
    highest_seq: int
    last_seq: int
    is_fresh: bool
    """The peer's presence was written less than `PRESENCE_INTERVAL` ago, so it need not be written again."""
    resets: int
    """How many times the cursor was reset by hand."""
    store: int
    """How many times the store had been replaced before this read. A reply must not move a cursor in a later store."""


class Presence(NamedTuple):
    peer_id: int
    agent_name: str
    last_seq: int
    updated_at: int
    age_seconds: float
    agent_id: str | None

    @property
    def label(self) -> str:
        return label(self.agent_id, self.agent_name)


class Called(NamedTuple):
    """The peer that a typed text refers to, with its present name."""

    name: str
    agent_id: str | None
    peer_id: int

    @property
    def label(self) -> str:
        return label(self.agent_id, self.name)


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
        """Take a name on a topic, or reclaim it with the token issued for it."""
        check_name("agent_name", agent_name, LONGEST_NAME)
        if (topic_id is None) == (name is None):
            raise InvalidArgument("Give exactly one of topic_id and name.", field="topic_id")
        if topic_id is None:  # `_join` locks a topic by its id
            with self._store.look() as tx:
                topic_id = resolve(tx, name or "", allow_closed).topic_id
        joining = partial(self._join, caller, agent_name, topic_id, reclaim_token, allow_closed)
        return self._store.briefly(joining)

    def _join(
        self, caller: Caller, agent_name: str, topic_id: str, reclaim_token: str | None, allow_closed: bool
    ) -> Joined:
        with self._store.write(topic_id) as tx:
            # Before `_claim`, which may lock all new names: other calls take these two locks in the same order.
            tx.run("touch_agent", agent_id=caller.agent_id, now=NOW)
            tx.ahead("peer_named", topic_id=topic_id, agent_name=agent_name)
            _ask_who_is_meant(tx, topic_id, agent_name)
            topic = find_topic(tx, topic_id)
            if not allow_closed:
                require_open(topic_id, topic.status)
            row, token = _claim(tx, topic, caller, agent_name, reclaim_token)
            return Joined(topic, _to_peer(row, caller.agent_id), token)

    def join_as_itself(self, caller: Caller, topic_id: str) -> Peer:
        """The caller's peer under its own name; joins the topic first if needed."""
        # Most callers have joined before, and a read does not wait for writers.
        with self._store.read() as tx:
            find_topic(tx, topic_id)
            own = tx.one("own_peer", topic_id=topic_id, agent_id=caller.agent_id)
            if own is not None:
                return with_names(tx, _to_peer(own, caller.agent_id))
        return self._store.briefly(partial(self._join_as_itself, caller, topic_id))

    def _join_as_itself(self, caller: Caller, topic_id: str) -> Peer:
        with self._store.write(topic_id) as tx:
            return enter_as_itself(tx, topic_id, caller)

    def find_by_token(self, caller: Caller, topic_id: str, agent_name: str, token: str) -> Peer | None:
        """The peer that has or had this name, if the token is the one issued for it."""
        with self._store.read() as tx:
            row = tx.one("peer_named", topic_id=topic_id, agent_name=agent_name)
        return _to_peer(row, caller.agent_id) if row and row["reclaim_token_hash"] == hash_token(token) else None

    def reset_cursor(self, peer: Peer, last_seq: int) -> int:
        with self._store.write(peer.topic_id) as tx:
            peer, standing = load_standing(tx, peer)
            check_seq("last_seq", last_seq, standing)
            tx.run("touch_agent", agent_id=peer.agent_id, now=tx.now)
            reset = tx.last("set_cursor", peer_id=peer.peer_id, last_seq=last_seq, now=tx.now)
        return next((int(cursor["last_seq"]) for cursor in reset()), last_seq)

    def list_present(self, topic_id: str, window_seconds: int, limit: int, after: int = NO_PEER) -> list[Presence]:
        """The peers after a peer_id that were seen within the window, without those whose process is known to be gone.

        They come in the order in which they joined, which does not change while a caller reads page by page.
        """
        with self._store.read() as tx:
            find_topic(tx, topic_id)
            since = tx.now - window_seconds * SECOND
            rows = tx.all("recent_peers", topic_id=topic_id, since=since, after=after)
            now = tx.now
        # A generator, because each check asks the kernel: it stops as soon as the limit is reached.
        here = (row for row in rows if processes.check(recorded_process(row)) != "gone")
        return [
            Presence(
                row["peer_id"],
                row["agent_name"],
                row["last_seq"],
                row["updated_at"],
                round(max(0, now - row["updated_at"]) / SECOND, 3),
                row["agent_id"],
            )
            for row in islice(here, limit)
        ]

    def find_called(self, topic_id: str, texts: set[str]) -> dict[str, Called]:
        """Like the function `find_called`, outside of a transaction."""
        with self._store.look() as tx:
            return find_called(tx, topic_id, texts)


def find_called(tx: Reader, topic_id: str, texts: set[str]) -> dict[str, Called]:
    """The peers of the topic that these texts mean: names, present or former, labels, or agent_ids."""
    typed = {text: read_label(text) for text in texts}
    rows = [row for statement, given in called_queries(topic_id, texts) for row in tx.all(statement, **given)]
    found = {row["called"]: Called(row["name"], row["agent_id"], row["peer_id"]) for row in rows}
    for text, each in typed.items():
        if text not in found and each is not None and each.name in found and each.fits(found[each.name].agent_id):
            found[text] = found[each.name]
    return {text: found[text] for text in texts if text in found}


def called_queries(topic_id: str, texts: set[str]) -> list[Query]:
    """What `find_called` asks."""
    labels = (read_label(text) for text in texts)
    wanted = sorted(texts | {each.name for each in labels if each is not None})
    parts = [wanted[start : start + _MOST_AT_ONCE] for start in range(0, len(wanted), _MOST_AT_ONCE)]
    return [("known_on_topic", {"topic_id": topic_id, "names": part}) for part in parts]


def system_peer(tx: Transaction, topic_id: str) -> Peer:
    """The peer that announces what an operator did. Its name is reserved on every topic."""
    columns: Row = {"topic_id": topic_id, "name": _SYSTEM}
    row = tx.one("system_peer", **columns)
    if row is None:
        made = tx.one("insert_peer", agent_id=None, is_own=0, reclaim_token_hash=None, now=tx.now, **columns)
        row = {**columns, **(made or {})}
    return _to_peer(row, agent_id="")


def load_standing(tx: Transaction, peer: Peer, store: int = 0) -> tuple[Peer, Standing]:
    """The peer under its present name, and its standing. `store` is how many times the store has been replaced so far.

    Raises TopicNotFound, or AgentNotJoined if the agent never joined or an operator freed its name.
    """
    if peer.peer_id is None:
        row = tx.one("standing_of_agent", topic_id=peer.topic_id, agent_id=peer.agent_id)
    else:
        row = tx.one("standing_of_peer", topic_id=peer.topic_id, peer_id=peer.peer_id)
    if row is None:
        message = f"There is no topic {peer.topic_id!r}."
        raise TopicNotFound(message, Advice("find_topics"), field="topic_id", topic_id=peer.topic_id)
    if row["last_seq"] is None:
        message = f"You have no name on topic {peer.topic_id}."
        raise AgentNotJoined(message, Advice("join_topic"), field="topic_id", topic_id=peer.topic_id)
    fresh = is_fresh(row["updated_at"], tx.now)
    standing = Standing(row["status"], row["next_seq"] - 1, row["last_seq"], fresh, row["resets"], store)
    return peer._replace(peer_id=row["peer_id"], agent_name=row["name"]), standing


def is_fresh(updated_at: int, now: int) -> bool:
    # At least 0: after the clock was set back, presence must not count as fresh until the clock catches up.
    return 0 <= now - updated_at < PRESENCE_INTERVAL


def with_names(tx: Transaction, peer: Peer) -> Peer:
    """The peer with all its names, so that `is_meant` also knows former ones."""
    names = tx.all("names_of_peer", peer_id=peer.peer_id)
    return peer._replace(names=tuple(row["agent_name"] for row in names))


def check_seq(field: str, seq: int, standing: Standing) -> None:
    if not 0 <= seq <= standing.highest_seq:
        message = f"{field} must be from 0 to {standing.highest_seq}, the highest seq of this topic."
        raise InvalidArgument(message, field=field, highest_seq=standing.highest_seq)


def expect_own_peer(tx: Transaction, topic_id: str, caller: Caller) -> None:
    """Fetch ahead what `enter_as_itself` asks about an agent that is probably there."""
    for statement in ("own_peer", "member_on_topic"):
        tx.ahead(statement, topic_id=topic_id, agent_id=caller.agent_id)


def enter_as_itself(tx: Transaction, topic_id: str, caller: Caller) -> Peer:
    """Join under the agent's own name; if another peer has that name, under `name-2`, `name-3` and so on."""
    known = {"topic_id": topic_id, "agent_id": caller.agent_id}
    row, number = tx.one("own_peer", **known), 1
    agent = tx.one("member_on_topic", **known) or tx.one("find_agent", agent_id=caller.agent_id)
    own = agent["name"] if agent else caller.name  # another door of this agent may have renamed it
    while row is None:
        name = own if number == 1 else f"{own[: LONGEST_OWN_NAME - len(str(number)) - 1].rstrip('-')}-{number}"
        like = find_like(tx, "name_like_on_topic", name, topic_id=topic_id)
        if like is None and not _means_another_agent(tx, topic_id, caller, name):
            row = _add_peer(tx, topic_id, name, caller, None, is_own=True)
        number += 1
    return _to_peer(row, caller.agent_id)


def _to_peer(row: Row, agent_id: str) -> Peer:
    return Peer(row["topic_id"], agent_id, row["peer_id"], row["name"])


# -- names, and the tokens that reclaim them


def present_name(tx: Transaction, topic_id: str, agent_name: str) -> str:
    """The present name of the peer that has or had this name or label. An unknown one is returned unchanged."""
    row, _ = _find_peer(tx, "peer_named", agent_name, topic_id=topic_id)
    return agent_name if row is None else str(row["name"])


def expect_name(tx: Transaction, topic_id: str, agent_name: str) -> None:
    """Fetch ahead what `present_name` will ask."""
    typed = read_label(agent_name)
    for each in (agent_name, *([] if typed is None else [typed.name])):
        tx.ahead("peer_named", topic_id=topic_id, agent_name=each)


def present_name_in_room(tx: Transaction, room_id: str, agent_name: str) -> str:
    """The same on the home topic of a room."""
    row, _ = _find_peer(tx, "peer_named_in_room", agent_name, room_id=room_id)
    return agent_name if row is None else str(row["name"])


def _find_peer(tx: Transaction, statement: str, text: str, **where: str) -> tuple[Row | None, str]:
    """The peer that has or had the name, and that name, from what a person or a model typed: a name or a label."""
    row, typed = tx.one(statement, agent_name=text, **where), read_label(text)
    if row is not None or typed is None:
        return row, text
    row = tx.one(statement, agent_name=typed.name, **where)
    return (row, typed.name) if row is not None and typed.fits(row["agent_id"]) else (None, text)


def _claim(tx: Transaction, topic: Topic, caller: Caller, agent_name: str, token: str | None) -> tuple[Row, str]:
    """Give a name to the caller; returns its peer and its token. Raises AgentNameInUse without the right token."""
    row = tx.one("peer_named", topic_id=topic.topic_id, agent_name=agent_name)
    if row is None:
        require_own_name(tx, topic, caller, agent_name)
        issued = os.urandom(16).hex()
        added = _add_peer(tx, topic.topic_id, agent_name, caller, issued)
        if added is None:
            raise _in_use(topic, agent_name)
        return added, issued
    # A peer under its agent's own name has no token yet, and an imported one may have none. The first to ask gets one.
    if row["reclaim_token_hash"] is None and row["agent_id"] in (None, caller.agent_id):
        token = os.urandom(16).hex()
    elif token is None or hash_token(token) != row["reclaim_token_hash"]:
        raise _in_use(topic, agent_name)
    hashed = {"peer_id": row["peer_id"], "reclaim_token_hash": hash_token(token)}
    tx.run("claim_peer", agent_id=caller.agent_id, now=tx.now, **hashed)
    tx.run("touch_cursor", peer_id=row["peer_id"], now=tx.now)
    return row, token


def _means_another_agent(tx: Transaction, topic_id: str, caller: Caller, agent_name: str) -> bool:
    """Whether the name is another agent's id or, on a home topic, another member's name in the room."""
    row = tx.one("member_named", topic_id=topic_id, name=agent_name) or tx.one("find_agent", agent_id=agent_name)
    return row is not None and row["agent_id"] != caller.agent_id


def _ask_who_is_meant(tx: Transaction, topic_id: str, agent_name: str) -> None:
    """Fetch ahead what `require_own_name` asks."""
    tx.ahead("member_named", topic_id=topic_id, name=agent_name)
    tx.ahead("agent_named", name=agent_name)
    tx.ahead("find_agent", agent_id=agent_name)


def require_own_name(tx: Transaction, topic: Topic, caller: Caller, agent_name: str) -> None:
    """Refuse a new name that could pass for another: messages under it would seem to come from another agent."""
    from conch.letters.names import has_dot, kind_posed_as  # only a new name needs it

    kind = kind_posed_as(agent_name)
    if kind is not None and (f"{kind}:" != PERSON or caller.session_kind != PERSON_SESSION):
        who, reason = ("a person at a terminal", "person") if f"{kind}:" == PERSON else ("conch itself", "confusable")
        message = (
            f"Only {who} can have a name that begins with {kind!r} and a colon or a full stop. Choose another name."
        )
        raise InvalidArgument(message, field="agent_name", reason=reason)
    _ask_who_is_meant(tx, topic.topic_id, agent_name)
    named = tx.one("member_named", topic_id=topic.topic_id, name=agent_name) or tx.one("agent_named", name=agent_name)
    if named is not None and named["agent_id"] == caller.agent_id:
        return
    meant = named or tx.one("find_agent", agent_id=agent_name)
    if meant is not None and meant["agent_id"] != caller.agent_id:
        raise _in_use(topic, agent_name)
    like = find_like(tx, "name_like_on_topic", agent_name, topic_id=topic.topic_id)
    like = like or find_like(tx, "agent_like", agent_name)
    if like is not None:
        raise _looks_like(topic, agent_name, like)
    require_fit("agent_name", agent_name)
    if has_dot(agent_name):
        message = f"agent_name has a middle dot ({DOT}), which conch puts between an agent's kind and its name."
        raise InvalidArgument(f"{message} Choose another name.", field="agent_name", reason="label")
    labelled = _find_labelled(tx, topic.topic_id, agent_name)
    if labelled is not None and labelled["agent_id"] != caller.agent_id:
        raise _looks_like(topic, agent_name, label(labelled["agent_id"], labelled["name"]))


def _find_labelled(tx: Transaction, topic_id: str, text: str) -> Row | None:
    """The agent whose label in ASCII this is, such as `claude.deft-osprey`. It gets the messages to that label."""
    typed = read_label(text)
    if typed is None:
        return None
    found = tx.one("peer_named", topic_id=topic_id, agent_name=typed.name)
    found = found or tx.one("member_named", topic_id=topic_id, name=typed.name)
    found = found or tx.one("agent_named", name=typed.name)
    return found if found is not None and typed.fits(found["agent_id"]) else None


def _add_peer(
    tx: Transaction, topic_id: str, name: str, caller: Caller, token: str | None, is_own: bool = False
) -> Row | None:
    """Add a peer with its cursor at 0. Returns None if another peer has the name."""
    lock_names(tx)
    tx.ahead("next_peer")
    if tx.one("peer_named", topic_id=topic_id, agent_name=name) is not None:
        return None
    number = tx.one("next_peer")
    assert number is not None
    made: Row = {"peer_id": number["peer_id"], "topic_id": topic_id, "name": name, "agent_id": caller.agent_id}
    token_hash = None if token is None else hash_token(token)
    tx.run("add_peer", is_own=int(is_own), reclaim_token_hash=token_hash, now=tx.now, **made)
    tx.run("take_name", topic_id=topic_id, agent_name=name, peer_id=made["peer_id"])
    tx.run("add_cursor", topic_id=topic_id, peer_id=made["peer_id"], now=tx.now)
    note_name(tx, name)
    tx.ring(agent_channel(caller.agent_id))  # from now on, it must listen here too
    return made


def rename_peer(tx: Transaction, peer: Row, name: str) -> None:
    """Rename a peer; its former name still refers to it. Nothing changes if another peer has the new name."""
    tx.run("reserve_name", topic_id=peer["topic_id"], agent_name=name, peer_id=peer["peer_id"])
    tx.run("rename_peer", peer_id=peer["peer_id"], name=name)


def hand_over_names(tx: Transaction, peer: Row, heir: Row | None) -> None:
    """Give the former names, questions and answers of a renamed peer to the peer that continues its work.

    `peer` is the row from before the renaming. If the heir is not on the topic, the former name becomes free.
    """
    if heir is None:  # the heir can take the name when it joins
        tx.run("free_name", topic_id=peer["topic_id"], agent_name=peer["name"])
        return
    given = {"peer_id": peer["peer_id"], "heir_id": heir["peer_id"]}
    tx.run("hand_over_names", **given)
    tx.run("hand_over_questions", topic_id=peer["topic_id"], **given)
    tx.run("hand_over_answers", **given)


def free_name(tx: Transaction, topic_id: str, agent_name: str) -> str:
    """Remove a peer and free its names; returns the name that was meant.

    Its messages stay, and the next agent to take one of its names is a new peer.
    """
    find_topic(tx, topic_id)
    peer, agent_name = _find_peer(tx, "peer_named", agent_name, topic_id=topic_id)
    if peer is None:
        message = f"No peer on topic {topic_id} has the name {agent_name[:80]!r}."
        raise InvalidArgument(message, field="agent_name")
    if peer["name"] != agent_name:
        present = label(peer["agent_id"], peer["name"])
        message = f"{agent_name} is a former name of {present}; only its present name can be freed."
        raise InvalidArgument(message, field="agent_name")
    for statement in ("free_names", "drop_cursor", "disown_peer"):
        tx.run(statement, peer_id=peer["peer_id"])
    return agent_name


def hash_token(token: str) -> str:
    """Only the hash is stored, so that reading the database does not reveal a token."""
    try:
        from _blake2 import blake2b  # not from hashlib, which would also load OpenSSL: 4 MB in every process
    except ImportError:
        from hashlib import blake2b
    return blake2b(token.encode(), digest_size=32).hexdigest()


def _in_use(topic: Topic, agent_name: str) -> AgentNameInUse:
    message = f"The name {agent_name!r} is already taken on topic {topic.topic_id}."
    return AgentNameInUse(
        message, Advice("reclaim_name"), field="agent_name", topic_id=topic.topic_id, agent_name=agent_name
    )


def _looks_like(topic: Topic, agent_name: str, like: str) -> AgentNameInUse:
    words = likeness(agent_name, like, "which is taken or reserved")
    message = f"The name {agent_name!r} {words}. Choose another name."
    facts = {"topic_id": topic.topic_id, "agent_name": agent_name, "reason": "confusable", "like": like}
    return AgentNameInUse(message, field="agent_name", **facts)
