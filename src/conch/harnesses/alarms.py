"""How to wake an agent that has stopped: through a socket of its harness, or with a command of the harness."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from conch.lean import Literal, NamedTuple, json

_SECONDS = 30.0
_RUN_SECONDS = 1_800.0  # a whole turn of a model
_LONGEST = 200


class Alarm(NamedTuple):
    """A prompt for one session."""

    text: str
    session_id: str
    """Empty if it is not known."""
    environ: Mapping[str, str]
    """The environment of the harness's MCP server."""


class Rung(NamedTuple):
    """The outcome of an alarm, as the caller of the harness knows it."""

    state: Literal["queued", "ambiguous", "failed"]
    why: str = ""
    has_ended: bool = False
    """The alarm runs the agent in the background, and that run is over, if it ever began."""


Ring = Callable[[Alarm], Rung]


def ring_claude(alarm: Alarm) -> Rung:
    """Claude Code gives its servers the address of a socket that takes prompts."""
    import socket  # only waking needs it

    path, token = (alarm.environ.get(f"CLAUDE_CODE_MESSAGING_{name}", "") for name in ("SOCKET", "TOKEN"))
    if not path or not token:
        return Rung("failed", "this version of Claude Code has no socket for messages")
    prompt = {"type": "user", "message": {"role": "user", "content": alarm.text}}
    lines = "".join(json.dumps(each) + "\n" for each in ({"type": "auth", "token": token}, prompt))
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(_SECONDS)
        try:
            wire.connect(path)
        except OSError as problem:
            return Rung("failed", f"its socket does not answer: {problem.strerror or problem}")
        try:
            wire.sendall(lines.encode())
        except OSError as problem:
            return Rung("ambiguous", f"the connection to its socket was lost: {problem.strerror or problem}")
    return Rung("queued")


def ring_by_command(*words: str, seconds: float = _SECONDS) -> Ring:
    """A command of the harness. SESSION and TEXT among its words stand for the session and the prompt."""

    def ring(alarm: Alarm) -> Rung:
        if not alarm.session_id:
            return Rung("failed", "the session is not known; are the hooks of conch set up and trusted?")
        values = {"SESSION": alarm.session_id, "TEXT": alarm.text}
        return _run([values.get(word, word) for word in words], alarm.environ, seconds)

    return ring


def ring_by_resuming(*words: str) -> Ring:
    """A run of the harness without a terminal, which resumes the session. It ends with the turn."""
    ring = ring_by_command(*words, seconds=_RUN_SECONDS)
    return lambda alarm: ring(alarm)._replace(has_ended=True)


def _run(command: list[str], environ: Mapping[str, str], seconds: float) -> Rung:
    """Run a command of a harness. No shell reads the words."""
    import signal
    import tempfile

    from conch.host.programs import DEVNULL, TimeoutExpired, start_program  # slow to import, and only needed here
    from conch.host.workspaces import workspace_here

    name = command[0]
    with tempfile.TemporaryFile() as errors:  # not a pipe: a process that the command leaves behind would keep it open
        try:
            process = start_program(
                command, workspace_here(), environ, stdin=DEVNULL, stdout=DEVNULL, stderr=errors, start_new_session=True
            )
        except FileNotFoundError as problem:
            return Rung("failed", str(problem.strerror))
        except OSError as problem:
            return Rung("failed", f"{name} does not start: {problem.strerror}")
        try:
            status = process.wait(seconds)
        except TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return Rung("ambiguous", f"{name} did not end within {seconds:.0f} s")
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines() if status else []
    if status:
        return Rung("failed", f"{name} ended with {status}: {(said or ['it printed nothing'])[-1][:_LONGEST]}")
    return Rung("queued")
