"""The engine seam: how the domains run queries, and what a transaction locks.

A domain names a statement from `sql/` and its parameters; it never sees a driver, a connection or SQL.
The statements run on every engine, with `:name` parameters. A list becomes a parenthesised row for `IN`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from conch.lean import Any, Literal, NamedTuple, Protocol, TypeVar

DERIVED = "index_"  # the prefix of tables that can be rebuilt from other tables
INDEX_LOCK = "search"  # the lock of those tables

Row = dict[str, Any]
Parameters = dict[str, Any]
Execute = Callable[[str, Parameters], list[Row]]
Query = tuple[str, Row]  # the name of a statement and its parameters
Answered = tuple[Query, list[Row]]
Aside = Callable[[], Answered | None]
Made = TypeVar("Made")


def ignore_rows(rows: list[Row]) -> None:
    pass


class Phrase(NamedTuple):
    """Words that follow each other in a text. With `is_prefix` the last one matches any word that starts with it.

    A word has no space, quote or backslash, so the engines need not escape it.
    """

    words: tuple[str, ...]
    is_prefix: bool = False


NO_LIMIT = 2**31 - 1  # more rows than any list has
NOW = "now"  # a parameter `now` with this value gets the store's time, close to `Transaction.now`
LAST = 2**62  # above the number of any row, and later than any moment


class Replacement(NamedTuple):
    """What happened to the store that was used before, for people and for programs."""

    message: str
    details: dict[str, Any]


class Check(NamedTuple):
    """A rule that the stored rows keep: a query for the rows that break it, and a sentence about such a row."""

    table: str
    test: str
    """If not empty, the query only finds the rows to look at, and `verify.py` has a test of this name for them."""
    sentence: str
    query: str


class Problem(NamedTuple):
    """Something in a store that is not as it must be."""

    kind: Literal["file", "schema", "row", "index", "unchecked"]
    """What is damaged, which decides what can be done. `unchecked`: nobody knows, because conch could not look."""
    table: str
    sentence: str
    row: Row = {}
    """The columns that name the row, and those that are wrong."""


class Reader(Protocol):
    """Answers questions about the store as it was at one moment, or soon after."""

    @property
    def now(self) -> int:
        """The store's clock in microseconds. All decisions about expiry use this one moment."""

    def one(self, statement: str, **parameters: Any) -> Row | None:
        """The first row, or None."""

    def all(self, statement: str, **parameters: Any) -> list[Row]: ...


class Transaction(Reader, Protocol):
    """One unit of work on a consistent view of the store."""

    def ahead(self, statement: str, **parameters: Any) -> bool:
        """Fetch rows that `one` or `all` will probably ask for, together with the next read.

        That saves a round trip if the server is far away; if it is not, nothing is fetched, and this returns False.
        The rows do not show changes that this transaction makes later.
        """

    def run(self, statement: str, **parameters: Any) -> None:
        """Make a change, at the latest when something is read or when the transaction ends."""

    def count(self, statement: str, **parameters: Any) -> int:
        """Make a change now; returns how many rows it changed."""

    def last(self, statement: str, **parameters: Any) -> Callable[[], list[Row]]:
        """Make a change, or read what was changed, without waiting. The function returns the rows after the commit."""

    def match(self, phrases: Sequence[Phrase], any_of: Sequence[Phrase] = ()) -> str:
        """The engine's full-text query for texts with all of `phrases` and at least one of `any_of`."""

    def ring(self, *channels: str) -> None:
        """Ring these bells, in this order, once the transaction has been committed."""

    def call(self, channel: str) -> None:
        """Ring this bell too, before the others, and find out whether a process listens to it."""

    @property
    def heard(self) -> bool:
        """Whether a process listened to the channel of `call`. It is set by the commit, so read it afterwards."""

    def expect_hearing(self) -> bool:
        """Fetch ahead who listens to bells. False if that has to be found out outside of the transaction."""

    def hears(self, channel: str) -> bool | None:
        """Whether a process listens to this bell; None if that was not fetched ahead."""

    def lock(self, name: str) -> None:
        """Take one more lock, after those that the transaction began with. What it reads from now on is current.

        Take it last, so that no two transactions wait for each other.
        """

    def take_time(self) -> None:
        """Allow this transaction to take long, because it works on whole tables."""

    def tables(self) -> list[str]:
        """All tables that are not derived. A table comes after those it refers to."""

    def dump(self, table: str) -> Iterator[Row]:
        """All rows of a table, in no particular order.

        `tables`, `dump` and `load` translate driver errors themselves, because a copy has two stores open at once and
        an error must name the right one.
        """

    def scan(self, check: Check, **parameters: Any) -> Generator[Row, None, None]:
        """The rows that a check finds, in batches. It translates driver errors itself.

        Close it before the next statement. After an error the transaction can still be used.
        """

    def load(self, table: str, rows: Iterable[Row]) -> None:
        """Insert rows unchanged. Automatic numbering continues after the highest number."""


class Restoration(NamedTuple):
    """A backup that can be put in place of a store."""

    candidate: Store
    """A scratch store with its contents, migrated to this schema. It is removed afterwards."""
    users: Callable[[], list[str]]
    """The other processes that use the store, for people."""
    finish: Callable[[], str | None]
    """Replace everything in one step. Processes that have the store open go on.

    Returns where the replaced store is kept; None if there was none.
    """


class Store(Protocol):
    """The database that holds everything; many processes share it."""

    is_server: bool
    """Whether every query costs a round trip, so that one query for everything is better than several."""

    def read(self) -> AbstractContextManager[Transaction]:
        """A read-only, consistent view: changes by others do not show while it is open."""

    def look(self) -> AbstractContextManager[Transaction]:
        """A read-only view for a call that asks everything at once: cheaper than `read` if a server is far away.

        Rows that were asked for together are from one moment. Between two reads, changes by others show.
        """

    def glance(self, statement: str, **parameters: Any) -> list[Row]:
        """The rows of one query by itself: cheaper than a transaction, for what may be missing or a little old."""

    def aside(self, query: Callable[[], Query | None]) -> AbstractContextManager[Aside]:
        """Ask this query too whenever a transaction of this thread ends, if that saves a round trip.

        `query` may return None until it is known. An `Aside` returns the query and its latest rows, or None if it was
        not asked or not answered.
        """

    def beforehand(
        self, statement: str, then: Callable[[list[Row]], None] = ignore_rows, **parameters: Any
    ) -> AbstractContextManager[None]:
        """Make a small change ahead of the next transaction of this thread, if that saves a round trip.

        `then` gets the rows that it returns. A failure is ignored, so use it only for a change that may be lost. The
        parameter `now` is added; None stands for the server's clock.
        """

    def write(self, *locks: str) -> AbstractContextManager[Transaction]:
        """One atomic change. Writers that name the same lock run one after another, from their first query on."""

    def briefly(self, work: Callable[[], Made]) -> Made:
        """Make a change with its one `write`, so that its locks are held for two round trips at the most.

        It may run several times until it is committed, so it must do nothing else, and nothing after the commit.
        """

    def ring(self, *channels: str) -> None:
        """Ring these bells without a change of the store, for example after a restore."""

    def write_at_once(
        self,
        locks: Sequence[str],
        queries: Sequence[Query],
        rings: Sequence[str] = (),
        afterwards: Sequence[Query] = (),
    ) -> list[list[Row]] | None:
        """One atomic change that needs no read before it, if that saves a round trip; returns the rows of all queries.

        None if it saves none, or if the store may be another one: then nothing was changed, and the caller uses
        `write`. If the connection is lost, the change is made again, so it must be safe to repeat: if its row is there
        already, nothing is changed, no query has rows, and `afterwards` is not asked. The parameter `now` is added, as
        in `beforehand`. `afterwards` are queries without it, asked after the commit.
        """

    @property
    def replacements(self) -> list[Replacement]:
        """Each time that this process found another store in place of its own, oldest first.

        The transaction that found it raised StoreReplaced; the next one uses the store that is there now.
        """

    def migrate(self, force: bool = False) -> tuple[int, int]:
        """Migrate the schema to this version of conch; returns the schema before and after.

        SchemaMismatch if other processes still use the older store; `force` ignores them.
        """

    def change_counter(self) -> int:
        """A number that changes when another process commits; cheap enough to read often."""

    def version(self) -> object:
        """A value that stays the same until this process or another commits anything. None if it is not known.

        It is found without waiting for the store, even if the store hangs.
        """

    def integrity_problems(self) -> list[Problem]:
        """What the engine itself finds wrong: damaged pages, a changed schema, rows that refer to nothing."""

    def checks(self) -> list[Check]:
        """The rules that the rows of every table keep, for `Transaction.scan`."""

    def backup(self, target: str | None) -> str:
        """Make a consistent copy in a new file while others continue to write; returns its path."""

    def restoring(self, file: str) -> AbstractContextManager[Restoration]:
        """Prepare a backup to be put in place of this store. Without `finish`, nothing is changed."""

    def wipe(self) -> None:
        """Delete all rows. Processes that have the store open continue with an empty one."""

    def tidy(self, compact: bool) -> bool:
        """Write what is beside the store's file into it, after much was deleted. `compact` also makes it smaller.

        False if another process is reading, so that a part stays beside the file until it has finished.
        """

    def durability(self) -> str:
        """How a commit waits for the disk, in the engine's own word, such as `normal`, `full` or `fsync=off`."""

    def copies(self) -> list[str]:
        """The copies of the store that lie beside it, made by backups, migrations and repairs."""

    def empty_indexes(self) -> None:
        """Empty the search indexes, even damaged ones. The next search builds them again."""

    def set_aside(self) -> str:
        """Move an unusable store out of the way without changing it; returns where it is now."""

    def describe(self) -> str:
        """The location of the store, for messages."""

    def load(self) -> None:
        """Read the files of conch now that are otherwise read at their first use."""

    def close(self) -> None: ...


class Afterwards:
    """Answers queries after a transaction has ended: from the rows already `known`, else with a query of its own."""

    def __init__(self, store: Store, now: int, known: Iterable[tuple[Query, list[Row]]] = ()) -> None:
        self._store = store
        self.now = now
        self._known = list(known)

    def one(self, statement: str, **parameters: Any) -> Row | None:
        return next(iter(self.all(statement, **parameters)), None)

    def all(self, statement: str, **parameters: Any) -> list[Row]:
        for query, rows in self._known:
            if query == (statement, parameters):
                return rows
        return self._store.glance(statement, **parameters)
