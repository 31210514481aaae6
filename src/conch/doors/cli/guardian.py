"""Keeps the lease of a holder that has only the command line, as long as its harness or shell lives.

A command ends, its holder does not: the guardian is the small process in between. The command starts it; it renews the
lease, and leaves by itself when the lease is over, when the process it stands for has gone, or when the store is gone.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import time
from contextlib import suppress

from conch.agents.identity import Caller
from conch.app import App, open_app
from conch.bells.base import room_channel
from conch.bells.waits import FOREVER, PASSING, Pause, wait_for
from conch.calls import Call
from conch.errors import ConchError, StoreFull, StoreReadOnly
from conch.host import processes
from conch.host.processes import Process
from conch.ids import digest
from conch.lean import TYPE_CHECKING, Any, json, signal
from conch.rooms.presence import renewal_ms

if TYPE_CHECKING:
    from conch.doors.cli.context import Context

_PATIENCE_SECONDS = 10.0

# -- in the command that got the stick


def lease_text(context: Context, turn: dict[str, Any]) -> str:
    """Whether somebody keeps the lease, for people."""
    process = context.caller.process
    if process is None:
        return f"Your lease lapses at {turn['lease_expires_at']} unless you `conch wait` again."
    return f"Your lease is kept while process {process.pid} lives."


def keep_lease(context: Context, turn: dict[str, Any]) -> None:
    """See to it that a guardian stands, if there is a process that it could stand for."""
    if context.caller.process is None:
        return
    try:
        stands = not _Post(context.app, turn["lease_id"]).is_free() or _start(context, turn)
    except OSError:
        stands = False
    if not stands:
        advice = f"`conch wait` again before {turn['lease_expires_at']}"
        print(f"conch: the guardian did not start, so nobody keeps your lease; {advice}", file=sys.stderr)


def _start(context: Context, turn: dict[str, Any]) -> bool:
    """Whether a guardian has taken its post. It gets its orders through a pipe: `ps` shows arguments to everybody."""
    import subprocess  # slow to import, and only needed here

    settings = context.app.settings
    order = {
        "caller": context.caller._asdict(),
        "turn": {name: turn[name] for name in ("room_id", "turn_id", "lease_id")},
        "environ": {"CONCH_STORE": settings.store, "CONCH_DATA_DIR": settings.data_dir},
    }
    # Its own session and no terminal: it must outlive this command and never be hit by the terminal's signals. It
    # starts here, because a store may be named relative to here, but -P: what lies here is not for it to import.
    guardian = subprocess.Popen(
        [sys.executable, "-P", "-m", "conch.doors.cli.guardian"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    guardian.returncode = 0  # not our child to wait for: it is meant to stay
    assert guardian.stdin is not None and guardian.stdout is not None
    with guardian.stdin, guardian.stdout:
        guardian.stdin.write(json.dumps(order).encode())
        guardian.stdin.close()
        readable, _, _ = select.select([guardian.stdout], [], [], _PATIENCE_SECONDS)
        return bool(readable) and guardian.stdout.read(1) != b""


class _Post:
    """The place of a lease's guardian: one byte of a file that all guardians share, locked by the one on duty.

    The kernel frees it when the guardian ends, however that happens. Nothing is left to clear away.
    """

    def __init__(self, app: App, lease_id: str) -> None:
        store = app.store.describe()
        folder = os.path.dirname(store) if os.path.isabs(store) else os.path.expanduser(app.settings.data_dir)
        self._path = os.path.join(os.path.abspath(folder), "guardians")
        self._place = int(digest(lease_id)[:15], 16)

    def take(self) -> bool:
        """Stand here until the process ends; False if another one does."""
        return self._lock(self._open())

    def is_free(self) -> bool:
        file = self._open()
        try:
            return self._lock(file)
        finally:
            os.close(file)

    def _open(self) -> int:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _lock(self, file: int) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._place)
        except (BlockingIOError, PermissionError):  # systems differ in what a lock held by another is
            return False
        return True


# -- in the guardian's own process


def main() -> int:
    """Take the orders from standard input, and stand guard unless another guardian does."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the command that started us may have blocked some
    order = json.load(sys.stdin)
    app = open_app({**os.environ, **order["environ"]})
    try:
        taken = _Post(app, order["turn"]["lease_id"]).take()
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
