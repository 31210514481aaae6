"""The event stream: everything that happens, to every open page, as soon as a bell rings.

One thread reads the news for all pages. The store rings for every change. Most changes are news; others, such as a wait
that begins, leave nothing to read. So every ring is also an event of its own, `changed`: the pages look again.

A page that comes back says which event it saw last, and gets what it missed from the log.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from conch.app import App
from conch.bells.base import change_channels
from conch.bells.waits import FOREVER, Pause, wait_for
from conch.calls import Call
from conch.doors.web.views import entry_key, entry_view
from conch.errors import Cancelled, ConchError
from conch.lean import NamedTuple
from conch.notices.feed import find_end, read_news
from conch.notices.timeline import Place
from conch.overseeing.lapses import Ends, Lapses, foresee_lapses
from conch.tools.replies import Object

_LINGER_SECONDS = 0.005  # news that arrives within this time is sent together
_READY_SECONDS = 5.0  # how long a new page waits for the store
_LOAD_SECONDS = 0.25  # between two readings of what no bell announces
_LOAD_SHARE = 20  # a reading that took long is followed by a pause this many times as long
_PING_SECONDS = 15.0
_MOST_QUEUED = 2_000  # events; a page that falls further behind is cut off, and comes back for the rest
_RETRY_SECONDS = 1.0
_LACKS = (OSError, RuntimeError, MemoryError)  # no descriptor, no thread or no memory is left
MOST_PAGES = 100


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
        self.ends = Ends()
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
        try:
            reader = self._start_reader()
            await asyncio.to_thread(reader.ready.wait, _READY_SECONDS)
        except _LACKS:
            return queue, None
        except BaseException:
            self.leave(queue)
            raise
        return queue, reader.mark if reader.ready.is_set() else None

    def _start_reader(self) -> _Reader:
        """The reader. Until one can start, there is none."""
        if self._reader is None:
            reader = _Reader(self._app, self._publish, self.ends)
            reader.start()
            self._reader = reader
        return self._reader

    def leave(self, queue: asyncio.Queue[_Event | None]) -> None:
        self._pages.discard(queue)
        if not self._pages and self._reader is not None:
            self._reader.stop()
            self._reader = None

    def announce(self) -> None:
        """Tell every page to look again. Any thread may call this."""
        reader = self._reader
        if reader is not None:
            self._publish([_Event("changed", {}, reader.mark)])

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self._is_closed = True
        for queue in self._pages:
            queue.put_nowait(None)
        if self._reader is not None:
            self._reader.stop()

    def _publish(self, events: list[_Event]) -> None:
        """Called by the reader's thread, and by those that announce something."""
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

    def __init__(self, app: App, publish: Callable[[list[_Event]], None], ends: Ends) -> None:
        super().__init__(name="conch-news", daemon=True)
        self._app = app
        self._publish = publish
        self._call = Call()
        self._sent: set[str] = set()  # keys of entries above the mark
        self._stores = len(app.store.replacements)
        self._ends = ends
        self._lapses = _Lapses(app, ends)
        self._was_deaf = False  # between two ears, a ring may have been missed
        self.mark = Place()
        self.ready = threading.Event()

    def stop(self) -> None:
        self._call.cancel()

    def run(self) -> None:
        with suppress(Cancelled):
            while True:
                try:
                    self._listen()
                except (ConchError, *_LACKS) as trouble:
                    if isinstance(trouble, Cancelled):
                        raise
                    self._call.check()
                    time.sleep(_RETRY_SECONDS)

    def _listen(self) -> None:
        app, self._was_deaf = self._app, self.ready.is_set()
        if not self._was_deaf:
            self.mark = find_end(app.store)
        wait_for(app.bell, change_channels(), self._look, FOREVER, self._call, linger=_LINGER_SECONDS)

    def _look(self, pause: Pause) -> None:
        may_be_other = pause.rung or self._was_deaf
        if len(self._app.store.replacements) != self._stores:
            self._start_again()
        has_news = self._read()  # before the pages look: news that comes later rings again
        has_lapsed = self._lapses.notice(pause, may_be_other or has_news)
        self.ready.set()  # only now: from here on, every change is heard and the end of every process is seen
        if has_lapsed or may_be_other or has_news:
            self._publish([_Event("changed", {}, self.mark)])
        self._was_deaf = False

    def _start_again(self) -> None:
        self._stores = len(self._app.store.replacements)
        self.mark, self._sent, self._lapses = find_end(self._app.store), set(), _Lapses(self._app, self._ends)
        self._publish([_Event("hello", {"reset": True, "cursor": str(self.mark)}, self.mark)])

    def _read(self) -> bool:
        """Publish what is new. Returns whether there was anything: a bell can be deaf, and then nothing rings."""
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


class _Lapses:
    """Notices what no bell announces: a process has ended, or a time has run out."""

    def __init__(self, app: App, ends: Ends) -> None:
        self._app = app
        self._ends = ends
        self._ends.watch(())
        self._known = Lapses((), None)
        self._lapse_at = FOREVER
        self._load_at = 0.0
        self._is_old = True

    def notice(self, pause: Pause, may_be_old: bool) -> bool:
        """Whether pages must look again. Also makes the pause end when a process ends or a time runs out."""
        now = time.monotonic()
        has_lapsed = now >= self._lapse_at
        if pause.ended:
            with self._app.store.read() as tx:
                self._ends.notice(tx.now)
        self._is_old = self._is_old or may_be_old or has_lapsed or pause.ended
        if self._is_old and now >= self._load_at:
            self._load(now)
        pause.processes = self._known.processes
        soonest = min(self._lapse_at, self._load_at) if self._is_old else self._lapse_at
        pause.seconds = min(pause.seconds, max(0.0, soonest - now))
        return has_lapsed or pause.ended

    def _load(self, now: float) -> None:
        self._known = foresee_lapses(self._app.store, self._app.settings.stale_minutes)
        self._ends.watch(self._known.processes)
        took = time.monotonic() - now
        seconds = self._known.seconds
        self._lapse_at = FOREVER if seconds is None else now + took + seconds
        self._load_at, self._is_old = now + max(_LOAD_SECONDS, _LOAD_SHARE * took), False


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
    except (ConchError, *_LACKS):
        return  # the page reconnects, and then sees what is wrong
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
