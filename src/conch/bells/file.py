"""The bell of one machine: a channel is an empty file, and touching the file rings it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from conch.bells.announcements import announce as announce_file
from conch.bells.announcements import is_announced, withdraw
from conch.bells.counter import CounterWatcher
from conch.bells.native import open_watcher
from conch.bells.watcher import Stop, Watcher
from conch.ids import digest
from conch.processes import Process, check

_SAFE_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_LONGEST_NAME = 120
_SECONDS_BETWEEN_LOOKS = 5.0
_SECONDS_BETWEEN_CHECKS = 1.0


class FileBell:
    """Not for a forked child: the watching thread stays behind in the parent, its descriptors are shared."""

    def __init__(self, directory: str, counter: Callable[[], int]) -> None:
        """`counter` is asked only where the kernel cannot tell, and always from one and the same thread."""
        self._directory = directory
        self._counter = counter
        self._lock = threading.Lock()
        self._watcher: Watcher | None = None
        self._counter_watcher: CounterWatcher | None = None
        self._is_counting = False

    def recheck_seconds(self, poll_seconds: float) -> float:
        return poll_seconds if self._is_counting else _SECONDS_BETWEEN_LOOKS

    def ring(self, channels: Iterable[str]) -> None:
        for channel in channels:
            try:
                os.utime(self._path(channel))
            except OSError:  # usually there is no such file, because nobody has ever listened
                pass

    def listen(self, *channels: str, announce: str | None = None) -> FileEar:
        """Never refuses: an ear for which the kernel has no watch hears every change of the counter instead."""
        wanted = channels if announce is None else (*channels, announce)
        paths = [self._path(channel) for channel in wanted]
        ear = self._hear_rings(paths) or self._hear_counter(paths)
        if announce is not None:
            ear.announce(self._path(announce))
        return ear

    def hears(self, channel: str) -> bool:
        return is_announced(self._path(channel))

    def close(self) -> None:
        with self._lock:
            watchers = self._watcher, self._counter_watcher
            self._watcher = self._counter_watcher = None
        for watcher in watchers:
            if watcher is not None:
                watcher.close()

    def _path(self, channel: str) -> str:
        return os.path.join(self._directory, file_name(channel))

    def _hear_rings(self, paths: list[str]) -> FileEar | None:
        """None if the files cannot be made or watched. The next ear may have more luck, so every one tries."""
        try:
            os.makedirs(self._directory, 0o700, exist_ok=True)
            for path in paths:
                os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600))
            with self._lock:
                watcher = self._watcher = self._watcher or open_watcher()
            ear = FileEar(watcher, paths)
        except OSError:
            return None
        self._is_counting = False
        return ear

    def _hear_counter(self, paths: list[str]) -> FileEar:
        with self._lock:
            watcher = self._counter_watcher = self._counter_watcher or CounterWatcher(self._counter)
        self._is_counting = True
        return FileEar(watcher, paths)


class FileEar:
    """Listens from its construction on. OSError if the watcher cannot watch all of the paths."""

    def __init__(self, watcher: Watcher, paths: Iterable[str]) -> None:
        self._watcher = watcher
        self._woken = threading.Event()
        self._stops: list[Stop] = []
        self._announcement: int | None = None
        self._process: Process | None = None
        self._stop_process: Stop | None = None
        self._must_ask = False
        try:
            for path in paths:
                self._stops.append(watcher.watch_file(path, self.wake))
        except BaseException:
            self._close()
            raise

    def announce(self, path: str) -> None:
        self._announcement = announce_file(path)

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._woken.wait(self._next_pause(deadline)):
            if self._must_ask and check(self._process) == "gone":
                self._must_ask = False
                return True
            if time.monotonic() >= deadline:
                return False
        self._woken.clear()
        return True

    def watch(self, process: Process | None) -> None:
        """The end of a process wakes once, however often that process is named in a row."""
        if process == self._process:
            return
        self._unwatch()
        self._process = process
        if process is None:
            return
        self._stop_process = self._watcher.watch_process(process, self.wake)
        if self._stop_process is None:
            self._must_ask = check(process) != "gone"
            if not self._must_ask:
                self.wake()

    def wake(self) -> None:
        self._woken.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _next_pause(self, deadline: float) -> float:
        rest = max(0.0, deadline - time.monotonic())
        return min(rest, _SECONDS_BETWEEN_CHECKS) if self._must_ask else rest

    def _unwatch(self) -> None:
        self._must_ask = False
        if self._stop_process is not None:
            self._stop_process()
            self._stop_process = None

    def _close(self) -> None:
        self._unwatch()
        while self._stops:
            self._stops.pop()()
        if self._announcement is not None:
            withdraw(self._announcement)
            self._announcement = None


def file_name(channel: str) -> str:
    """A plain file name of its own for every channel, whatever is in it."""
    text = channel.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _SAFE_BYTES else f"%{byte:02X}" for byte in text)
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if 0 < len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:60]}~{digest(channel)[:32]}"
