"""The state of the server, the store and the agents' processes."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable

from conch import __version__
from conch.clock import SECOND, system_clock, to_iso
from conch.doors.web.requests import Desk
from conch.doors.web.views import agent_view
from conch.errors import StoreError
from conch.overseeing.health import examine
from conch.tools.replies import Object, known

_MOST_AGENTS = 200


class HealthPage:
    def __init__(self, desk: Desk, count_streams: Callable[[], int]) -> None:
        self._desk = desk
        self._count_streams = count_streams
        self._started_at = system_clock()

    def introduce(self, given: Object) -> Object:
        """Who acts here, and where everything is stored."""
        self._desk.viewer_id()
        caller = self._desk.caller()
        me = agent_view(caller.agent_id, caller.name)
        return {"version": __version__, "me": me, "store": self._desk.app.store.describe()}

    def show(self, given: Object) -> Object:
        """Everything about the server, and what the store says. A store in trouble is a fact, not an error."""
        app = self._desk.app
        about: Object = {
            "version": __version__,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "store": app.store.describe(),
            "started_at": to_iso(self._started_at),
            "pid": os.getpid(),
            "streams": self._count_streams(),
            "bell": {"kind": type(app.bell).__name__, "is_reliable": app.bell.recheck_seconds(1.0) > 1.0},
            "slow": [
                {"what": each.what, "milliseconds": each.milliseconds, "at": to_iso(int(each.at * SECOND))}
                for each in reversed(self._desk.slow)
            ],
        }
        try:
            return {**about, **self._store_facts()}
        except StoreError as trouble:
            return {"now": to_iso(system_clock()), **about, "trouble": trouble.message}

    def _store_facts(self) -> Object:
        app = self._desk.app
        health = examine(app.store, app.settings.stale_minutes, _MOST_AGENTS)
        processes = [
            known(
                **agent_view(each.agent_id, each.name),
                pid=each.pid or None,  # a session that has ended has no process
                life=each.life,
                liveness=each.liveness,
                last_seen_at=to_iso(each.last_seen_at),
                rooms=each.rooms,
            )
            for each in health.processes
        ]
        return {**health._asdict(), "processes": processes}
