"""One process that passes the stick of a room through the library for a given time, and reports."""

from __future__ import annotations

import json
import os
import sys
import time

from conch.agents.records import Caller
from conch.app import App, open_app
from conch.errors import ConchError
from conch.tools.session import Session


class Passer:
    """All times are in seconds. `calls` are the releases, and the claims that did not have to wait.

    `handed` is from the start of another process's release to the end of the claim here.
    """

    def __init__(self, app: App, caller: Caller, room_id: str) -> None:
        self._app = app
        self._caller = caller
        self._room_id = room_id
        self.turns = 0
        self.refused = 0
        self.calls: list[float] = []
        self.handed: list[float] = []

    def pass_until(self, deadline: float) -> None:
        while (left := deadline - time.monotonic()) > 0:
            try:
                self._take_turn(int(left * 1_000) + 1)
            except ConchError as refusal:
                self.refused += 1
                print(refusal, file=sys.stderr)

    def _take_turn(self, max_wait_ms: int) -> None:
        called = time.monotonic()
        wait = self._app.claims.wait_for_turn(self._caller, self._room_id, None, max_wait_ms)
        claimed = time.monotonic()
        room = wait.snapshot.room
        if wait.status != "your_turn" or room.lease_id is None:
            return
        self.turns += 1
        if wait.handoff is not None and wait.from_agent_id != self._caller.agent_id:
            self.handed.append(claimed - float(wait.handoff["status"]))
        else:
            self.calls.append(claimed - called)
        handoff = {"status": repr(time.monotonic()), "next_action": "Pass it on."}
        self._app.turns.release_stick(self._caller, self._room_id, room.lease_id, room.turn_id, handoff)
        self.calls.append(time.monotonic() - float(handoff["status"]))


def main() -> None:
    app = open_app(os.environ)
    caller = Session(app, "mcp").caller()
    room_id = app.membership.join_path(caller, sys.argv[1]).snapshot.room.room_id
    passer = Passer(app, caller, room_id)
    print(json.dumps({"ready": True}), flush=True)
    order = json.loads(sys.stdin.readline())
    time.sleep(max(0.0, order["start"] - time.monotonic()))
    passer.pass_until(order["start"] + order["seconds"])
    report = {"turns": passer.turns, "refused": passer.refused, "calls": passer.calls, "handed": passer.handed}
    print(json.dumps(report), flush=True)
    app.close()


if __name__ == "__main__":
    main()
