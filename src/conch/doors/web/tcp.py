"""How much of its replies a TCP client has not read. Only Linux can tell, and mainly for clients on this host."""

from __future__ import annotations

import ipaddress
import sys

from conch.errors import find_lack

Address = tuple[str, int]

_TABLES = {4: "/proc/net/tcp", 6: "/proc/net/tcp6"}


def unread_bytes(client: Address, server: Address) -> int | None:
    """The bytes on their way to the client, and those that its host holds for it.

    0 if the system can never tell; None if it cannot tell now, because it has run out of something.
    """
    if sys.platform != "linux":
        return 0
    try:
        ours, theirs = _spell(server), _spell(client)
        with open(_TABLES[ipaddress.ip_address(client[0]).version]) as table:
            rows = [line.split()[1:5] for line in table]
    except (OSError, ValueError, MemoryError) as problem:
        return None if find_lack(problem) else 0
    unread = 0
    for local, remote, _, queues in rows:
        sending, _, received = queues.partition(":")
        if (local, remote) == (ours, theirs):
            unread += int(sending, 16)
        elif (local, remote) == (theirs, ours):
            unread += int(received, 16)
    return unread


def _spell(address: Address) -> str:
    """An address as the table has it: words of four bytes in the order of this machine, and the port."""
    packed = ipaddress.ip_address(address[0]).packed
    words = [int.from_bytes(packed[place : place + 4], sys.byteorder) for place in range(0, len(packed), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"
