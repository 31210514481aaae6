"""Other programs that conch asks, and never lets change anything: how one is run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

SECONDS = 10.0


class TooSlow(Exception):
    """The program did not answer in time."""


class Answer(NamedTuple):
    status: int
    output: bytes
    complaint: str


def ask(command: Sequence[str], folder: str, environ: Mapping[str, str], seconds: float = SECONDS) -> Answer | None:
    """What a program says; None when there is no such program. TooSlow if it does not answer in time."""
    import subprocess  # slow to import, and seldom needed

    try:
        done = subprocess.run(
            command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds
        )
    except OSError:
        return None
    except subprocess.TimeoutExpired:
        raise TooSlow from None
    complaint = done.stderr.decode(errors="replace").strip()
    return Answer(done.returncode, done.stdout, complaint.splitlines()[0][:200] if complaint else "")


def environment(*without: str) -> dict[str, str]:
    """This process's own, but for the variables that begin like this: a hook's would lead the program elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith(without)}
