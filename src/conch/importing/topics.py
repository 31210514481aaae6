"""Imports the topics, messages, names and cursors of a message bus.

Only what is new is added, and nothing that is in the store changes. The ids are derived from those of the file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from conch.agents.records import Caller, note_name
from conch.bells.base import topic_channel
from conch.bus.drafts import LONGEST_KEY, LONGEST_TYPE, check_addressees
from conch.bus.peers import LONGEST_NAME, hash_token, require_own_name
from conch.bus.stream import indexed_addressees
from conch.bus.topics import Topic, check_name, check_topic_name, find_topic, insert_topic, require_distinct
from conch.errors import ConchError, InvalidArgument
from conch.importing.bus_files import BusFile, BusMessage, BusName
from conch.importing.outcome import Outcome, derived_id, to_moment, to_object, to_text
from conch.lean import NamedTuple, json
from conch.storage.base import LAST, Row, Transaction

_Step = Callable[[Transaction], None]
_AT_ONCE = 500  # agents can write between two steps
_UNFINISHED = "This topic is not yet imported as a whole. If `conch import` has stopped, run it again."
_NOBODY = Caller("", "", None, "import", None)


def topic_steps(outcome: Outcome, file: BusFile, row: Row) -> Iterator[tuple[str, _Step]]:
    """The steps that add what is new in one topic, each with the id of that topic. Run each in its own transaction.

    A new topic stays closed until the last step. So no agent writes to half a topic, and an interrupted import can
    continue where it stopped.
    """
    topic = _TopicImport(outcome, file, row)
    for step in topic.steps():
        yield topic.topic_id, step


class _TopicImport:
    """One topic of a file, and how far it has come."""

    _peers: _Peers
    _stream: _Stream
    _is_unfinished: bool

    def __init__(self, outcome: Outcome, file: BusFile, row: Row) -> None:
        self._outcome = outcome
        self._row = row
        self._messages = file.messages(row.get("topic_id"))
        self._names = file.names(row.get("topic_id"))
        # The time is part of the id, because small ids may repeat in another file.
        self.topic_id = derived_id("topic", "bus", to_text(row.get("topic_id")), to_text(row.get("created_at")))

    def steps(self) -> Iterator[_Step]:
        """What has to be done, in order. Each step must be done before the next one is asked for."""
        yield self._begin
        while batch := list(islice(self._messages, _AT_ONCE)):
            yield partial(self._stream.add, batch=batch)
        names = iter(self._names.items())
        while some := list(islice(names, _AT_ONCE)):
            yield partial(self._place_cursors, names=some)
        yield self._finish

    def _begin(self, tx: Transaction) -> None:
        topic = self._find_or_add(tx)
        self._is_unfinished = topic.close_reason == _UNFINISHED
        self._peers = _Peers(self._outcome, topic, self._names)
        self._stream = _Stream(self._outcome, topic, self._peers, is_shared=not self._is_unfinished)

    def _find_or_add(self, tx: Transaction) -> Topic:
        topic_id, row = self.topic_id, self._row
        if tx.one("find_topic", topic_id=topic_id) is not None:
            self._outcome.know("topics")
            return find_topic(tx, topic_id)
        name = _fit_topic_name(tx, self._outcome, to_text(row.get("name")), topic_id)
        created_at = _moment(tx, row.get("created_at"), tx.now)
        metadata = to_object(row.get("metadata_json"))
        text = None if metadata is None else json.dumps(metadata, ensure_ascii=False)
        # Topics of mode `new` may share their name with another open topic.
        insert_topic(tx, topic_id, name, text, "new", created_at)
        tx.run("close_topic", topic_id=topic_id, reason=_UNFINISHED, now=created_at)
        self._outcome.add("topics")
        return find_topic(tx, topic_id)

    def _place_cursors(self, tx: Transaction, names: list[tuple[str, BusName]]) -> None:
        """Add the names that sent nothing, and place the cursors of the new names."""
        for name, facts in names:
            peer_id = self._peers.find(tx, name)
            if self._is_unfinished or peer_id in self._peers.new:
                read = bisect_right(self._stream.in_step, facts.last_seq) if facts.last_seq > 0 else 0
                if read and tx.count("place_cursor", peer_id=peer_id, last_seq=read):
                    self._outcome.add("cursors")

    def _finish(self, tx: Transaction) -> None:
        """Give a new topic the status that it has in the file."""
        row, closed = self._row, Row(status="open", closed_at=None, reason=None)
        if row.get("status") == "closed":
            reason = None if row.get("close_reason") is None else to_text(row["close_reason"])
            moment = _moment(tx, row.get("closed_at"), _moment(tx, row.get("created_at"), tx.now))
            closed = Row(status="closed", closed_at=moment, reason=reason)
        if tx.count("finish_topic", topic_id=self.topic_id, unfinished=_UNFINISHED, **closed):
            tx.ring(topic_channel(self.topic_id))


def _fit_topic_name(tx: Transaction, outcome: Outcome, name: str, topic_id: str) -> str:
    try:
        require_distinct(tx, check_topic_name(name))
        return name
    except ConchError as refusal:
        other = topic_id.replace("_", "-")
        outcome.change("topic", name, other, _reason(refusal))
        return other


def _reason(refusal: ConchError) -> str:
    return refusal.message.removesuffix(" Choose another name.")


def _moment(tx: Transaction, value: object, default: int) -> int:
    found = to_moment(value, tx.now)
    return default if found is None else found


# -- the names


class _Peers:
    """The senders and readers of one topic, by their names in the file."""

    def __init__(self, outcome: Outcome, topic: Topic, names: dict[str, BusName]) -> None:
        self._outcome = outcome
        self._topic = topic
        self._names = names
        self._found: dict[str, int] = {}
        self.new: set[int] = set()

    def find(self, tx: Transaction, name: str) -> int:
        """The peer_id of a name. A name that is new is reserved; one that conch refuses is replaced."""
        if name not in self._found:
            self._found[name] = self._look_up(tx, name) or self._add(tx, name)
        return self._found[name]

    def _look_up(self, tx: Transaction, name: str) -> int | None:
        where = {"topic_id": self._topic.topic_id, "created_at": self._topic.created_at}
        row = tx.one("imported_peer", name=name, **where)
        row = row or tx.one("imported_peer", name=self._replacement(name), **where)
        if row is not None:
            self._outcome.know("names")
        return None if row is None else int(row["peer_id"])

    def _add(self, tx: Transaction, name: str) -> int:
        topic, facts = self._topic, self._names.get(name, BusName())
        objection = self._object(tx, name)
        shown = name if objection is None else self._replacement(name)
        token = hash_token(facts.token) if facts.token else None
        columns: Row = {"topic_id": topic.topic_id, "name": shown, "agent_id": None, "is_own": 0}
        made = tx.one("insert_peer", reclaim_token_hash=token, now=topic.created_at, **columns)
        assert made is not None
        peer_id = int(made["peer_id"])
        if tx.count("reserve_name", topic_id=topic.topic_id, agent_name=shown, peer_id=peer_id):
            seen = _moment(tx, facts.updated_at, topic.created_at)
            tx.run("add_cursor", topic_id=topic.topic_id, peer_id=peer_id, now=seen)
        note_name(tx, shown)
        self._outcome.add("names")
        if objection is not None:
            self._outcome.change("name", name, shown, objection)
        self.new.add(peer_id)
        return peer_id

    def _replacement(self, name: str) -> str:
        return "peer-" + derived_id("", self._topic.topic_id, name)[1:9]

    def _object(self, tx: Transaction, name: str) -> str | None:
        """Why nobody could take this name here."""
        if tx.one("peer_named", topic_id=self._topic.topic_id, agent_name=name) is not None:
            return f"The name {name!r} is already taken on this topic."
        try:
            check_name("The name", name, LONGEST_NAME)
            require_own_name(tx, self._topic, _NOBODY, name)
        except ConchError as refusal:
            return _reason(refusal)
        return None


# -- the messages


class _Earlier(NamedTuple):
    """A message that a later one may reply to."""

    message_id: str
    asked_by_id: int | None
    """Of a question."""


class _Stream:
    """Adds the messages of one topic in their order. Between two batches, agents may add messages to a shared topic."""

    def __init__(self, outcome: Outcome, topic: Topic, peers: _Peers, is_shared: bool) -> None:
        self._outcome = outcome
        self._topic_id = topic.topic_id
        self._created_at = topic.created_at
        self._peers = peers
        self._is_shared = is_shared
        self._earlier: dict[str, _Earlier] = {}
        self._keys: set[tuple[int, str | None]] = set()
        self._own_seqs: dict[int, int] = {}  # of one batch
        self._length = 0
        self.in_step: list[int] = []
        """The numbers of its first messages in the file, up to the first one with another place in the topic here."""
        self._is_in_step = True

    def add(self, tx: Transaction, batch: list[BusMessage]) -> None:
        tx.take_time()
        self._own_seqs.clear()
        unique = {self._id(each): each for each in reversed(batch) if each.key not in self._earlier}
        messages = dict(reversed(unique.items()))
        stored = self._stored(tx, messages)
        seqs = iter(range(self._take_seqs(tx, len(messages) - len(stored)), LAST))
        added: list[tuple[BusMessage, Row]] = []
        for message_id, message in messages.items():
            seq = stored.get(message_id) or next(seqs)
            self._follow(message, seq)
            sender_id = self._peers.find(tx, message.sender)
            if message_id not in stored:
                added.append((message, self._row(tx, message, message_id, seq, sender_id)))
            self._keys.add((sender_id, message.client_message_id))
            asker = sender_id if message.message_type == "question" else None
            self._earlier[message.key] = _Earlier(message_id, asker)
        self._store(tx, added)
        self._outcome.know("messages", len(stored))
        self._outcome.add("messages", len(added))

    def _id(self, message: BusMessage) -> str:
        return derived_id("msg", self._topic_id, message.key)

    def _stored(self, tx: Transaction, messages: dict[str, BusMessage]) -> dict[str, int]:
        found = tx.all("message_numbers", message_ids=list(messages)) if messages else []
        return {row["message_id"]: row["seq"] for row in found}

    def _take_seqs(self, tx: Transaction, count: int) -> int:
        if not count:
            return 0
        row = tx.one("take_seqs", topic_id=self._topic_id, count=count, now=tx.now)
        assert row is not None
        return int(row["next_seq"]) - count

    def _follow(self, message: BusMessage, seq: int) -> None:
        self._length += 1
        self._is_in_step = self._is_in_step and seq == self._length
        if self._is_in_step:
            self.in_step.append(message.seq)

    def _row(self, tx: Transaction, message: BusMessage, message_id: str, seq: int, sender_id: int) -> Row:
        earlier = self._earlier.get(message.reply_to) if message.reply_to is not None else None
        return {
            "message_id": message_id,
            "topic_id": self._topic_id,
            "seq": seq,
            "sender_id": sender_id,
            "message_type": _fit_type(message.message_type),
            "reply_to": None if earlier is None else earlier.message_id,
            "content_markdown": message.content,
            "metadata_json": _fit_metadata(message),
            "client_message_id": self._fit_key(tx, sender_id, message.client_message_id),
            "created_at": _moment(tx, message.created_at, self._created_at),
            "own_seq": self._next_own(tx, sender_id),
        }

    def _next_own(self, tx: Transaction, sender_id: int) -> int:
        """Which message of its sender this one is."""
        if sender_id not in self._own_seqs:
            row = tx.one("latest_own_seq", sender_id=sender_id)
            self._own_seqs[sender_id] = 0 if row is None else row["own_seq"]
        self._own_seqs[sender_id] += 1
        return self._own_seqs[sender_id]

    def _fit_key(self, tx: Transaction, sender_id: int, key: str | None) -> str | None:
        """The client_message_id, unless the sender has used it for another message."""
        if not key or len(key) > LONGEST_KEY or (sender_id, key) in self._keys:
            return None
        where = {"topic_id": self._topic_id, "sender_id": sender_id, "client_message_id": key}
        return None if self._is_shared and tx.one("message_sent_as", **where) else key

    def _store(self, tx: Transaction, added: list[tuple[BusMessage, Row]]) -> None:
        if not added:
            return
        tx.load("messages", (row for _, row in added))
        tx.load("message_addressees", (each for _, row in added for each in _addressees(row)))
        tx.load("questions", self._questions(added))
        for message, row in added:
            asked = self._earlier.get(message.reply_to or "") if row["message_type"] == "answer" else None
            if row["reply_to"] and asked and asked.asked_by_id not in (None, row["sender_id"]):
                given = {"question_id": row["reply_to"], "answered_by_id": row["sender_id"]}
                tx.run("insert_answer", answer_id=row["message_id"], now=row["created_at"], **given)
        tx.ring(topic_channel(self._topic_id))

    def _questions(self, added: list[tuple[BusMessage, Row]]) -> Iterator[Row]:
        for message, row in added:
            if row["message_type"] == "question":
                yield {
                    "question_id": row["message_id"],
                    "topic_id": self._topic_id,
                    "asked_at": row["created_at"],
                    "status": message.status,
                    "cancel_reason": message.cancel_reason,
                    "asked_by_id": row["sender_id"],
                }


def _addressees(row: Row) -> Iterator[Row]:
    for addressee in sorted(indexed_addressees(row["metadata_json"])):
        yield {"addressee": addressee, **{name: row[name] for name in ("topic_id", "seq", "sender_id")}}


def _fit_type(kind: str) -> str:
    try:
        return check_name("message_type", kind, LONGEST_TYPE)
    except InvalidArgument:
        return "message"


def _fit_metadata(message: BusMessage) -> str | None:
    if message.metadata is None:
        return None
    text = json.dumps(message.metadata, ensure_ascii=False)
    try:
        check_addressees(message.metadata, "metadata.to")
    except InvalidArgument:
        return json.dumps({"imported": text}, ensure_ascii=False)
    return text
