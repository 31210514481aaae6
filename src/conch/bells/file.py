"""The bell of one machine: a channel is an empty file, and touching the file rings the bell."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache, partial

from conch.bells.base import Stop, Wake, Watcher
from conch.host.processes import Process
from conch.ids import digest
from conch.lean import TYPE_CHECKING, Lock, threading

if TYPE_CHECKING:
    from conch.bells.ears import WatchingEar
    from conch.bells.sleepers import Sleeper

_SAFE_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_HOW = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)  # a pipe in place of a file makes nobody wait
_LONGEST_NAME = 120  # well below the limit of every filesystem
_SECONDS_BETWEEN_LOOKS = 5.0  # only a safety net: the kernel reports every ring
# How often the counter is read, in seconds: often after a change, less often while nothing happens.
_SHORTEST_PAUSE = 0.010
_LONGEST_PAUSE = 0.025
_GROWTH = 1.1


class FileBell:
    """Do not use it in a forked child: the watching thread stays in the parent, and the descriptors are shared."""

    def __init__(self, directory: str, counter: Callable[[], int]) -> None:
        """`counter` is read only if the kernel cannot watch files, and always from the same thread."""
        self._directory = directory
        self._counter = counter
        self._lock = Lock()
        self._watcher: Watcher | None = None
        self._counter_watcher: CounterWatcher | None = None
        self._is_counting = False

    def recheck_seconds(self, poll_seconds: float) -> float:
        return poll_seconds if self._is_counting else _SECONDS_BETWEEN_LOOKS

    def ring(self, channels: Iterable[str]) -> None:
        for channel in channels:
            path = self._path(channel)
            if os.access(path, os.F_OK):  # usually not, because no process has ever listened; an exception costs more
                with suppress(OSError):
                    os.utime(path)

    def listen(self, *channels: str, announce: str | None = None) -> WatchingEar:
        """Always succeeds. If the kernel has no watch left, the ear wakes at every change of the counter instead.

        Without a thread for that, the ear hears nothing, and its waiter looks at intervals.
        """
        wanted = channels if announce is None else (*channels, announce)
        paths = [self._path(channel) for channel in wanted]
        ear = self._hear_rings(paths, own=self._path(announce) if announce else None) or self._hear_counter(paths)
        announcement = _announce(self._path(announce)) if announce is not None else None
        if announcement is not None:
            ear.announced(partial(_withdraw, announcement))
        return ear

    def hears(self, channel: str) -> bool:
        return _is_announced(self._path(channel))

    def forget(self, channels: Iterable[str]) -> None:
        for channel in channels:
            with suppress(OSError):  # no process has ever listened
                os.unlink(self._path(channel))

    def move(self, directory: str) -> None:
        """Use another directory from now on. Open ears hear nothing from there; their waiters look at intervals."""
        self._directory = directory

    def close(self) -> None:
        with self._lock:
            watchers = self._watcher, self._counter_watcher
            self._watcher = self._counter_watcher = None
        for watcher in watchers:
            if watcher is not None:
                watcher.close()

    def _path(self, channel: str) -> str:
        return f"{self._directory}{os.sep}{file_name(channel)}"

    def _hear_rings(self, paths: list[str], own: str | None) -> WatchingEar | None:
        """An ear on the files; None if they cannot be created or watched. Each new ear tries again."""
        try:
            os.makedirs(self._directory, 0o700, exist_ok=True)
            for path in paths:
                os.close(os.open(path, _HOW | os.O_CREAT, 0o600))
            with self._lock:
                watcher = self._watcher = self._watcher or open_watcher()
            ear = _make_ear(watcher, paths, own)
        except (OSError, RuntimeError):  # RuntimeError: no thread can start
            return None
        self._is_counting = False
        return ear

    def _hear_counter(self, paths: list[str]) -> WatchingEar:
        self._is_counting = True
        try:
            with self._lock:
                watcher = self._counter_watcher = self._counter_watcher or CounterWatcher(self._counter)
        except RuntimeError:
            from conch.bells.ears import DeafWatcher

            return _make_ear(DeafWatcher(), paths)
        return _make_ear(watcher, paths)


def open_watcher() -> Watcher:
    """The watcher for this system's kernel. OSError if there is none, or the kernel has no instance left."""
    if sys.platform == "linux":
        from conch.bells.inotify import InotifyWatcher

        return InotifyWatcher()
    import select  # only waiters need it

    if sys.platform != "linux" and sys.platform != "win32" and hasattr(select, "kqueue"):
        from conch.bells.kqueue import KqueueWatcher

        return KqueueWatcher()
    raise OSError(errno.ENOSYS, "This system cannot watch files.")


def _make_ear(watcher: Watcher, paths: list[str], own: str | None = None) -> WatchingEar:
    from conch.bells.ears import WatchingEar  # most commands only ring

    return WatchingEar(watcher, paths, own)


@lru_cache(maxsize=256)
def file_name(channel: str) -> str:
    """A plain, unique file name for any channel."""
    text = channel.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _SAFE_BYTES else f"%{byte:02X}" for byte in text)
    if name.startswith("."):  # `.` and `..` are folders
        name = f"%2E{name[1:]}"
    if 0 < len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:60]}~{digest(channel)[:32]}"


# -- if the kernel cannot watch files: poll the store's change counter


class CounterWatcher:
    """Wakes every ear at every change of `counter`, which only this watcher's thread calls."""

    def __init__(self, counter: Callable[[], int]) -> None:
        self._counter = counter
        self._wakes: list[Wake] = []
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="conch-bell", daemon=True)
        self._thread.start()

    def watch_channel(self, channel: str, wake: Wake) -> Stop:
        with self._changed:
            self._wakes.append(wake)
            self._changed.notify()
        return partial(self._stop, wake)

    def watch_process(self, process: Process, wake: Wake) -> Stop | None:
        return None

    def sleep(self, sleeper: Sleeper, seconds: float) -> None:
        sleeper.sleep(seconds)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _stop(self, wake: Wake) -> None:
        with self._changed:
            self._wakes.remove(wake)

    def _run(self) -> None:
        # The first count always differs from None, and the last count is kept while no ear listens. A new ear may
        # therefore wake without a change, but cannot miss one.
        last: int | None = None
        pause = _SHORTEST_PAUSE
        while self._has_listeners():
            count = self._count(last)
            if count != last:
                last, pause = count, _SHORTEST_PAUSE
                self._wake_all()
            time.sleep(pause)
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)

    def _has_listeners(self) -> bool:
        """Wait for the first listener; False if the watcher was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._wakes or self._closed)
            return not self._closed

    def _count(self, last: int | None) -> int | None:
        try:
            return self._counter()
        except Exception:  # the store's callers report its errors; the bell only stays silent
            return last

    def _wake_all(self) -> None:
        with self._changed:
            wakes = dict.fromkeys(self._wakes)  # without duplicates: an ear is listed once for each channel
        for wake in wakes:
            wake()


# -- announcing a waiter: a shared lock on the channel's file, which the kernel drops when the process dies


if sys.platform == "win32":

    def _announce(path: str) -> int | None:
        return None

    def _withdraw(announcement: int) -> None:
        os.close(announcement)

    def _is_announced(path: str) -> bool:
        return False

else:
    import fcntl

    _MOST_TRIES = 500  # others hold the lock for microseconds, but a busy machine can stop them in the middle
    _PAUSE_SECONDS = 0.0005

    def _announce(path: str) -> int | None:
        """The open, locked file; None if it cannot be locked."""
        try:
            descriptor = os.open(path, _HOW)
        except OSError:
            return None
        try:
            _lock(descriptor, fcntl.LOCK_SH)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def _withdraw(announcement: int) -> None:
        """Unlock and close. Closing alone would leave the lock with a child that another thread has just forked."""
        try:
            fcntl.flock(announcement, fcntl.LOCK_UN)
        except OSError:  # closing is enough: this often follows a commit, which must not be reported as failed
            pass
        os.close(announcement)

    def _is_announced(path: str) -> bool:
        """Test the lock by taking it for a moment.

        Only one process in the whole directory tests at a time, so any other holder of the lock is a listener.
        """
        try:
            turn = os.open(os.path.dirname(path), _HOW)
        except OSError:
            return False
        try:
            _lock(turn, fcntl.LOCK_EX)
            return _is_locked(path)
        except OSError:
            return False
        finally:
            _withdraw(turn)

    def _lock(descriptor: int, kind: int) -> None:
        """Take a lock. Wait a moment for it, but OSError if its holder hangs."""
        for _ in range(_MOST_TRIES):
            try:
                return fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_PAUSE_SECONDS)
        raise BlockingIOError

    def _is_locked(path: str) -> bool:
        descriptor = os.open(path, _HOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            _withdraw(descriptor)
        return False
