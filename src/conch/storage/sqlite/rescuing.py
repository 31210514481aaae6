"""What a process does when the files of its store are taken away: it saves what it still can.

- The store's file was deleted or replaced. The connections still read the old one, so it is copied to a new file.
- Only `-wal` or `-shm` is missing. The connections still have them, and write what they hold into the store's file.
- Another file, or an older copy of the store, was copied over it. What was there before is gone.
- `-shm` is damaged. SQLite makes it again from `-wal`.
- `-wal` is damaged. What SQLite can still recover of it is put in place of the store.
- A link on the way to the store was changed. The old store is left to those who still use it.
- The store's file was moved, with a link to it in its place. The connections write what `-wal` holds into it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from conch.errors import StoreBusy, StoreError, StoreInterrupted, StoreReplaced
from conch.storage.replacement import Replacements
from conch.storage.sqlite import sqlite3
from conch.storage.sqlite.errors import damaged, describe_loss, translate
from conch.storage.sqlite.files import (
    copy_whole,
    make_distinct,
    new_mark,
    note_loss,
    put_in_place,
    set_sides_aside,
    stamp,
    unused,
)
from conch.storage.sqlite.headers import FileId, count_steps, file_id, is_ahead
from conch.storage.sqlite.lending import Generation, Lent
from conch.storage.sqlite.logs import Recovered
from conch.storage.sqlite.places import Files, Users, are_superseded, read_record, survey, wait_until_written

_LOOK_SECONDS = 10.0  # damage that SQLite finds again within this time is in the store's file, not in `-wal` or `-shm`
_DAMAGED = ".damaged-"  # in the names of files with a `-wal` that SQLite cannot recover


class Rescue:
    def __init__(self, find_path: Callable[[], str], given: str, named: str, replacements: Replacements) -> None:
        """`find_path` returns the path of the store, which changes with the links to it.

        `given` is the path before links were followed, and `named` the setting that gave it.
        """
        self._find_path = find_path
        self._given = given
        self._named = named
        self._replacements = replacements
        self._looked_at: int | None = None  # the `-wal` that was examined last, after SQLite found a damage
        self._look_again_at = 0.0

    @property
    def path(self) -> str:
        return self._find_path()

    def _translate(self, error: sqlite3.Error) -> StoreError:
        return translate(error, self.path, self._named)

    def save(self, lent: Lent, target: str, error: sqlite3.Error | None) -> StoreInterrupted:
        """Save what can be saved. Returns the error for the caller. `target` is where the path leads now."""
        if target != self.path:
            return self._follow(lent, target)
        files, now = lent.generation.files, survey(self.path)
        old, recorded = files.files, read_record(self.path)
        if files.is_doubtful and not files.is_overwritten and old.same_store(now) and old[:3] == now[:3]:
            trouble = self._mend_log(lent, error)
            if trouble is not None:
                return trouble
        if old.same_store(now) and not files.is_overwritten:
            others_mended = recorded is not None and recorded.fit(now)  # then the process that mended has recorded them
            # Ours is another record if `.users` was deleted as well.
            ours = lent.generation.users.recorded()
            if not others_mended and (are_superseded(recorded, old) or are_superseded(ours, old)):
                return self._leave_to_others(lent.generation)
            if not others_mended and self._is_log_damaged(lent):  # then our `-shm` does not describe it
                trouble = self._mend_log(lent, None)
                if trouble is not None:
                    return trouble
            elif others_mended or self._mend(lent, old):
                return StoreInterrupted(f"Files beside the store at {self.path} were replaced. Try again.")
        self._replacements.forget_epoch()
        if old.store == now.store and (files.is_overwritten or old.mark != now.mark):
            if set_sides_aside(self.path, old, now):  # SQLite would show what they hold, mixed with the copy
                self._replacements.is_to_be_told = True
                wait_until_written(self.path)
                # The next process that notices must not take this for a lost `-wal`, and write its own over the copy.
                lent.generation.users.record(survey(self.path))
            message = f"Another file or an older copy was put over the store at {self.path} while processes used it."
            return self._replacements.add(message, path=self.path, rescued=None)
        message = f"The store at {self.path} was deleted or replaced while processes used it."
        return self._rescue(lent, message)

    def _follow(self, lent: Lent, target: str) -> StoreInterrupted:
        """Leave the old file in order, because a link now leads to another one. Returns the error for the caller."""
        store = lent.generation.files.files.store
        if file_id(target) == store:  # it was moved, and its -wal still has the old name
            self._empty_log(lent)
            return StoreInterrupted(f"The file of the store at {self._given} was moved to {target}. Try again.")
        self._replacements.forget_epoch()
        message = f"A link was changed: the store at {self._given} was {self.path}, and is {target} now."
        if os.path.islink(self.path):  # the file itself was replaced by the link
            return self._rescue(lent, message)
        return self._replacements.add(message, path=target, before=self.path)

    def _mend_log(self, lent: Lent, error: sqlite3.Error | None) -> StoreInterrupted | None:
        """Find out whether `-wal` or `-shm` is damaged, and go on with what SQLite can read without `-shm`.

        None if a copy was put over the store's file. StoreError if the file itself is damaged.
        """
        log, users, files = lent.generation.log, lent.generation.users, lent.generation.files
        is_known = self._looked_at == (log and log.changed_at()) or time.monotonic() < self._look_again_at
        if log is None or (error is not None and is_known):
            raise damaged(self.path) if error is None else self._translate(error)
        noted = users.noted()
        known = [mark for mark in (lent.known, noted[0] if noted else None) if mark is not None]
        with _without_writers(lent.connection), log.recovered() as found:
            if found is None:
                raise self._in_doubt()
            self._looked_at, in_file = log.changed_at(), files.find_mark()
            if in_file is None:  # `-shm` was replaced, or a copy was put over the file
                in_file = 0 if files.is_overwritten else files.header.mark() or 0
            self._look_again_at = time.monotonic() + _LOOK_SECONDS
            if found.is_damaged:
                raise damaged(self.path) if error is None else self._translate(error)
            is_ours = count_steps(found.start, in_file) <= count_steps(found.start, found.mark)
            if is_ours and all(is_ahead(found.mark, mark) for mark in known):
                return self._rebuild_index(users) if error or not files.is_log_damaged else self._in_doubt()
            if not is_ours or (found.mark == in_file and error is None and not files.is_log_damaged):
                files.is_overwritten = True
                return None
            trouble = self._go_on_with(found, users)
            if found.is_empty:  # the loss cannot be noted in it yet, so the next process that opens it does so
                users.note(known[-1], log.changed_at())
            return trouble

    def _is_log_damaged(self, lent: Lent) -> bool:
        """Whether `-wal` was overwritten, beside what was replaced or deleted."""
        log, files, users = lent.generation.log, lent.generation.files, lent.generation.users
        known = lent.known if files.stored is None else files.stored
        if log is None or known is None or log.is_whole(known, users, None):
            return False
        files.is_doubtful = files.is_log_damaged = True
        return True

    def _rebuild_index(self, users: Users) -> StoreInterrupted:
        """Let SQLite make `-shm` again from `-wal`, which is whole."""
        os.unlink(f"{self.path}-shm")
        users.record(survey(self.path))  # so that others do not write what they read through the old one
        return StoreInterrupted(f"SQLite found damage, so the file {self.path}-shm was made again. Try again.")

    def _go_on_with(self, found: Recovered, users: Users) -> StoreReplaced:
        """Put what SQLite could read of a damaged `-wal` in place of the store."""
        kept = unused(f"{self.path}{_DAMAGED}{stamp()}")
        if not found.is_empty:
            with closing(sqlite3.connect(found.path, isolation_level=None)) as copy:
                make_distinct(copy, new_mark())
                note_loss(copy)
        put_in_place(found.path, self.path, kept)
        users.record(survey(self.path))
        self._replacements.forget_epoch()
        return self._replacements.add(describe_loss(self.path, kept), path=self.path, rescued=None)

    def _in_doubt(self) -> StoreInterrupted:
        return StoreInterrupted(f"Files of the store at {self.path} are being changed. Try again.", path=self.path)

    def _leave_to_others(self, generation: Generation) -> StoreInterrupted:
        """Other processes have saved what was in these files, and used newer ones, which are gone now too.

        Our -shm does not describe the newer -wal: with it, SQLite would write wrong pages into the store's file. So we
        open the store again as a new process does, once those that use the newer files have noticed.
        """
        generation.is_superseded = True
        generation.users.leave()  # nobody need wait for us
        return StoreInterrupted(f"Files beside the store at {self.path} were replaced again. Try again.")

    def _mend(self, lent: Lent, old: Files) -> bool:
        """Write what `-wal` holds into the store's file. False if another program has filled a `-wal` of its own."""
        wal = f"{self.path}-wal"
        if file_id(wal) not in (None, old.wal) and os.stat(wal).st_size > 0:
            return False
        self._empty_log(lent)
        return True

    def _empty_log(self, lent: Lent) -> None:
        row = lent.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if row["busy"]:
            message = f"Files of the store at {self.path} were taken away while other processes write. Try again."
            raise StoreBusy(message, path=self.path)

    def _rescue(self, lent: Lent, message: str) -> StoreReplaced:
        """Copy the store that is gone, unless it has another name now, or another process has copied it."""
        files = lent.generation.files
        moved = self._find_moved(files.files.store)
        if moved is not None and _DAMAGED in moved:
            return self._replacements.add(describe_loss(self.path, moved), path=self.path, rescued=None)
        rescued = moved or f"{self.path}.rescued-{stamp(files.taken_at())}"
        try:
            if not os.path.exists(rescued):
                copy_whole(lent.connection, rescued)
        except StoreError as error:
            message = f"{message} What was in it could not be saved: {error.message}"
            return self._replacements.add(message, path=self.path, rescued=None)
        message = f"{message} What was in it is in {rescued}; `conch db restore {rescued}` brings it back."
        return self._replacements.add(message, path=self.path, rescued=rescued)

    def _find_moved(self, store: FileId | None) -> str | None:
        """The file in this folder that is the old store, if conch moved it aside."""
        folder, name = os.path.split(self.path)
        beside = [os.path.join(folder, each) for each in os.listdir(folder) if each.startswith(f"{name}.")]
        return next((path for path in beside if file_id(path) == store), None)


@contextmanager
def _without_writers(connection: sqlite3.Connection) -> Iterator[None]:
    """Keep out writers that have passed their check, as far as SQLite can still lock the store."""
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
