"""The event stream: everything that happens, to every open page, as soon as a bell rings.

One thread reads the news for all pages. A page that comes back says which event it saw last, and gets what it missed
from the log.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from conch.app import App
from conch.bells.waits import FOREVER, Pause, wait_for
from conch.calls import Call
from conch.doors.web.views import entry_key, entry_view
from conch.errors import Cancelled, ConchError, StoreError
from conch.host import processes
from conch.host.processes import Process
from conch.lean import Any, NamedTuple
from conch.notices.feed import find_end, read_news, watched_channels
from conch.notices.timeline import Place
from conch.tools.replies import Object

_LINGER_SECONDS = 0.005  # news that arrives within this time is sent together
_GLANCE_SECONDS = 5.0  # a process that ends, and a lease that runs out, ring no bell
_PING_SECONDS = 15.0
_MOST_QUEUED = 2_000  # events; a page that falls further behind is cut off, and comes back for the rest
_RETRY_SECONDS = 1.0


class _Event(NamedTuple):
    """One event for a page. `key` names an entry, so that no page gets it twice."""

    kind: str
    data: Object
    mark: Place
    key: str = ""

    def spell(self) -> bytes:
        return f"event: {self.kind}\nid: {self.mark}\ndata: {json.dumps(self.data)}\n\n".encode()


class Hub:
    """Reads the news while pages are open, and gives it to each page's queue."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pages: set[asyncio.Queue[_Event | None]] = set()
        self._reader: _Reader | None = None
        self._is_closed = False

    def count(self) -> int:
        """How many pages are open."""
        return len(self._pages)

    async def open(self) -> tuple[asyncio.Queue[_Event | None], Place | None]:
        """A new page's queue, and the mark after which it gets everything; None if the store does not answer."""
        self._loop = asyncio.get_running_loop()
        queue: asyncio.Queue[_Event | None] = asyncio.Queue()
        self._pages.add(queue)
        if self._is_closed:
            queue.put_nowait(None)
        if self._reader is None:
            self._reader = _Reader(self._app, self._publish)
            self._reader.start()
        reader = self._reader
        try:
            await asyncio.to_thread(reader.ready.wait, _GLANCE_SECONDS)
        except BaseException:
            self.leave(queue)
            raise
        return queue, reader.mark if reader.ready.is_set() else None

    def leave(self, queue: asyncio.Queue[_Event | None]) -> None:
        self._pages.discard(queue)
        if not self._pages and self._reader is not None:
            self._reader.stop()
            self._reader = None

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self._is_closed = True
        for queue in self._pages:
            queue.put_nowait(None)
        if self._reader is not None:
            self._reader.stop()

    def _publish(self, events: list[_Event]) -> None:
        """Called by the reader's thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._spread, events)

    def _spread(self, events: list[_Event]) -> None:
        for queue in self._pages:
            if queue.qsize() > _MOST_QUEUED:
                queue.put_nowait(None)
            else:
                for event in events:
                    queue.put_nowait(event)


class _Reader(threading.Thread):
    """Waits for the bells and reads what is new."""

    def __init__(self, app: App, publish: Callable[[list[_Event]], None]) -> None:
        super().__init__(name="conch-news", daemon=True)
        self._app = app
        self._publish = publish
        self._call = Call()
        self._sent: set[str] = set()  # keys of entries above the mark
        self._stores = len(app.store.replacements)
        self._glance = _Glance(app)
        self._sleeps_until = 0.0
        self.mark = Place()
        self.ready = threading.Event()

    def stop(self) -> None:
        self._call.cancel()

    def run(self) -> None:
        with suppress(Cancelled):
            while True:
                try:
                    self._listen()
                except ConchError as trouble:
                    if isinstance(trouble, Cancelled):
                        raise
                    self._call.check()
                    time.sleep(_RETRY_SECONDS)

    def _listen(self) -> None:
        """Read until there are other rooms or topics to listen to."""
        app = self._app
        if not self.ready.is_set():
            self.mark = find_end(app.store)
            self.ready.set()
        channels = watched_channels(app.store)
        wait_for(
            app.bell,
            sorted(channels),
            lambda pause: self._look(pause, channels),
            FOREVER,
            self._call,
            linger=_LINGER_SECONDS,
        )

    def _look(self, pause: Pause, channels: frozenset[str]) -> bool | None:
        began, pause.seconds = time.monotonic(), min(pause.seconds, _GLANCE_SECONDS)
        was_rung, self._sleeps_until = began < self._sleeps_until, began + pause.seconds
        if len(self._app.store.replacements) != self._stores:
            self._start_again()
        has_news = self._read()
        is_other = watched_channels(self._app.store) != channels  # a room or a topic was opened or closed
        is_silent = was_rung and not has_news  # such as a question that was cancelled, or a topic with a new name
        if self._glance.has_changed(began, has_news or was_rung) or is_other or is_silent:
            self._publish([_Event("changed", {}, self.mark)])
        return is_other or None

    def _start_again(self) -> None:
        self._stores = len(self._app.store.replacements)
        self.mark, self._sent = find_end(self._app.store), set()
        self._publish([_Event("hello", {"reset": True, "cursor": str(self.mark)}, self.mark)])

    def _read(self) -> bool:
        """Publish what is new. Returns whether there was anything."""
        reached = mark = self.mark
        found: set[str] = set()
        has_news = False
        while True:
            news = read_news(self._app.store, reached, mark)
            if news is None:
                self._start_again()
                return True
            fresh = [entry for entry in news.entries if entry_key(entry) not in self._sent]
            found |= {entry_key(entry) for entry in news.entries}
            reached, mark = news.reached, news.mark
            if fresh:
                has_news = True
                self._publish([_Event("entry", entry_view(each), each.place, entry_key(each)) for each in fresh])
            if not news.has_more:
                break
        self.mark, self._sent = mark, found if reached != mark else set()
        return has_news


class _Glance:
    """Notices what no bell announces: a process has ended, a lease or a claim has run out."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._processes: dict[str, Process | None] = {}
        self._deadlines: list[int] = []
        self._state: tuple[Any, ...] | None = None
        self._is_old = True
        self._due = 0.0

    def has_changed(self, now: float, may_be_old: bool) -> bool:
        """Whether pages must look again. It asks the store only after something happened there."""
        self._is_old = self._is_old or may_be_old
        if now < self._due:
            return False
        self._due = now + _GLANCE_SECONDS - 0.1
        is_first = self._state is None
        if self._is_old:
            self._load()
        state = self._derive()
        has_changed, self._state = state != self._state and not is_first, state
        return has_changed

    def _load(self) -> None:
        with suppress(StoreError):
            rooms = [each for each in self._app.rooms.all_rooms() if each.room.state != "closed"]
            self._processes = {member.agent_id: member.process for each in rooms for member in each.members}
            ends = [each.room.lease_expires_at or each.room.claim_expires_at for each in rooms]
            self._deadlines = [end for end in ends if end is not None]
            self._is_old = False

    def _derive(self) -> tuple[Any, ...]:
        now = time.time_ns() // 1_000
        gone = frozenset(agent for agent, process in self._processes.items() if processes.check(process) == "gone")
        return gone, sum(end <= now for end in self._deadlines)


async def events(hub: Hub, app: App, cursor: Place | None, hello: Object) -> AsyncIterator[bytes]:
    """The bytes of one page's stream: what it missed since its cursor, then what happens."""
    queue, mark = await hub.open()
    try:
        if mark is None:
            return  # the page reconnects, and then sees what is wrong
        replayed: set[str] = set()
        first = cursor or mark
        is_reset = cursor is not None and await asyncio.to_thread(read_news, app.store, cursor, cursor) is None
        if is_reset:
            first, hello = mark, {**hello, "reset": True}
        yield _Event("hello", {**hello, "cursor": str(first)}, first).spell()
        if cursor is not None and not is_reset:
            async for missed in _replay(app, cursor):
                replayed.add(missed.key)
                yield missed.spell()
        while True:
            try:
                event = await asyncio.wait_for(queue.get(), _PING_SECONDS)
            except TimeoutError:
                replayed.clear()  # what the queue had at the beginning is long gone
                yield b"event: ping\ndata: {}\n\n"
                continue
            if event is None:
                return
            if not event.key or event.key not in replayed:
                yield event.spell()
    finally:
        hub.leave(queue)


async def _replay(app: App, cursor: Place) -> AsyncIterator[_Event]:
    reached = mark = cursor
    while True:
        news = await asyncio.to_thread(read_news, app.store, reached, mark)
        if news is None:
            return
        reached, mark = news.reached, news.mark
        for entry in news.entries:
            yield _Event("entry", entry_view(entry), entry.place, entry_key(entry))
        if not news.has_more:
            return
