"""Which process serves which player right now, in memory that the players share with the killer."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import struct
from pathlib import Path

FINISHED = -1  # instead of a pid: the player makes no more calls
_SLOT = struct.Struct("q")


class Pids:
    def __init__(self, players: int) -> None:
        self._memory = mmap.mmap(-1, (players + 1) * _SLOT.size)
        self._players = players

    def announce(self, player: int, pid: int) -> None:
        """The process that works for the player now; 0 for none."""
        _SLOT.pack_into(self._memory, player * _SLOT.size, pid)

    def of(self, player: int) -> int:
        pid: int = _SLOT.unpack_from(self._memory, player * _SLOT.size)[0]
        return pid

    def end(self) -> None:
        """Ask all players to finish."""
        self.announce(self._players, FINISHED)

    @property
    def has_ended(self) -> bool:
        return self.of(self._players) == FINISHED


class Target:
    """A process to signal, which is surely the child of the given parent: a pid may be reused, a pidfd never is."""

    def __init__(self, pid: int, parent: int) -> None:
        self._fd = os.pidfd_open(pid)
        if _parent_of(pid) != parent:
            self.close()
            raise ProcessLookupError(pid)

    def send(self, number: signal.Signals) -> None:
        signal.pidfd_send_signal(self._fd, number)

    def close(self) -> None:
        os.close(self._fd)


def _parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat[stat.rindex(")") :].split()[2])


def end_children(*spared: int) -> None:
    """Kill and reap all children of this process but these. None of their pids can be reused before that."""
    while children := _children() - {*spared}:
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}
