"""Linux: raw facts about processes from /proc, for `processes`.

This module is also the seam to the operating system: `macos` has the same functions. They raise OSError if the
system does not give the fact. Without /proc nothing is known, but nothing breaks.
"""

from __future__ import annotations

import os
import sys
from errno import EMFILE, ENFILE, ENOMEM

LACKS = (EMFILE, ENFILE, ENOMEM)
"""Errors that say nothing about the process that is looked up: this one can open no more files."""

Facts = tuple[int, int, int, str, bool]
"""Start time, parent, terminal and name of a process, and whether it has ended.

The start time is in the system's own unit; use it only for comparisons.
"""

_MOST_STAT_BYTES = 4_096  # more than its 52 numbers and the name can have

# The inode numbers of the kernel's initial namespaces. Pids differ between pid namespaces, and start times between
# time namespaces.
_INITIAL_NAMESPACES = {"pid": 4026531836, "time": 4026531834}


def facts(pid: int) -> Facts:
    descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)  # `open` makes four more system calls
    try:
        return _parse_stat(os.read(descriptor, _MOST_STAT_BYTES))
    finally:
        os.close(descriptor)


def _parse_stat(text: bytes) -> Facts:
    """Parse /proc/PID/stat. The name is in parentheses and may contain `)` and spaces, so split at the last `)`."""
    head, _, tail = text.rpartition(b")")
    name = os.fsdecode(head.partition(b"(")[2])
    fields = tail.split()
    state, parent, terminal, threads, started_at = fields[0], fields[1], fields[4], fields[17], fields[19]
    # A process whose first thread has ended looks like a zombie, even while its other threads still run.
    ended = state in (b"Z", b"X", b"x") and int(threads) <= 1
    return int(started_at), int(parent), int(terminal), name, ended


def executable(pid: int) -> str:
    """The path of the program file, even if an update has replaced the file since."""
    return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")


def arguments(pid: int) -> tuple[str, ...]:
    with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
        text = file.read().rstrip(b"\0")
    return tuple(os.fsdecode(text).split("\0")) if text else ()


def users_of(path: str) -> list[int]:
    """The processes that have a file open. The file itself is not opened, only links and inodes are compared."""
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
        # The name first: it is cheaper than a stat, and most links lead elsewhere.
        return os.path.basename(os.readlink(link)) == name and os.path.samestat(os.stat(link), meant)
    except OSError:
        return False


def machine_id() -> str:
    """The machine's id; empty if this machine or container has none."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        line = _first_line(path)
        if line and line != "uninitialized":
            return line
    return ""


def boot_id() -> str:
    return _first_line("/proc/sys/kernel/random/boot_id")


def namespaces() -> list[str]:
    """The namespaces of this process that are not the machine's initial ones."""
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
    # The kernel's fixed device numbers: 136 to 143 are pseudo-terminals, 4 is consoles and then serial ports.
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
    except OSError as problem:
        if problem.errno in LACKS:
            raise
        return ""
