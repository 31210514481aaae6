"""The preloaded library of `shim.c`: builds it with the system's compiler, and steers it from inside the process."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
# What each kind of call can fail with. The order is that of `enum kind`.
ERRORS = {
    "open": (errno.EMFILE, errno.ENOSPC, errno.EACCES),
    "write": (errno.ENOSPC, errno.EIO),
    "sync": (errno.EIO, errno.ENOSPC),
    "lock": (errno.ENOLCK, errno.EIO),
    "flock": (errno.ENOLCK,),
    "map": (errno.ENOMEM,),
    "truncate": (errno.ENOSPC, errno.EIO),
    "unlink": (errno.EIO,),
    "mkdir": (errno.ENOSPC,),
    "thread": (errno.EAGAIN,),
}
KINDS = tuple(ERRORS)


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(folder: str) -> str:
    """Compile the library into a folder; returns its path."""
    path = os.path.join(folder, "shim.so")
    subprocess.run([str(compiler()), "-O1", "-shared", "-fPIC", "-w", "-o", path, str(SOURCE), "-ldl"], check=True)
    return path


class Shim:
    """The library that this process was started with."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.PyDLL(path)
        self._library.fault_count.restype = ctypes.c_long
        self._library.fault_arm.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int)

    def arm(self, folder: str, kind: str, number: int, error: int) -> None:
        """Make the call with this number fail. Number 0 only counts."""
        self._library.fault_arm(os.fsencode(folder), KINDS.index(kind), number, error)

    def pause(self, paused: bool) -> None:
        """While paused, no call fails or counts."""
        self._library.fault_pause(paused)

    def count(self, kind: str) -> int:
        return int(self._library.fault_count(KINDS.index(kind)))
