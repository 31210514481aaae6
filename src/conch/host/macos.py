"""macOS: raw facts about processes through ctypes. There is no /proc, and running `ps` is slow and inexact."""

from __future__ import annotations

import ctypes
import os
import sys
from errno import ENOMEM

LACKS = (ENOMEM,)
_system = ctypes.CDLL(None, use_errno=True)

# From <sys/proc_info.h>, <sys/proc.h>, <sys/sysctl.h> and <sys/stat.h>.
_PROC_PIDTBSDINFO = 3
_INCLUDE_ZOMBIES = ctypes.c_uint64(1)
_SZOMB = 5
_PATH_SIZE = 4 * 1024
_CTL_KERN, _KERN_PROCARGS2 = 1, 49
_NO_DEVICE = 0xFFFFFFFF
_S_IFCHR = 0o020000


class _BsdInfo(ctypes.Structure):
    """`struct proc_bsdinfo`."""

    _fields_ = [
        ("flags", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("exit_status", ctypes.c_uint32),
        ("pid", ctypes.c_uint32),
        ("parent", ctypes.c_uint32),
        ("users_and_groups", ctypes.c_uint32 * 6),
        ("reserved", ctypes.c_uint32),
        ("command", ctypes.c_char * 16),
        ("name", ctypes.c_char * 32),
        ("open_files", ctypes.c_uint32),
        ("process_group", ctypes.c_uint32),
        ("job_control", ctypes.c_uint32),
        ("terminal", ctypes.c_uint32),
        ("terminal_group", ctypes.c_uint32),
        ("nice", ctypes.c_int32),
        ("started_seconds", ctypes.c_uint64),
        ("started_microseconds", ctypes.c_uint64),
    ]


def facts(pid: int) -> tuple[int, int, int, str, bool]:
    info = _BsdInfo()
    size = ctypes.sizeof(info)
    if _system.proc_pidinfo(pid, _PROC_PIDTBSDINFO, _INCLUDE_ZOMBIES, ctypes.byref(info), size) != size:
        raise _last_error()
    started_at = info.started_seconds * 1_000_000 + info.started_microseconds
    terminal = 0 if info.terminal == _NO_DEVICE else info.terminal
    name = os.fsdecode(info.name or info.command)
    return started_at, info.parent, terminal, name, info.status == _SZOMB


def executable(pid: int) -> str:
    buffer = ctypes.create_string_buffer(_PATH_SIZE)
    if _system.proc_pidpath(pid, buffer, _PATH_SIZE) <= 0:
        raise _last_error()
    return os.fsdecode(buffer.value)


def arguments(pid: int) -> tuple[str, ...]:
    """The arguments. The kernel gives their number, the program's path, zero padding, then the arguments."""
    name = (ctypes.c_int * 3)(_CTL_KERN, _KERN_PROCARGS2, pid)
    size = ctypes.c_size_t(0)
    _must(_system.sysctl(name, 3, None, ctypes.byref(size), None, ctypes.c_size_t(0)))
    buffer = ctypes.create_string_buffer(size.value)
    _must(_system.sysctl(name, 3, buffer, ctypes.byref(size), None, ctypes.c_size_t(0)))
    text = buffer.raw[: size.value]
    count = int.from_bytes(text[:4], sys.byteorder)
    _, _, rest = text[4:].partition(b"\0")
    return tuple(os.fsdecode(argument) for argument in rest.lstrip(b"\0").split(b"\0")[:count])


def machine_id() -> str:
    """The hardware's UUID. `kern.uuid` is not usable: it identifies the kernel's build, which many machines share."""
    uuid = ctypes.create_string_buffer(16)
    one_second = (ctypes.c_long * 2)(1, 0)
    return "" if _system.gethostuuid(uuid, one_second) else uuid.raw.hex()


def boot_id() -> str:
    """The id of the boot session. The boot time is not usable, because it changes when the clock is set."""
    buffer = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(buffer))
    name = b"kern.bootsessionuuid"
    failed = _system.sysctlbyname(name, buffer, ctypes.byref(size), None, ctypes.c_size_t(0))
    return "" if failed else os.fsdecode(buffer.value)


def namespaces() -> list[str]:
    return []


def tty_name(terminal: int) -> str | None:
    _system.devname.restype = ctypes.c_char_p  # by default ctypes cuts the pointer to an int
    name = _system.devname(ctypes.c_int32(terminal), ctypes.c_uint16(_S_IFCHR))
    return os.fsdecode(name) if name and not name.startswith((b"?", b"#")) else None


def _must(status: int) -> None:
    if status != 0:
        raise _last_error()


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
