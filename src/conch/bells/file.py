"""The bell of one machine: a channel is an empty file, and touching the file rings it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from functools import lru_cache, partial

from conch.bells.announcements import announce as announce_file
from conch.bells.announcements import is_announced, withdraw
from conch.bells.counter import CounterWatcher
from conch.bells.ears import WatchingEar
from conch.bells.native import open_watcher
from conch.bells.watcher import Watcher
from conch.ids import digest

_SAFE_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_LONGEST_NAME = 120
_SECONDS_BETWEEN_LOOKS = 5.0


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

    def listen(self, *channels: str, announce: str | None = None) -> WatchingEar:
        """Never refuses: an ear for which the kernel has no watch hears every change of the counter instead."""
        wanted = channels if announce is None else (*channels, announce)
        paths = [self._path(channel) for channel in wanted]
        ear = self._hear_rings(paths, own=self._path(announce) if announce else None) or self._hear_counter(paths)
        announcement = announce_file(self._path(announce)) if announce is not None else None
        if announcement is not None:
            ear.when_closed(partial(withdraw, announcement))
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

    def _hear_rings(self, paths: list[str], own: str | None) -> WatchingEar | None:
        """None if the files cannot be made or watched. The next ear may have more luck, so every one tries."""
        try:
            os.makedirs(self._directory, 0o700, exist_ok=True)
            for path in paths:
                os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600))
            with self._lock:
                watcher = self._watcher = self._watcher or open_watcher()
            ear = WatchingEar(watcher, paths, own)
        except OSError:
            return None
        self._is_counting = False
        return ear

    def _hear_counter(self, paths: list[str]) -> WatchingEar:
        with self._lock:
            watcher = self._counter_watcher = self._counter_watcher or CounterWatcher(self._counter)
        self._is_counting = True
        return WatchingEar(watcher, paths)


@lru_cache(maxsize=256)
def file_name(channel: str) -> str:
    """A plain file name of its own for every channel, whatever is in it."""
    text = channel.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _SAFE_BYTES else f"%{byte:02X}" for byte in text)
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if 0 < len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:60]}~{digest(channel)[:32]}"
