"""Agents as the store knows them: their ids, their names, and the processes that keep them alive."""

from __future__ import annotations

from conch.host import processes
from conch.host.processes import Process
from conch.ids import digest
from conch.lean import Any, NamedTuple
from conch.storage.base import Row, Transaction

AGENT_ID_RULE = (
    "must be 1 to 128 letters, digits and . _ : @ / -, begin with a letter or a digit, and not begin with human:, "
    "which is for people at a terminal"
)
HARNESS_SESSION = "mcp_harness"  # the session_kind of an agent that is a harness, not a script or a person
PERSON = "human:"  # the beginning of a person's agent_id
PERSON_SESSION = "human_guardian"  # the kind of a person's session
DOT = "\u00b7"  # between the kind and the name in a label
PLAIN_DOT = "."  # the same, where only ASCII can be shown
_SHORT_KINDS = {"claude-code": "claude"}
LOCK = "agents"  # held while an agent is created or renamed, or a signal is linked
_NEW_NAMES = "new names"  # held while a new name of any kind is compared with the others and noted


class Caller(NamedTuple):
    """The agent that makes a call."""

    agent_id: str
    name: str
    process: Process | None
    """The agent's process. None if only the time since the last call can show whether the agent is alive."""
    session_kind: str
    display_name: str | None
    overridden: bool = False
    stands_in: bool = False
    """True if the agent's process is not the caller's, because several processes share one CONCH_AGENT_ID."""
    connection: str | None = None

    @property
    def label(self) -> str:
        return label(self.agent_id, self.name)

    @property
    def has_ended(self) -> bool:
        """Whether the agent's process is gone. If it stood for several processes, another one takes its place."""
        return not self.stands_in and processes.check(self.process) == "gone"


# -- the one label of an agent, wherever people read


def label(agent_id: str | None, name: str | None) -> str:
    """What people call an agent: its kind and its name, such as `claude·deft-osprey`.

    If its name is not known, the rest of the agent_id takes its place. A sender that is not an agent has only a name.
    """
    if agent_id is None:
        return name or "nobody"
    if name in (None, agent_id):  # in old records, the agent_id stands for a name that was not known
        name = agent_id.partition(":")[2] or agent_id
    return f"{_kind(agent_id)}{DOT}{name}"


def _kind(agent_id: str) -> str:
    """The harness, or `human`: the part of an agent_id before its first colon."""
    kind = agent_id.partition(":")[0]
    return _SHORT_KINDS.get(kind, kind)


class Label(NamedTuple):
    """A label that a person or a model has typed."""

    kind: str
    name: str

    def fits(self, agent_id: str | None) -> bool:
        """Whether an agent with this id is of that kind."""
        return agent_id is not None and _kind(agent_id) == self.kind


def read_label(text: str) -> Label | None:
    """The parts of a typed label, with the middle dot or with the full stop that replaces it in ASCII.

    No new name contains the middle dot. But a name may contain a full stop, so look for the whole text first.
    """
    kind, dot, name = text.partition(DOT) if DOT in text else text.rpartition(PLAIN_DOT)
    return Label(kind, name) if kind and dot and name else None


def insert_agent(tx: Transaction, agent_id: str, harness: str, session_kind: str, process: Process | None) -> Row:
    from conch.agents.petnames import propose_names  # imported here because few callers are new

    names = propose_names(digest(agent_id))
    name = next(name for name in names if find_like(tx, "anybody_like", name) is None)
    agent: Row = {"agent_id": agent_id, "name": name, "harness": harness, "session_kind": session_kind}
    agent |= process_columns(process)
    tx.run("insert_agent", now=tx.now, **agent)
    agent["is_timed"] = 0
    for each in (agent_id, name):
        note_name(tx, each)
    return agent


def record_process(tx: Transaction, agent: Row, process: Process | None) -> Row:
    if recorded_process(agent) == process:
        return agent
    tx.run("update_agent_process", agent_id=agent["agent_id"], **process_columns(process))
    return agent | process_columns(process)


def live_by_timer(tx: Transaction, agent_id: str) -> None:
    """From now on, only the time since the agent's last call shows whether it is alive."""
    tx.run("set_timed", agent_id=agent_id)
    tx.run("forget_member_processes", agent_id=agent_id)


def is_person(agent_id: str) -> bool:
    """Whether an agent_id is a person's. No agent can choose such an id."""
    return agent_id.startswith(PERSON)


def is_agent_id(text: str) -> bool:
    plain = (letter.isalnum() or letter in "._:@/-" for letter in text)
    is_plain = 1 <= len(text) <= 128 and text.isascii() and text[0].isalnum() and all(plain)
    return is_plain and not text.lower().startswith(PERSON)


# -- names that look alike. Names that are already in a store are never checked again.


class Obstacle(NamedTuple):
    """Why no agent can have an id: the words that follow the id in a sentence, and the facts for programs."""

    words: str
    facts: dict[str, str]


def find_obstacle(tx: Transaction, agent_id: str) -> Obstacle | None:
    """Why a new agent cannot have an id that it, or its user, has chosen."""
    from conch.letters.names import kind_posed_as  # only a new name needs it

    kind = kind_posed_as(agent_id)
    like = f"{kind}:" if kind else find_like(tx, "agent_like", agent_id)
    if like is not None:
        words = likeness(agent_id, like, "which is another agent or a reserved name")
        return Obstacle(words, {"reason": "confusable", "like": like})
    named = tx.one("agent_named", name=agent_id)
    return (
        None if named is None else Obstacle(f"is the name of {label(named['agent_id'], agent_id)}", {"reason": "taken"})
    )


def find_like(tx: Transaction, statement: str, name: str, **where: Any) -> str | None:
    """A name that looks the same: a reserved one, or one that the statement finds.

    No other transaction can take a new name until this one ends. Names that exist already need no such lock.
    """
    from conch.letters.names import poses_as, skeletons

    reserved = poses_as(name)
    if reserved is not None:
        return reserved
    lock_names(tx)
    row = tx.one(statement, name=name, skeletons=sorted(skeletons(name)), **where)
    return None if row is None else str(row["name"])


def likeness(name: str, like: str, which: str) -> str:
    """Why a new name that looks like another one is refused: the words that follow it in a sentence."""
    return "is reserved" if name == like else f"looks like {like!r}, {which}"


def lock_names(tx: Transaction) -> None:
    """Let no other transaction take a new name until this one ends."""
    tx.lock(_NEW_NAMES)


def note_name(tx: Transaction, name: str) -> None:
    """Record what a new name looks like, so that `find_like` finds it."""
    from conch.letters.names import skeletons

    for skeleton in sorted(skeletons(name)):
        tx.run("note_name", name=name, skeleton=skeleton)


# -- the columns of a process


def recorded_process(row: Row) -> Process | None:
    if row["pid"] is None:
        return None
    return Process(row["host_id"], row["boot_id"], row["pid"], row["process_started_at"])


def process_columns(process: Process | None) -> Row:
    host_id, boot_id, pid, started_at = process or (None, None, None, None)
    return {"host_id": host_id, "boot_id": boot_id, "pid": pid, "process_started_at": started_at}
