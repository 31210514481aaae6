"""Puts the contents of a backup in place of a store, in one step.

The backup is first copied to a scratch store, where it is migrated and checked. SQLite then copies that store into the
live one as a single transaction: a crash leaves the old contents or the new ones, and running processes go on. A live
store that cannot be read is replaced as a file instead.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import quote

from conch.errors import InvalidArgument, SchemaMismatch, StoreBusy, StoreCorrupt
from conch.storage.sources import require_file
from conch.storage.sqlite import DRIVER_ERRORS, sqlite3
from conch.storage.sqlite.errors import CommitFailed, translate
from conch.storage.sqlite.files import copy, first_mark, make_distinct, new_mark, put_in_place, remove
from conch.storage.sqlite.headers import file_id
from conch.storage.sqlite.places import Users, survey
from conch.storage.sqlite.recognition import APPLICATION_ID
from conch.storage.sqlite.scratch import scratch_folder
from conch.storage.statements import are_ours, to_version

_ENCODING = "UTF-8"


@contextmanager
def scratch_copy(file: str, store: str, schema: int, named: str) -> Iterator[str]:
    """Copy a backup into a folder beside the store, which is removed afterwards. Refuses what is not a backup.

    `named` is the setting or option that gave the store.
    """
    require_file(file)
    if file_id(file) == file_id(store):
        raise InvalidArgument(f"{file} is the store itself. Name a backup of it.", field="file")
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(scratch_folder(store))
        except OSError as error:
            raise translate(error, store, named) from error
        scratch = os.path.join(folder, "rooms.sqlite")
        with _opened(file) as source:
            _require_store(source, file, schema)
            _require_whole_pages(source, file)
            _require_encoding(source, file)
            copy(source, scratch)
        yield scratch


@contextmanager
def _opened(file: str) -> Iterator[sqlite3.Connection]:
    """Open a backup without changing it or the files beside it."""
    # Nobody writes to a file without -wal, so it can be read without locks, in a folder that is read only.
    how = "mode=ro" if os.path.exists(f"{file}-wal") else "immutable=1"
    source = None
    try:
        source = sqlite3.connect(
            f"file:{quote(os.fsencode(os.path.abspath(file)))}?{how}", uri=True, isolation_level=None
        )
        yield source
    except DRIVER_ERRORS as error:
        raise StoreCorrupt(f"{file} cannot be restored: {error}.", field="file") from error
    finally:
        if source is not None:
            source.close()


def _require_store(source: sqlite3.Connection, file: str, schema: int) -> None:
    tables = {name for (name,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    mark = source.execute("PRAGMA application_id").fetchone()[0]
    is_ours = mark == APPLICATION_ID or (mark == 0 and are_ours(tables))
    row = None
    if is_ours and "meta" in tables:
        row = source.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    version = None if row is None else to_version(row[0])
    if row is None or version is None:
        raise StoreCorrupt(f"{file} is not a backup of a conch store.", field="file")
    if version > schema:
        message = (
            f"{file} has schema {row[0]}, made by a newer version of conch than this one (schema {schema}). "
            "Upgrade conch, then restore."
        )
        raise SchemaMismatch(message, field="file", expected=schema)


def _require_whole_pages(source: sqlite3.Connection, file: str) -> None:
    """SQLite fills up a last page that was cut off, with zeros in place of what was there."""
    if os.stat(file).st_size % source.execute("PRAGMA page_size").fetchone()[0]:
        raise StoreCorrupt(f"{file} is damaged: it ends in the middle of a page.", field="file")


def _require_encoding(source: sqlite3.Connection, file: str) -> None:
    """Running processes cannot go on in a store with another encoding."""
    encoding = source.execute("PRAGMA encoding").fetchone()[0]
    if encoding != _ENCODING:
        raise StoreCorrupt(
            f"{file} is not a backup: its encoding is {encoding}. conch writes {_ENCODING}.", field="file"
        )


def replace_contents(live: sqlite3.Connection, scratch: str, kept: str, seconds: float) -> str | None:
    """Copy the live store to `kept`, then the scratch store into the live one. Returns `kept`, or None if it was empty.

    StoreBusy if other processes do not let us write for this many seconds.
    """
    is_empty = live.execute("SELECT count(*) AS tables FROM sqlite_master").fetchone()["tables"] == 0
    if not is_empty:
        copy(live, kept)
    source = sqlite3.connect(scratch, isolation_level=None)
    try:
        # The file keeps its mark and the contents get a new epoch, so processes notice new contents but not a new file.
        _take_page_size(source, live.execute("PRAGMA page_size").fetchone()["page_size"])
        make_distinct(source, *((first_mark(live),) if is_empty else _marks(live)))
        _copy_over(source, live, seconds)
    except CommitFailed:
        raise
    except (StoreBusy, *DRIVER_ERRORS):
        remove(kept)  # nobody needs it, and a full disk must not become fuller
        raise
    finally:
        source.close()
    # While another process reads, or if the disk has no room for both, a later one does it. The store is restored
    # already.
    with suppress(sqlite3.Error):
        live.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return None if is_empty else kept


def _copy_over(source: sqlite3.Connection, live: sqlite3.Connection, seconds: float) -> None:
    """Copy everything in one transaction of the live store. Raise CommitFailed if it may have been committed."""
    try:
        source.backup(live, progress=_patience(seconds))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_IOERR:
            raise CommitFailed(str(error)) from error
        raise


def _take_page_size(source: sqlite3.Connection, size: int) -> None:
    """SQLite copies into a live store only pages of the same size."""
    if source.execute("PRAGMA page_size").fetchone()[0] != size:
        source.execute("PRAGMA journal_mode = DELETE")  # with a log the size cannot change
        source.execute(f"PRAGMA page_size = {size}")
        source.execute("VACUUM")


def _marks(live: sqlite3.Connection) -> tuple[int, int]:
    mark = live.execute("PRAGMA user_version").fetchone()["user_version"]
    start = live.execute("SELECT value FROM meta WHERE key = 'mark'").fetchone()
    return mark, int(start["value"]) if start and start["value"].isdecimal() else mark


def _patience(seconds: float) -> Callable[[int, int, int], None]:
    """Gives up in time: by itself, SQLite would try forever to lock the store."""
    deadline = time.monotonic() + seconds

    def progress(status: int, remaining: int, total: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > deadline:
            raise StoreBusy("Another process keeps the store locked. Try again.")

    return progress


def replace_file(path: str, scratch: str, kept: str) -> str:
    """Put the scratch store in place of an unreadable one, which is kept under another name with its -wal and -shm."""
    source = sqlite3.connect(scratch, isolation_level=None)
    make_distinct(source, new_mark())
    source.close()
    put_in_place(scratch, path, kept)
    users = Users(path)
    users.record(survey(path))  # nothing is left to save, so others need not wait until the users have noticed
    users.leave()
    return kept
