"""`conch`, one of whose calls into the system fails. The first words say which one of which kind, and how."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.faults.shim import Shim

from conch import main as program


def main(words: list[str]) -> int:
    """Number 0 lets none fail, and writes how many there were into a file."""
    folder, kind, number, error, counted, *command = words
    shim = Shim(os.environ["LD_PRELOAD"])
    shim.arm(folder, kind, int(number), int(error))
    status = program.main(command)
    shim.pause(True)
    if not int(number):
        Path(counted).write_text(str(shim.count(kind)))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
