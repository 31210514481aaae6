"""Messages on topics: sending, and receiving everything at least once and in order.

A cursor moves only after the reply that carried the messages has gone out: `sync` returns what to do then. Whatever
happens before that, the same messages come again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from conch.bells.base import Bell
from conch.bells.waits import Pause
from conch.bus.drafts import Draft
from conch.bus.peers import Peer, Standing, check_seq, free_name, load_standing, system_peer, with_names
from conch.bus.stream import Message, Sent, append_messages, to_message, wait_on_topic
from conch.bus.topics import find_topic, require_open
from conch.calls import Call, retry_interrupted
from conch.config import Settings
from conch.errors import StoreError
from conch.lean import NamedTuple
from conch.storage.base import Row, Store, Transaction

PAGE = 500
_MOST_CHARS = 400_000  # of bodies in one reply, unless a single one is longer
_STEP = 50
_MOST_SILENCES = 1_000
NOBODY = 0  # no peer has this id


class Page(NamedTuple):
    """What a peer has not read yet, as far as it fits into one reply."""

    peer: Peer
    standing: Standing
    received: list[Message]
    has_more: bool
    has_news: bool = True
    """There is more to read than thanks."""

    @property
    def last_seq(self) -> int:
        return self.received[-1].seq if self.received else self.standing.last_seq


class Synced(NamedTuple):
    status: str
    page: Page
    sent: list[Sent]
    is_touched: bool
    """Whether the call has left a sign of life already."""


class Messages:
    def __init__(self, store: Store, bell: Bell, settings: Settings) -> None:
        self._store = store
        self._bell = bell
        self._settings = settings
        # Behind which cursor, and up to which seq, a peer has only its own messages. Messages never change, so nobody
        # needs to look there again: whoever talks to itself for long would read all of it at every call.
        self._silences: dict[int | None, tuple[int, int]] = {}

    def sync(
        self,
        peer: Peer,
        outbox: list[Draft],
        *,
        max_items: int = 20,
        include_self: bool = False,
        wait_seconds: float = 0,
        ack_through: int | None = None,
        call: Call | None = None,
    ) -> Synced:
        """Send, then receive what is new, waiting for it if asked to."""
        call = call or Call()
        call.check()
        if not outbox and ack_through is None:
            return Synced(*self._receive(peer, None, max_items, include_self, wait_seconds, call), [], False)
        peer, standing, sent = self._send(peer, outbox, ack_through)
        receive = partial(self._receive, peer, standing, max_items, include_self, wait_seconds, call)
        if not sent:
            return Synced(*receive(), sent, True)
        try:
            # A request that has sent must not run again as a whole, so only its second half does.
            return Synced(*retry_interrupted(receive), sent, True)
        except StoreError:
            # The store went away since. A refusal would have them sent again: say that they were, and to come back.
            return Synced("empty", Page(peer, standing, [], has_more=True), sent, True)

    def _receive(
        self,
        peer: Peer,
        standing: Standing | None,
        max_items: int,
        include_self: bool,
        wait_seconds: float,
        call: Call,
    ) -> tuple[str, Page]:
        def look(pause: Pause) -> Page | None:
            page = self._unread(peer, max_items, include_self)
            return page if pause.is_last or _is_worth_waking(page) else None

        page, waits = self._unread(peer, max_items, include_self, standing), wait_seconds > 0
        if waits and not _is_worth_waking(page):
            self._show_presence(page)
            page = wait_on_topic(self._bell, peer.topic_id, look, wait_seconds, call, self._settings) or page
        is_late = waits and not _is_worth_waking(page)
        return "ready" if page.received else "timeout" if is_late else "empty", page

    def _show_presence(self, page: Page) -> None:
        """Before a wait, which may last longer than others look back. Whoever cannot be noted waits all the same."""
        if page.standing.is_fresh:
            return
        with suppress(StoreError), self._store.write(page.peer.topic_id) as tx:
            self._touch(tx, page.peer, page.standing, page.standing.last_seq)

    def send(self, peer: Peer, outbox: list[Draft]) -> list[Sent]:
        return self._send(peer, outbox, None)[2]

    def _send(self, peer: Peer, outbox: list[Draft], ack_through: int | None) -> tuple[Peer, Standing, list[Sent]]:
        """The peer, how it stands to the topic afterwards, and what was sent."""
        with self._store.write(peer.topic_id) as tx:
            peer, standing = load_standing(tx, peer)
            if ack_through is not None:
                check_seq("ack_through", ack_through, standing)
            sent = append_messages(tx, peer, outbox)
            if not all(each.is_repeated for each in sent):  # what is there already was said in time
                require_open(peer.topic_id, standing.status)
            last_seq = max(standing.last_seq, ack_through or 0)
            if last_seq != standing.last_seq or not standing.is_fresh:
                self._touch(tx, peer, standing, last_seq)
        standing = standing._replace(last_seq=last_seq)
        after = standing._replace(highest_seq=max([standing.highest_seq, *(each.message.seq for each in sent)]))
        if self._silent_through(peer, standing) == standing.highest_seq:
            self._note_silence(peer, after)
        return peer, after, sent

    def _unread(self, peer: Peer, max_items: int, include_self: bool, standing: Standing | None = None) -> Page:
        """Reads nothing where a standing, which was just found, says that there is nothing to read."""
        if standing is not None and not include_self and self._silent_through(peer, standing) == standing.highest_seq:
            return Page(peer, standing, [], has_more=False, has_news=False)
        with self._store.read() as tx:
            if standing is None:
                peer, standing = load_standing(tx, peer)
            given: Row = {"topic_id": peer.topic_id}
            if include_self:
                messages = _next_messages(tx, "messages_after", standing.last_seq, max_items + 1, given)
            else:
                given["peer_id"] = peer.peer_id
                after = self._silent_through(peer, standing)
                messages = _next_messages(tx, "messages_of_others_after", after, max_items + 1, given)
            has_news = _has_news(tx, peer, messages, include_self)
            if any(message.addressees for message in messages):
                peer = with_names(tx, peer)
        if not messages and not include_self:
            self._note_silence(peer, standing)
        fitting = _fitting(messages[:max_items])
        return Page(peer, standing, fitting, len(fitting) < len(messages), has_news)

    def _silent_through(self, peer: Peer, standing: Standing) -> int:
        cursor, through = self._silences.get(peer.peer_id, (0, 0))
        return through if cursor == standing.last_seq and through <= standing.highest_seq else standing.last_seq

    def _note_silence(self, peer: Peer, standing: Standing) -> None:
        if len(self._silences) >= _MOST_SILENCES:
            self._silences.clear()
        self._silences[peer.peer_id] = (standing.last_seq, standing.highest_seq)

    def settle(self, synced: Synced, advance: bool) -> None:
        """After the reply has gone out: move the cursor behind what it carried, unless it was moved meanwhile."""
        page, found = synced.page, synced.page.standing.last_seq
        moves = advance and page.last_seq != found
        if moves or not (synced.is_touched or page.standing.is_fresh):
            with self._store.write(page.peer.topic_id) as tx:
                self._touch(tx, page.peer, page.standing, page.last_seq if moves else found)

    def retract(self, peer: Peer, last_seq: int) -> None:
        """After a reply that nobody read all the same: what it carried comes again, and whatever came since with it."""
        with self._store.write(peer.topic_id) as tx:
            tx.run("set_cursor_back", peer_id=peer.peer_id, last_seq=last_seq, now=tx.now)

    def _touch(self, tx: Transaction, peer: Peer, found: Standing, last_seq: int) -> None:
        """Move the cursor forward, unless it was set by hand since it was found so. A freed peer has none."""
        tx.run("touch_agent", agent_id=peer.agent_id, now=tx.now)
        tx.run("move_cursor", peer_id=peer.peer_id, resets=found.resets, last_seq=last_seq, now=tx.now)

    def standing(self, peer: Peer) -> tuple[Peer, Standing]:
        """The peer under its present name, with every name that means it, and how it stands to the topic."""
        with self._store.read() as tx:
            peer, standing = load_standing(tx, peer)
            return with_names(tx, peer), standing

    def mark_read(self, peer: Peer, last_seq: int) -> None:
        """Move the cursor forward to here."""
        with self._store.write(peer.topic_id) as tx:
            peer, standing = load_standing(tx, peer)
            self._touch(tx, peer, standing, last_seq)

    def free_name(self, topic_id: str, agent_name: str, operator: str) -> None:
        """Let anybody have a name again whose token is lost, and tell the topic who did it."""
        with self._store.write(topic_id) as tx:
            free_name(tx, topic_id, agent_name)
            notice = Draft(f"{operator} freed the name {agent_name}: the next agent to join can take it.", "notice")
            append_messages(tx, system_peer(tx, topic_id), [notice])

    def numbers(self, message_ids: set[str]) -> dict[str, int]:
        """The numbers on their topics of those messages that there are."""
        if not message_ids:
            return {}
        with self._store.read() as tx:
            rows = tx.all("message_numbers", message_ids=sorted(message_ids))
        return {row["message_id"]: row["seq"] for row in rows}

    def history(self, topic_id: str, after: int = 0, since: int = 0) -> Iterator[Message]:
        """A whole topic, oldest first, however long: page by page, so that nothing is held and nobody waits."""
        while page := self.history_page(topic_id, after, since):
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].seq

    def history_page(self, topic_id: str, after: int = 0, since: int = 0) -> list[Message]:
        with self._store.read() as tx:
            rows = tx.all("messages_since", topic_id=topic_id, after=after, since=since, limit=PAGE)
        return [to_message(row) for row in rows]

    def following(self, topic_id: str, after: int) -> tuple[list[Message], bool]:
        """Some of what came after a message, and whether the topic is closed."""
        with self._store.read() as tx:
            is_closed = find_topic(tx, topic_id).status == "closed"
            rows = tx.all("messages_after", topic_id=topic_id, after=after, limit=PAGE)
        return [to_message(row) for row in rows], is_closed


def _next_messages(tx: Transaction, statement: str, after: int, most: int, given: Row) -> list[Message]:
    """Some at a time until a reply is full: whoever asks for a thousand long messages does not get them at once."""
    messages: list[Message] = []
    total = 0
    while len(messages) < most and total <= _MOST_CHARS:
        limit = min(_STEP, most - len(messages))
        found = [to_message(row) for row in tx.all(statement, after=after, limit=limit, **given)]
        messages += found
        if len(found) < limit:
            break
        after, total = found[-1].seq, total + sum(message.size for message in found)
    return messages


def _fitting(messages: list[Message]) -> list[Message]:
    """As many as one reply can carry, at least one."""
    total = 0
    for place, message in enumerate(messages):
        total += message.size
        if total > _MOST_CHARS and place:
            return messages[:place]
    return messages


def _has_news(tx: Transaction, peer: Peer, messages: list[Message], include_self: bool) -> bool:
    """Thanks alone do not end a wait. Behind those that were read there may be anything."""
    if not messages or any(message.message_type != "ack" for message in messages):
        return bool(messages)
    own = NOBODY if include_self else peer.peer_id
    given = {"topic_id": peer.topic_id, "after": messages[-1].seq, "peer_id": own}
    return tx.one("more_than_thanks_after", **given) is not None


def _is_worth_waking(page: Page) -> bool:
    """On a closed topic nothing more comes."""
    return page.has_news or page.standing.status != "open"
