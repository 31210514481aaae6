"""`conch`, which is killed at one of its steps on files: the first word says at which."""

from __future__ import annotations

import os
import signal
import sys

from conch import main as program

STEPS = ("open", "os.rename", "os.link", "os.remove", "sqlite3.connect", "os.mkdir", "os.rmdir")


def main(words: list[str]) -> int:
    left = int(words[0])

    def die_at(event: str, _: object) -> None:
        nonlocal left
        if event in STEPS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die_at)
    return program.main(words[1:])
