"""The person who uses the console. The token proves that it is the user who started the server."""

from __future__ import annotations

import os

from conch.agents.identity import Signal, Signals
from conch.agents.records import PERSON_SESSION
from conch.agents.signals import user_name
from conch.app import App
from conch.host import processes
from conch.tools.session import Session


def person_session(app: App) -> Session:
    """The session of `human:<user>:console`. It is the same person whenever the server starts."""
    return Session(app, "web", signals=_signals)


def _signals(called_in: tuple[str, ...]) -> Signals:
    value = f"human:{user_name(os.environ)}:console@{processes.host_id()}"
    signal = Signal("person", value, "the console")
    return Signals((signal,), "human", None, None, PERSON_SESSION, "console")
