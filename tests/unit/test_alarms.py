"""How a harness is called to wake its agent, and what conch then knows."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

from conch.harnesses.alarms import Alarm, Rung, ring_by_command, ring_claude


def put_program(folder: Path, text: str) -> dict[str, str]:
    """A stand-in for the command of a harness. Returns an environment that finds it."""
    program = folder / "codex"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "OUT": str(folder / "out")}


def test_a_command_gets_session_and_prompt_as_they_are(tmp_path: Path) -> None:
    environ = put_program(tmp_path, 'printf "%s\\n" "$@" > "$OUT"')
    ring = ring_by_command("codex", "queue", "--thread", "SESSION", "--message", "TEXT")

    rung = ring(Alarm("a $(touch x) 'b'", "s-1", environ))

    assert rung == Rung("queued")
    assert (tmp_path / "out").read_text().splitlines() == ["queue", "--thread", "s-1", "--message", "a $(touch x) 'b'"]


@pytest.mark.parametrize(
    "script, session, state, why",
    [
        ("echo no such thread >&2; exit 3", "s", "failed", "codex ended with 3: no such thread"),
        ("exit 0", "", "failed", "the session is not known"),
        ("exec sleep 30", "s", "ambiguous", "did not end within"),
    ],
)
def test_a_command_that_does_not_work_says_why(tmp_path: Path, script: str, session: str, state: str, why: str) -> None:
    rung = ring_by_command("codex", "TEXT", seconds=1)(Alarm("t", session, put_program(tmp_path, script)))

    assert rung.state == state and why in rung.why


def test_a_command_that_leaves_a_process_behind_has_ended(tmp_path: Path) -> None:
    ring = ring_by_command("codex", "TEXT", seconds=5)

    assert ring(Alarm("t", "s", put_program(tmp_path, "sleep 9 &"))) == Rung("queued")


def test_a_program_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    rung = ring_by_command("codex", "TEXT")(Alarm("t", "s", {"PATH": str(tmp_path)}))

    assert rung == Rung("failed", "codex is in no folder of PATH outside of the workspace")


def test_claude_code_gets_its_token_and_then_the_prompt(tmp_path: Path) -> None:
    path, got = str(tmp_path / "sock"), list[str]()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()

        def read() -> None:
            with server.accept()[0] as wire, wire.makefile() as lines:
                got.extend(lines)

        reader = threading.Thread(target=read)
        reader.start()
        environ = {"CLAUDE_CODE_MESSAGING_SOCKET": path, "CLAUDE_CODE_MESSAGING_TOKEN": "t"}
        rung = ring_claude(Alarm("Hello.", "", environ))
        reader.join()

    assert rung == Rung("queued")
    assert [json.loads(line) for line in got] == [
        {"type": "auth", "token": "t"},
        {"type": "user", "message": {"role": "user", "content": "Hello."}},
    ]


@pytest.mark.parametrize("path", ["", "/no/such"])
def test_without_its_socket_claude_code_is_not_woken(path: str) -> None:
    environ = {"CLAUDE_CODE_MESSAGING_SOCKET": path, "CLAUDE_CODE_MESSAGING_TOKEN": "t"}

    assert ring_claude(Alarm("t", "", environ)).state == "failed"
