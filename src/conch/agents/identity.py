"""Finds out who is calling: one agent per running harness (or person), whichever door it uses.

The store links signals to agents. A caller shows the signals that its door can see. If one of them is linked already,
it identifies the agent. The others are then linked to that agent too, so that the next door recognises it as well.
"""

from __future__ import annotations

from itertools import chain

from conch.clock import MILLISECOND
from conch.errors import Advice, AgentNotFound, InvalidArgument, InvalidSetting
from conch.host import processes
from conch.host.processes import Process
from conch.ids import digest
from conch.lean import Any, Literal, NamedTuple
from conch.storage.base import Row, Store, Transaction

AGENT_ID_RULE = (
    "must be 1 to 128 letters, digits and . _ : @ / -, begin with a letter or a digit, and not begin with human:, "
    "which is for people at a terminal"
)
PERSON = "human:"  # the beginning of a person's agent_id
_OVERRIDE = "override"  # in place of the parent: a connection with an id of its own choice is continued by no other
LOCK = "agents"  # held while an agent is created or renamed, or a signal is linked


class Signal(NamedTuple):
    """One sign of who is calling."""

    kind: str
    """From the strongest to the weakest: explicit, session, process, person."""
    value: str
    """The text that identifies the signal in the store."""
    source: str
    """Where it was found, in words for people."""


class Connection(NamedTuple):
    """The connection of one MCP client: the process that serves it, the process above, and the client's own name."""

    process: Process
    parent: str
    client_name: str

    @property
    def key(self) -> str:
        return "connection:" + ":".join(map(str, self.process))


class Signals(NamedTuple):
    """What one process knows about its caller without asking the store."""

    found: tuple[Signal, ...]
    """Strongest first; never empty."""
    slug: str
    harness: Process | None
    """The process that is the agent: the harness, or the MCP client."""
    terminal: Process | None
    """The leader of a person's terminal session. It shows that the person is there, but does not identify them."""
    session_kind: str
    display_name: str
    connection: Connection | None = None
    """The MCP connection that this process serves. A command has none."""

    @property
    def explicit(self) -> str | None:
        return self.found[0].value if self.found[0].kind == "explicit" else None


class Caller(NamedTuple):
    agent_id: str
    name: str
    process: Process | None
    """The agent's process. None if only the time since the last call can show whether the agent is alive."""
    session_kind: str
    display_name: str | None
    overridden: bool = False
    stands_in: bool = False
    """Whether the agent's process is not the caller's own: several processes share one CONCH_AGENT_ID."""
    connection: str | None = None


class _Link(NamedTuple):
    """A signal, the agent it is linked to, and how that agent relates to the caller.

    `here`: the agent has the caller's process, and it has joined a room, so other agents know it.
    `elsewhere`: its agent is alive in another process, or on another connection. So it is not the caller: two tabs are
    two agents, and so are two connections of one process.
    """

    signal: Signal
    agent: Row | None
    standing: Literal["explicit", "unlinked", "here", "elsewhere", "linked"]


class _Verdict(NamedTuple):
    """Which link identifies the caller (None: a new agent), why, and which signals to link to that agent."""

    winner: _Link | None
    reason: str
    links: list[_Link]
    to_link: list[Signal]
    is_connected: bool
    """Whether the store has recorded the connection for that agent. True if there is none."""

    @property
    def agent(self) -> Row | None:
        return self.winner.agent if self.winner else None


def identify(store: Store, signals: Signals) -> Caller:
    """Return the agent that these signals identify. Creates the agent and the missing links.

    InvalidSetting if CONCH_AGENT_ID names an agent that lives elsewhere by an override.
    """
    with store.read() as tx:  # usually nothing changes, and a read never waits for writers
        verdict = _judge(tx, signals)
    agent = verdict.agent
    if agent is None or not _is_stored(verdict, agent, signals):
        with store.write(LOCK) as tx:
            # Decide again: another process may have linked a signal since the read.
            agent = _store_verdict(tx, _judge(tx, signals), signals)
    process, own = recorded_process(agent), signals.harness or signals.terminal
    return Caller(
        agent["agent_id"],
        agent["name"],
        process,
        agent["session_kind"],
        signals.display_name,
        stands_in=own is not None and process != own,
        connection=signals.connection.key if signals.connection else None,
    )


def _is_stored(verdict: _Verdict, agent: Row, signals: Signals) -> bool:
    same_process = recorded_process(agent) == _process_to_record(agent, signals)
    return not verdict.to_link and verdict.is_connected and same_process


def close_connection(store: Store, caller: Caller) -> None:
    """Record that the client has closed its connection. The next one of that client may be the same agent."""
    with store.write(LOCK) as tx:
        tx.run("close_connection", connection=caller.connection, now=tx.now)


def adopt_override(store: Store, caller: Caller, override: str, active_ms: int) -> Caller:
    """The caller under an agent id of its own choice. The process stays the caller's own.

    Refused if another living process or connection has that id, or if the id holds a stick: its lease is not the
    caller's. An agent whose process is unknown counts as living for `active_ms` after its last call.
    """
    if not is_agent_id(override):
        raise InvalidArgument(f"agent_id_override {AGENT_ID_RULE}.", field="agent_id_override")
    if caller.overridden and caller.agent_id == override:
        return caller
    with store.write(LOCK) as tx:
        agent = tx.one("find_agent", agent_id=override)
        if agent is None:
            _refuse_likeness(tx, override)
            itself = tx.one("find_agent", agent_id=caller.agent_id)
            harness = itself["harness"] if itself else "agent"
            agent = _insert_agent(tx, override, harness, caller.session_kind, caller.process)
        elif override != caller.agent_id:
            _refuse_living(tx, agent, caller, active_ms)
            agent = _record_process(tx, agent, caller.process)
        if caller.connection is not None and override != caller.agent_id:
            tx.run("move_connection", connection=caller.connection, agent_id=override, parent=_OVERRIDE)
    return caller._replace(agent_id=override, name=agent["name"], overridden=True)


def _refuse_likeness(tx: Transaction, override: str) -> None:
    from conch.letters.names import skeleton  # only a new name needs it

    like = tx.one("agent_like", name=override, skeleton=skeleton(override))
    if like is not None:
        message = f"{override} looks like {like['name']}, another agent. Choose another agent_id_override."
        raise InvalidArgument(message, field="agent_id_override", reason="confusable", like=like["name"])
    named = tx.one("agent_named", name=override)
    if named is not None:
        message = f"{override} is the name of {named['agent_id']}. Choose another agent_id_override."
        raise InvalidArgument(message, field="agent_id_override", reason="taken")


def _refuse_living(tx: Transaction, agent: Row, caller: Caller, active_ms: int) -> None:
    agent_id, recorded = agent["agent_id"], recorded_process(agent)
    life = "mine" if recorded is not None and recorded == caller.process else processes.check(recorded)
    seen_lately = tx.now - agent["last_seen_at"] < active_ms * MILLISECOND
    connected = any(row["connection"] != caller.connection for row in _live_connections(tx, [agent_id]))
    if connected or life == "alive" or (life == "unknown" and seen_lately):
        message = f"{agent_id} is another agent, and it is still running. Choose another agent_id_override."
        raise InvalidArgument(message, field="agent_id_override")
    held = tx.one("room_owned_by", agent_id=agent_id)
    if held is not None:
        message = (
            f"{agent_id} still holds the stick of room {held['room_id']}, and its lease is not yours. Take the stick "
            "over first, or choose another agent_id_override."
        )
        raise InvalidArgument(message, field="agent_id_override")


def load_caller(store: Store, text: str, topic_id: str | None = None) -> Caller:
    """Find an agent by its name in the room of a home topic, by its general name, or by its agent_id.

    It only reads the store and records no sign of life for the agent.
    """
    agent = _find(store, text, topic_id) if text.isprintable() else None
    if agent is None:
        raise AgentNotFound(f"There is no agent {text[:80]!r}.", Advice("check_identity"), field="agent")
    return Caller(agent["agent_id"], agent["name"], recorded_process(agent), agent["session_kind"], None)


def require_itself(caller: Caller, signals: Signals) -> None:
    """InvalidArgument if the agent is alive in another process than the one that shows these signals."""
    own = (signals.harness, signals.terminal)
    if caller.agent_id == signals.explicit or caller.process in own or processes.check(caller.process) != "alive":
        return
    message = f"{caller.agent_id} is still running in another process. Only that process can act as it."
    raise InvalidArgument(message, field="agent")


def _find(store: Store, text: str, topic_id: str | None) -> Row | None:
    with store.read() as tx:
        named = tx.one("member_named", topic_id=topic_id, name=text) or tx.one("agent_named", name=text)
        return tx.one("find_agent", agent_id=named["agent_id"] if named else text)


def explain(store: Store, signals: Signals) -> dict[str, Any]:
    """How `identify` would decide now, and why. Changes nothing."""
    with store.read() as tx:
        verdict = _judge(tx, signals)
        agent_id = verdict.agent["agent_id"] if verdict.agent else _new_agent_id(tx, verdict, signals)
    mine = signals.harness or signals.terminal
    return {
        "agent_id": agent_id,
        "name": verdict.agent["name"] if verdict.agent else None,
        "is_new": verdict.agent is None,
        "reason": verdict.reason,
        "harness": signals.slug,
        "session_kind": signals.session_kind,
        "process": mine._asdict() if mine else None,
        "signals": [_explain_link(link, verdict) for link in verdict.links],
    }


def _explain_link(link: _Link, verdict: _Verdict) -> dict[str, Any]:
    return {
        "kind": link.signal.kind,
        "value": link.signal.value,
        "source": link.signal.source,
        "linked_to": link.agent["agent_id"] if link.agent else None,
        "standing": link.standing,
        "wins": link is verdict.winner,
    }


# -- deciding


def _judge(tx: Transaction, signals: Signals) -> _Verdict:
    links = _find_links(tx, signals)
    winner, reason = _choose(links)
    to_link = [link.signal for link in links if _is_to_link(link, winner)]
    return _Verdict(winner, reason, links, to_link, _is_connected(tx, winner, signals.connection))


def _is_connected(tx: Transaction, winner: _Link | None, connection: Connection | None) -> bool:
    if connection is None:
        return True
    known = tx.one("find_connection", connection=connection.key)
    agent_id = winner.agent["agent_id"] if winner and winner.agent else None
    return known is not None and known["agent_id"] == agent_id and known["closed_at"] is None


def _find_links(tx: Transaction, signals: Signals) -> list[_Link]:
    values = [signal.value for signal in signals.found]
    linked = {row["signal"]: row for row in tx.all("agents_by_signals", signals=values)}
    links = [
        _Link(signal, agent := linked.get(signal.value), _standing(signal, agent, signals.harness))
        for signal in signals.found
        if signal.kind != "explicit"
    ]
    if signals.connection is not None:
        links = [
            _connection_link(tx, link, signals.connection, signals.harness) if link.signal.kind == "process" else link
            for link in links
        ]
    if signals.explicit is None:
        return links
    agent = tx.one("find_agent", agent_id=signals.explicit)
    if agent is not None:
        _refuse_overridden(tx, agent, signals.harness)
    return [_Link(signals.found[0], agent, "explicit"), *links]


def _refuse_overridden(tx: Transaction, agent: Row, mine: Process | None) -> None:
    """An override is no export: its connection must not share an agent with the processes that export the id."""
    agent_id = agent["agent_id"]
    overridden = any(row["parent"] == _OVERRIDE for row in _live_connections(tx, [agent_id]))
    if overridden and (mine is None or recorded_process(agent) != mine):
        message = (
            f"{agent_id} is another agent, and it is still running: it chose this id with agent_id_override. Export "
            "another CONCH_AGENT_ID, or end that agent."
        )
        raise InvalidSetting(message, setting="CONCH_AGENT_ID")


def _connection_link(tx: Transaction, link: _Link, connection: Connection, mine: Process | None) -> _Link:
    """The link of the process above, as this connection sees it.

    Its agent is the one that this connection already is, or the agent of the latest connection of the same client that
    has ended, or one that only commands have used. An agent with another living connection is never the caller.
    """
    below = tx.all("connections_below", parent=connection.parent)
    itself = [row["agent_id"] for row in below if row["connection"] == connection.key]
    ended = [row["agent_id"] for row in below if row["client_name"] == connection.client_name and not _is_live(row)]
    linked = [link.agent["agent_id"]] if link.agent else []
    connected = {row["agent_id"] for row in below}
    proposed = itself or [*ended, *(agent_id for agent_id in linked if agent_id not in connected)]
    taken = {row["agent_id"] for row in _live_connections(tx, proposed) if row["connection"] != connection.key}
    free = next((agent_id for agent_id in proposed if agent_id not in taken), None)
    if free is not None:
        agent = tx.one("agent_in_rooms", agent_id=free)
        return _Link(link.signal, agent, _standing(link.signal, agent, mine))
    return link if link.agent is None else link._replace(standing="elsewhere")


def _live_connections(tx: Transaction, agent_ids: list[str]) -> list[Row]:
    rows = tx.all("connections_of", agent_ids=agent_ids) if agent_ids else []
    return [row for row in rows if _is_live(row)]


def _is_live(row: Row) -> bool:
    return row["closed_at"] is None and processes.check(recorded_process(row)) != "gone"


def _standing(
    signal: Signal, agent: Row | None, mine: Process | None
) -> Literal["unlinked", "here", "elsewhere", "linked"]:
    if agent is None:
        return "unlinked"
    recorded = recorded_process(agent)
    if mine is None or recorded is None:
        return "linked"
    if recorded == mine:
        return "here" if agent["has_rooms"] else "linked"
    return "elsewhere" if signal.kind == "session" and processes.check(recorded) == "alive" else "linked"


def _choose(links: list[_Link]) -> tuple[_Link | None, str]:
    """Choose the link that identifies the caller, and say why. None if there is no such link."""
    # "here" comes before "linked", because other doors of this process already act as that agent. An agent that once
    # had the same session is gone, or is in another process now.
    for standing, reason in (
        ("explicit", "it names the agent"),
        ("here", "its agent belongs to this process"),
        ("linked", "the strongest signal that is linked to an agent"),
    ):
        for link in links:
            if link.standing == standing:
                return link, f"{link.signal.source}: {reason}"
    return None, "No signal is linked to an agent that could be the caller, so this is a new agent"


def _is_to_link(link: _Link, winner: _Link | None) -> bool:
    """Whether to link the signal to the winner, or to the new agent if there is no winner."""
    if link.standing in ("explicit", "elsewhere") or link is winner:
        return False
    if link.agent is None or winner is None:
        return True
    same = winner.agent is not None and winner.agent["agent_id"] == link.agent["agent_id"]
    # A signal may be taken away from an agent that never joined a room: no other agent has met it.
    return not same and not link.agent["has_rooms"]


# -- storing the decision


def _store_verdict(tx: Transaction, verdict: _Verdict, signals: Signals) -> Row:
    agent = verdict.agent
    if agent is None:
        process = signals.harness or signals.terminal
        agent_id = _new_agent_id(tx, verdict, signals)
        agent = _insert_agent(tx, agent_id, signals.slug, signals.session_kind, process)
    else:
        agent = _record_process(tx, agent, _process_to_record(agent, signals))
    for signal in verdict.to_link:
        tx.run("link_signal", signal=signal.value, agent_id=agent["agent_id"], now=tx.now)
    if signals.connection is not None:
        _record_connection(tx, signals.connection, agent["agent_id"])
    return agent


def _record_connection(tx: Transaction, connection: Connection, agent_id: str) -> None:
    """Record the connection in place of those of this agent that have ended."""
    for row in tx.all("connections_of", agent_ids=[agent_id]):
        if not _is_live(row):
            tx.run("forget_connection", connection=row["connection"])
    tx.run(
        "open_connection",
        connection=connection.key,
        agent_id=agent_id,
        parent=connection.parent,
        client_name=connection.client_name,
        now=tx.now,
        **process_columns(connection.process),
    )


def _process_to_record(agent: Row, signals: Signals) -> Process | None:
    """The process to record for the agent: the caller's harness, if known, unless the agent lives by another one."""
    recorded, own = recorded_process(agent), signals.harness or signals.terminal
    if recorded is None or recorded == own:
        return own
    life = processes.check(recorded)
    # A terminal is a weaker sign of life, and a process that only shares the agent's CONCH_AGENT_ID may end before the
    # agent does. Neither replaces a living process.
    if life == "alive":
        return recorded
    if life == "gone":  # if its own is unknown, the agent now runs where we cannot see it
        return own
    return (own if not signals.explicit else signals.terminal) or recorded


def _new_agent_id(tx: Transaction, verdict: _Verdict, signals: Signals) -> str:
    """`<harness>:<hash>` of the strongest signal, or `human:<user>:<tty>`. The hash grows until the id is free."""
    if signals.explicit:
        return signals.explicit
    signal = verdict.to_link[0] if verdict.to_link else None  # all belong to others: only the connection is its own
    value = signal.value if signal else signals.connection.key if signals.connection else ""
    is_person = signal is not None and signal.kind == "person"
    whole, person = digest(value), value.partition("@")[0]
    stem = person if is_person else signals.slug
    hashed = (f"{stem}:{whole[:length]}" for length in range(4, len(whole) + 1, 2))
    proposals = chain([person], hashed) if is_person else hashed
    return next(proposal for proposal in proposals if tx.one("find_agent", agent_id=proposal) is None)


def _insert_agent(tx: Transaction, agent_id: str, harness: str, session_kind: str, process: Process | None) -> Row:
    from conch.agents.petnames import propose_names  # imported here because few callers are new
    from conch.letters.names import skeleton

    names = propose_names(digest(agent_id))
    name = next(name for name in names if tx.one("anybody_named", name=name) is None)
    agent = {"agent_id": agent_id, "name": name, "harness": harness, "session_kind": session_kind}
    agent |= process_columns(process)
    tx.run("insert_agent", now=tx.now, **agent)
    for each in (agent_id, name):
        tx.run("note_name", name=each, skeleton=skeleton(each))
    return agent


def _record_process(tx: Transaction, agent: Row, process: Process | None) -> Row:
    if recorded_process(agent) == process:
        return agent
    tx.run("update_agent_process", agent_id=agent["agent_id"], **process_columns(process))
    return agent | process_columns(process)


def is_agent_id(text: str) -> bool:
    plain = (letter.isalnum() or letter in "._:@/-" for letter in text)
    is_plain = 1 <= len(text) <= 128 and text.isascii() and text[0].isalnum() and all(plain)
    return is_plain and not text.lower().startswith(PERSON)


# -- the columns of a process


def recorded_process(row: Row) -> Process | None:
    if row["pid"] is None:
        return None
    return Process(row["host_id"], row["boot_id"], row["pid"], row["process_started_at"])


def process_columns(process: Process | None) -> Row:
    host_id, boot_id, pid, started_at = process or (None, None, None, None)
    return {"host_id": host_id, "boot_id": boot_id, "pid": pid, "process_started_at": started_at}
