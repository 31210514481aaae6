"""Copies a whole store to another engine, table by table, and verifies the copy."""

from __future__ import annotations

from collections.abc import Iterable

from conch.errors import InvalidArgument, StoreError
from conch.lean import NamedTuple
from conch.storage.base import Row, Store

_NOT_COPIED = ("meta",)  # the target has its own schema version


class CopiedTable(NamedTuple):
    table: str
    rows: int


def copy_store(source: Store, target: Store) -> list[CopiedTable]:
    """Copy all tables, or none: the target commits only after the copy is verified. The target must be empty."""
    with source.read():  # an unreadable source must fail before the target is created
        pass
    with target.write("schema") as copy, source.read() as origin:
        tables = [table for table in origin.tables() if table not in _NOT_COPIED]
        for table in tables:
            if next(iter(copy.dump(table)), None) is not None:
                message = f"{target.describe()} is not empty: its table {table} has rows. Copy to an empty store."
                raise InvalidArgument(message, field="to")
        for table in tables:
            copy.load(table, origin.dump(table))
        return [_verified(table, origin.dump(table), copy.dump(table)) for table in tables]


def _verified(table: str, before: Iterable[Row], after: Iterable[Row]) -> CopiedTable:
    expected, found = _fingerprint(before), _fingerprint(after)
    if expected != found:
        raise StoreError(f"The copy of table {table} differs from the original. Nothing was copied.", table=table)
    return CopiedTable(table, found[0])


def _fingerprint(rows: Iterable[Row]) -> tuple[int, int]:
    """The number of rows, and a checksum that does not depend on their order."""
    from hashlib import blake2b

    count = total = 0
    for row in rows:
        count += 1
        total += int.from_bytes(blake2b(repr(sorted(row.items())).encode(), digest_size=16).digest(), "big")
    return count, total
