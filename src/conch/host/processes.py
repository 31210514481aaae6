"""Exact facts about processes: who is running, since when, and whether that very process is gone.

A pid alone proves nothing, because pids are reused; a pid together with the moment its process started does,
on one host and within one boot.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache

from conch.ids import digest
from conch.lean import Literal, NamedTuple

if sys.platform == "darwin":
    from conch.host import macos as system
else:
    from conch.host import linux as system

Life = Literal["alive", "gone", "unknown"]


class Process(NamedTuple):
    """One process, told apart from every later one that gets its pid."""

    host_id: str
    boot_id: str
    pid: int
    started_at: int


class Ancestor(NamedTuple):
    """A process above this one; `name` is its program's file name, `arguments` is empty where not told."""

    process: Process
    name: str
    arguments: tuple[str, ...]


@cache
def host_id() -> str:
    """Names the place in which a pid means something: a machine, or one container on it.

    A container is named together with its boot: images carry one machine id to many hosts, and a process of
    such a look-alike must be unknown here, never gone.
    """
    parts = [system.machine_id() or _host_name()]
    if namespaces := system.namespaces():
        parts += [*namespaces, boot_id()]
    return digest(" ".join(["conch", *parts]))[:16]


@cache
def boot_id() -> str:
    """Names the current boot of this machine; empty where the system does not tell."""
    return system.boot_id()


def look_up(pid: int) -> Process | None:
    """The process that has this pid now; None if there is none, it has ended, or the system does not tell."""
    try:
        started_at, _, _, _, ended = system.facts(pid)
    except OSError:
        return None
    if ended or not boot_id():
        return None
    return Process(host_id(), boot_id(), pid, started_at)


def check(process: Process | None) -> Life:
    """Whether this very process still runs. Says "gone" only with proof."""
    if process is None or process.host_id != host_id() or not (process.boot_id and boot_id()):
        return "unknown"
    if process.boot_id != boot_id():
        return "gone"
    try:
        started_at, _, _, _, ended = system.facts(process.pid)
    except OSError:
        return "gone" if _is_absent(process.pid) else "unknown"
    return "gone" if ended or started_at != process.started_at else "alive"


def open_pidfd(process: Process) -> int | None:
    """A descriptor that is readable once this process has ended; None if it has, or without pidfds."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return None
    # Only now, with the pid pinned by the descriptor, does the start time say whose descriptor this is.
    if check(process) == "alive":
        return descriptor
    os.close(descriptor)
    return None


def ancestors(pid: int | None = None) -> Iterator[Ancestor]:
    """The parent of `pid` (of this process, unless given), then its parent and so on, up to pid 1."""
    child = os.getpid() if pid is None else pid
    try:
        while (parent := system.facts(child)[1]) > 0:
            process = look_up(parent)
            if process is None:
                return
            yield Ancestor(process, _program_name(parent), _arguments(parent))
            child = parent
    except OSError:
        return


class User(NamedTuple):
    """A process that has a file open."""

    pid: int
    command: str


def other_users_of(path: str) -> list[User] | None:
    """The other processes that have a file open; None where the system does not say. The file itself is not opened."""
    if sys.platform == "darwin":
        return None
    try:
        pids = system.users_of(path)
    except OSError:
        return None
    return [User(pid, " ".join(_arguments(pid)) or "?") for pid in pids if pid != os.getpid()]


def session_leader() -> Process | None:
    """The process that began this session (in a terminal: usually the shell), while it still runs."""
    if sys.platform == "win32":
        return None
    return look_up(os.getsid(0))


def controlling_tty() -> str | None:
    """The terminal this process belongs to, such as `pts/3`, wherever its streams lead; None without one."""
    try:
        _, _, terminal, _, _ = system.facts(os.getpid())
    except OSError:
        return _tty_of_streams()
    return (system.tty_name(terminal) or _tty_of_streams()) if terminal else None


def _is_absent(pid: int) -> bool:
    """Signal 0 finds also what /proc hides. Never asked on Windows, where it would be a real signal: no boot
    id, no question."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _program_name(pid: int) -> str:
    """The name that the process gives itself, where the system does not tell the file."""
    try:
        return os.path.basename(system.executable(pid))
    except OSError:
        _, _, _, name, _ = system.facts(pid)
        return name


def _arguments(pid: int) -> tuple[str, ...]:
    try:
        return system.arguments(pid)
    except OSError:
        return ()


def _host_name() -> str:
    import socket  # slow to import, and seldom needed

    return socket.gethostname()


def _tty_of_streams() -> str | None:
    if sys.platform == "win32":
        return None
    for descriptor in (0, 1, 2):
        try:
            return os.ttyname(descriptor).removeprefix("/dev/")
        except OSError:
            continue
    return None
