"""Linux: the raw facts that `processes` turns into answers, from /proc.

This module is also the seam to the operating system: `macos` has the same functions. They raise OSError where the
system does not say. Without /proc nothing is known, and nothing breaks.
"""

from __future__ import annotations

import os
import sys

Facts = tuple[int, int, int, str, bool]
"""When a process started, its parent, its terminal, its name, and whether it has ended.

The moment is in the system's own unit: only ever compare it.
"""

# Inode numbers that the kernel gives its initial namespaces. Pids mean something else in another pid
# namespace, start times in another time namespace.
_INITIAL_NAMESPACES = {"pid": 4026531836, "time": 4026531834}


def facts(pid: int) -> Facts:
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        return _parse_stat(file.read())


def _parse_stat(text: bytes) -> Facts:
    """The name stands in parentheses and may hold more of them, and spaces: fields count after the last one."""
    head, _, tail = text.rpartition(b")")
    name = os.fsdecode(head.partition(b"(")[2])
    fields = tail.split()
    state, parent, terminal, threads, started_at = (fields[n] for n in (0, 1, 4, 17, 19))
    # A process whose first thread has ended looks like a zombie while its other threads go on.
    ended = state in (b"Z", b"X", b"x") and int(threads) <= 1
    return int(started_at), int(parent), int(terminal), name, ended


def executable(pid: int) -> str:
    """Where the program file is, or was: it may have been replaced by an update since."""
    return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")


def arguments(pid: int) -> tuple[str, ...]:
    with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
        text = file.read().rstrip(b"\0")
    return tuple(os.fsdecode(text).split("\0")) if text else ()


def users_of(path: str) -> list[int]:
    """The processes that have a file open. Only links and inodes are looked at; the file itself is not opened."""
    meant, name = os.stat(path), os.path.basename(path)
    return [int(pid) for pid in os.listdir("/proc") if pid.isdecimal() and _uses(pid, meant, name)]


def _uses(pid: str, meant: os.stat_result, name: str) -> bool:
    try:
        links = [f"/proc/{pid}/fd/{number}" for number in os.listdir(f"/proc/{pid}/fd")]
    except OSError:  # it has ended, or belongs to another user
        return False
    return any(_leads_to(link, meant, name) for link in links)


def _leads_to(link: str, meant: os.stat_result, name: str) -> bool:
    try:
        return os.path.basename(os.readlink(link)) == name and os.path.samestat(os.stat(link), meant)
    except OSError:
        return False


def machine_id() -> str:
    """Empty if this machine (or container) was never given one."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        line = _first_line(path)
        if line and line != "uninitialized":
            return line
    return ""


def boot_id() -> str:
    return _first_line("/proc/sys/kernel/random/boot_id")


def namespaces() -> list[str]:
    """Those of this process that are not the machine's initial ones."""
    found = []
    for kind, initial in _INITIAL_NAMESPACES.items():
        try:
            inode = os.stat(f"/proc/self/ns/{kind}").st_ino
        except OSError:
            continue
        if inode != initial:
            found.append(f"{kind}:{inode}")
    return found


def tty_name(terminal: int) -> str | None:
    if sys.platform == "win32":
        return None
    major, minor = os.major(terminal), os.minor(terminal)
    if 136 <= major <= 143:
        return f"pts/{minor + (major - 136) * 256}"
    if major == 4:
        return f"tty{minor}" if minor < 64 else f"ttyS{minor - 64}"
    return None


def _first_line(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return os.fsdecode(file.read(256).split(b"\n")[0].strip())
    except OSError:
        return ""
