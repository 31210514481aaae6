"""Linux: inotify for channel files, pidfds for processes, one epoll for both.

By default a user has 128 inotify instances (`fs.inotify.max_user_instances`), so a process opens one and keeps it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import sys
import threading
from contextlib import suppress
from functools import partial

from conch.bells.base import Stop, Wake
from conch.bells.sleepers import Sleeper, Watch
from conch.host.processes import Process, open_pidfd

# PyDLL keeps the GIL: these calls take a microsecond, and releasing it would let the bell thread run in between.
_libc = ctypes.PyDLL(None, use_errno=True)

# From <sys/inotify.h>. Touching a file changes its attributes; opening, locking and closing it does not.
_IN_ATTRIB = 0x4
_IN_Q_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")  # watch descriptor, mask, cookie, length of the name (0 for a watched file)


def _call(function: str, *arguments: int | bytes) -> int:
    result: int = getattr(_libc, function)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return result


if sys.platform == "linux":

    class InotifyWatcher:
        def __init__(self) -> None:
            self._lock = threading.Lock()
            self._listeners: dict[int, list[Wake]] = {}  # by watch descriptor: one per file, however many listen
            self._exit_wakes: dict[int, Wake] = {}  # by pidfd
            self._closed = False
            self._inotify = self._interrupt = self._end = -1
            self._epoll, self._doorbell = select.epoll(), select.epoll()  # the thread sleeps at its doorbell
            self._watch = Watch(self._rouse, self._read, self._interrupt_reader)
            try:
                self._inotify = _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
                self._interrupt = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
                self._end = os.eventfd(0)
                self._epoll.register(self._inotify, select.EPOLLIN)
                self._epoll.register(self._interrupt, select.EPOLLIN)
                self._doorbell.register(self._epoll.fileno(), select.EPOLLIN)
                self._doorbell.register(self._end, select.EPOLLIN)
                self._thread = threading.Thread(target=self._run, name="conch-bell", daemon=True)
                self._thread.start()
            except BaseException:
                self._close_descriptors()
                raise

        def watch_channel(self, channel: str, wake: Wake) -> Stop:
            with self._lock:
                if self._closed:
                    raise OSError(errno.EBADF, "The bell is closed.")
                watch = _call("inotify_add_watch", self._inotify, os.fsencode(channel), _IN_ATTRIB)
                self._listeners.setdefault(watch, []).append(wake)
            return partial(self._stop_file, watch, wake)

        def watch_process(self, process: Process, wake: Wake) -> Stop | None:
            descriptor = open_pidfd(process)
            if descriptor is None:
                return None
            with self._lock:
                try:
                    # ONESHOT, because the descriptor of a dead process stays readable forever.
                    self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLONESHOT)
                except (OSError, ValueError):  # no descriptor left, or closed meanwhile
                    os.close(descriptor)
                    return None
                self._exit_wakes[descriptor] = wake
            return partial(self._stop_process, descriptor)

        def sleep(self, sleeper: Sleeper, seconds: float) -> None:
            self._watch.sleep(sleeper, seconds)

        def close(self) -> None:
            self._watch.end()
            with self._lock:
                if self._closed:
                    return
                self._closed = True
            os.eventfd_write(self._end, 1)
            self._thread.join()
            with self._lock:
                self._close_descriptors()

        def _close_descriptors(self) -> None:
            self._epoll.close()
            self._doorbell.close()
            for descriptor in (self._inotify, self._interrupt, self._end, *self._exit_wakes):
                if descriptor >= 0:
                    os.close(descriptor)
            self._exit_wakes.clear()

        def _stop_file(self, watch: int, wake: Wake) -> None:
            with self._lock:
                wakes = self._listeners.get(watch)
                if self._closed or wakes is None:
                    return
                wakes.remove(wake)
                if not wakes:
                    del self._listeners[watch]
                    # It may fail if the file was deleted, because the kernel then removed the watch. That is fine.
                    _libc.inotify_rm_watch(self._inotify, watch)

        def _stop_process(self, descriptor: int) -> None:
            with self._lock:
                if self._exit_wakes.pop(descriptor, None) is not None:
                    self._epoll.unregister(descriptor)
                    os.close(descriptor)

        def _rouse(self, is_roused: bool) -> None:
            self._doorbell.modify(self._epoll.fileno(), select.EPOLLIN if is_roused else 0)

        def _interrupt_reader(self) -> None:
            with self._lock:
                if not self._closed:
                    os.eventfd_write(self._interrupt, 1)

        def _run(self) -> None:
            while True:
                if any(descriptor == self._end for descriptor, _ in self._doorbell.poll()):
                    return
                for wake in self._read(0):
                    wake()
                if not self._watch.is_roused:  # a waiter reads now, and this may have read its interrupt
                    self._interrupt_reader()

        def _read(self, seconds: float) -> list[Wake]:
            wakes: list[Wake] = []
            for descriptor, _ in self._epoll.poll(seconds):
                if descriptor == self._interrupt:
                    self._forget_interrupt()
                else:
                    wakes += self._touched() if descriptor == self._inotify else self._ended(descriptor)
            return wakes

        def _forget_interrupt(self) -> None:
            with suppress(BlockingIOError):  # the other reader was faster
                os.eventfd_read(self._interrupt)

        def _touched(self) -> list[Wake]:
            try:
                events = os.read(self._inotify, 64 * 1024)
            except BlockingIOError:
                return []
            with self._lock:
                hits = [self._hit(watch, mask) for watch, mask, _, _ in _EVENT.iter_unpack(events)]
            return [wake for wakes in hits for wake in wakes]

        def _hit(self, watch: int, mask: int) -> list[Wake]:
            if mask & _IN_Q_OVERFLOW:  # rings were lost, and it is unknown which: wake every listener
                return [wake for wakes in self._listeners.values() for wake in wakes]
            return list(self._listeners.get(watch, ()))

        def _ended(self, descriptor: int) -> list[Wake]:
            with self._lock:
                wake = self._exit_wakes.get(descriptor)
            return [] if wake is None else [wake]
