"""Exact facts about processes: which are running, since when, and whether a known process is gone.

A pid alone does not identify a process, because pids are reused. A pid with its start time does, on one host and
within one boot.
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

_LONGEST_COMMAND = 80

Life = Literal["alive", "gone", "unknown"]


class Process(NamedTuple):
    """One process, distinct from any later process with the same pid."""

    host_id: str
    boot_id: str
    pid: int
    started_at: int


ENDED = Process("ended", "ended", 0, 0)
"""In place of the process of an agent whose client has ended its session. It is gone on every host."""


class Ancestor(NamedTuple):
    """A process above this one. `name` is its program's file name; `arguments` is empty if unknown."""

    process: Process
    name: str
    arguments: tuple[str, ...]


@cache
def host_id() -> str:
    """The id of the machine or container in which pids are valid.

    A container's id includes the boot, because containers on many hosts can share the machine id of one image. A
    process in a container on another host must count as unknown here, never as gone.
    """
    parts = [system.machine_id() or _host_name()]
    if namespaces := system.namespaces():
        parts += [*namespaces, boot_id()]
    return digest(" ".join(["conch", *parts]))[:16]


@cache
def boot_id() -> str:
    """The id of this machine's current boot; empty if unknown."""
    return system.boot_id()


def look_up(pid: int) -> Process | None:
    """The process that has this pid now; None if it does not exist, has ended, or cannot be read."""
    try:
        return _identify(pid, system.facts(pid))
    except OSError as problem:
        _raise_lack(problem)
        return None


def _identify(pid: int, facts: system.Facts) -> Process | None:
    started_at, _, _, _, ended = facts
    return None if ended or not boot_id() else Process(host_id(), boot_id(), pid, started_at)


def check(process: Process | None) -> Life:
    """Whether this exact process still runs. The answer is "gone" only with proof."""
    if process is None or process.host_id != host_id() or not (process.boot_id and boot_id()):
        return "gone" if process == ENDED else "unknown"
    if process.boot_id != boot_id():
        return "gone"
    try:
        if process.pid == os.getppid() and process == _parent(process.pid):
            return "alive"
        started_at, _, _, _, ended = system.facts(process.pid)
    except OSError:
        return "gone" if _is_absent(process.pid) else "unknown"
    return "gone" if ended or started_at != process.started_at else "alive"


@cache
def _parent(pid: int) -> Process | None:
    """The parent of this process. It runs as long as the system says that `pid` is the parent.

    When a parent ends, its children get another one at once. That one ran already, so it cannot have the same pid.
    """
    parent = look_up(pid)
    return parent if os.getppid() == pid else None


def open_pidfd(process: Process) -> int | None:
    """A descriptor that becomes readable when this process ends; None if it has ended or the system has no pidfds."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return None
    # Checked only now: the descriptor keeps the pid from being reused, so the start time is the right one.
    if check(process) == "alive":
        return descriptor
    os.close(descriptor)
    return None


def ancestors(pid: int | None = None) -> Iterator[Ancestor]:
    """The parent of `pid` (default: this process), then the parent's parent and so on, up to pid 1.

    A process that has only adopted an orphan is not its parent.
    """
    child = os.getpid() if pid is None else pid
    try:
        facts = system.facts(child)
        while (parent := facts[1]) > 0:
            facts = system.facts(parent)
            process = _identify(parent, facts)
            if process is None or _has_adopted(parent, child):
                return
            yield Ancestor(process, _program_name(parent), _arguments(parent))
            child = parent
    except OSError as problem:
        _raise_lack(problem)


def starts_outside(pid: int) -> bool:
    """Whether the parent of a process is out of reach: outside this container, or another user's."""
    try:
        parent = system.facts(pid)[1]
        if parent > 0:
            os.kill(parent, 0)
    except PermissionError:
        return look_up(parent) is None
    except OSError:
        return False
    return parent == 0


def _has_adopted(parent: int, child: int) -> bool:
    """Whether the real parent has ended. A child is born into its parent's session, or starts one and leads it."""
    if sys.platform == "win32":
        return False
    session = os.getsid(child)
    return session not in (child, os.getsid(parent))


class User(NamedTuple):
    """A process that has a file open."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.command[:_LONGEST_COMMAND]})"


def other_users_of(path: str) -> list[User] | None:
    """The other processes that have a file open; None if unknown. The file itself is not opened."""
    if sys.platform == "darwin":
        return None
    try:
        pids = system.users_of(path)
    except OSError:
        return None
    return [User(pid, " ".join(_arguments(pid)) or "?") for pid in pids if pid != os.getpid()]


def session_leader() -> Process | None:
    """The process that started this session (in a terminal usually the shell), if it still runs."""
    return None if sys.platform == "win32" else look_up(os.getsid(0))


def is_in_pid_namespace() -> bool:
    """Whether this process sees only the processes of a container or a sandbox."""
    return any(namespace.startswith("pid:") for namespace in system.namespaces())


def controlling_tty() -> str | None:
    """The terminal of this process, such as `pts/3`, even if its streams are redirected; None without one."""
    try:
        _, _, terminal, _, _ = system.facts(os.getpid())
    except OSError as problem:
        _raise_lack(problem)
        return _tty_of_streams()
    return (system.tty_name(terminal) or _tty_of_streams()) if terminal else None


def _raise_lack(problem: OSError) -> None:
    """OSError if this process can open no file. It must not go on as if there were no such process."""
    if problem.errno in system.LACKS:
        raise problem


def _is_absent(pid: int) -> bool:
    """Whether no process has this pid. Signal 0 also finds processes that /proc hides.

    On Windows signal 0 would be a real signal, but there is no boot id there, so `check` never gets here.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _program_name(pid: int) -> str:
    """The program's file name, or the process's own name if the file is unknown."""
    try:
        return os.path.basename(system.executable(pid))
    except OSError as problem:
        _raise_lack(problem)
        _, _, _, name, _ = system.facts(pid)
        return name


def _arguments(pid: int) -> tuple[str, ...]:
    try:
        return system.arguments(pid)
    except OSError as problem:
        _raise_lack(problem)
        return ()


def _host_name() -> str:
    import socket  # slow to import, and rarely needed

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
