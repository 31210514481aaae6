"""The connections of one process to a store: opening the first one, lending them, and dropping them.

A process that notices that the store's files were taken away saves what it still can, see `rescuing`, drops its
connections, and opens what is there now.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from conch.errors import StoreBusy, StoreError, StoreInterrupted, StoreUnavailable
from conch.host.ownership import require_own_place
from conch.lean import Lock
from conch.storage.replacement import Replacements
from conch.storage.sqlite import DRIVER_ERRORS, sqlite3
from conch.storage.sqlite.errors import describe_loss, translate
from conch.storage.sqlite.files import make_file, make_folder, make_private, note_loss, set_sides_aside
from conch.storage.sqlite.headers import is_used_elsewhere
from conch.storage.sqlite.lending import FilesTaken, Generation, Hidden, Lent
from conch.storage.sqlite.logs import Log
from conch.storage.sqlite.places import Files, OpenFiles, Users, read_record, survey
from conch.storage.sqlite.queue import Queue
from conch.storage.sqlite.recognition import require_own_file
from conch.storage.sqlite.transaction import transaction

_IDLE_CONNECTIONS = 4
_SETTLE_SECONDS = 1.0
_DAMAGES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR_SHORT_READ)


class _Unsettled(Exception):
    """The files are not the ones written down: they were replaced, or their last user is leaving right now."""

    def __init__(self, recorded: Files | None, now: Files) -> None:
        super().__init__(recorded, now)
        self.found = recorded, now


class _UsedElsewhere(_Unsettled):
    """Other processes use the store's file under another name."""


class _Loan:
    """A connection that is given back at the end. Every call needs one, and a generator would be slower."""

    __slots__ = ("_connections", "_lent")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def __enter__(self) -> Lent:
        try:
            self._lent = self._connections.take()
        except DRIVER_ERRORS as error:
            raise self._connections.translate(error) from error
        if self._lent.is_index_cut():
            self.__exit__(FilesTaken, FilesTaken(), None)
        return self._lent

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._connections.give_back(self._lent)
            return
        broken = isinstance(error, (*DRIVER_ERRORS, StoreError))  # the next caller gets a new connection
        if isinstance(error, (*DRIVER_ERRORS, FilesTaken)):
            _free_cursors(error)
        try:
            explained = self._connections.explain(error, self._lent)
        finally:
            self._connections.give_back(self._lent, broken)
        if explained is not None:
            raise explained from None if isinstance(error, FilesTaken) else error


def _free_cursors(error: BaseException) -> None:
    """Free what the functions that failed still hold. SQLite does not close a connection before its last cursor."""
    trace = error.__traceback__
    while trace is not None:
        with suppress(RuntimeError):  # it still runs
            trace.tb_frame.clear()
        trace = trace.tb_next


class Connections:
    def __init__(
        self,
        path: str,
        given: str,
        named: str,
        seconds: float,
        replacements: Replacements,
        connect: Callable[[], sqlite3.Connection],
        connect_first: Callable[[], sqlite3.Connection],
        moved: Callable[[str], None],
        save: Callable[[Lent, str, sqlite3.Error | None], StoreInterrupted],
    ) -> None:
        """`connect_first` makes the first connection: it may have to create or migrate the store.

        `moved` gets the new path after a link was changed. `save` saves what can be saved when a connection has found
        that its files were taken. It gets where the path leads now and what SQLite has found, and returns the error for
        the caller.
        """
        self.path = path
        self._given = given
        self._named = named
        self._seconds = seconds
        self._replacements = replacements
        self._connect = connect
        self._connect_first = connect_first
        self._moved = moved
        self._save = save
        self._lock = Lock()
        self._now: Generation | None = None
        self._before: Generation | None = None  # the last one, if its files were taken
        self._has_tried = False
        self._is_older: Callable[[int], bool] = lambda mark: False

    def borrowed(self) -> _Loan:
        """A connection for one transaction, with the driver's errors translated.

        StoreInterrupted if its files were taken; nothing was changed then.
        """
        return _Loan(self)

    def explain(self, error: BaseException, lent: Lent) -> StoreError | None:
        """The error for a caller, if this one comes from the driver or from the files of the store."""
        if isinstance(error, Hidden):
            return self.translate(error.error)
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", None) in _DAMAGES:
            lent.generation.files.is_doubtful = True
            return self.notice(lent, error)
        if isinstance(error, FilesTaken) or (isinstance(error, sqlite3.Error) and lent.is_surely_taken()):
            return self.notice(lent)
        return self.translate(error) if isinstance(error, DRIVER_ERRORS) else None

    def translate(self, error: sqlite3.Error | UnicodeDecodeError | OSError) -> StoreError:
        return translate(error, self.path, self._named)

    def take(self) -> Lent:
        """A connection of the caller's own until `give_back`."""
        return self._try_to_take() or self._wait_to_take()

    def _wait_to_take(self) -> Lent:
        deadline = time.monotonic() + self._seconds
        while time.monotonic() <= deadline:
            time.sleep(0.005)
            lent = self._try_to_take()
            if lent is not None:
                return lent
        message = f"The files of the store at {self.path} were replaced while other calls use them. Try again."
        raise StoreBusy(message, path=self.path)

    def _try_to_take(self) -> Lent | None:
        """None while other threads still use files that were taken."""
        with self._lock:
            generation = self._now
            if generation is None:
                if not self._is_dropped():
                    return None
                generation = self._now = self._open_first(self._connect_first)
                self._before = None
            lent = generation.idle.pop() if generation.idle else self._connect_again(generation)
            if lent is not None:
                lent.known = generation.files.stored
            return lent

    def _connect_again(self, generation: Generation) -> Lent | None:
        try:
            if not generation.files.are_in_place():  # a thread that has a connection must notice, to save what it can
                return None
        except OSError as error:
            raise self.translate(error) from error
        lent = Lent(self._connect(), generation)
        generation.count += 1
        return lent

    def _is_dropped(self) -> bool:
        if self._before is not None and self._before.is_stuck:
            message = (
                f"The files of the store at {self.path} were replaced, and this process cannot let go of the old ones "
                "safely on this system. Restart it."
            )
            raise StoreUnavailable(message, path=self.path)
        return self._before is None or self._before.count == 0

    def give_back(self, lent: Lent, broken: bool = False) -> None:
        generation = lent.generation
        with self._lock:
            if broken or generation is not self._now or len(generation.idle) >= _IDLE_CONNECTIONS:
                generation.close(lent)
                if generation.count == 0 and generation is self._now:
                    self._now = None
            else:
                generation.idle.append(lent)

    def find_version(self) -> tuple[object, bytes] | None:
        """A value that stays the same until anything is committed. None if unknown, as before the first connection."""
        generation = self._now
        version = None if generation is None else generation.files.find_version()
        return None if version is None else (generation, version)

    def close(self) -> None:
        generation = self._now
        if generation is not None and generation.idle:
            lent = generation.idle.pop()
            lent.known = generation.files.stored
            if lent.is_surely_taken():
                self.notice(lent)
            self.give_back(lent)
        with self._lock:
            generation, self._now = self._now, None
            if generation is not None:
                generation.close_idle()

    # -- the first connection

    @contextmanager
    def alone(self, connect: Callable[[], sqlite3.Connection]) -> Iterator[sqlite3.Connection]:
        """A connection of its own that `connect` makes, for an operator's command."""
        generation = self._open_first(connect)
        lent = generation.idle.pop()
        try:
            yield lent.connection
        finally:
            generation.is_taken = lent.is_surely_taken()
            generation.close(lent)

    def _open_first(self, connect: Callable[[], sqlite3.Connection]) -> Generation:
        """Open the store. If its files do not fit together, try again for a moment.

        The last user of a store deletes `-wal` and `-shm` as it leaves. A process that opens the store just then still
        expects them, and must open it again, alone. Files that were really taken do not fit even after that moment.
        Whenever something else does not fit, because others come and go, the moment begins again.
        """
        deadline = time.monotonic() + _SETTLE_SECONDS
        pause = 0.002
        found = None
        while True:
            try:
                return self._try_to_open_first(connect)
            except _Unsettled as unsettled:
                if unsettled.found != found:
                    found, deadline = unsettled.found, time.monotonic() + _SETTLE_SECONDS
                elif time.monotonic() > deadline:
                    raise self._not_ours(unsettled) from None
            except StoreInterrupted:
                if time.monotonic() > deadline:
                    raise
            time.sleep(pause * (1 + os.getpid() % 7 / 7))  # two processes that collide must not try again together
            pause = min(2 * pause, 0.1)

    def require_own(self) -> None:
        """Refuse a place that other users can change, and the file of another program. Changes nothing."""
        try:
            require_own_place(self._given, self.path, self._named)
            require_own_file(self.path, self._named)
        except OSError as error:
            raise self.translate(error) from error

    def _try_to_open_first(self, connect: Callable[[], sqlite3.Connection]) -> Generation:
        users = None
        try:
            self._follow_links()
            self.require_own()
            make_folder(self.path, self._named)
            users = Users(self.path)
            self._require_own_files(users)
            make_file(self.path, self._named)
            return self._open_files(users, connect)
        except BaseException as error:
            if users is not None:
                users.leave()
            if isinstance(error, OSError):
                raise self.translate(error) from error
            raise

    def _follow_links(self) -> None:
        """A link may have been changed since this process tried to open the store before."""
        if self._has_tried and (target := os.path.realpath(self._given)) != self.path:
            self.path = target
            self._moved(target)
        self._has_tried = True

    def _open_files(self, users: Users, connect: Callable[[], sqlite3.Connection]) -> Generation:
        files = OpenFiles(self.path, self._given)
        connection, log, has_lost = None, None, users.find_loss()
        self._is_older = lambda mark: not users.is_alone and self._before is None and has_lost(files.files, mark)
        try:
            connection = connect()
            make_private(self.path)
            if not files.remember():
                raise StoreInterrupted(f"The files of the store at {self.path} were replaced. Try again.")
            if users.is_alone or self._before is not None:
                users.record(files.files)
            elif not _fit(recorded := users.recorded(), files.files):  # the last user has left since we looked
                raise _Unsettled(recorded, files.files)
            log, mark = self._open_log(files), _read_mark(connection)
            if has_lost(files.files, mark):
                self.require_newest(connection)
                self._report_loss(connection)
            if log is not None and users.is_alone:  # SQLite has just verified it
                log.trusted = log.changed_at()
                users.note(mark, log.trusted)
        except BaseException:
            if connection is not None:
                connection.close()
            files.close()
            if log is not None:
                log.close()
            raise
        generation = Generation(files, users, log)
        generation.idle.append(Lent(connection, generation))
        return generation

    def require_newest(self, connection: sqlite3.Connection) -> None:
        """Before a new process creates, migrates or mends a store: _Unsettled if others have made newer changes.

        It reads their `-shm`, which is damaged then. They must notice that first.
        """
        if self._is_older(_read_mark(connection)):
            raise _Unsettled(read_record(self.path), survey(self.path))

    def _open_log(self, files: OpenFiles) -> Log | None:
        """None if there is none, as in a sandbox that can only read."""
        try:
            return Log(self.path, files.header)
        except FileNotFoundError:
            return None

    def _report_loss(self, connection: sqlite3.Connection) -> None:
        """Tell the caller, the other processes and `conch db verify` that changes are lost."""
        with transaction(connection, "BEGIN IMMEDIATE"):
            note_loss(connection)
        self._replacements.forget_epoch()
        self._replacements.add(describe_loss(self.path), path=self.path, rescued=None)

    def _require_own_files(self, users: Users) -> None:
        """Make sure that the store's file and those beside it belong together.

        If nobody has the store open, or this process has noticed before and has saved what it could, then files that
        belong to a store that is gone are moved aside. Otherwise _Unsettled: the users must notice first, or leave.
        """
        recorded, now = users.recorded(), survey(self.path)
        if users.is_alone and self._before is None and is_used_elsewhere(self.path):
            raise _UsedElsewhere(recorded, now)
        if _fit(recorded, now) or (users.is_alone and recorded is not None and recorded.same_store(now)):
            return
        if not users.is_alone and self._before is None:  # waiting here would keep others from being alone
            raise _Unsettled(recorded, now)
        with self._queue():
            recorded, now = users.recorded(), survey(self.path)
            if recorded is None or recorded.fit(now):
                return
            if not recorded.same_store(now):
                set_sides_aside(self.path, recorded, now)

    def _not_ours(self, trouble: _Unsettled) -> StoreUnavailable:
        from conch.host.processes import other_users_of  # rarely needed

        is_elsewhere = isinstance(trouble, _UsedElsewhere)
        found = other_users_of(self.path if is_elsewhere else f"{self.path}.users") or []
        named = ", ".join(map(str, found)) or "unknown"
        message = (
            f"The store at {self.path} or a file beside it was deleted or replaced while other processes use it: "
            f"{named}. One of them must first save what it still has. It does so at its next call, or when it "
            "ends. Try again after that."
        )
        if is_elsewhere:
            message = (
                f"The file {self.path} is used under another name by other processes: {named}. If it was moved, they "
                "notice that at their next call; try again after that. Otherwise use only one name for a store."
            )
        processes = [{"pid": user.pid, "command": user.command} for user in found]
        return StoreUnavailable(message, path=self.path, processes=processes)

    @contextmanager
    def _queue(self) -> Iterator[None]:
        """Alone among the processes that put the files in order. Writers wait meanwhile."""
        make_folder(self.path, self._named)  # all of it may be gone
        queue = Queue(f"{self.path}.queue")
        file = queue.enter(self._seconds)
        try:
            if file is None:
                raise self._no_turn(queue)
            yield
        finally:
            queue.leave(file)
            queue.close()

    def _no_turn(self, queue: Queue) -> StoreError:
        """Why this process could not be alone: the queue's file cannot be used, or others do not let it in."""
        try:
            queue.require_file()
        except OSError as error:
            return translate(error, queue.path, self._named)
        return StoreBusy(
            f"Other processes have blocked the queue of {self.path} for too long. Try again.", path=self.path
        )

    # -- the files are taken away

    def notice(self, lent: Lent, error: sqlite3.Error | None = None) -> StoreError:
        """Save what can be saved and drop the connections to these files. Returns the error for the caller.

        It is StoreReplaced if another store is there now, and StoreInterrupted if nothing was lost. `error` is what
        SQLite has found, if that may have come from a damaged `-wal` or `-shm`.
        """
        generation, target = lent.generation, os.path.realpath(self._given)
        path = generation.files.path
        is_left = target != path and not os.path.islink(path)  # nothing happened to the file itself
        try:
            with generation.noticing if is_left else self._queue():
                generation.trouble = generation.trouble or self._save(lent, target, error)
        except StoreError as trouble:  # it cannot be saved now, so the next call tries again
            return trouble
        except (OSError, *DRIVER_ERRORS) as trouble:
            return self.translate(trouble)
        with self._lock:
            if generation is self._now:
                is_same = target == self.path or type(generation.trouble) is StoreInterrupted
                is_same = is_same and not generation.is_superseded
                self._now, self._before = None, generation if is_same else None
                if target != self.path:
                    self.path = target
                    self._moved(target)
            generation.is_taken = not is_left
            generation.close_idle()
        return generation.trouble


def _read_mark(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()["user_version"])


def _fit(recorded: Files | None, now: Files) -> bool:
    return recorded is None or recorded.fit(now)
