"""Keeps the lease of an agent that got the stick from a command, while its harness or shell lives.

A command ends, but its agent goes on and holds the stick. So the command starts a small process, the guardian, which
renews the lease. It ends by itself when the lease is over, or when the agent's process or the store is gone.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import time
from contextlib import suppress

from conch.agents.records import Caller
from conch.app import App, open_app
from conch.bells.base import room_channel
from conch.bells.waits import FOREVER, TEMPORARY, Pause, wait_for
from conch.calls import Call
from conch.doors.cli.output import local_moments
from conch.errors import ConchError, StoreFull, StoreReadOnly, StoreReplaced
from conch.host import processes
from conch.host.processes import Process
from conch.ids import digest
from conch.lean import TYPE_CHECKING, Any, json, signal
from conch.rooms.presence import renewal_ms

if TYPE_CHECKING:
    from conch.doors.cli.context import Context

_PATIENCE_SECONDS = 10.0

# -- in the command that claimed the stick


def lease_text(context: Context, turn: dict[str, Any]) -> str:
    """How long the lease lasts, for people."""
    process = context.caller.process
    if process is None:
        named = getattr(context.options, "agent", None)
        again = "conch wait" if named is None else f"conch wait --agent {named}"
        return f"Your lease lapses at {local_moments(turn['lease_expires_at'])} unless you run `{again}` again."
    return f"Your lease is renewed while process {process.pid} runs."


def keep_lease(context: Context, turn: dict[str, Any]) -> None:
    """Start a guardian, unless one is running or there is no process to watch."""
    if context.caller.process is None:
        return
    try:
        is_kept = not _LeaseLock(context.app, turn["lease_id"]).is_free() or _start(context, turn)
    except OSError:
        is_kept = False
    if not is_kept:
        advice = f"Run `conch wait` again before {local_moments(turn['lease_expires_at'])}"
        print(f"conch: no guardian process confirmed that it renews your lease. {advice}.", file=sys.stderr)


def _start(context: Context, turn: dict[str, Any]) -> bool:
    """Start a guardian; False if it does not report back.

    Its order goes through a pipe, because `ps` would show the lease in its arguments to all users.
    """
    from conch.host.programs import DEVNULL, PIPE, start_python  # slow to import, and only needed here

    settings = context.app.settings
    order = {
        "caller": context.caller._asdict(),
        "turn": {name: turn[name] for name in ("room_id", "turn_id", "lease_id")},
        "environ": {"CONCH_STORE": settings.store, "CONCH_DATA_DIR": settings.data_dir},
    }
    # A session of its own, because it must outlive this command and get no signals from the terminal. It starts in this
    # directory, because the path of the store may be relative.
    guardian = start_python(
        "-m", "conch.doors.cli.guardian", stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True
    )
    guardian.returncode = 0  # keeps Popen from waiting for it: it must outlive us
    assert guardian.stdin is not None and guardian.stdout is not None
    with guardian.stdin, guardian.stdout:
        guardian.stdin.write(json.dumps(order).encode())
        guardian.stdin.close()
        readable, _, _ = select.select([guardian.stdout], [], [], _PATIENCE_SECONDS)
        return bool(readable) and guardian.stdout.read(1) != b""


class _LeaseLock:
    """Makes sure that a lease has only one guardian: each locks one byte of a file that all guardians share.

    The kernel frees the lock when the guardian ends, however it ends. There is nothing to clean up.
    """

    def __init__(self, app: App, lease_id: str) -> None:
        store = app.store.describe()
        folder = os.path.dirname(store) if os.path.isabs(store) else app.settings.data_dir
        self._path = os.path.join(os.path.abspath(folder), "guardians")
        self._place = int(digest(lease_id)[:15], 16)  # a file can be locked far beyond its end

    def take(self) -> bool:
        """Hold the lock until this process ends; False if another guardian holds it."""
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
        except (BlockingIOError, PermissionError):  # systems differ in the error for a held lock
            return False
        return True


# -- in the guardian's own process


def _main() -> int:
    """Read the order from standard input, and renew the lease unless another guardian does."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the command may have blocked some signals
    order = json.load(sys.stdin)
    app = open_app({**os.environ, **order["environ"]})
    try:
        taken = _LeaseLock(app, order["turn"]["lease_id"]).take()
        os.chdir("/")  # relative paths are resolved by now, and the directory may be removed or unmounted
        _report_ready()
        if taken:
            facts = order["caller"]
            caller = Caller(**{**facts, "process": Process(*facts["process"])})
            _Guardian(app, caller, order["turn"]).run()
    finally:
        app.close()
    return 0


def _report_ready() -> None:
    """Tell the command that the lease has a guardian, and close all three streams."""
    try:
        os.write(sys.stdout.fileno(), b"ready")
    except OSError:  # the command did not wait for us
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
        self._due = time.monotonic()

    def run(self) -> None:
        """Renew until the lease is over, the holder is gone, or an error is permanent.

        A full or read-only disk counts as temporary, because it may be repaired before the lease lapses.
        """
        temporary = (*TEMPORARY, StoreFull, StoreReadOnly)
        with suppress(ConchError):
            wait_for(
                self._app.bell, [room_channel(self._turn["room_id"])], self._look, FOREVER, Call(), temporary=temporary
            )

    def _look(self, pause: Pause) -> str | None:
        """Renew if that is due. Returns a reason to stop, or None."""
        pause.processes = (self._caller.process,)
        if processes.check(self._caller.process) == "gone":
            return "the holder is gone"
        try:
            snapshot = self._app.rooms.get_state(None, self._turn["room_id"])
        except StoreReplaced:
            return "the store was replaced"
        if snapshot.room.lease_id != self._turn["lease_id"]:
            return "the lease is over"
        if time.monotonic() >= self._due:
            turn = self._turn
            self._app.turns.heartbeat(self._caller, turn["room_id"], turn["lease_id"], turn["turn_id"])
            # Early enough that the holder never looks stale.
            self._due = time.monotonic() + renewal_ms(snapshot) / 1_000
        pause.seconds = self._due - time.monotonic()
        return None


if __name__ == "__main__":
    sys.exit(_main())
