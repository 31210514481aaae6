"""Run a program as a person does: in a terminal session of its own."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys

# `tmux` is the parent, as on a desktop. It hides any harness that runs these tests.
TERMINAL = """
import os, sys
os.setsid()
os.close(os.open(sys.argv[1], os.O_RDWR))
os.execvp(sys.argv[2], sys.argv[2:])
"""


def run_in_terminal(
    command: list[str], folder: str | os.PathLike[str], env: dict[str, str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program as the leader of a terminal session. Only its input and its output are not on the terminal."""
    controller, line = pty.openpty()
    starter = shlex.join([sys.executable, "-c", TERMINAL, os.ttyname(line), *command])
    try:
        return subprocess.run(
            ["tmux", "-c", f"{starter}; exit $?"],
            executable="/bin/bash",
            cwd=folder,
            env=env,
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(controller)
        os.close(line)
