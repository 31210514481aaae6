"""Identifiers: random ids that are never used twice, and short digests."""

from __future__ import annotations

import os

_MASK = 2**128 - 1
_BEGINNING = os.urandom(2).hex()


def new_id(kind: str) -> str:
    """A fresh identifier such as `room_81d43f9c2a51b07de644`.

    Those of one process begin alike, so that they lie side by side in an index, and fewer of its pages change. The
    other 64 bits are random, so that a process that sends millions of messages never makes an id twice.
    """
    return f"{kind}_{_BEGINNING}{os.urandom(8).hex()}"


def new_lease() -> str:
    """A fencing token. 128 random bits: no lease is ever issued twice."""
    return f"lease_{os.urandom(16).hex()}"


def lock_number(kind: str, name: str) -> int:
    """The signed 64-bit number of a lock, for engines that number their locks instead of naming them."""
    return int.from_bytes(bytes.fromhex(digest(f"conch:{kind}:{name}")[:16]), "big", signed=True)


def digest(text: str) -> str:
    """A 128-bit fingerprint in hex, to tell texts apart. It is not cryptographic and must not protect a secret.

    FNV-1a with a final mix. `hashlib` would load OpenSSL: 4 MB and 3 ms in every process.
    """
    value = 0x6C62272E07BB014262B821756295C58D
    for byte in text.encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * 0x1000000000000000000013B & _MASK
    for shift in (65, 63):
        value = (value ^ value >> shift) * 0xFF51AFD7ED558CCDC4CEB9FE1A85EC53 & _MASK
    return f"{value ^ value >> 67:032x}"
