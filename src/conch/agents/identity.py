"""Finds out who is calling: one agent per running harness (or person), whichever door it uses.

The store links signals to agents. A caller shows the signals that its door can see. If one of them is linked already,
it identifies the agent. The others are then linked to that agent too, so that the next door recognises it as well.
"""

from __future__ import annotations

from functools import partial
from itertools import chain

from conch.agents.connections import (
    Connection,
    connections_below,
    continued_agent,
    is_override,
    live_connections,
    process_key,
    record_connection,
    recorded_agent,
)
from conch.agents.records import (
    HARNESS_SESSION,
    LOCK,
    PERSON_SESSION,
    Caller,
    find_obstacle,
    insert_agent,
    is_person,
    read_label,
    record_process,
    recorded_process,
)
from conch.clock import MILLISECOND
from conch.errors import Advice, AgentNotFound, InvalidArgument, InvalidSetting
from conch.host import processes
from conch.host.processes import Process
from conch.ids import digest
from conch.lean import Any, Literal, NamedTuple
from conch.storage.base import Row, Store, Transaction

_COMMANDS = "commands:"  # the commands of a process with several MCP connections, none of which is known to run them
_MOST_ENDED = 5


class Signal(NamedTuple):
    """One sign of who is calling."""

    kind: str
    """From the strongest to the weakest: explicit, session, connection, process, person, account."""
    value: str
    """The text that identifies the signal in the store."""
    source: str
    """Where it was found, in words for people."""


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
    def is_person(self) -> bool:
        return self.session_kind == PERSON_SESSION

    @property
    def explicit(self) -> str | None:
        return self.found[0].value if self.found[0].kind == "explicit" else None


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


def identify(store: Store, signals: Signals, known: str | None = None) -> Caller:
    """Return the agent that these signals identify. Creates the agent and the missing links.

    `known` is the agent that they identified before, probably the same. InvalidSetting if CONCH_AGENT_ID is the id that
    a living agent elsewhere chose with an override.
    """
    with store.look() as tx:  # usually nothing changes, and a read never waits for writers
        _fetch_ahead(tx, signals, known)
        verdict = _judge(tx, signals)
    agent = verdict.agent
    if agent is None or not _is_stored(verdict, agent, signals):
        agent = store.briefly(partial(_decide, store, signals))
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


def _decide(store: Store, signals: Signals) -> Row:
    """Decide again: another process may have linked a signal since the read."""
    with store.write(LOCK) as tx:
        return _store_verdict(tx, _judge(tx, signals), signals)


def _is_stored(verdict: _Verdict, agent: Row, signals: Signals) -> bool:
    same_process = recorded_process(agent) == _process_to_record(agent, signals)
    return not verdict.to_link and verdict.is_connected and same_process


def recognise(store: Store, signals: Signals) -> str | None:
    """The id of the agent that `identify` would return; None for a new one. Changes nothing."""
    with store.look() as tx:
        _fetch_ahead(tx, signals, None)
        return _id_of(_judge(tx, signals).winner)


def load_caller(store: Store, text: str, topic_id: str | None = None) -> Caller:
    """Find an agent by its name in the room of a home topic, by its general name, or by its agent_id.

    It only reads the store and records no sign of life for the agent.
    """
    agent = _find(store, text, topic_id) if text.isprintable() else None
    if agent is None:
        raise AgentNotFound(f"There is no agent {text[:80]!r}.", Advice("find_agents"), field="agent")
    return Caller(agent["agent_id"], agent["name"], recorded_process(agent), agent["session_kind"], None)


def require_itself(store: Store, caller: Caller, signals: Signals, active_ms: int) -> None:
    """InvalidArgument if the process that shows these signals is not this agent and may not act as it.

    Any process may act under a name that a script or a person registered, as a script, or as an agent that is gone. An
    agent whose process is unknown counts as living for `active_ms` after its last call.
    """
    if caller.agent_id == signals.explicit:
        return
    if caller.process is not None and caller.process in (signals.harness, signals.terminal):
        return
    why = _why_not_another(store, caller, active_ms)
    if why is not None and recognise(store, signals) != caller.agent_id:
        raise InvalidArgument(f"{caller.label} {why}", field="agent")


def _why_not_another(store: Store, caller: Caller, active_ms: int) -> str | None:
    """Why no other process may act as an agent, in words that follow its label."""
    life = processes.check(caller.process)
    if life == "alive":
        return "is still running in another process. Only that process can act as it."
    with store.look() as tx:
        agent = tx.one("find_agent", agent_id=caller.agent_id)
        is_connected = bool(live_connections(tx, [caller.agent_id]))
        is_silent = agent is None or tx.now - agent["last_seen_at"] >= active_ms * MILLISECOND
    if agent is not None and agent["is_timed"] and not is_connected:
        return None
    if is_person(caller.agent_id):
        return "is a person. No other caller can act as a person."
    if life == "gone" or is_silent or (caller.session_kind != HARNESS_SESSION and not is_connected):
        return None
    return "may still be running where conch cannot see its process. Only that process can act as it."


def _find(store: Store, text: str, topic_id: str | None) -> Row | None:
    with store.read() as tx:
        found, typed = _find_named(tx, text, topic_id), read_label(text)
        if found is None and typed is not None:
            found = _find_named(tx, typed.name, topic_id)
            return found if found and typed.fits(found["agent_id"]) else None
        return found


def _find_named(tx: Transaction, text: str, topic_id: str | None) -> Row | None:
    named = tx.one("member_named", topic_id=topic_id, name=text) or tx.one("agent_named", name=text)
    return tx.one("find_agent", agent_id=named["agent_id"] if named else text)


def explain(store: Store, signals: Signals) -> dict[str, Any]:
    """How `identify` would decide now, and why. Changes nothing."""
    with store.read() as tx:
        verdict = _judge(tx, signals)
        agent_id = verdict.agent["agent_id"] if verdict.agent else _new_agent_id(tx, verdict, signals)
        served = _explain_connections(tx, signals)
    mine = signals.harness or signals.terminal
    return {
        "agent_id": agent_id,
        "name": verdict.agent["name"] if verdict.agent else None,
        "is_new": verdict.agent is None,
        "reason": verdict.reason,
        "harness": _own_slug(signals),
        "session_kind": signals.session_kind,
        "process": mine._asdict() if mine else None,
        "signals": [_explain_link(link, verdict) for link in verdict.links],
        "connections": served,
        "is_ambiguous": any(link.signal.value.startswith(_COMMANDS) for link in verdict.links),
    }


def _explain_connections(tx: Transaction, signals: Signals) -> list[dict[str, Any]]:
    """The MCP connections below the caller's process: the open ones, and the latest that have ended."""
    found = connections_below(tx, process_key(signals.harness)) if signals.harness else []
    ended = [served for served in found if not served.is_open]
    shown = [served for served in found if served.is_open] + ended[:_MOST_ENDED]
    names = {each.agent_id: tx.one("find_agent", agent_id=each.agent_id) for each in shown}
    return [{**served._asdict(), "name": (names[served.agent_id] or {}).get("name")} for served in shown]


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
    known = recorded_agent(tx, signals.connection) if signals.connection else None
    links = _find_links(tx, signals, known)
    winner, reason = _choose(links)
    to_link = [link.signal for link in links if _is_to_link(link, winner)]
    is_connected = signals.connection is None or (known is not None and known == _id_of(winner))
    return _Verdict(winner, reason, links, to_link, is_connected)


def _fetch_ahead(tx: Transaction, signals: Signals, known: str | None) -> None:
    """Fetch ahead what `_judge` will probably ask for."""
    if signals.connection is not None:
        tx.ahead("find_connection", connection=signals.connection.key)
        if known is not None:
            tx.ahead("agent_in_rooms", agent_id=known)
    tx.ahead("agents_by_signals", signals=[signal.value for signal in signals.found])
    if signals.explicit is not None:
        tx.ahead("find_agent", agent_id=signals.explicit)
        tx.ahead("connections_of", agent_ids=[signals.explicit])


def _id_of(link: _Link | None) -> str | None:
    return link.agent["agent_id"] if link and link.agent else None


def _find_links(tx: Transaction, signals: Signals, known: str | None) -> list[_Link]:
    values = [signal.value for signal in signals.found]
    linked = {row["signal"]: row for row in tx.all("agents_by_signals", signals=values)}
    links = [
        _Link(signal, agent := linked.get(signal.value), _standing(signal, agent, signals.harness))
        for signal in signals.found
        if signal.kind != "explicit"
    ]
    process = [link for link in links if link.signal.kind == "process"]
    links = [*(link for link in links if link not in process), *_weakest_links(tx, process, signals, known)]
    if signals.explicit is None:
        return links
    agent = tx.one("find_agent", agent_id=signals.explicit)
    if agent is not None:
        _refuse_override(tx, agent, signals.harness)
    return [_Link(signals.found[0], agent, "explicit"), *links]


def _refuse_override(tx: Transaction, agent: Row, mine: Process | None) -> None:
    """Refuse an exported id that a connection has taken by override: the two must not share an agent."""
    agent_id = agent["agent_id"]
    if is_override(tx, agent_id) and (mine is None or recorded_process(agent) != mine):
        message = (
            f"{agent_id} is another agent, and it is still running: it chose this id with agent_id_override. Export "
            "another CONCH_AGENT_ID, or end that agent."
        )
        raise InvalidSetting(message, setting="CONCH_AGENT_ID")


def _weakest_links(tx: Transaction, process: list[_Link], signals: Signals, known: str | None) -> list[_Link]:
    """The link of the process above, as this caller sees it. A known connection has its own link instead."""
    if known is not None and signals.connection is not None:
        signal = Signal("connection", signals.connection.key, "this connection")
        return [_link_to(tx, signal, known, signals)]
    if signals.connection is not None:
        return [_link_of_new_connection(tx, link, signals.connection, signals) for link in process]
    return [_link_of_command(tx, link, signals) for link in process]


def _link_of_new_connection(tx: Transaction, link: _Link, connection: Connection, signals: Signals) -> _Link:
    # A script that registered a name is an agent of its own, even if the same process starts a server.
    linked = [link.agent["agent_id"]] if link.agent and not link.agent["is_timed"] else []
    agent_id = continued_agent(tx, connection, linked)
    if agent_id is not None:
        return _link_to(tx, link.signal, agent_id, signals)
    return link if link.agent is None else link._replace(standing="elsewhere")


def _link_of_command(tx: Transaction, link: _Link, signals: Signals) -> _Link:
    """A command is the agent of the only open connection below its process.

    If several are open, conch cannot tell which of their agents runs it. So the commands of that process are an agent
    of their own: a guess could give them another agent's stick.
    """
    served = [each for each in connections_below(tx, link.signal.value) if each.is_open]
    if len({each.agent_id for each in served}) > 1:
        signal = Signal("process", _COMMANDS + link.signal.value, f"commands of {link.signal.source}")
        agent = next(iter(tx.all("agents_by_signals", signals=[signal.value])), None)
        return _Link(signal, agent, _standing(signal, agent, signals.harness))
    only = next((each.agent_id for each in served if not each.is_override), None)
    return link if only in (None, _id_of(link)) else _link_to(tx, link.signal, str(only), signals)


def _link_to(tx: Transaction, signal: Signal, agent_id: str, signals: Signals) -> _Link:
    agent = tx.one("agent_in_rooms", agent_id=agent_id)
    return _Link(signal, agent, _standing(signal, agent, signals.harness))


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
    if link.standing in ("explicit", "elsewhere") or link.signal.kind == "connection" or link is winner:
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
        agent = insert_agent(tx, agent_id, _own_slug(signals), signals.session_kind, process)
    else:
        agent = record_process(tx, agent, _process_to_record(agent, signals))
    for signal in verdict.to_link:
        tx.run("link_signal", signal=signal.value, agent_id=agent["agent_id"], now=tx.now)
    if signals.connection is not None:
        record_connection(tx, signals.connection, agent["agent_id"])
    return agent


def _process_to_record(agent: Row, signals: Signals) -> Process | None:
    """The process to record for the agent: the caller's harness if known, unless it already lives in another one."""
    recorded, own = recorded_process(agent), signals.harness or signals.terminal
    if agent["is_timed"] and signals.connection is None:
        own = None  # a script's process ends, and the agent goes on in the next one
    if recorded is None or recorded == own:
        return own
    life = processes.check(recorded)
    # A terminal is a weaker sign of life, and a process that only shares the agent's CONCH_AGENT_ID may end before the
    # agent does. Neither replaces a living process.
    if life == "alive":
        return recorded
    if life == "gone":  # None if the agent now runs where we cannot see it
        return own
    return recorded if signals.explicit else own or recorded


def _new_agent_id(tx: Transaction, verdict: _Verdict, signals: Signals) -> str:
    """`<harness>:<hash>` of the strongest signal, or `human:<user>:<tty>`. The hash grows until the id is free."""
    if signals.explicit:
        return _check_explicit(tx, signals.explicit)
    signal = verdict.to_link[0] if verdict.to_link else None  # None if all signals belong to other agents
    value = signal.value if signal else signals.connection.key if signals.connection else ""
    is_person = signal is not None and signal.kind == "person"
    whole, person = digest(value), value.partition("@")[0]
    stem = person if is_person else _own_slug(signals)
    hashed = (f"{stem}:{whole[:length]}" for length in range(4, len(whole) + 1, 2))
    proposals = chain([person], hashed) if is_person else hashed
    return next(proposal for proposal in proposals if tx.one("find_agent", agent_id=proposal) is None)


def _check_explicit(tx: Transaction, agent_id: str) -> str:
    obstacle = find_obstacle(tx, agent_id)
    if obstacle is not None:
        message = f"CONCH_AGENT_ID {agent_id} {obstacle.words}. Export another one."
        raise InvalidSetting(message, setting="CONCH_AGENT_ID", **obstacle.facts)
    return agent_id


def _own_slug(signals: Signals) -> str:
    """The name of the harness. A program cannot call itself a person or conch."""
    from conch.letters.names import poses_as  # only a new agent needs it

    return signals.slug if signals.is_person or poses_as(signals.slug) is None else "agent"
