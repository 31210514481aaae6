"""The bell of several machines: LISTEN and NOTIFY, and shared advisory locks that show which channels have listeners.

One connection per process listens for all its ears. A thread owns it, because a connection that waits for
notifications cannot do anything else. `listen` waits until the server knows the channels, for a few
seconds at most.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterable
from functools import partial

import psycopg

from conch.bells.base import Stop, Wake, Watcher, notification
from conch.bells.ears import DeafWatcher, WatchingEar
from conch.bells.sleepers import Sleeper
from conch.host.processes import Process, host_id
from conch.ids import lock_number
from conch.lean import Any

_RECHECK_SECONDS = 30.0  # only a safety net: the server notifies, and a lost connection is noticed
_LISTEN_SECONDS = 5.0
_CHECK_SECONDS = 15.0  # ask a silent server now and then, because a stopped one never says that it is gone
IDLE_SECONDS = 60.0  # close the connection after this time without listeners, because a server has only so many
_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)  # seconds before each new attempt to connect

_Connection = psycopg.Connection[Any]


class PostgresBell:
    """The store sends the rings, inside the transaction that they announce."""

    def __init__(
        self,
        connect: Callable[[], _Connection],
        is_locked: Callable[[int], bool],
        open_watcher: Callable[[], Watcher],
    ) -> None:
        """`is_locked` asks the server whether any session holds a lock with this number.

        `open_watcher` returns a watcher for this machine's processes, which the server cannot see, or raises OSError.
        """
        self._connect = connect
        self._open_watcher = open_watcher
        self._is_locked = is_locked
        self._lock = threading.Lock()
        self._watcher: _ServerWatcher | None = None
        self._is_deaf = False

    def recheck_seconds(self, poll_seconds: float) -> float:
        watcher = self._watcher
        return poll_seconds if self._is_deaf or (watcher and watcher.is_away) else _RECHECK_SECONDS

    def listen(self, *channels: str, announce: str | None = None) -> WatchingEar:
        """Listen. All channels are announced, not only `announce`: a ringer notifies only the announced ones.

        Without a thread or a descriptor for that, the ear hears nothing, and its waiter looks at intervals.
        """
        watcher: Watcher
        try:
            with self._lock:
                watcher = self._watcher = self._watcher or _ServerWatcher(self._connect, self._open_watcher)
        except (OSError, RuntimeError):  # RuntimeError: no thread can start
            watcher = DeafWatcher()
        self._is_deaf = isinstance(watcher, DeafWatcher)
        wanted = channels if announce is None else (*channels, announce)
        ear = WatchingEar(watcher, wanted, own=announce)
        if isinstance(watcher, _ServerWatcher):  # one round trip for all channels
            ear.when_closed(watcher.part)
            try:
                watcher.introduce(wanted)
            except BaseException:
                ear.close()
                raise
        return ear

    def hears(self, channel: str) -> bool:
        return self._is_locked(lock_number("bell", channel))

    def ring(self, channels: Iterable[str]) -> None:
        """Does nothing, because the store has already sent the rings."""

    def forget(self, channels: Iterable[str]) -> None:
        """Does nothing: a channel of the server leaves nothing behind."""

    def close(self) -> None:
        with self._lock:
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.close()


class _ServerWatcher:
    """The thread and the connection behind the ears. After a lost connection it reconnects and wakes every ear."""

    def __init__(self, connect: Callable[[], _Connection], open_watcher: Callable[[], Watcher]) -> None:
        self._connect = connect
        self._open_watcher = open_watcher
        self._processes: Watcher | None = None
        self._changed = threading.Condition()  # guards what follows
        self._wakes: dict[str, list[Wake]] = {}
        self._channels: dict[str, str] = {}  # the channels of `_wakes`, by their names on the server
        self._known: set[str] = set()  # the channels that the server knows we listen to
        # Channels whose listeners must look once more, because the server did not know them in time.
        self._late: set[str] = set()
        self._lost: set[str] = set()  # the channels that the server knew when the connection was lost
        self._failures = 0
        self._closed = False
        self._nudged, self._nudging = os.pipe()  # interrupts the thread's poll
        os.set_blocking(self._nudging, False)
        self._thread = threading.Thread(target=self._run, name="conch-bell", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            os.close(self._nudged)
            os.close(self._nudging)
            raise

    @property
    def is_away(self) -> bool:
        """Whether the last attempt to reach the server has failed, so that no ring is heard."""
        return self._failures > 0

    def watch_channel(self, channel: str, wake: Wake) -> Stop:
        with self._changed:
            self._wakes.setdefault(channel, []).append(wake)
            self._channels[notification(channel)] = channel
        return partial(self._stop, channel, wake)

    def introduce(self, channels: Iterable[str]) -> None:
        """Tell the server of channels that are watched now, and wait a moment until it knows them."""
        wanted = set(channels)
        with self._changed:
            self._nudge()
            self._changed.wait_for(lambda: wanted <= self._known or self._failures or self._closed, _LISTEN_SECONDS)
            self._late |= wanted - self._known

    def part(self) -> None:
        """Tell the server of channels that are watched no longer."""
        with self._changed:
            self._nudge()

    def watch_process(self, process: Process, wake: Wake) -> Stop | None:
        if process.host_id != host_id():
            return _nothing  # a process on another machine cannot be watched: its timeouts apply
        try:
            with self._changed:
                self._processes = self._processes or self._open_watcher()
            return self._processes.watch_process(process, wake)
        except (OSError, RuntimeError):
            return None

    def sleep(self, sleeper: Sleeper, seconds: float) -> None:
        sleeper.sleep(seconds)

    def close(self) -> None:
        with self._changed:
            self._nudge()
            self._closed = True
        self._thread.join(_LISTEN_SECONDS)
        if self._processes is not None:
            self._processes.close()

    def _stop(self, channel: str, wake: Wake) -> None:
        with self._changed:
            self._wakes[channel].remove(wake)
            if not self._wakes[channel]:
                del self._wakes[channel], self._channels[notification(channel)]
                self._late.discard(channel)

    def _nudge(self) -> None:
        """Wake the thread, unless it has ended. The caller holds the lock."""
        if self._closed:
            return
        self._changed.notify_all()
        try:
            os.write(self._nudging, b"\0")
        except BlockingIOError:  # the pipe is full of unread nudges, so the thread will wake
            pass

    # -- on the thread

    def _run(self) -> None:
        try:
            while self._wait_for_listeners():
                try:
                    with self._connect() as connection:
                        self._hear(connection)
                except (psycopg.Error, OSError):
                    self._fail()
                with self._changed:
                    self._known = set()
                    self._late.update(self._wakes)  # rings are lost until it reconnects, so all must look again
        finally:
            with self._changed:  # the thread that closes the bell may still write to the pipe
                self._closed = True
                os.close(self._nudging)
                os.close(self._nudged)

    def _wait_for_listeners(self) -> bool:
        """Wait until there is a listener; False if the bell is closed instead."""
        with self._changed:
            pause = _PAUSES[min(self._failures, len(_PAUSES)) - 1] if self._failures else 0
            self._changed.wait_for(lambda: self._closed, pause)
            self._changed.wait_for(lambda: self._closed or self._wakes)
            return not self._closed

    def _fail(self) -> None:
        """Wake the listeners if the first attempt to reconnect fails too, so that they see that the server is away."""
        with self._changed:
            self._failures += 1
            away, self._lost = self._lost, self._known
            self._changed.notify_all()
        for channel in away:
            self._wake(channel)

    def _hear(self, connection: _Connection) -> None:
        """Pass on rings until the connection is lost, all listeners are gone for a while, or the bell is closed."""
        connection.add_notify_handler(lambda notice: self._wake_notified(notice.channel))
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        poll.register(self._nudged, select.POLLIN)
        while not self._closed:
            listening = self._register_channels(connection)
            ready = [each for each, _ in poll.poll((_CHECK_SECONDS if listening else IDLE_SECONDS) * 1_000)]
            if not ready:
                if not listening:
                    return
                connection.execute("SELECT 1")  # raises if there is no answer
            if self._nudged in ready:
                os.read(self._nudged, 4096)
            if connection.fileno() in ready:
                connection.pgconn.consume_input()
                while notice := connection.pgconn.notifies():
                    self._wake_notified(notice.relname.decode())

    def _register_channels(self, connection: _Connection) -> bool:
        """Tell the server which channels have listeners now. Returns whether there are any."""
        with self._changed:
            begun, ceased = self._wakes.keys() - self._known, self._known - self._wakes.keys()
            self._known -= ceased  # at once, so that a new listener does not count on what ends now
        if begun or ceased:
            # LISTEN takes effect at the end of this batch. A later ringer finds the lock and notifies. An earlier one
            # has committed by then, because the lock waits for it, so the next look at the table sees its change.
            words = [
                f"SELECT pg_advisory_unlock_shared({_key(each)}); UNLISTEN {notification(each)}" for each in ceased
            ]
            words += [f"LISTEN {notification(each)}; SELECT pg_advisory_lock_shared({_key(each)})" for each in begun]
            connection.execute("; ".join(words).encode())
        with self._changed:
            self._known |= begun
            self._failures, self._lost = 0, set()
            late = self._late & self._known
            self._late -= late
            self._changed.notify_all()
        for channel in late:
            self._wake(channel)
        return bool(self._known)

    def _wake_notified(self, name: str) -> None:
        with self._changed:
            channel = self._channels.get(name)
        if channel is not None:
            self._wake(channel)

    def _wake(self, channel: str) -> None:
        with self._changed:
            wakes = list(self._wakes.get(channel, ()))
        for wake in wakes:
            wake()


def _key(channel: str) -> int:
    return lock_number("bell", channel)


def _nothing() -> None:
    pass
