"""Sending messages, and receiving all of them in order, at least once.

A cursor moves only after the reply with the messages has gone out: the door then calls `settle`. If anything fails
before that, the next `sync` returns the same messages again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial

from conch.bells.base import Bell
from conch.bells.waits import Pause
from conch.bus.drafts import Draft
from conch.bus.peers import (
    NO_PEER,
    PRESENCE_INTERVAL,
    Called,
    Peer,
    Standing,
    called_queries,
    check_seq,
    free_name,
    load_standing,
    system_peer,
    with_names,
)
from conch.bus.stream import (
    Message,
    Sent,
    addressees_of,
    append_messages,
    expect_messages,
    find_addressees,
    to_message,
    wait_on_topic,
)
from conch.bus.topics import find_topic, require_open
from conch.calls import Call, retry_interrupted
from conch.clock import SECOND
from conch.config import Settings
from conch.errors import StoreError
from conch.lean import TYPE_CHECKING, NamedTuple
from conch.storage.base import Afterwards, Query, Reader, Row, Store, Transaction

if TYPE_CHECKING:
    from conch.bus.posting import Posted

_PAGE = 500
_OTHERS = "messages_of_others_after"
_MOST_CHARS = 400_000  # of messages read at once; a single longer message is read alone
_STEP = 50  # messages read per query
_MOST_SILENCES = 1_000  # peers in `_silences`


class _Wanted(NamedTuple):
    """How much a reader wants at once."""

    max_items: int
    max_chars: int
    include_self: bool


class Page(NamedTuple):
    """The unread messages of a peer that fit into one reply."""

    peer: Peer
    standing: Standing
    received: list[Message]
    has_more: bool
    has_news: bool = True
    """There is an unread message other than acknowledgements (`ack`)."""
    called: dict[str, Called] = {}
    """The addressees of the messages, each under the text that the messages call it by."""

    def cut(self, count: int) -> Page:
        """The page with only its first messages; the others stay unread."""
        if count == len(self.received):
            return self
        return self._replace(received=self.received[:count], has_more=True)

    def sent_by_others(self) -> tuple[tuple[int, str], ...]:
        """The numbers of the messages that others sent, each with its message_id if it is to the agent that reads."""
        agent_id = self.peer.agent_id
        names = {agent_id, *(text for text, each in self.called.items() if each.agent_id == agent_id)}
        return tuple(
            [
                (each.seq, "" if each.metadata_json is None or names.isdisjoint(each.addressees) else each.message_id)
                for each in self.received
                if each.sender_agent_id != agent_id
            ]
        )

    @property
    def last_seq(self) -> int:
        return self.received[-1].seq if self.received else self.standing.last_seq


class Synced(NamedTuple):
    status: str
    page: Page
    sent: list[Sent]
    is_touched: bool
    """The call has already written the peer's presence."""
    trouble: StoreError | None = None
    """The outbox was stored, but then the store failed. So what is unread is not known."""

    def moves(self, advance: bool) -> bool:
        """Whether the reply moves the cursor, which it does only if it may `advance`."""
        return advance and self.page.last_seq != self.page.standing.last_seq

    def is_settled(self, advance: bool) -> bool:
        """Whether there is nothing left to write once the reply has gone out."""
        return not self.moves(advance) and (self.is_touched or self.page.standing.is_fresh)


class Messages:
    def __init__(self, store: Store, bell: Bell, settings: Settings) -> None:
        self._store = store
        self._bell = bell
        self._settings = settings
        # For each peer: its cursor, and a later seq. All messages between the two are the peer's own, and stay so.
        # So they need not be read again: a peer with a long monologue would otherwise read all of it at every call.
        self._silences: dict[int | None, tuple[int, int]] = {}
        self._own_peers: dict[tuple[str, str], int] = {}  # of agents, by topic: probably still the same
        self._stores = 0
        self._renewed: dict[int, float] = {}  # by peer: when its presence travelled with a message

    def sync(
        self,
        peer: Peer,
        outbox: list[Draft],
        *,
        max_items: int = 20,
        include_self: bool = False,
        max_chars: int = _MOST_CHARS,
        wait_seconds: float = 0,
        ack_through: int | None = None,
        call: Call | None = None,
    ) -> Synced:
        """Send the outbox, then return unread messages, waiting up to `wait_seconds` for one.

        It returns at most `max_items` messages of about `max_chars` characters together, but at least one.
        """
        call = call or Call()
        call.check()
        wanted = _Wanted(max_items, min(max_chars, _MOST_CHARS), include_self)
        if not outbox and ack_through is None:
            with self._renewing(peer):
                return Synced(*self._receive(peer, None, wanted, wait_seconds, call), [], False)
        peer, standing, sent, reader = self._send(peer, outbox, ack_through, wanted)
        receive = partial(self._receive, peer, standing, wanted, wait_seconds, call, reader)
        if not sent:
            return Synced(*receive(), sent, standing.is_fresh)
        try:
            # Retry only the receiving half: repeating the whole call would send twice.
            return Synced(*retry_interrupted(receive), sent, standing.is_fresh)
        except StoreError as trouble:
            # The messages are stored. An error would make the caller send them again, so report them as sent, and
            # let `has_more` bring the caller back for the rest.
            return Synced("empty", Page(peer, standing, [], has_more=True), sent, standing.is_fresh, trouble)

    def _receive(
        self,
        peer: Peer,
        standing: Standing | None,
        wanted: _Wanted,
        wait_seconds: float,
        call: Call,
        reader: Reader | None = None,
    ) -> tuple[str, Page]:
        def look(pause: Pause) -> Page | None:
            page = self._unread(peer, wanted)
            return page if pause.is_last or _is_worth_waking(page) else None

        page, waits = self._unread(peer, wanted, standing, reader), wait_seconds > 0
        if waits and not _is_worth_waking(page):
            self._show_presence(page)
            page = wait_on_topic(self._bell, peer.topic_id, look, wait_seconds, call, self._settings) or page
        is_late = waits and not _is_worth_waking(page)
        return "ready" if page.received else "timeout" if is_late else "empty", page

    def _is_due(self, peer_id: int) -> bool:
        """Whether presence may have to be written again. If so, note that it is written now."""
        last, now = self._renewed.get(peer_id, 0.0), time.monotonic()
        if now - last < PRESENCE_INTERVAL / SECOND:
            return False
        self._renewed[peer_id] = now
        return True

    def _renewing(self, peer: Peer) -> AbstractContextManager[None]:
        """Let presence travel with the first read, if that saves time. Otherwise `settle` records it."""
        own: Row = {"topic_id": peer.topic_id, "agent_id": peer.agent_id, "peer_id": peer.peer_id}
        return self._store.beforehand("renew_peer", interval=PRESENCE_INTERVAL, **own)

    def _show_presence(self, page: Page) -> None:
        """Record presence before a wait, which may outlast the presence window. A failure does not stop the wait."""
        if page.standing.is_fresh:
            return
        with suppress(StoreError), self._store.write(page.peer.topic_id) as tx:
            self._touch(tx, page.peer, page.standing, page.standing.last_seq)

    def send(self, peer: Peer, outbox: list[Draft]) -> list[Sent]:
        return self._send(peer, outbox, None)[2]

    def _send(
        self, peer: Peer, outbox: list[Draft], ack_through: int | None, wanted: _Wanted | None = None
    ) -> tuple[Peer, Standing, list[Sent], Reader | None]:
        """Returns the peer, its standing after sending, what was sent, and a reader for what is `wanted`.

        The reader is None if a new transaction has to read that.
        """
        posted = self._post(peer, outbox[0], wanted) if len(outbox) == 1 and ack_through is None else None
        if posted is None:
            peer, standing, sent, reader = self._store.briefly(partial(self._append, peer, outbox, ack_through, wanted))
        else:
            peer, standing, reader = posted.peer, posted.standing, posted.reader
            sent = [Sent(to_message(posted.message), False)]
        after = standing._replace(highest_seq=max([standing.highest_seq, *(each.message.seq for each in sent)]))
        if self._silent_through(peer, standing) == standing.highest_seq:
            self._note_silence(peer, after)
        return peer, after, sent, reader

    def _append(
        self, peer: Peer, outbox: list[Draft], ack_through: int | None, wanted: _Wanted | None
    ) -> tuple[Peer, Standing, list[Sent], Reader | None]:
        store = self._store_number
        with self._store.write(peer.topic_id) as tx:
            if self._store.is_server:
                expect_messages(tx, self._probable_id(peer), peer.topic_id, outbox)
            peer, standing = self._load_standing(tx, peer, store)
            if ack_through is not None:
                check_seq("ack_through", ack_through, standing)
            sent = append_messages(tx, peer, outbox, standing.highest_seq)
            if not all(each.is_repeated for each in sent):  # a repeated message was sent before the topic closed
                require_open(peer.topic_id, standing.status)
            last_seq = max(standing.last_seq, ack_through or 0)
            if last_seq != standing.last_seq or not standing.is_fresh:
                self._touch(tx, peer, standing, last_seq)
                standing = standing._replace(last_seq=last_seq, is_fresh=True)
            if not self._store.is_server:
                return peer, standing, sent, None
            asked = self._afterwards(peer, standing, sent, wanted)
            answers = [tx.last(statement, **given) for statement, given in asked]  # they travel with the commit
        reader = Afterwards(self._store, tx.now, zip(asked, (answer() for answer in answers), strict=True))
        known = frozenset(find_addressees(reader, [each.message for each in sent]))
        return peer, standing, [each._replace(known=known) for each in sent], reader

    def _afterwards(self, peer: Peer, standing: Standing, sent: list[Sent], wanted: _Wanted | None) -> list[Query]:
        """What a reply needs to know once the messages are stored."""
        asked = called_queries(peer.topic_id, addressees_of(each.message for each in sent))
        if wanted is not None and self._silent_through(peer, standing) != standing.highest_seq:
            asked.append(self._first_unread(peer, standing, wanted))
        return asked

    def _post(self, peer: Peer, draft: Draft, wanted: _Wanted | None) -> Posted | None:
        """Send one message in one round trip, if possible."""
        if not self._store.is_server:
            return None
        from conch.bus.posting import is_plain, post  # only a server needs it

        peer_id = self._probable_id(peer) if is_plain(draft) else None
        if peer_id is None:
            return None
        store, unread = self._store_number, self._probable_unread(peer_id, peer.topic_id, wanted)
        with self._renewing(peer) if self._is_due(peer_id) else nullcontext():
            return post(self._store, peer, peer_id, draft, store, *unread)

    def _unread(
        self, peer: Peer, wanted: _Wanted, standing: Standing | None = None, reader: Reader | None = None
    ) -> Page:
        """The next page. A caller that has just loaded the `standing` passes it, to save a read."""
        if standing is not None:
            if not wanted.include_self and self._silent_through(peer, standing) == standing.highest_seq:
                return Page(peer, standing, [], has_more=False, has_news=False)
            if reader is not None:
                return self._read_page(reader, peer, standing, wanted)
        store = self._store_number
        with self._store.look() as tx:
            if standing is None:
                if self._store.is_server:
                    self._expect_unread(tx, peer, wanted)
                peer, standing = self._load_standing(tx, peer, store)
            return self._read_page(tx, peer, standing, wanted)

    def _read_page(self, tx: Reader, peer: Peer, standing: Standing, wanted: _Wanted) -> Page:
        messages = _next_messages(tx, *self._first_unread(peer, standing, wanted), wanted)
        if not messages:
            self._note_silence(peer, standing)
            return Page(peer, standing, [], has_more=False, has_news=False)
        has_news = _has_news(tx, peer, messages, wanted)
        called = find_addressees(tx, messages)
        peer = peer._replace(names=tuple([name for name, each in called.items() if each.peer_id == peer.peer_id]))
        fitting = _fitting(messages[: wanted.max_items], wanted.max_chars)
        return Page(peer, standing, fitting, len(fitting) < len(messages), has_news, called)

    def _load_standing(self, tx: Transaction, peer: Peer, store: int) -> tuple[Peer, Standing]:
        found, standing = load_standing(tx, peer, store)
        if peer.peer_id is None and found.peer_id is not None:
            self._own_peers[peer.topic_id, peer.agent_id] = found.peer_id
        return found, standing

    def _probable_id(self, peer: Peer) -> int | None:
        return self._own_peers.get((peer.topic_id, peer.agent_id)) if peer.peer_id is None else peer.peer_id

    def _expect_unread(self, tx: Transaction, peer: Peer, wanted: _Wanted) -> None:
        for statement, given in self._probable_unread(self._probable_id(peer), peer.topic_id, wanted):
            tx.ahead(statement, **given)

    def _probable_unread(self, peer_id: int | None, topic_id: str, wanted: _Wanted | None) -> list[Query]:
        """Asks for the messages after what this peer has read, as far as this process knows."""
        known = self._silences.get(peer_id)
        if known is None or wanted is None or self._stores != self._store_number:
            return []
        return [_unread_after(*known, topic_id, peer_id, wanted)]

    def _first_unread(self, peer: Peer, standing: Standing, wanted: _Wanted) -> Query:
        """Asks for the first messages after what this peer has read."""
        silent_through = self._silent_through(peer, standing)
        return _unread_after(standing.last_seq, silent_through, peer.topic_id, peer.peer_id, wanted)

    @property
    def _store_number(self) -> int:
        """Which store this is. Another one has other peers and messages under the same numbers."""
        return len(self._store.replacements)

    def _silent_through(self, peer: Peer, standing: Standing) -> int:
        if self._stores != self._store_number:
            self._stores = self._store_number
            self._forget_peers()
        cursor, through = self._silences.get(peer.peer_id, (0, 0))
        return through if cursor == standing.last_seq and through <= standing.highest_seq else standing.last_seq

    def _note_silence(self, peer: Peer, standing: Standing) -> None:
        if standing.store != self._stores:
            return
        if len(self._silences) >= _MOST_SILENCES:
            self._forget_peers()
        self._silences[peer.peer_id] = (standing.last_seq, standing.highest_seq)

    def _forget_peers(self) -> None:
        for memory in (self._silences, self._own_peers, self._renewed):
            memory.clear()

    def settle(self, synced: Synced, advance: bool) -> None:
        """After the reply has gone out: move the cursor past its messages, unless it was reset meanwhile."""
        if synced.is_settled(advance):
            return
        page, moves = synced.page, synced.moves(advance)
        self._move(page.peer, page.standing, page.last_seq if moves else page.standing.last_seq)
        if moves:  # probably, unless the cursor was reset meanwhile
            self._note_silence(page.peer, page.standing._replace(last_seq=page.last_seq, highest_seq=page.last_seq))

    def retract(self, peer: Peer, found: Standing) -> None:
        """Undo `settle` after a reply that was never read: set the cursor back to where it was found."""
        with self._store.write(peer.topic_id) as tx:
            if found.store == self._store_number:
                tx.run("set_cursor_back", peer_id=peer.peer_id, last_seq=found.last_seq, now=tx.now)

    def _move(self, peer: Peer, found: Standing, last_seq: int) -> None:
        """Move the cursor. That needs no lock, because one statement compares and moves it."""
        if self._store.is_server and self._store.write_at_once([], self._moving(peer, found, last_seq)) is not None:
            return
        with self._store.write(peer.topic_id) as tx:
            self._touch(tx, peer, found, last_seq)

    def _touch(self, tx: Transaction, peer: Peer, found: Standing, last_seq: int) -> None:
        for statement, given in self._moving(peer, found, last_seq):
            tx.run(statement, **given, now=tx.now)

    def _moving(self, peer: Peer, found: Standing, last_seq: int) -> list[Query]:
        """Moves the cursor forward, unless it was reset by hand, or the store was replaced, since `found` was read."""
        seen: Query = ("touch_agent", {"agent_id": peer.agent_id})
        if found.store != self._store_number:
            return [seen]
        return [seen, ("move_cursor", {"peer_id": peer.peer_id, "resets": found.resets, "last_seq": last_seq})]

    def standing(self, peer: Peer) -> tuple[Peer, Standing]:
        """The peer with its present and former names, and its standing."""
        with self._store.read() as tx:
            peer, standing = load_standing(tx, peer)
            return with_names(tx, peer), standing

    def mark_read(self, peer: Peer, last_seq: int) -> None:
        """Move the cursor forward to `last_seq`."""
        store = self._store_number
        with self._store.write(peer.topic_id) as tx:
            peer, standing = load_standing(tx, peer, store)
            self._touch(tx, peer, standing, last_seq)

    def free_name(self, topic_id: str, agent_name: str, operator: str) -> str:
        """Make a name available again, for example when its token is lost, and announce it on the topic.

        Returns the name: it may be given as a label.
        """
        with self._store.write(topic_id) as tx:
            agent_name = free_name(tx, topic_id, agent_name)
            notice = Draft(f"{operator} freed the name {agent_name}: the next agent to join can take it.", "notice")
            append_messages(tx, system_peer(tx, topic_id), [notice])
        return agent_name

    def numbers(self, message_ids: set[str]) -> dict[str, int]:
        """The seq of each of these messages that exists."""
        if not message_ids:
            return {}
        with self._store.read() as tx:
            rows = tx.all("message_numbers", message_ids=sorted(message_ids))
        return {row["message_id"]: row["seq"] for row in rows}

    def history(self, topic_id: str, after: int = 0, since: int = 0) -> Iterator[Message]:
        """A whole topic, oldest first. It is read page by page, so no transaction stays open for long."""
        while page := self.history_page(topic_id, after, since):
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].seq

    def history_page(self, topic_id: str, after: int, since: int = 0) -> list[Message]:
        with self._store.read() as tx:
            rows = tx.all("messages_since", topic_id=topic_id, after=after, since=since, limit=_PAGE)
        return [to_message(row) for row in rows]

    def following(self, topic_id: str, after: int) -> tuple[list[Message], bool]:
        """The next page of messages after a seq, and whether the topic is closed."""
        with self._store.read() as tx:
            is_closed = find_topic(tx, topic_id).status == "closed"
            rows = tx.all("messages_after", topic_id=topic_id, after=after, limit=_PAGE)
        return [to_message(row) for row in rows], is_closed


def _unread_after(last_seq: int, silent_through: int, topic_id: str, peer_id: int | None, wanted: _Wanted) -> Query:
    """Asks for the first messages after a cursor. Those up to `silent_through` are the peer's own."""
    # One message more than wanted shows whether there are more.
    given: Row = {"after": last_seq, "limit": min(_STEP, wanted.max_items + 1), "topic_id": topic_id}
    if wanted.include_self:
        return "messages_after", given
    return _OTHERS, {**given, "after": silent_through, "peer_id": peer_id}


def _next_messages(tx: Reader, statement: str, given: Row, wanted: _Wanted) -> list[Message]:
    """Read in small steps until a reply is full, so that a thousand long messages are never in memory together."""
    messages: list[Message] = []
    total, most = 0, wanted.max_items + 1
    while len(messages) < most and total <= wanted.max_chars:
        limit = min(_STEP, most - len(messages))
        found = [to_message(row) for row in tx.all(statement, **{**given, "limit": limit})]
        messages += found
        if len(found) < limit:
            break
        given, total = {**given, "after": found[-1].seq}, total + sum(message.size for message in found)
    return messages


def _fitting(messages: list[Message], max_chars: int) -> list[Message]:
    """The leading messages with at most this many characters in all, but at least one message."""
    total = 0
    for place, message in enumerate(messages):
        total += message.size
        if total > max_chars and place:
            return messages[:place]
    return messages


def _has_news(tx: Reader, peer: Peer, messages: list[Message], wanted: _Wanted) -> bool:
    """Whether there is more to read than acknowledgements, which alone do not end a wait."""
    if any(message.message_type != "ack" for message in messages):
        return True
    if len(messages) <= wanted.max_items and sum(message.size for message in messages) <= wanted.max_chars:
        return False  # nothing else is unread; anything newer rings the bell
    # The page has only acknowledgements; other messages may follow it.
    own = NO_PEER if wanted.include_self else peer.peer_id
    given = {"topic_id": peer.topic_id, "after": messages[-1].seq, "peer_id": own}
    return tx.one("more_than_acks_after", **given) is not None


def _is_worth_waking(page: Page) -> bool:
    """Whether a wait ends with this page. Nothing more comes on a closed topic, so a wait there ends at once."""
    return page.has_news or page.standing.status != "open"
