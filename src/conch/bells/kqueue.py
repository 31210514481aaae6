"""macOS and the BSDs: one kqueue for channel files and for processes."""

from __future__ import annotations

import errno
import os
import select
import sys
import threading
from functools import partial

from conch.bells.base import Stop, Wake
from conch.bells.sleepers import Sleeper
from conch.host.processes import Process, check

if sys.platform != "linux" and sys.platform != "win32":

    class KqueueWatcher:
        """Each listener opens its file itself. A process is watched once for all its listeners."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self._listeners: dict[int, Wake] = {}  # by descriptor
            self._exit_wakes: dict[int, list[Wake]] = {}  # by pid
            self._closed = False
            self._kqueue = select.kqueue()
            self._end, self._close_end = os.pipe()  # wakes the thread when the watcher is closed
            try:
                self._change(self._end, select.KQ_FILTER_READ, select.KQ_EV_ADD)
                self._thread = threading.Thread(target=self._run, name="conch-bell", daemon=True)
                self._thread.start()
            except BaseException:
                self._close_descriptors()
                raise

        def watch_channel(self, channel: str, wake: Wake) -> Stop:
            descriptor = os.open(channel, getattr(os, "O_EVTONLY", os.O_RDONLY))
            with self._lock:
                try:
                    self._check_open()
                    flags = select.KQ_EV_ADD | select.KQ_EV_CLEAR
                    self._change(descriptor, select.KQ_FILTER_VNODE, flags, select.KQ_NOTE_ATTRIB)
                except OSError:
                    os.close(descriptor)
                    raise
                self._listeners[descriptor] = wake
            return partial(self._stop_file, descriptor)

        def watch_process(self, process: Process, wake: Wake) -> Stop | None:
            with self._lock:
                try:
                    self._check_open()
                    flags = select.KQ_EV_ADD | select.KQ_EV_ONESHOT
                    self._change(process.pid, select.KQ_FILTER_PROC, flags, select.KQ_NOTE_EXIT)
                except OSError:
                    return None
                self._exit_wakes.setdefault(process.pid, []).append(wake)
            stop = partial(self._stop_process, process.pid, wake)
            # Checked only now: the pid could have been reused before the watch began.
            if check(process) == "alive":
                return stop
            stop()
            return None

        def sleep(self, sleeper: Sleeper, seconds: float) -> None:
            sleeper.sleep(seconds)

        def close(self) -> None:
            with self._lock:
                if self._closed:
                    return
                self._closed = True
            os.write(self._close_end, b"\0")
            self._thread.join()
            with self._lock:
                self._close_descriptors()

        def _close_descriptors(self) -> None:
            self._kqueue.close()
            for descriptor in (self._end, self._close_end, *self._listeners):
                os.close(descriptor)
            self._listeners.clear()

        def _check_open(self) -> None:
            if self._closed:
                raise OSError(errno.EBADF, "The bell is closed.")

        def _change(self, subject: int, kind: int, flags: int, notes: int = 0) -> None:
            self._kqueue.control([select.kevent(subject, kind, flags, notes)], 0, 0)

        def _stop_file(self, descriptor: int) -> None:
            with self._lock:
                if self._listeners.pop(descriptor, None) is not None:
                    os.close(descriptor)  # which also ends its watch

        def _stop_process(self, pid: int, wake: Wake) -> None:
            with self._lock:
                wakes = self._exit_wakes.get(pid, [])
                if self._closed or wake not in wakes:  # the process has ended, and its pid may be reused
                    return
                wakes.remove(wake)
                if not wakes:
                    del self._exit_wakes[pid]
                    try:
                        self._change(pid, select.KQ_FILTER_PROC, select.KQ_EV_DELETE)
                    except OSError:  # the process has ended meanwhile, and the kernel removed the watch
                        pass

        def _run(self) -> None:
            while True:
                for event in self._kqueue.control(None, 64, None):
                    if event.ident == self._end and event.filter == select.KQ_FILTER_READ:
                        return
                    for wake in self._concerned(event):
                        wake()

        def _concerned(self, event: select.kevent) -> list[Wake]:
            with self._lock:
                if event.filter == select.KQ_FILTER_PROC:
                    return self._exit_wakes.pop(event.ident, [])
                wake = self._listeners.get(event.ident)
                return [] if wake is None else [wake]
