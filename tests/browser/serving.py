"""`conch serve` on a loopback port, with a scene to look at, and the browser to look with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.browser.scene import Scene

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# As root, Chromium cannot make a sandbox of its own.
OPTIONS = ["--no-sandbox"] if os.geteuid() == 0 else []


class Console(NamedTuple):
    """A server that runs: the address that it printed, which carries the token, and the one without."""

    entrance: str
    address: str
    scene: Scene
    process: subprocess.Popen[str]

    @property
    def room(self) -> str:
        """The path of the page of the scene's room."""
        return f"/rooms/{self.scene.room_id}"

    def enter(self, path: str) -> str:
        """The address of a page for a browser that has not been here yet."""
        token = self.entrance.partition("?")[2]
        return f"{self.address}{path}{'&' if '?' in path else '?'}{token}"


def serve(scene: Scene, port: int = 0) -> Console:
    command = [sys.executable, "-m", "conch", "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=scene.environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"(http://127\.0\.0\.1:\d+)/\S*", line):
            return Console(found[0], found[1], scene, process)
    raise AssertionError("`conch serve` printed no address")


def end(console: Console) -> None:
    console.process.terminate()
    console.process.wait(timeout=20)
    if console.process.stdout:
        console.process.stdout.close()


def environment(folder: Path) -> dict[str, str]:
    """What every process sees: one store, and nothing of the harness that may run it."""
    return {
        "HOME": str(folder),
        "USER": "ada",
        "LOGNAME": "ada",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "CONCH_DATA_DIR": str(folder / "data"),
    }


@contextmanager
def stage(folder: Path, workspace: str = "over") -> Iterator[Console]:
    """A room with an hour of history, and its console."""
    (folder / workspace).mkdir(parents=True)
    scene = Scene(environment(folder), folder / workspace)
    try:
        scene.play()
        console = serve(scene)
        try:
            yield console
        finally:
            end(console)
    finally:
        scene.close()
