"""Processes that get ready, start at the same moment, work for a while and report."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from harness import Object, Scratch

HEAD_START_SECONDS = 0.2


class Crowd:
    """Run processes that are one agent each.

    A process prints a line when it is ready, reads `start` and `seconds`, and prints its report when it is done.
    """

    def __init__(self, scratch: Scratch, commands: Sequence[Sequence[str]]) -> None:
        self._processes = [_start(scratch, command, place) for place, command in enumerate(commands)]

    def __enter__(self) -> Self:
        return self

    def work(self, seconds: float) -> list[Object]:
        for process in self._processes:
            _read(process)
        order = {"start": time.monotonic() + HEAD_START_SECONDS, "seconds": seconds}
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        return [_read(process) for process in self._processes]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def _start(scratch: Scratch, command: Sequence[str], place: int) -> subprocess.Popen[str]:
    environ = scratch.environ(f"bench:{place}")
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True)


def _read(process: subprocess.Popen[str]) -> Object:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a process of the crowd ended early; its error is above")
    message: Object = json.loads(line)
    return message
