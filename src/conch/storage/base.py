"""The engine seam: how the domains run queries, and what a transaction locks.

A domain names a statement from `sql/` and its parameters; it never sees a driver, a connection or SQL.
The statements run on every engine, with `:name` parameters; a list expands to a parenthesised row for `IN`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from conch.lean import Any, NamedTuple, Protocol

DERIVED = "index_"  # how the tables begin whose rows can be made again from others

Row = dict[str, Any]
Parameters = dict[str, Any]
Execute = Callable[[str, Parameters], list[Row]]


class Phrase(NamedTuple):
    """Words that stand one after the other in a text; with `is_prefix` the last one need only begin so.

    A word has no blank, no quote and no backslash in it, so no engine has to escape one.
    """

    words: tuple[str, ...]
    is_prefix: bool = False


class Transaction(Protocol):
    """One unit of work on a consistent view of the store."""

    @property
    def now(self) -> int:
        """The store's clock in microseconds: every expiry decision in this transaction uses this one moment."""

    def one(self, statement: str, **parameters: Any) -> Row | None:
        """The first row, or None."""

    def all(self, statement: str, **parameters: Any) -> list[Row]: ...

    def run(self, statement: str, **parameters: Any) -> int:
        """How many rows the statement changed."""

    def match(self, phrases: Sequence[Phrase], any_of: Sequence[Phrase] = ()) -> str:
        """How the engine's full-text index is asked for the texts that have all of these phrases, and one of those."""

    def ring(self, *channels: str) -> None:
        """Ring these bells, in this order, once the transaction has been committed."""

    def tables(self) -> list[str]:
        """Every table of the schema that is not derived, those that others refer to first."""

    def dump(self, table: str) -> Iterator[Row]:
        """All rows of a table, in no particular order. What goes wrong is this store's error, whoever else works
        with another store meanwhile; the same holds for `tables` and `load`."""

    def load(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows as they are; what numbers rows by itself goes on after the highest of them."""


class Store(Protocol):
    """Where rooms, members and events live; shared by many processes."""

    def read(self) -> AbstractContextManager[Transaction]:
        """A read-only view that does not change while it is open."""

    def write(self, *locks: str) -> AbstractContextManager[Transaction]:
        """All or nothing. No other writer that names one of the same locks is inside at the same time."""

    def migrate(self, force: bool = False) -> tuple[int, int]:
        """Bring the schema to this version of conch; from which schema, to which one.

        SchemaMismatch names the other processes that use an older store, unless they are to be disregarded.
        """

    def change_counter(self) -> int:
        """A number that changes when another process commits; cheap enough to ask often."""

    def integrity_problems(self) -> list[str]:
        """What the engine itself finds wrong with its files."""

    def backup(self, target: str | None) -> str:
        """A consistent copy in a new file, made while others go on writing; returns where it is."""

    def wipe(self) -> None:
        """Forget every row. Processes that have the store open go on with an empty one."""

    def set_aside(self) -> str:
        """Move a store that cannot be used out of the way, whole; returns where it went."""

    def describe(self) -> str:
        """Where the store is, for people."""

    def close(self) -> None: ...
