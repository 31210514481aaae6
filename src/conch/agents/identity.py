"""Finds out who is calling: one agent per running harness (or person), whichever door it uses.

The store links signals to agents. A caller shows the signals that its door can see. If one of them is linked already,
it identifies the agent. The others are then linked to that agent too, so that the next door recognises it as well.
"""

from __future__ import annotations

from itertools import chain

from conch.errors import Advice, AgentNotFound, InvalidArgument
from conch.host import processes
from conch.host.processes import Process
from conch.ids import digest
from conch.lean import Any, Literal, NamedTuple
from conch.storage.base import Row, Store, Transaction

AGENT_ID_RULE = "must be 1 to 128 letters, digits and . _ : @ / -, beginning with a letter or a digit"
LOCK = "agents"  # held while an agent is created or renamed, or a signal is linked


class Signal(NamedTuple):
    """One sign of who is calling."""

    kind: str
    """From the strongest to the weakest: explicit, session, process, person."""
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


class _Link(NamedTuple):
    """A signal, the agent it is linked to, and how that agent relates to the caller.

    `here`: the agent has the caller's process, and it has joined a room, so other agents know it.
    `elsewhere`: the signal is a session id, but its agent is alive in another process. So it is not the caller: two
    tabs are two agents.
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

    @property
    def agent(self) -> Row | None:
        return self.winner.agent if self.winner else None


def identify(store: Store, signals: Signals) -> Caller:
    """Return the agent that these signals identify. Creates the agent and the missing links."""
    with store.read() as tx:  # usually nothing changes, and a read never waits for writers
        verdict = _judge(tx, signals)
    agent = verdict.agent
    if agent is None or verdict.to_link or recorded_process(agent) != _process_to_record(agent, signals):
        with store.write(LOCK) as tx:
            # Decide again: another process may have linked a signal since the read.
            agent = _store_verdict(tx, _judge(tx, signals), signals)
    return Caller(
        agent["agent_id"], agent["name"], recorded_process(agent), agent["session_kind"], signals.display_name
    )


def adopt_override(store: Store, caller: Caller, override: str) -> Caller:
    """The caller under an agent id that it chose. Its process stays the same."""
    if not is_agent_id(override):
        raise InvalidArgument(f"agent_id_override {AGENT_ID_RULE}.", field="agent_id_override")
    with store.write(LOCK) as tx:
        agent = tx.one("find_agent", agent_id=override)
        if agent is None:
            itself = tx.one("find_agent", agent_id=caller.agent_id)
            harness = itself["harness"] if itself else "agent"
            agent = _insert_agent(tx, override, harness, caller.session_kind, caller.process)
        elif caller.process is not None:
            _record_process(tx, agent, caller.process)
    return caller._replace(agent_id=override, name=agent["name"], overridden=True)


def load_caller(store: Store, text: str, topic_id: str | None = None) -> Caller:
    """Find an agent by its name in the room of a home topic, by its general name, or by its agent_id.

    It only reads the store and records no sign of life for the agent.
    """
    agent = _find(store, text, topic_id) if text.isprintable() else None
    if agent is None:
        raise AgentNotFound(f"There is no agent {text[:80]!r}.", Advice("check_identity"), field="agent")
    return Caller(agent["agent_id"], agent["name"], recorded_process(agent), agent["session_kind"], None)


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
    return _Verdict(winner, reason, links, [link.signal for link in links if _is_to_link(link, winner)])


def _find_links(tx: Transaction, signals: Signals) -> list[_Link]:
    values = [signal.value for signal in signals.found]
    linked = {row["signal"]: row for row in tx.all("agents_by_signals", signals=values)}
    links = [
        _Link(signal, agent := linked.get(signal.value), _standing(signal, agent, signals.harness))
        for signal in signals.found
        if signal.kind != "explicit"
    ]
    if signals.explicit is None:
        return links
    return [_Link(signals.found[0], tx.one("find_agent", agent_id=signals.explicit), "explicit"), *links]


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
    return agent


def _process_to_record(agent: Row, signals: Signals) -> Process | None:
    """The process to record for the agent: the caller's harness, if known."""
    recorded = recorded_process(agent)
    if signals.harness or recorded is None:
        return signals.harness or signals.terminal
    life = processes.check(recorded)
    if life == "alive":  # a terminal is a weaker sign of life, so it does not replace a living process
        return recorded
    # The recorded process is gone but the agent still calls, so it now runs where we cannot see it.
    return signals.terminal if life == "gone" else signals.terminal or recorded


def _new_agent_id(tx: Transaction, verdict: _Verdict, signals: Signals) -> str:
    """`<harness>:<hash>` of the strongest signal, or `human:<user>:<tty>`. The hash grows until the id is free."""
    if signals.explicit:
        return signals.explicit
    signal = verdict.to_link[0]
    whole, person = digest(signal.value), signal.value.partition("@")[0]
    stem = person if signal.kind == "person" else signals.slug
    hashed = (f"{stem}:{whole[:length]}" for length in range(4, len(whole) + 1, 2))
    proposals = chain([person], hashed) if signal.kind == "person" else hashed
    return next(proposal for proposal in proposals if tx.one("find_agent", agent_id=proposal) is None)


def _insert_agent(tx: Transaction, agent_id: str, harness: str, session_kind: str, process: Process | None) -> Row:
    from conch.agents.petnames import propose_names  # imported here because few callers are new

    names = propose_names(digest(agent_id))
    name = next(name for name in names if tx.one("anybody_named", name=name) is None)
    agent = {"agent_id": agent_id, "name": name, "harness": harness, "session_kind": session_kind}
    agent |= process_columns(process)
    tx.run("insert_agent", now=tx.now, **agent)
    return agent


def _record_process(tx: Transaction, agent: Row, process: Process | None) -> Row:
    if recorded_process(agent) == process:
        return agent
    tx.run("update_agent_process", agent_id=agent["agent_id"], **process_columns(process))
    return agent | process_columns(process)


def is_agent_id(text: str) -> bool:
    plain = (letter.isalnum() or letter in "._:@/-" for letter in text)
    return 1 <= len(text) <= 128 and text.isascii() and text[0].isalnum() and all(plain)


# -- the columns of a process


def recorded_process(row: Row) -> Process | None:
    if row["pid"] is None:
        return None
    return Process(row["host_id"], row["boot_id"], row["pid"], row["process_started_at"])


def process_columns(process: Process | None) -> Row:
    host_id, boot_id, pid, started_at = process or (None, None, None, None)
    return {"host_id": host_id, "boot_id": boot_id, "pid": pid, "process_started_at": started_at}
