"""Wakes the agent of this connection when it has stopped and something comes for it. `conch mcp --wake` starts it.

The server is the right process for this: it lives as long as the harness, has the harness's own variables, and can wait
for the bell. So no daemon is needed, and no token of a harness gets into the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from conch.app import App
from conch.bells.base import agent_channel, room_channel, topic_channel
from conch.bells.waits import Pause, wait_for
from conch.calls import Call
from conch.errors import Cancelled, ConchError
from conch.harnesses.alarms import Alarm, Rung
from conch.harnesses.base import Harness
from conch.host.marks import find_named, slug_of
from conch.lean import threading
from conch.tools.session import Session
from conch.waking.signs import Signs, ask_for_signs
from conch.waking.waking import Reason

_ROUND_SECONDS = 60.0  # after this time, it also listens to rooms and topics that are new
_FIRST_SECONDS = 1.0  # between two looks, while the agent is not known yet or another server wakes it
_MOST_ROOMS = 20


class Waker:
    def __init__(self, app: App, make_session: Callable[..., Session], prepare: Callable[[], None]) -> None:
        """`prepare` runs before anything else."""
        self._app = app
        self._prepare = prepare
        self._make_session = make_session
        self._session: Session | None = None
        self._client_name: Callable[[], str | None] = lambda: None
        self._call = Call()
        self._ended = threading.Event()

    def make_session(self, client_name: Callable[[], str | None], default_path: Callable[[], str | None]) -> Session:
        """Make the session of the connection, whose agent it wakes."""
        self._client_name = client_name
        self._session = self._make_session(client_name, default_path)
        return self._session

    def start(self) -> None:
        self._prepare()
        with suppress(OSError):  # the store will say what is wrong with the folder
            ask_for_signs(self._app.settings.data_dir)
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        self._ended.set()
        self._call.cancel()

    def _who(self) -> str | None:
        """The agent, if it is known. If one process of the harness runs several, only a call can tell which it is."""
        harness = find_named(self._client_name() or "")
        if self._session is None or (harness and harness.shares_process and not self._session.has_called):
            return None
        return self._session.find_agent_id()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                agent_id = self._who()
                signs = Signs(self._app.settings.data_dir, agent_id) if agent_id else None
                if agent_id and signs and signs.take_over():  # otherwise another server of the agent wakes it
                    try:
                        while self._who() == agent_id:
                            self._watch(agent_id, signs)
                    finally:
                        signs.close()
            except Cancelled:
                return
            except (ConchError, OSError):  # a store or a disk in trouble: try again later
                pass
            self._ended.wait(_FIRST_SECONDS)

    def _watch(self, agent_id: str, signs: Signs) -> None:
        """Wait for a reason to wake the agent, for one round."""
        given = {"agent_id": agent_id}
        rooms = [row["room_id"] for row in self._app.store.glance("rooms_of_agent", **given, limit=_MOST_ROOMS)]
        topics = [row["topic_id"] for row in self._app.store.glance("topics_of_agent", **given)]
        channels = [agent_channel(agent_id), *map(room_channel, rooms), *map(topic_channel, topics)]
        had_stopped = signs.has_stopped

        def look(_: Pause) -> list[Reason] | None:
            if signs.has_stopped != had_stopped:
                return []  # the agent may be in other rooms now
            return self._app.waking.find_due(agent_id, signs) or None

        reasons = wait_for(self._app.bell, channels, look, _ROUND_SECONDS, self._call)
        if reasons:
            self._app.waking.wake(agent_id, signs, reasons, partial(self._ring, agent_id))

    def _ring(self, agent_id: str, text: str, session_id: str) -> Rung:
        """Call the harness with a prompt for a session."""
        from conch.harnesses.catalogue import HARNESSES  # once in a while, so not at every start of a server

        harness: Harness | None = HARNESSES.get(slug_of(self._client_name() or ""))
        if harness is None or harness.ring is None:
            return Rung("failed", "conch cannot wake this harness")
        # A resumed run is another process of the same agent.
        return harness.ring(Alarm(text, session_id, {**os.environ, "CONCH_AGENT_ID": agent_id}))
