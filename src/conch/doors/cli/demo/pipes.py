"""Lines out of a pipe, without a thread."""

from __future__ import annotations

import json
import os

from conch.typed import Any

Object = dict[str, Any]

CHUNK = 65_536


class LinePipe:
    """The reading end of a pipe that carries one JSON object per line. `select` can wait for it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def fileno(self) -> int:
        return self._descriptor

    def read(self) -> list[Object]:
        """The objects that the next chunk completes, perhaps none; EOFError when the other end is closed."""
        chunk = os.read(self._descriptor, CHUNK)
        if not chunk:
            raise EOFError
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [json.loads(line) for line in lines]


def write_line(descriptor: int, message: Object) -> None:
    rest = memoryview(json.dumps(message).encode() + b"\n")
    while rest:
        rest = rest[os.write(descriptor, rest) :]
