"""Run a command beside a real filesystem that ignores case but keeps it, as those of macOS and Windows do.

    unshare --mount python case_ignoring_filesystem.py MOUNT_POINT COMMAND...

It speaks the kernel's FUSE protocol (see fuse.h) and holds three directories: Projects/Conch/Src. It has a mount
namespace of its own, so whatever happens the mount ends with it. FILESYSTEM_TYPE is what the kernel's table of mounts
calls it, if not just `fuse`. Exit status 77: this machine does not allow it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys

LOOKUP, FORGET, GETATTR, INIT, OPENDIR, READDIR, RELEASEDIR = 1, 2, 3, 26, 27, 28, 29
ACCESS, INTERRUPT, BATCH_FORGET = 34, 36, 42
READ_ONLY = 1
NO_SUCH_FILE, NO_SUCH_CALL = 2, 38
DIRECTORY_MODE = 0o040755

TREE = {1: {"Projects": 2}, 2: {"Conch": 3}, 3: {"Src": 4}, 4: {}}


def attributes(node: int) -> bytes:
    return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, DIRECTORY_MODE, 2, 0, 0, 0, 512, 0)


def look_up(node: int, name: str) -> bytes | int:
    for entry, child in TREE[node].items():
        if entry.casefold() == name.casefold():
            return struct.pack("<4Q2I", child, 0, 0, 0, 0, 0) + attributes(child)
    return -NO_SUCH_FILE


def list_directory(node: int, offset: int) -> bytes:
    listing = b""
    for position, (entry, child) in enumerate(TREE[node].items(), start=1):
        if position > offset:
            name = entry.encode()
            listing += struct.pack("<2Q2I", child, position, len(name), 4) + name + b"\0" * (-len(name) % 8)
    return listing


def answer(operation: int, node: int, body: bytes) -> bytes | int:
    if operation == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 65536, 0, 8, 8, 65536, 1, 0, 0, *[0] * 8)
    if operation == LOOKUP:
        return look_up(node, body.rstrip(b"\0").decode())
    if operation == GETATTR:
        return struct.pack("<Q2I", 0, 0, 0) + attributes(node)
    if operation == OPENDIR:
        return struct.pack("<Q2I", 0, 0, 0)
    if operation == READDIR:
        return list_directory(node, struct.unpack_from("<Q", body, 8)[0])
    return b"" if operation in (ACCESS, RELEASEDIR) else -NO_SUCH_CALL


def serve(device: int) -> None:
    while True:
        request = os.read(device, 1 << 17)
        _, operation, unique, node = struct.unpack_from("<2I2Q", request)
        if operation in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        reply = answer(operation, node, request[40:])
        error, payload = (reply, b"") if isinstance(reply, int) else (0, reply)
        os.write(device, struct.pack("<IiQ", 16 + len(payload), error, unique) + payload)


def mount(target: str) -> int:
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    libc = ctypes.CDLL(None, use_errno=True)
    kind = os.environ.get("FILESYSTEM_TYPE", "fuse").encode()
    if libc.mount(b"ignores-case", os.fsencode(target), kind, READ_ONLY, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return device


def main(target: str, command: list[str]) -> None:
    try:
        device = mount(target)
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(77)
    child = os.fork()
    if child == 0:
        os.execvp(command[0], command)

    def end(*_: object) -> None:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    signal.signal(signal.SIGCHLD, end)
    serve(device)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
