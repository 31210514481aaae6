"""The person who uses the console. The token proves that it is the user who started the server."""

from __future__ import annotations

import os

from conch.agents.signals import console_signals
from conch.app import App
from conch.tools.session import Session


def person_session(app: App) -> Session:
    """The session of `human:<user>:console`."""
    return Session(app, "web", signals=lambda called_in: console_signals(os.environ))
