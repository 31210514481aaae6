"""Decides for every door who is a person, because only people may step in between agents.

A door that has a proof of its own, such as a console with a login, makes a `Person` from that proof.
"""

from __future__ import annotations

from collections.abc import Mapping

from conch.agents.identity import Signals
from conch.agents.records import HARNESS_SESSION, Caller, is_person
from conch.errors import PersonRequired
from conch.host import processes
from conch.host.marks import find_mark
from conch.lean import NamedTuple
from conch.storage.base import Store


class Person(NamedTuple):
    """A caller that a door knows to be a person. Actions that only people may take require one."""

    caller: Caller


class _Doubt(NamedTuple):
    """Why a caller might not be a person: a word for programs, and a sentence."""

    reason: str
    sentence: str


def recognise_person(store: Store, caller: Caller, signals: Signals, environ: Mapping[str, str]) -> Person:
    """The person who typed this command at a terminal. PersonRequired if the caller might be anything else."""
    # The cheapest first.
    doubt = _doubt_identity(caller, signals) or _doubt_mark(environ) or _doubt_namespace(store)
    if doubt is not None:
        message = f"Only a person can do this. {doubt.sentence}"
        raise PersonRequired(message, reason=doubt.reason, agent_id=caller.agent_id)
    return Person(caller)


def _doubt_identity(caller: Caller, signals: Signals) -> _Doubt | None:
    if signals.explicit is not None:
        return _Doubt("chosen_id", f"CONCH_AGENT_ID says that you are {caller.label}: unset it first.")
    if not is_person(caller.agent_id):
        return _doubt_program(signals) or _Doubt("agent", f"You are {caller.label}, an agent: ask a person to do it.")
    if signals.terminal is None:
        return _Doubt(
            "no_terminal",
            "There is no terminal to show that you are a person: run this in one.",
        )
    return None


def _doubt_program(signals: Signals) -> _Doubt | None:
    """A terminal counts as a person's only if a known terminal program opened it and only shells run in it."""
    if signals.session_kind == HARNESS_SESSION or processes.controlling_tty() is None:
        return None
    sentence = (
        f"The program {signals.slug!r} runs this command or opened this terminal. Use a shell in another terminal "
        "program, in tmux or over ssh, or use the console."
    )
    return _Doubt("unknown_program", sentence)


def _doubt_mark(environ: Mapping[str, str]) -> _Doubt | None:
    mark = find_mark(environ)
    if not mark:
        return None
    return _Doubt("harness_mark", f"{mark} is set, so a harness may be running this: use another terminal.")


def _doubt_namespace(store: Store) -> _Doubt | None:
    """A sandbox hides the harness above it. But in a container that runs harnesses, people type too."""
    if not processes.is_in_pid_namespace():
        return None
    with store.read() as tx:
        here = {"host_id": processes.host_id(), "session_kind": HARNESS_SESSION}
        if tx.one("agent_on_host", **here) is not None:
            return None
    sentence = "This shell is in a sandbox, which may hide a harness above it: use a shell outside of the sandbox."
    return _Doubt("foreign_namespace", sentence)
