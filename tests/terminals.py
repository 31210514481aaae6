"""Run a program as a person does: in a terminal session of its own."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# `tmux` is the parent, as on a desktop. It hides any harness that runs these tests.
TERMINAL = """
import os, sys
os.setsid()
os.close(os.open(sys.argv[1], os.O_RDWR))
os.execvp(sys.argv[2], sys.argv[2:])
"""

_END = "=== end of the command ==="


def run_in_terminal(
    command: list[str], folder: str | os.PathLike[str], env: dict[str, str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program as the leader of a terminal session. Only its input and its output are not on the terminal."""
    with _starter(command) as starter:
        return subprocess.run(
            starter,
            executable="/bin/bash",
            cwd=folder,
            env=env,
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@contextmanager
def typing(folder: str | os.PathLike[str], env: dict[str, str]) -> Iterator[Callable[[str], str]]:
    """A shell in a terminal session of its own, which stays open. It returns what a command has printed."""
    with (
        _starter(["bash", "-e"]) as starter,
        subprocess.Popen(
            starter,
            executable="/bin/bash",
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as shell,
    ):
        assert shell.stdin is not None and shell.stdout is not None
        keyboard, screen = shell.stdin, shell.stdout

        def run(command: str) -> str:
            keyboard.write(f"{command}\necho '{_END}'\n")
            keyboard.flush()
            printed = ""
            for line in screen:
                if line == f"{_END}\n":
                    return printed
                printed += line
            raise AssertionError(f"$ {command}\n{printed}")

        yield run


@contextmanager
def _starter(command: list[str]) -> Iterator[list[str]]:
    """The words for bash that run a program as the leader of a new terminal's session."""
    controller, line = pty.openpty()
    starter = shlex.join([sys.executable, "-c", TERMINAL, os.ttyname(line), *command])
    try:
        yield ["tmux", "-c", f"{starter}; exit $?"]
    finally:
        os.close(controller)
        os.close(line)
