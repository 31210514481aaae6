"""Asks the harnesses' own MCP clients whether they accept our settings, and Codex whether it trusts our hooks.

Only `conch doctor` does this. It starts the programs of the harnesses, with fixed arguments, in an empty folder: in a
workspace, some of them would start the servers and plugins that its files name.
"""

from __future__ import annotations

import os
import re
import select
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from conch import __version__
from conch.harnesses.base import Harness
from conch.host.programs import (
    DEVNULL,
    PIPE,
    STDOUT,
    Popen,
    TimeoutExpired,
    find_program,
    start_program,
    temporary_place,
)
from conch.host.workspaces import workspace_here
from conch.lean import Any, Literal, NamedTuple, json

_SECONDS = 60.0
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BAD = ("disabled", "pending", "fail", "error", "not connected", "disconnected", "untrusted", "✗", "✘")
_CHUNK = 65_536


class Opinion(NamedTuple):
    """What a harness says about conch."""

    state: Literal["ok", "note", "problem"]
    said: str


def ask_client(harness: Harness) -> Opinion | None:
    """What the harness's own client says about our server; None if the harness has no such client on this machine."""
    words = harness.check.split()
    if not words or find_program(words[0], None) is None:
        return None
    if find_program(words[0], workspace_here()) is None:
        return Opinion("note", f"{words[0]} is a program of this workspace, so conch did not start it")
    answer = _run(words)
    if answer is None:
        return Opinion("note", f"`{harness.check}` did not answer within {_SECONDS:.0f} s")
    lines = [line.strip() for line in _COLOURS.sub("", answer).splitlines()]
    about = next((line for line in lines if re.search(r"(^|\W)conch(\W|$)", line)), "")
    if not about:
        return Opinion("problem", f"`{harness.check}` does not list conch")
    is_bad = any(word in about.lower() for word in _BAD)
    return Opinion("note" if is_bad else "ok", f"`{harness.check}` says: {about}")


def _run(command: list[str]) -> str | None:
    with _started(command, errors=STDOUT) as (process, _):  # Gemini CLI lists its servers there
        try:
            return process.communicate(b"", timeout=_SECONDS)[0].decode(errors="replace")
        except TimeoutExpired:
            return None


@contextmanager
def _started(command: list[str], errors: int = DEVNULL) -> Iterator[tuple[Popen[bytes], str]]:
    """A client of a harness, and the empty folder in which it runs."""
    workspace = workspace_here()
    place = temporary_place(workspace)
    with tempfile.TemporaryDirectory(prefix="conch-", dir=place, ignore_cleanup_errors=True) as folder:
        process = start_program(
            command, workspace, cwd=folder, stdin=PIPE, stdout=PIPE, stderr=errors, start_new_session=True
        )
        try:
            yield process, folder
        finally:
            _end(process)


def _end(process: Popen[bytes]) -> None:
    """End it and the servers that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()


# -- Codex


def ask_codex_trust() -> Opinion | None:
    """Whether Codex trusts our hooks. It skips untrusted ones silently. None if it cannot be asked."""
    if find_program("codex", workspace_here()) is None:
        return None
    client = {"name": "conch-doctor", "title": "conch doctor", "version": __version__}
    with _started(["codex", "app-server"]) as (process, folder):
        listed = _ask(process, [("initialize", {"clientInfo": client}), ("hooks/list", {"cwds": [folder]})])
    folders = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(folders, list):
        return None
    hooks = [hook for folder in folders for hook in folder.get("hooks", ()) if " hook " in str(hook.get("command"))]
    ours = [hook for hook in hooks if "--harness codex" in str(hook["command"])]
    if not ours:
        return Opinion("note", "it has no hooks of conch")
    trusted = sum(hook.get("trustStatus") in ("trusted", "managed") for hook in ours)
    return Opinion("ok" if trusted == len(ours) else "note", f"it trusts {trusted} of {len(ours)} hooks of conch")


def _ask(process: Popen[bytes], calls: list[tuple[str, dict[str, Any]]]) -> Any:
    """The result of the last call; None if it does not come in time."""
    assert process.stdin is not None and process.stdout is not None
    messages = [{"id": number, "method": method, "params": params} for number, (method, params) in enumerate(calls)]
    text, deadline = b"", time.monotonic() + _SECONDS
    with suppress(OSError, ValueError):
        process.stdin.write("".join(json.dumps(message) + "\n" for message in messages).encode())
        process.stdin.flush()
        while select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            chunk = os.read(process.stdout.fileno(), _CHUNK)
            text += chunk
            for line in text.split(b"\n")[:-1]:
                reply = json.loads(line)
                if reply.get("id") == len(calls) - 1 and "method" not in reply:
                    return reply.get("result")
            if not chunk:
                break
    return None
