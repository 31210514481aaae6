"""Keeps the lease of a holder that has only the command line, as long as its harness or shell lives.

A command ends, its holder does not: the guardian is the small process in between. It renews the lease, and leaves by
itself when the lease is over or when the process it stands for has gone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from conch import processes
from conch.agents import Caller
from conch.app import App, open_app
from conch.bells.base import Ear, room_channel
from conch.doors.cli.context import Context
from conch.errors import ConchError, StoreBusy, StoreFull
from conch.processes import Process

PASSING = (StoreBusy, StoreFull)
RETRY_SECONDS = 5.0


def guardian_channel(lease_id: str) -> str:
    """Announced by the guardian of a lease, so that there is only one."""
    return f"guardian-{lease_id}"


def start_guardian(context: Context, turn: dict[str, Any]) -> None:
    """Leave a guardian behind for a turn that was just claimed, unless there is one or nothing to stand for."""
    caller = context.session.caller()
    if caller.process is None or context.app.bell.hears(guardian_channel(turn["lease_id"])):
        return
    order = {
        "caller": caller._asdict(),
        "turn": {name: turn[name] for name in ("room_id", "turn_id", "lease_id")},
        "store": context.app.settings.store,
        "data_dir": context.app.settings.data_dir,
    }
    # Its own session and no terminal: it must outlive this command and never be hit by the terminal's signals.
    guardian = subprocess.Popen(
        [sys.executable, "-m", "conch.doors.cli.guardian"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    assert guardian.stdin is not None
    guardian.stdin.write(json.dumps(order).encode())
    guardian.stdin.close()
    guardian.returncode = 0  # not our child to wait for: it is meant to stay


def main() -> int:
    order = json.load(sys.stdin)
    sys.stdin.close()
    places = {"CONCH_STORE": order["store"], "CONCH_DATA_DIR": order["data_dir"]}
    app = open_app({**os.environ, **places})
    facts = order["caller"]
    caller = Caller(**{**facts, "process": Process(*facts["process"])})
    try:
        stand_guard(app, caller, order["turn"])
    finally:
        app.close()
    return 0


def stand_guard(app: App, caller: Caller, turn: dict[str, Any]) -> None:
    """Renew until the lease is not ours any more or the holder is gone."""
    channel = guardian_channel(turn["lease_id"])
    with app.bell.listen(room_channel(turn["room_id"]), announce=channel) as ear:
        ear.watch(caller.process)
        while processes.check(caller.process) != "gone":
            try:
                app.turns.heartbeat(caller, turn["room_id"], turn["lease_id"], turn["turn_id"])
                seconds = app.membership.get_state(None, turn["room_id"]).policy.heartbeat_interval_ms / 1_000
            except PASSING:
                seconds = RETRY_SECONDS
            except ConchError:
                return
            _sleep(app, ear, caller, turn, seconds)


def _sleep(app: App, ear: Ear, caller: Caller, turn: dict[str, Any], seconds: float) -> None:
    """Until the next heartbeat is due, the room's stick has moved on, or the holder has gone."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        ear.wait(left)
        room = app.membership.get_state(None, turn["room_id"]).room
        if room.lease_id != turn["lease_id"] or processes.check(caller.process) == "gone":
            return


if __name__ == "__main__":
    sys.exit(main())
