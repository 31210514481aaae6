"""A connection that a call borrows, the checks that its files are still those of the store, and a writer's turn."""

from __future__ import annotations

import time

from conch.errors import StoreInterrupted
from conch.lean import Lock
from conch.storage.sqlite import sqlite3
from conch.storage.sqlite.headers import count_steps, is_ahead
from conch.storage.sqlite.logs import Log
from conch.storage.sqlite.places import OpenFiles, Users
from conch.storage.sqlite.queue import Queue
from conch.storage.statements import to_version

_kept: list[sqlite3.Connection] = []  # must never be closed, see `Generation.close`


class FilesTaken(Exception):
    """The files at the path are not the ones that a connection has open."""


class Hidden(Exception):
    """The system does not let us look at the files, for example because we may no longer enter the folder."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


class Facts:
    """What a connection has read about the store. It is right until another connection commits."""

    __slots__ = ("epoch", "mark", "schema", "start", "text", "version")

    def __init__(self, version: int, mark: int, text: str, known: Facts | None) -> None:
        """`text` is all of `meta`, as `store_facts` reads it."""
        self.version = version
        """The number that SQLite changes for this connection when another one commits."""
        self.mark = mark
        self.text = text
        self.start: int | None
        """The mark that the file had when `-wal` began."""
        self.schema: int | None
        """None if it is missing or damaged."""
        self.epoch: str | None
        if known is not None and known.text == text:
            self.start, self.schema, self.epoch = known.start, known.schema, known.epoch
        else:
            rows = dict(row.partition("=")[::2] for row in text.split("|"))
            self.start, self.schema = _to_number(rows.get("mark")), to_version(rows.get("schema_version"))
            self.epoch = rows.get("epoch")


def _to_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


class Generation:
    """The connections to the same files."""

    def __init__(self, files: OpenFiles, users: Users, log: Log | None) -> None:
        self.files = files
        self.users = users
        self.log = log
        self.idle: list[Lent] = []
        self.count = 1
        self.trouble: StoreInterrupted | None = None
        self.noticing = Lock()
        self.is_taken = False
        self.is_stuck = False
        self.is_superseded = False

    def close(self, lent: Lent) -> None:
        """Close a connection. Once its files were taken, SQLite must leave alone what is at the path now."""
        if self.is_taken and not self.files.can_close_safely():
            _kept.append(lent.connection)
            self.is_stuck = True
            return
        self.count -= 1
        if self.count == 0:  # SQLite may now delete -wal and -shm, so others must not expect them
            self.users.leave()
        lent.cursor.close()  # SQLite does not close a connection before its last statement
        lent.connection.close()
        if self.count == 0:
            self.files.close()
            if self.log is not None:
                self.log.close()

    def close_idle(self) -> None:
        idle, self.idle = self.idle, []
        for lent in idle:
            self.close(lent)


class Lent:
    """A connection, what it has read about the store, and the others to the same files."""

    __slots__ = ("connection", "cursor", "facts", "generation", "known")

    def __init__(self, connection: sqlite3.Connection, generation: Generation) -> None:
        self.connection = connection
        self.cursor = connection.cursor()
        """For all statements of a transaction. Its rows are tuples: naming the columns of each row would be slow."""
        self.cursor.row_factory = None
        self.generation = generation
        self.facts: Facts | None = None
        self.known: int | None = None
        """The mark that SQLite had read from these files before this connection was lent."""

    def read_facts(self, statements: dict[str, str]) -> Facts:
        """What the store says about itself in this transaction. If nobody has committed since, that is known."""
        cursor, known = self.cursor, self.facts
        (version,) = cursor.execute("PRAGMA data_version").fetchone()
        if known is not None and known.version == version:
            return known
        (mark,) = cursor.execute(statements["store_mark"]).fetchone()
        (text,) = cursor.execute(statements["store_facts"]).fetchone()
        self.facts = Facts(version, mark, text or "", known)
        return self.facts

    def check(self) -> int:
        """The mark in the file. FilesTaken if the files at the path are not the ones of this connection."""
        try:
            mark = self.generation.files.find_mark()
        except OSError as error:
            raise Hidden(error) from error
        if mark is None:
            raise FilesTaken
        return mark

    def check_marks(self, in_file: int, stored: int, start: int) -> None:
        """FilesTaken if a copy was put over the file. Inside a transaction.

        `stored` is the mark that SQLite reads, and `start` the one that the file had when `-wal` began.
        """
        files = self.generation.files
        if in_file != start and count_steps(start, in_file) > count_steps(start, stored):
            files.is_overwritten = True
            raise FilesTaken
        if self.known is not None and stored != self.known and not is_ahead(stored, self.known):
            files.is_doubtful = True
            raise FilesTaken
        files.stored = stored

    def check_log(self, stored: int, queue: Queue | None) -> None:
        """FilesTaken if SQLite could not recover `-wal` any more. Inside a transaction. A writer needs no `queue`.

        Every transaction asks, so it must be fast.
        """
        log, files = self.generation.log, self.generation.files
        if log is not None and not log.is_whole(stored, self.generation.users, queue):
            files.is_doubtful = files.is_log_damaged = True
            raise FilesTaken

    def note(self, mark: int) -> None:
        """Note a change that is committed, before the next writer's turn."""
        log = self.generation.log
        if log is not None:
            log.trusted = changed_at = log.changed_at()
            self.generation.users.note(mark, changed_at)

    def is_index_cut(self) -> bool:
        """Whether `-shm` was cut off. It must not be looked at then."""
        log = self.generation.log
        if log is None or not log.is_index_cut():
            return False
        log.fill_index()
        self.generation.files.is_doubtful = True
        return True

    def is_surely_taken(self) -> bool:
        try:
            return self.is_index_cut() or not self.generation.files.are_in_place()
        except OSError:
            return False


class Turn:
    """A writer's turn in the queue. Every write needs one, and a generator would be slower."""

    __slots__ = ("_busy_timeout_ms", "_connection", "_file", "_queue")

    def __init__(self, queue: Queue, connection: sqlite3.Connection, busy_timeout_ms: int) -> None:
        self._queue = queue
        self._connection = connection
        self._busy_timeout_ms = busy_timeout_ms

    def __enter__(self) -> None:
        began = time.monotonic()
        self._file = self._queue.enter(self._busy_timeout_ms / 2_000)
        if self._file is None:
            waited_ms = min(int(1_000 * (time.monotonic() - began)), self._busy_timeout_ms // 2)
            self._set_timeout(self._busy_timeout_ms - waited_ms)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._queue.leave(self._file)
        if self._file is None:
            self._set_timeout(self._busy_timeout_ms)

    def _set_timeout(self, milliseconds: int) -> None:
        self._connection.execute(f"PRAGMA busy_timeout = {milliseconds}")
