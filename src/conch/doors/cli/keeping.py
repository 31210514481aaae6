"""Leaves a guardian behind for a lease: the command ends, its holder does not."""

from __future__ import annotations

import select
import sys

from conch.doors.cli.context import Context
from conch.doors.cli.post import Post
from conch.lazy import json
from conch.typed import Any

_PATIENCE_SECONDS = 10.0


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
        stands = not Post(context.app, turn["lease_id"]).is_free() or _start(context, turn)
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
