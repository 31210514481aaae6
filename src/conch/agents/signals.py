"""Gathers the signals that identify an agent: everything this process can see about who started it.

No process sees all of them: a command may inherit a session id, an MCP server may see only its parents. So no single
signal is the identity, and `identity.py` links them in the store.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from conch.agents.connections import Connection, process_key
from conch.agents.identity import Signal, Signals
from conch.agents.records import AGENT_ID_RULE, HARNESS_SESSION, PERSON_SESSION, is_agent_id
from conch.errors import InvalidSetting
from conch.host import processes
from conch.host.marks import (
    HARNESSES,
    HOSTS,
    LAUNCHERS,
    TERMINALS,
    Harness,
    is_marked,
    known_slug,
    marked,
    read_program,
    recognise,
    slug_of,
)
from conch.host.processes import Process
from conch.ids import digest
from conch.lean import NamedTuple


class _Origin(NamedTuple):
    """Who started this process: the nearest harness that conch knows, and the nearest program other than a launcher."""

    known: Harness | None = None
    harness: Process | None = None
    client: Process | None = None
    client_label: str = ""
    is_typed: bool = False
    """Whether only shells and launchers are between this process and a program that opens terminals for people."""


class _Session(NamedTuple):
    slug: str
    session_id: str
    source: str
    shares_process: bool


def gather_signals(
    door: str, environ: Mapping[str, str], client_name: str | None, called_in: Sequence[str] = ()
) -> Signals:
    """Look at the environment and at the ancestor processes.

    `door` is `mcp` for the server, and anything else for a command. `called_in` are the ids of the sessions that the
    client's calls came from. Raises InvalidSetting if CONCH_AGENT_ID is not a valid id.
    """
    explicit = _explicit_id(environ)
    origin = _find_origin()
    sessions = [*_sessions_of_calls(called_in, client_name), *_find_sessions(door, environ, origin, client_name)]
    is_typed_or_script = door != "mcp" and not origin.known and not sessions
    # With an id of its own a command is an agent in any case, and a terminal only shows how long that agent lives.
    is_typed = is_typed_or_script and bool(explicit or (origin.is_typed and not is_marked(environ)))
    tty = processes.controlling_tty() if is_typed else None
    own = _own_process(door, origin, unnamed=not explicit, person_or_session=bool(tty or sessions))
    # A process that runs several sessions identifies none of them.
    above = [] if any(session.shares_process for session in sessions) else _process_signal(own, origin)
    found = [*explicit, *map(_session_signal, sessions), *above]
    found = found or [_person_signal(environ, tty) if tty else _account_signal(environ)]
    slug = "human" if tty else _slug(environ, origin, client_name, sessions, is_typed_or_script)
    return Signals(
        found=tuple(found),
        slug=slug,
        harness=own,
        terminal=processes.session_leader() if tty else None,
        session_kind=PERSON_SESSION if tty else "script" if is_typed_or_script else HARNESS_SESSION,
        display_name=_printable(client_name or "") or tty or slug,
        connection=_connection(own, client_name) if door == "mcp" else None,
    )


def _explicit_id(environ: Mapping[str, str]) -> list[Signal]:
    agent_id = environ.get("CONCH_AGENT_ID", "")
    if not agent_id:
        return []
    if not is_agent_id(agent_id):
        message = f"CONCH_AGENT_ID is {agent_id[:80]!r}, but it {AGENT_ID_RULE}."
        raise InvalidSetting(message, setting="CONCH_AGENT_ID")
    return [Signal("explicit", agent_id, "CONCH_AGENT_ID")]


# -- processes


def _find_origin() -> _Origin:
    client, label, last = None, "", os.getpid()
    for process, name, arguments in processes.ancestors():
        program, last = read_program(name, arguments), process.pid
        if known := recognise(program):
            return _Origin(known, process, client or process, label or program.label)
        if program.is_any_of(HOSTS):
            # In WSL, an `init` other than pid 1 opens the terminals.
            opens = program.is_any_of(TERMINALS) or (program.is_any_of(("init",)) and process.pid > 1)
            return _Origin(client=client, client_label=label, is_typed=opens and client is None)
        is_launcher = program.is_any_of(LAUNCHERS)
        # In a container a known harness may be pid 1. Any other pid 1 is an init, the ancestor of every process.
        if client is None and process.pid > 1 and not is_launcher:
            client, label = process, program.label
        elif process.pid == 1 and not is_launcher:
            return _Origin(client=client, client_label=label)
    return _Origin(client=client, client_label=label, is_typed=client is None and processes.starts_outside(last))


def _own_process(door: str, origin: _Origin, unnamed: bool, person_or_session: bool) -> Process | None:
    """The process that ends when the agent ends. None if there is none, or if it cannot be known."""
    if door == "mcp":
        # A server ends with its client. With a CONCH_AGENT_ID the client is the agent, not the harness further up,
        # which may run several such clients.
        above = (unnamed and origin.harness) or origin.client
        return above or processes.look_up(os.getpid())
    if origin.harness:
        return origin.harness
    # The program that runs a command may end within a second, while the person or the session goes on.
    return origin.client if unnamed and not person_or_session else None


def _connection(parent: Process | None, client_name: str | None) -> Connection | None:
    itself = processes.look_up(os.getpid())
    return Connection(itself, process_key(parent), _printable(client_name or "")) if itself and parent else None


def _process_signal(process: Process | None, origin: _Origin) -> list[Signal]:
    if process is None:
        return []
    named = origin.known.slug if origin.known and process == origin.harness else origin.client_label
    return [
        Signal("process", process_key(process), f"process {process.pid}" + (f" ({_printable(named)})" if named else ""))
    ]


# -- sessions


def _sessions_of_calls(called_in: Sequence[str], client_name: str | None) -> list[_Session]:
    """The sessions that the client's calls name. Such a client tells its sessions apart, whatever their process is."""
    slug = slug_of(client_name or "")
    return [_Session(slug, session_id, "the client's calls", shares_process=True) for session_id in called_in]


def _find_sessions(door: str, environ: Mapping[str, str], origin: _Origin, client_name: str | None) -> list[_Session]:
    """The session ids in the environment that belong to this harness."""
    # A program that a harness started inherits a session id that is not its own: another harness, or an orchestrator
    # whose MCP clients are agents of their own.
    client = known_slug(client_name or "")
    is_harness = client is not None or (origin.known is not None and origin.client == origin.harness)
    if door == "mcp" and not is_harness:
        return []
    owner = client or (origin.known.slug if origin.known else None)
    exported = [
        _Session(harness.slug, environ[variable], variable, harness.shares_process)
        for harness in HARNESSES
        for variable in harness.sessions
        if environ.get(variable) and owner in (harness.slug, None)
    ]
    # If the harness is unknown, the ids may belong to several harnesses, and only one can be the caller's.
    return exported if owner else exported[:1]


def _session_signal(session: _Session) -> Signal:
    given = session.session_id
    is_readable = given.isascii() and given.isprintable() and " " not in given and len(given) <= 128
    session_id = given if is_readable else digest(given)
    return Signal("session", f"session:{session.slug}:{session_id}", session.source)


def remote_signals(client_name: str, key: str, called_in: Sequence[str]) -> Signals:
    """An MCP client that calls over HTTP. Its process cannot be seen, so `key` and its sessions identify it."""
    named = _printable(client_name)
    sessions = [_session_signal(session) for session in _sessions_of_calls(called_in, named)]
    own = Signal("session", f"session:http:{digest(key)}", "MCP over HTTP")
    slug = slug_of(named)
    return Signals((*sessions, own), slug, None, None, HARNESS_SESSION, named or slug)


# -- people


def _person_signal(environ: Mapping[str, str], tty: str) -> Signal:
    """`human:<user>:<tty>`, then the host, because terminals have the same names on every machine."""
    value = f"human:{_user_name(environ)}:{_short_tty(tty)}@{processes.host_id()}"
    return Signal("person", value, f"terminal {tty}")


def _account_signal(environ: Mapping[str, str]) -> Signal:
    """All that is known of a command without a terminal and a known parent process. It is not a person."""
    return Signal(
        "account", f"account:{_user_name(environ)}@{processes.host_id()}", "no terminal and no known parent process"
    )


def console_signals(environ: Mapping[str, str]) -> Signals:
    """The person at the console of this host. It is the same person whenever the console starts."""
    value = f"human:{_user_name(environ)}:console@{processes.host_id()}"
    signal = Signal("person", value, "the console")
    return Signals((signal,), "human", None, None, PERSON_SESSION, "console")


def _user_name(environ: Mapping[str, str]) -> str:
    """What the person at this computer is called, in the letters of an agent_id."""
    return _plain(environ.get("USER") or environ.get("LOGNAME") or _account())[:64]


def _plain(name: str) -> str:
    """The name with every run of characters other than letters, digits and `._-` replaced by one hyphen."""
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else " " for letter in name)
    while "  " in plain:
        plain = plain.replace("  ", " ")
    return plain.replace(" ", "-")


def _account() -> str:
    import pwd  # may ask a user database on the network, so only if the environment has no name

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid{os.getuid()}"


def _short_tty(tty: str) -> str:
    """`ttys003` is s003, `pts/3` is pts3."""
    return (tty[3:] if tty.startswith("ttys") and tty[4:5].isdecimal() else tty).replace("/", "")


# -- what to call the agent


def _slug(
    environ: Mapping[str, str], origin: _Origin, client_name: str | None, sessions: list[_Session], is_script: bool
) -> str:
    """The harness part of a new agent id. Names that conch knows come before names that it does not."""
    mark = marked(environ)
    claims = (
        known_slug(client_name or ""),
        origin.known.slug if origin.known else None,
        sessions[0].slug if sessions else None,
        client_name,
        mark.slug if mark else None,
        origin.client_label,
    )
    return slug_of(next(filter(None, claims), "script" if is_script else ""))


def _printable(text: str) -> str:
    """One short printable line. Names come from other programs and are shown on terminals."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:64]
