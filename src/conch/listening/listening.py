"""Listening: one wait for everything that may concern an agent.

It ends with the stick if the stick was offered to the agent, when the agent may take over, or with the news. An agent
has one listener at a time, because two would share what is new between them.

`notices/delivery.py` decides what is new, and what was shown already.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from conch.agents.records import Caller, process_columns, recorded_process
from conch.bells.base import Bell, agent_channel, room_channel, seat_channel, topic_channel
from conch.bells.waits import Pause, wait_for
from conch.calls import Call
from conch.clock import MILLISECOND, to_iso
from conch.config import Settings
from conch.errors import Advice, DuplicateListener, StoreError, UnknownMember
from conch.host import processes
from conch.ids import new_id
from conch.lean import Any, NamedTuple, Protocol
from conch.rooms.presence import renewal_ms
from conch.rooms.waits import WaitNote
from conch.storage.base import Row, Store, Transaction

_FEW = 20
_MOST_ROOMS = 20
_MISSED_RENEWALS = 3  # after this many, a listener counts as dead


class Heard(NamedTuple):
    """Why a listener stopped: a turn or news, or neither if the time was up."""

    wait: Any = None
    """A `Wait` of the turns, which this package does not know."""
    news: Any = None
    """`News` of the notices, which this package does not know either."""


class _Claims(Protocol):
    def note_wait(self, caller: Caller, room_id: str) -> WaitNote:
        """Where to note that the caller waits."""

    def look_for_offer(self, caller: Caller, room_id: str, call: Call, pause: Pause) -> Any:
        """A `Wait` if the stick was offered to the caller or the caller may take over, otherwise None."""


class Listening:
    def __init__(
        self, store: Store, bell: Bell, claims: _Claims, find_news: Callable[[str, int], Any], settings: Settings
    ) -> None:
        """`find_news` gets an agent_id and a limit, and returns what is new for that agent."""
        self._store = store
        self._bell = bell
        self._claims = claims
        self._find_news = find_news
        self._settings = settings
        self._renewal_ms = renewal_ms(settings)

    def listen(self, caller: Caller, seconds: float, call: Call, *, takes_turns: bool = True) -> Heard:
        """Wait for the first of: an offered stick, a takeover, news. DuplicateListener if it is already listening.

        UnknownMember once the caller's process has ended, because nobody would read the news.
        """
        _require_alive(caller)
        with self._store.read() as tx:
            rooms, topics = _places(tx, caller.agent_id, takes_turns)
        if not rooms and not topics:
            message = "You are in no room and on no topic, so there is nothing to listen to."
            raise UnknownMember(message, Advice("join_room"))
        channels = _channels(caller.agent_id, rooms, topics)
        seat = seat_channel(rooms[0], caller.agent_id) if rooms else None
        polls = (self._settings.poll_initial_ms / 1_000, self._settings.poll_max_ms / 1_000)
        renewal = self._renewal_ms / 1_000
        note = self._claims.note_wait(caller, rooms[0]) if rooms else None

        def look(pause: Pause) -> Heard | None:
            registration.renew()
            heard = self._look(caller, rooms, call, pause)
            if heard is None and note and not pause.is_last:
                note.begin()
            return heard

        with self._registered(caller.agent_id) as registration:
            try:
                found = wait_for(self._bell, channels, look, seconds, call, announce=seat, polls=polls, renewal=renewal)
            finally:
                if note:
                    note.end()
        return found or Heard()

    def _look(self, caller: Caller, rooms: list[str], call: Call, pause: Pause) -> Heard | None:
        call.check()
        _require_alive(caller)
        for room_id in rooms:
            wait = self._claims.look_for_offer(caller, room_id, call, pause)
            if wait is not None and not self._was_reported(caller, wait):
                return Heard(wait=wait)
        news = self._find_news(caller.agent_id, _FEW)
        return Heard(news=news) if news else None

    def _was_reported(self, caller: Caller, wait: Any) -> bool:
        """Whether a listener has already reported this takeover. Its agent may have decided against it."""
        if wait.status != "takeover_available":
            return False
        given = {"agent_id": caller.agent_id, "kind": "takeover", "place": wait.snapshot.room.room_id}
        return any(row["through"] >= wait.snapshot.room.turn_id for row in self._store.glance("find_mark", **given))

    def find_free_stick(self, caller: Caller) -> str | None:
        """A room of the caller whose stick is free. Listening does not claim it: the agent may only want the news."""
        return next(
            (row["room_id"] for row in self._store.glance("free_room_of_agent", agent_id=caller.agent_id)), None
        )

    def channels(self, agent_id: str) -> list[str]:
        """The bells that ring when something may be new for an agent."""
        with self._store.read() as tx:
            return _channels(agent_id, *_places(tx, agent_id, takes_turns=True))

    def note_takeover(self, caller: Caller, wait: Any) -> None:
        """Note that the agent knows of a takeover."""
        room = wait.snapshot.room
        given = {"agent_id": caller.agent_id, "kind": "takeover", "place": room.room_id, "through": room.turn_id}
        with self._store.write(caller.agent_id) as tx:
            tx.run("set_mark", now=tx.now, **given)

    @contextmanager
    def _registered(self, agent_id: str) -> Iterator[_Registration]:
        """Be the agent's one listener."""
        registration = _Registration(self._store, agent_id, self._renewal_ms)
        try:
            yield registration
        finally:
            registration.end()


def _require_alive(caller: Caller) -> None:
    if caller.has_ended:
        message = "The process that you joined with is gone."
        raise UnknownMember(message, Advice("come_back"), agent_id=caller.agent_id)


def _places(tx: Transaction, agent_id: str, takes_turns: bool) -> tuple[list[str], list[str]]:
    """The rooms, the newest first, and the topics that an agent listens to."""
    rooms = tx.all("rooms_of_agent", agent_id=agent_id, limit=_MOST_ROOMS) if takes_turns else []
    topics = tx.all("topics_of_agent", agent_id=agent_id)
    return [row["room_id"] for row in rooms], [row["topic_id"] for row in topics]


def _channels(agent_id: str, rooms: list[str], topics: list[str]) -> list[str]:
    return [*map(room_channel, rooms), *map(topic_channel, topics), agent_channel(agent_id)]


class _Registration:
    """The one listener of an agent, in the store."""

    def __init__(self, store: Store, agent_id: str, renewal_ms: int) -> None:
        self._store = store
        self._agent_id = agent_id
        self._renewal_ms = renewal_ms
        self._listener_id = new_id("listener")
        own = processes.look_up(os.getpid())
        with store.write(agent_id) as tx:
            _refuse_second(tx, agent_id)
            tx.run("put_listener", **self._columns(tx), **process_columns(own))
            tx.run("start_hearing", agent_id=agent_id, now=tx.now)
        self._note_renewal()

    def renew(self) -> None:
        """Remain the listener. DuplicateListener if another one has replaced it, because it seemed to be dead."""
        if time.monotonic() < self._renew_at:
            return
        with self._store.write(self._agent_id) as tx:
            if not tx.count("renew_listener", **self._columns(tx)):
                _refuse_second(tx, self._agent_id)
        self._note_renewal()

    def end(self) -> None:
        with suppress(StoreError), self._store.write(self._agent_id) as tx:  # if this fails, it expires
            tx.run("drop_listener", agent_id=self._agent_id, listener_id=self._listener_id)

    def _columns(self, tx: Transaction) -> Row:
        expires_at = tx.now + _MISSED_RENEWALS * self._renewal_ms * MILLISECOND
        return {"agent_id": self._agent_id, "listener_id": self._listener_id, "now": tx.now, "expires_at": expires_at}

    def _note_renewal(self) -> None:
        self._renew_at = time.monotonic() + self._renewal_ms / 1_000


def _refuse_second(tx: Transaction, agent_id: str) -> None:
    row = tx.one("find_listener", agent_id=agent_id)
    if row is None or row["expires_at"] <= tx.now or processes.check(recorded_process(row)) == "gone":
        return
    since, where = to_iso(row["started_at"]), f" in process {row['pid']}" if row["pid"] else ""
    message = (
        f"You are already listening{where}, since {since}. A second listener would take away what the "
        "first one waits for. Wait for the first one, or stop it."
    )
    raise DuplicateListener(message, since=since, pid=row["pid"])
