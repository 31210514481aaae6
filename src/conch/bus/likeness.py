"""Keeps a new name from passing for another one. Names that are already in a store are never checked again."""

from __future__ import annotations

from conch.errors import InvalidArgument
from conch.lean import Any
from conch.storage.base import Transaction


def require_fit(field: str, name: str) -> None:
    """InvalidArgument if nobody may take such a name, whatever other names there are."""
    from conch.letters.names import find_flaw  # only a new name needs it

    flaw = find_flaw(name)
    if flaw is not None:
        message = f"{field} {flaw.words}. Choose another name."
        raise InvalidArgument(message, field=field, reason=flaw.reason)


def find_like(tx: Transaction, statement: str, name: str, **where: Any) -> str | None:
    """Another name that looks the same, among those that the statement searches."""
    from conch.letters.names import skeleton

    row = tx.one(statement, name=name, skeleton=skeleton(name), **where)
    return None if row is None else str(row["name"])


def note_name(tx: Transaction, name: str) -> None:
    """Record what a new name looks like, so that `find_like` finds it."""
    from conch.letters.names import skeleton

    tx.run("note_name", name=name, skeleton=skeleton(name))
