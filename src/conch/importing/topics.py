"""Takes over the topics, messages, names and cursors of a message bus.

Only what is new is added, and nothing that is in the store changes. The ids are derived from those of the file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice

from conch.agents.records import Caller, note_name
from conch.bells.base import topic_channel
from conch.bus.drafts import check_addressees
from conch.bus.peers import LONGEST_NAME, hash_token, require_own_name
from conch.bus.stream import indexed_addressees
from conch.bus.topics import Topic, check_name, check_topic_name, find_topic, insert_topic, require_distinct
from conch.errors import ConchError, InvalidArgument
from conch.importing.bus_files import BusFile, BusMessage, BusName
from conch.importing.outcome import Outcome, derived_id, to_moment, to_object, to_text
from conch.lean import NamedTuple, json
from conch.storage.base import Row, Transaction

_AT_ONCE = 500
_LONGEST_TYPE = 64
_LONGEST_KEY = 200
_END = 2**62
_NOBODY = Caller("", "", None, "import", None)


def find_topic_id(_: Transaction, row: Row) -> str:
    """The topic that a topic of the file goes to."""
    return _topic_id_of(row)


def _topic_id_of(row: Row) -> str:
    """The id of a topic of the file. Its time is part of it, because small ids may repeat in another file."""
    return derived_id("topic", "bus", to_text(row.get("topic_id")), to_text(row.get("created_at")))


def import_topic(tx: Transaction, outcome: Outcome, file: BusFile, row: Row) -> None:
    """Add what is new of one topic."""
    tx.take_time()
    topic, is_new = _find_or_add(tx, outcome, row)
    names = file.names(row.get("topic_id"))
    peers = _Peers(tx, outcome, topic, names)
    stream = _Stream(tx, outcome, topic, peers, is_new)
    messages = file.messages(row.get("topic_id"))
    while batch := list(islice(messages, _AT_ONCE)):
        stream.add(batch)
    for name in names:
        peers.find(name)
    for peer_id, facts in peers.new.items():
        read = bisect_right(stream.in_step, facts.last_seq) if facts.last_seq > 0 else 0
        if read and tx.run("place_cursor", peer_id=peer_id, last_seq=read):
            outcome.add("cursors")


# -- the topic


def _find_or_add(tx: Transaction, outcome: Outcome, row: Row) -> tuple[Topic, bool]:
    topic_id = _topic_id_of(row)
    if tx.one("find_topic", topic_id=topic_id) is not None:
        outcome.know("topics")
        return find_topic(tx, topic_id), False
    name = _fit_topic_name(tx, outcome, to_text(row.get("name")), topic_id)
    created_at = _moment(tx, row.get("created_at"), tx.now)
    metadata = to_object(row.get("metadata_json"))
    text = None if metadata is None else json.dumps(metadata, ensure_ascii=False)
    # Topics of mode `new` may share their name with another open topic.
    insert_topic(tx, topic_id, name, text, "new", created_at)
    if row.get("status") == "closed":
        reason = None if row.get("close_reason") is None else to_text(row["close_reason"])
        tx.run("close_topic", topic_id=topic_id, reason=reason, now=_moment(tx, row.get("closed_at"), created_at))
    outcome.add("topics")
    return find_topic(tx, topic_id), True


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

    def __init__(self, tx: Transaction, outcome: Outcome, topic: Topic, names: dict[str, BusName]) -> None:
        self._tx = tx
        self._outcome = outcome
        self._topic = topic
        self._names = names
        self._found: dict[str, int] = {}
        self.new: dict[int, BusName] = {}

    def find(self, name: str) -> int:
        """The peer_id of a name. A name that is new is reserved; one that conch refuses is replaced."""
        if name not in self._found:
            self._found[name] = self._look_up(name) or self._add(name)
        return self._found[name]

    def _look_up(self, name: str) -> int | None:
        where = {"topic_id": self._topic.topic_id, "created_at": self._topic.created_at}
        row = self._tx.one("imported_peer", name=name, **where)
        row = row or self._tx.one("imported_peer", name=self._replacement(name), **where)
        if row is not None:
            self._outcome.know("names")
        return None if row is None else int(row["peer_id"])

    def _add(self, name: str) -> int:
        tx, topic, facts = self._tx, self._topic, self._names.get(name, BusName())
        objection = self._object(name)
        shown = name if objection is None else self._replacement(name)
        token = hash_token(facts.token) if facts.token else None
        columns: Row = {"topic_id": topic.topic_id, "name": shown, "agent_id": None, "is_own": 0}
        made = tx.one("insert_peer", reclaim_token_hash=token, now=topic.created_at, **columns)
        assert made is not None
        peer_id = int(made["peer_id"])
        if tx.run("reserve_name", topic_id=topic.topic_id, agent_name=shown, peer_id=peer_id):
            seen = _moment(tx, facts.updated_at, topic.created_at)
            tx.run("add_cursor", topic_id=topic.topic_id, peer_id=peer_id, now=seen)
        note_name(tx, shown)
        self._outcome.add("names")
        if objection is not None:
            self._outcome.change("name", name, shown, objection)
        self.new[peer_id] = facts
        return peer_id

    def _replacement(self, name: str) -> str:
        return "peer-" + derived_id("", self._topic.topic_id, name)[1:9]

    def _object(self, name: str) -> str | None:
        """Why nobody could take this name here."""
        if self._tx.one("peer_named", topic_id=self._topic.topic_id, agent_name=name) is not None:
            return f"The name {name!r} is already taken on this topic."
        try:
            check_name("The name", name, LONGEST_NAME)
            require_own_name(self._tx, self._topic, _NOBODY, name)
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
    """Adds the messages of one topic in their order."""

    def __init__(self, tx: Transaction, outcome: Outcome, topic: Topic, peers: _Peers, is_new: bool) -> None:
        self._tx = tx
        self._outcome = outcome
        self._topic_id = topic.topic_id
        self._created_at = topic.created_at
        self._peers = peers
        self._is_new = is_new
        self._earlier: dict[str, _Earlier] = {}
        self._keys: set[tuple[int, str]] = set()
        self._own_seqs: dict[int, int] = {}
        self._length = 0
        self.in_step: list[int] = []
        """The numbers in the file of the first messages, as long as both streams have the same messages."""
        self._is_in_step = True

    def add(self, batch: list[BusMessage]) -> None:
        unique = {self._id(each): each for each in reversed(batch) if each.key not in self._earlier}
        messages = dict(reversed(unique.items()))
        stored = self._stored(messages)
        seqs = iter(range(self._take_seqs(len(messages) - len(stored)), _END))
        added: list[tuple[BusMessage, Row]] = []
        for message_id, message in messages.items():
            seq = stored.get(message_id) or next(seqs)
            self._follow(message, seq)
            if message_id not in stored:
                added.append((message, self._row(message, message_id, seq)))
            sender_id = self._peers.find(message.sender)
            asker = sender_id if message.message_type == "question" else None
            self._earlier[message.key] = _Earlier(message_id, asker)
        self._store(added)
        self._outcome.know("messages", len(stored))
        self._outcome.add("messages", len(added))

    def _id(self, message: BusMessage) -> str:
        return derived_id("msg", self._topic_id, message.key)

    def _stored(self, messages: dict[str, BusMessage]) -> dict[str, int]:
        if self._is_new or not messages:
            return {}
        found = self._tx.all("message_numbers", message_ids=list(messages))
        return {row["message_id"]: row["seq"] for row in found}

    def _take_seqs(self, count: int) -> int:
        if not count:
            return 0
        row = self._tx.one("take_seqs", topic_id=self._topic_id, count=count, now=self._tx.now)
        assert row is not None
        return int(row["next_seq"]) - count

    def _follow(self, message: BusMessage, seq: int) -> None:
        self._length += 1
        self._is_in_step = self._is_in_step and seq == self._length
        if self._is_in_step:
            self.in_step.append(message.seq)

    def _row(self, message: BusMessage, message_id: str, seq: int) -> Row:
        sender_id = self._peers.find(message.sender)
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
            "client_message_id": self._fit_key(sender_id, message.client_message_id),
            "created_at": _moment(self._tx, message.created_at, self._created_at),
            "own_seq": self._next_own(sender_id),
        }

    def _next_own(self, sender_id: int) -> int:
        """Which message of its sender this one is."""
        if sender_id not in self._own_seqs:
            row = self._tx.one("latest_own_seq", sender_id=sender_id)
            self._own_seqs[sender_id] = 0 if row is None else row["own_seq"]
        self._own_seqs[sender_id] += 1
        return self._own_seqs[sender_id]

    def _fit_key(self, sender_id: int, key: str | None) -> str | None:
        """The client_message_id, unless the sender has used it for another message."""
        if not key or len(key) > _LONGEST_KEY or (sender_id, key) in self._keys:
            return None
        self._keys.add((sender_id, key))
        where = {"topic_id": self._topic_id, "sender_id": sender_id, "client_message_id": key}
        return None if not self._is_new and self._tx.one("message_sent_as", **where) else key

    def _store(self, added: list[tuple[BusMessage, Row]]) -> None:
        tx = self._tx
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
        return check_name("message_type", kind, _LONGEST_TYPE)
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
