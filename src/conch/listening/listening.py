"""Listening: one wait for everything that may concern an agent.

It ends with the stick if the stick was offered to the agent, when the agent may take over, or with the news. An agent
has one listener at a time, because two would share what is new between them.

`listen` and the hooks of a harness share the marks (see `notices/delivery.py`), so that each shows only what the other
has not. They never move a cursor: `sync` still brings every message. Mail leaves out what was shown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from conch.agents.records import Caller, process_columns, recorded_process
from conch.bells.base import Bell, agent_channel, room_channel, seat_channel, topic_channel
from conch.bells.waits import Pause, wait_for
from conch.bus.stream import Message, to_message
from conch.calls import Call
from conch.clock import MILLISECOND, to_iso
from conch.config import Settings
from conch.errors import Advice, DuplicateListener, StoreError, UnknownMember
from conch.host import processes
from conch.ids import new_id
from conch.lean import Any, NamedTuple, Protocol
from conch.notices.events import ProtocolEvent, to_protocol_event
from conch.rooms.presence import renewal_ms
from conch.storage.base import Row, Store, Transaction

_FEW = 20
_MOST_ROOMS = 20
_MISSED_RENEWALS = 3  # after this many, a listener counts as dead


class News(NamedTuple):
    """What to show to an agent now. All messages and questions are of one topic."""

    agent_id: str
    messages: list[Message]
    """To the agent, or to nobody in particular."""
    questions: list[Message]
    """Those that it could answer."""
    notices: list[ProtocolEvent]
    has_more: bool
    store: int

    def __bool__(self) -> bool:
        return bool(self.messages or self.questions or self.notices)

    @property
    def talk(self) -> list[Message]:
        """Messages and questions, oldest first."""
        return sorted(self.messages + self.questions, key=lambda each: each.seq)

    def cut(self, talk: int, notices: int) -> News:
        """The same with only the first of these; the others are not shown yet."""
        if talk == len(self.messages) + len(self.questions) and notices == len(self.notices):
            return self
        kept = {each.seq for each in self.talk[:talk]}
        return self._replace(
            messages=[each for each in self.messages if each.seq in kept],
            questions=[each for each in self.questions if each.seq in kept],
            notices=self.notices[:notices],
            has_more=True,
        )


def _find_news(store: Store, agent_id: str, limit: int = _FEW) -> News:
    """What is new for an agent now."""
    number = len(store.replacements)
    given = {"agent_id": agent_id, "limit": limit + 1}
    rows = store.glance("news_messages", **given)
    notices = store.glance("news_notices", **given)
    found = [row for row in rows[:limit] if row["topic_id"] == rows[0]["topic_id"]]
    return News(
        agent_id,
        [_message(row) for row in found if not row["is_open"]],
        [_message(row) for row in found if row["is_open"]],
        [to_protocol_event(row) for row in notices[:limit]],
        has_more=len(found) < len(rows) or len(notices) > limit,
        store=number,
    )


def _message(row: Row) -> Message:
    return to_message({name: value for name, value in row.items() if name != "is_open"})


def mark_shown(store: Store, news: News) -> None:
    """Note that the agent has got this. Call it once it was really printed or sent."""
    last = news.talk[-1].seq if news.talk else 0
    _mark(store, news, last, ("set_mark", "mark_messages_shown", "mark_notices_shown"))


def mark_unshown(store: Store, news: News) -> None:
    """Undo `mark_shown`, because the agent never read it."""
    before = news.talk[0].seq - 1 if news.talk else 0
    _mark(store, news, before, ("set_mark_back", "mark_messages_unshown", "mark_notices_unshown"))


def _mark(store: Store, news: News, seq: int, statements: tuple[str, str, str]) -> None:
    set_mark, mark_messages, mark_notices = statements
    with store.write(news.agent_id) as tx:
        if news.store != len(store.replacements):
            return  # another store has other messages under the same numbers
        if news.talk:
            topic_id, given = news.talk[0].topic_id, {"agent_id": news.agent_id}
            tx.run(set_mark, kind="all", place=topic_id, through=seq, now=tx.now, **given)
            tx.run(mark_messages, topic_id=topic_id, seq=seq, **given)
        if news.notices:
            tx.run(mark_notices, ids=[event.event_id for event in news.notices], now=tx.now)


# -- waiting for it


class Heard(NamedTuple):
    """Why a listener stopped: a turn or news, or neither if the time was up."""

    wait: Any = None
    """A `Wait` of the turns, which this package does not know."""
    news: News | None = None


class _Claims(Protocol):
    def look_for_offer(self, caller: Caller, room_id: str, call: Call, pause: Pause) -> Any:
        """A `Wait` if the stick was offered to the caller or the caller may take over, otherwise None."""


class Listening:
    def __init__(self, store: Store, bell: Bell, claims: _Claims, settings: Settings) -> None:
        self._store = store
        self._bell = bell
        self._claims = claims
        self._settings = settings
        self._renewal_ms = renewal_ms(settings)

    def listen(self, caller: Caller, seconds: float, call: Call, *, takes_turns: bool = True) -> Heard:
        """Wait for the first of: an offered stick, a takeover, news. DuplicateListener if the agent already listens."""
        with self._store.read() as tx:
            rooms, topics = _places(tx, caller.agent_id, takes_turns)
        channels = [*map(room_channel, rooms), *map(topic_channel, topics), agent_channel(caller.agent_id)]
        seat = seat_channel(rooms[0], caller.agent_id) if rooms else None
        polls = (self._settings.poll_initial_ms / 1_000, self._settings.poll_max_ms / 1_000)
        renewal = self._renewal_ms / 1_000
        with self._registered(caller.agent_id) as registration:

            def look(pause: Pause) -> Heard | None:
                registration.renew()
                return self._look(caller, rooms, call, pause)

            found = wait_for(self._bell, channels, look, seconds, call, announce=seat, polls=polls, renewal=renewal)
        return found or Heard()

    def _look(self, caller: Caller, rooms: list[str], call: Call, pause: Pause) -> Heard | None:
        call.check()
        for room_id in rooms:
            wait = self._claims.look_for_offer(caller, room_id, call, pause)
            if wait is not None and not self._was_told(caller, wait):
                return Heard(wait=wait)
        news = _find_news(self._store, caller.agent_id)
        return Heard(news=news) if news else None

    def _was_told(self, caller: Caller, wait: Any) -> bool:
        """Whether a listener was told that it may take over this turn. It may have decided against it."""
        if wait.status != "takeover_available":
            return False
        given = {"agent_id": caller.agent_id, "kind": "takeover", "place": wait.snapshot.room.room_id}
        return any(row["through"] >= wait.snapshot.room.turn_id for row in self._store.glance("find_mark", **given))

    def note_takeover(self, caller: Caller, wait: Any) -> None:
        """Note that the agent was told of a takeover."""
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


def _places(tx: Transaction, agent_id: str, takes_turns: bool) -> tuple[list[str], list[str]]:
    """The rooms, the newest first, and the topics that an agent listens to."""
    rooms = tx.all("rooms_of_agent", agent_id=agent_id, limit=_MOST_ROOMS) if takes_turns else []
    topics = tx.all("topics_of_agent", agent_id=agent_id)
    if not rooms and not topics:
        raise UnknownMember(
            "You are in no room and on no topic, so there is nothing to listen to.", Advice("join_room")
        )
    return [row["room_id"] for row in rooms], [row["topic_id"] for row in topics]


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
            self._run(tx, "put_listener", **process_columns(own))
            tx.run("start_hearing", agent_id=agent_id, now=tx.now)
        self._note_renewal()

    def renew(self) -> None:
        """Stay the listener. DuplicateListener if another one has replaced it, because it seemed to be dead."""
        if time.monotonic() < self._renew_at:
            return
        with self._store.write(self._agent_id) as tx:
            if not self._run(tx, "renew_listener"):
                _refuse_second(tx, self._agent_id)
        self._note_renewal()

    def end(self) -> None:
        with suppress(StoreError), self._store.write(self._agent_id) as tx:  # if this fails, it expires
            tx.run("drop_listener", agent_id=self._agent_id, listener_id=self._listener_id)

    def _run(self, tx: Transaction, statement: str, **given: object) -> int:
        expires_at = tx.now + _MISSED_RENEWALS * self._renewal_ms * MILLISECOND
        about = {"agent_id": self._agent_id, "listener_id": self._listener_id, "now": tx.now, "expires_at": expires_at}
        return tx.run(statement, **about, **given)

    def _note_renewal(self) -> None:
        self._renew_at = time.monotonic() + self._renewal_ms / 1_000


def _refuse_second(tx: Transaction, agent_id: str) -> None:
    row = tx.one("find_listener", agent_id=agent_id)
    if row is None or row["expires_at"] <= tx.now or processes.check(recorded_process(row)) == "gone":
        return
    since, where = to_iso(row["started_at"]), f" in process {row['pid']}" if row["pid"] else ""
    message = (
        f"You already listen{where}, since {since}. A second listener would take away what the first one waits for. "
        "Wait for the first one, or stop it."
    )
    raise DuplicateListener(message, since=since, pid=row["pid"])
