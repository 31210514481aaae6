"""The workspaces that the agents share."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.torture.player import SCOPES


def make_workspaces(folder: Path) -> tuple[str, ...]:
    """Two repositories with files that nobody has committed: what a dead agent reserved there can be adopted."""
    made = []
    for name in ("one", "two"):
        root = folder / name
        for scope in SCOPES:
            if scope.endswith(".py"):
                (root / scope).parent.mkdir(parents=True, exist_ok=True)
                (root / scope).write_text("changed\n")
        subprocess.run(("git", "init", "--quiet", str(root)), check=True)
        made.append(str(root.resolve()))
    return tuple(made)
