"""Keeps the lease of a holder that has only the command line, as long as its harness or shell lives.

A command ends, its holder does not: the guardian is the small process in between. It renews the lease, and leaves by
itself when the lease is over, when the process it stands for has gone, or when the store is not there any more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress

from conch.agents.identity import Caller
from conch.app import App, open_app
from conch.bells.base import room_channel
from conch.bells.waits import FOREVER, PASSING, Pause, wait_for
from conch.calls import Call
from conch.doors.cli.post import Post
from conch.errors import ConchError, StoreFull, StoreReadOnly
from conch.host import processes
from conch.host.processes import Process
from conch.rooms.presence import renewal_ms
from conch.typed import Any


def main() -> int:
    """Take the orders from standard input, and stand guard unless another guardian does."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the command that started us may have blocked some
    order = json.load(sys.stdin)
    app = open_app({**os.environ, **order["environ"]})
    try:
        taken = Post(app, order["turn"]["lease_id"]).take()
        os.chdir("/")  # it was needed for relative paths; from now on it may be removed or unmounted
        _report_for_duty()
        if taken:
            facts = order["caller"]
            caller = Caller(**{**facts, "process": Process(*facts["process"])})
            _Guardian(app, caller, order["turn"]).stand()
    finally:
        app.close()
    return 0


def _report_for_duty() -> None:
    """Tell the command that a guardian stands, this one or another, and let go of all three streams."""
    try:
        os.write(sys.stdout.fileno(), b"standing")
    except OSError:  # it did not wait for that
        pass
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)


class _Guardian:
    def __init__(self, app: App, caller: Caller, turn: dict[str, Any]) -> None:
        self._app = app
        self._caller = caller
        self._turn = turn
        self._store = _file_id(app.store.describe())
        self._due = time.monotonic()

    def stand(self) -> None:
        """Renew until the lease is not ours any more, the holder is gone, or trouble comes that does not pass.

        A full disk is no reason to leave: a lease is much longer than most such troubles.
        """
        passing = (*PASSING, StoreFull, StoreReadOnly)
        with suppress(ConchError):
            wait_for(
                self._app.bell, [room_channel(self._turn["room_id"])], self._look, FOREVER, Call(), passing=passing
            )

    def _look(self, pause: Pause) -> str | None:
        """Renew if that is due; why there is no reason to stay, if there is none."""
        pause.process = self._caller.process
        if processes.check(self._caller.process) == "gone":
            return "the holder is gone"
        if _file_id(self._app.store.describe()) != self._store:
            return "removed or moved aside: what we have open is nobody's any more"
        snapshot = self._app.rooms.get_state(None, self._turn["room_id"])
        if snapshot.room.lease_id != self._turn["lease_id"]:
            return "the lease is over"
        if time.monotonic() >= self._due:
            turn = self._turn
            self._app.turns.heartbeat(self._caller, turn["room_id"], turn["lease_id"], turn["turn_id"])
            self._due = time.monotonic() + renewal_ms(snapshot) / 1_000  # so that the holder never seems stale
        pause.seconds = self._due - time.monotonic()
        return None


def _file_id(path: str) -> tuple[int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


if __name__ == "__main__":
    sys.exit(main())
