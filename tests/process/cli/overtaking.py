"""`conch db restore`, while another process restores the same backup just before the restored store is checked."""

from __future__ import annotations

import subprocess
import sys

from conch import main as program
from conch.doors.cli import store as commands
from conch.storage.base import Store
from conch.upkeep.verify import Verification


def main(words: list[str]) -> int:
    check, checked = commands.verify_store, 0

    def overtaken(store: Store) -> Verification:
        nonlocal checked
        checked += 1
        if checked == 2:  # the backup was the first
            subprocess.run([sys.executable, "-m", "conch", *words], check=True, stdout=subprocess.DEVNULL)
        return check(store)

    commands.verify_store = overtaken
    return program.main(words)
