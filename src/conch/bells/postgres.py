"""The bell of several machines: LISTEN and NOTIFY, and shared advisory locks that say who listens.

One connection per process hears for all its ears. A thread owns it, because a connection that waits for notifications
cannot be used by others; `listen` hands it a channel and returns once the server knows.
"""

from __future__ import annotations

import os
import queue
import select
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import psycopg

from conch.bells.ears import WatchingEar
from conch.bells.native import open_watcher
from conch.bells.watcher import Stop, Wake, Watcher
from conch.ids import digest
from conch.processes import Process

RECHECK_SECONDS = 30.0  # the server tells, and a lost connection is noticed: this is for what nobody has thought of
LISTEN_SECONDS = 5.0
PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)

Connection = psycopg.Connection[Any]


def advisory_key(kind: str, name: str) -> int:
    """The number that an advisory lock has instead of a name."""
    return int.from_bytes(bytes.fromhex(digest(f"conch:{kind}:{name}")[:16]), "big", signed=True)


def notification(channel: str) -> str:
    """A channel's name for the server, which allows 63 characters."""
    return f"conch_{digest(channel)}"


class PostgresBell:
    """Rings are sent by the store, inside the transaction that they announce."""

    def __init__(self, connect: Callable[[], Connection], is_locked: Callable[[int], bool]) -> None:
        """`is_locked` asks the server whether any session holds a lock on this key."""
        self._connect = connect
        self._is_locked = is_locked
        self._lock = threading.Lock()
        self._watcher: ServerWatcher | None = None

    def recheck_seconds(self, poll_seconds: float) -> float:
        return RECHECK_SECONDS

    def listen(self, *channels: str, announce: str | None = None) -> WatchingEar:
        """Every channel that is listened to is announced: that is how ringers know that somebody hears."""
        with self._lock:
            watcher = self._watcher = self._watcher or ServerWatcher(self._connect)
        return WatchingEar(watcher, channels if announce is None else (*channels, announce))

    def hears(self, channel: str) -> bool:
        return self._is_locked(advisory_key("bell", channel))

    def ring(self, channels: Iterable[str]) -> None:
        """Nothing is left to do: the store has sent them."""

    def close(self) -> None:
        with self._lock:
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.close()


class ServerWatcher:
    """The thread behind the ears, with its connection. A lost connection is made anew, and every ear looks again."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._processes: Watcher | None = None
        self._lock = threading.Lock()
        self._wakes: dict[str, list[Wake]] = {}
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._closed = False
        self._seen_by, self._raised_by = os.pipe()
        self._thread = threading.Thread(target=self._run, name="conch-bell", daemon=True)
        self._thread.start()

    def watch_channel(self, channel: str, wake: Wake) -> Stop:
        with self._lock:
            wakes = self._wakes.setdefault(channel, [])
            wakes.append(wake)
            order = Order(channel) if len(wakes) == 1 else None
        if order is not None:
            self._send(order)
            order.done.wait(LISTEN_SECONDS)  # while the server is away, the thread wakes us when it is back
        return partial(self._stop, channel, wake)

    def watch_process(self, process: Process, wake: Wake) -> Stop | None:
        try:
            with self._lock:
                self._processes = self._processes or open_watcher()
            return self._processes.watch_process(process, wake)
        except OSError:
            return None

    def close(self) -> None:
        self._closed = True
        self._nudge()
        self._thread.join(LISTEN_SECONDS)
        if self._processes is not None:
            self._processes.close()
        os.close(self._raised_by)
        os.close(self._seen_by)

    def _stop(self, channel: str, wake: Wake) -> None:
        with self._lock:
            wakes = self._wakes[channel]
            wakes.remove(wake)
            if wakes:
                return
            del self._wakes[channel]
        if not self._closed:
            self._send(Order(channel, leave=True))

    def _send(self, order: Order) -> None:
        self._orders.put(order)
        self._nudge()

    def _nudge(self) -> None:
        os.write(self._raised_by, b"\0")

    # -- on the thread

    def _run(self) -> None:
        failures, was_connected = 0, False
        while not self._closed:
            try:
                with self._connect() as connection:
                    connection.add_notify_handler(self._heard)
                    if was_connected:
                        self._listen_to_all(connection)
                    failures, was_connected = 0, True
                    self._carry_out_orders(connection)
                    self._hear(connection)
            except (psycopg.Error, OSError):
                pause = PAUSES[min(failures, len(PAUSES) - 1)]
                failures += 1
                select.select([self._seen_by] if self._closed else [], [], [], pause)

    def _listen_to_all(self, connection: Connection) -> None:
        """After a reconnect: what was rung meanwhile is lost, so everybody looks at the table once."""
        with self._lock:
            channels = list(self._wakes)
        for channel in channels:
            Order(channel).carry_out(connection)
        for channel in channels:
            self._wake(channel)

    def _hear(self, connection: Connection) -> None:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        poll.register(self._seen_by, select.POLLIN)
        while not self._closed:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if self._seen_by in ready:
                os.read(self._seen_by, 4096)
                self._carry_out_orders(connection)
            if connection.fileno() in ready:
                connection.pgconn.consume_input()
                while notice := connection.pgconn.notifies():
                    self._wake_notified(notice.relname.decode())

    def _carry_out_orders(self, connection: Connection) -> None:
        while True:
            try:
                order = self._orders.get_nowait()
            except queue.Empty:
                return
            with self._lock:
                overtaken = order.leave == (order.channel in self._wakes)
            if not overtaken:
                order.carry_out(connection)
            order.done.set()

    def _heard(self, notice: psycopg.Notify) -> None:
        self._wake_notified(notice.channel)

    def _wake_notified(self, name: str) -> None:
        with self._lock:
            channels = [channel for channel in self._wakes if notification(channel) == name]
        for channel in channels:
            self._wake(channel)

    def _wake(self, channel: str) -> None:
        with self._lock:
            wakes = list(self._wakes.get(channel, ()))
        for wake in wakes:
            wake()


class Order:
    """Begin or cease to listen to a channel."""

    def __init__(self, channel: str, leave: bool = False) -> None:
        self.channel = channel
        self.leave = leave
        self.done = threading.Event()

    def carry_out(self, connection: Connection) -> None:
        """The lock comes after LISTEN: whoever finds it taken can rely on being heard."""
        name, key = notification(self.channel), advisory_key("bell", self.channel)
        if self.leave:
            connection.execute(f"SELECT pg_advisory_unlock_shared({key}); UNLISTEN {name}".encode())
        else:
            connection.execute(f"LISTEN {name}; SELECT pg_advisory_lock_shared({key})".encode())
