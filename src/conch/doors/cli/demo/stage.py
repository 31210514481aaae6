"""Where the demo plays: a scratch repository and a scratch store, far from the user's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping

# Settings of the user's own store, and what a git hook exports to point git at the user's own repository.
FOREIGN = ("CONCH_", "TALKING_STICK_", "AGENT_BUS_", "BB_", "GIT_")
FILES = {
    "AGENTS.md": "Scratch repository of `conch demo`. Call join_path before you change anything.\n",
    "plan.md": "# Plan\n\n1. Find the slow query.\n2. Cache its result.\n3. Expire the cache.\n",
}


class Stage:
    """A directory that holds everything the demo makes."""

    def __init__(self) -> None:
        self.directory = os.path.realpath(tempfile.mkdtemp(prefix="conch-demo-"))
        self.checkout = os.path.join(self.directory, "checkout")
        self.data_dir = os.path.join(self.directory, "data")

    def build(self) -> None:
        os.mkdir(self.checkout)
        for name, text in FILES.items():
            with open(os.path.join(self.checkout, name), "w", encoding="utf-8") as file:
                file.write(text)
        git = shutil.which("git")
        if git is not None:  # without it, or if it fails, AGENTS.md marks the workspace
            command = [git, "init", "--quiet", "--template=", self.checkout]
            streams = subprocess.DEVNULL
            subprocess.run(command, env=self.environ(os.environ), stdin=streams, stdout=streams, stderr=streams)

    def strike(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def environ(self, environ: Mapping[str, str], agent_id: str = "") -> dict[str, str]:
        """What a child sees: nothing that could lead it to another store, and the name that it shall have."""
        kept = {name: value for name, value in environ.items() if not name.startswith(FOREIGN)}
        kept["CONCH_DATA_DIR"] = self.data_dir
        return {**kept, "CONCH_AGENT_ID": agent_id} if agent_id else kept
