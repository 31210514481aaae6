"""The messages of a topic in order: how they are added, and which of them count as answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from conch.agents.records import DOT, PLAIN_DOT, label
from conch.bells.base import Bell, topic_channel
from conch.bells.waits import Found, Pause, wait_for
from conch.bus.drafts import Draft
from conch.bus.peers import Called, Peer, expect_name, find_called, present_name
from conch.calls import Call
from conch.config import Settings
from conch.errors import InvalidArgument
from conch.ids import new_id
from conch.lean import Any, NamedTuple, json
from conch.rooms.presence import renewal_ms
from conch.storage.base import Reader, Row, Transaction

_LONGEST_ADDRESSEE = 200  # no name and no agent_id is longer


class Message(NamedTuple):
    message_id: str
    topic_id: str
    seq: int
    sender: str
    message_type: str
    reply_to: str | None
    content_markdown: str
    metadata_json: str | None
    client_message_id: str | None
    created_at: int
    sender_agent_id: str | None = None
    """None for conch itself, and for senders of imported messages."""

    @property
    def sender_label(self) -> str:
        """What people call the sender."""
        return label(self.sender_agent_id, self.sender)

    @property
    def metadata(self) -> dict[str, Any] | None:
        return None if self.metadata_json is None else json.loads(self.metadata_json)

    @property
    def size(self) -> int:
        """About how many characters the message adds to a reply."""
        return len(self.content_markdown) + len(self.metadata_json or "")

    @property
    def addressees(self) -> list[str]:
        """The peers the message is meant for. Every other peer of the topic sees it too."""
        return _addressees(self.metadata_json)

    def addressee_labels(self, called: dict[str, Called]) -> list[str]:
        """What people call the addressees. An addressee that is not a peer stays as it was written."""
        return [called[each].label if each in called else each for each in self.addressees]


class Obstacle(NamedTuple):
    """Why a peer cannot answer a question."""

    code: str
    reason: str


_ALREADY_ANSWERED = Obstacle("FORBIDDEN_ALREADY_ANSWERED", "you have already answered the question")


class Sent(NamedTuple):
    message: Message
    is_repeated: bool
    """The message was stored before, under the same client_message_id."""
    obstacle: Obstacle | None = None
    """Why a message of type `answer` does not count as an answer."""
    known: frozenset[str] | None = None
    """Its addressees that the topic knows; None if the store was not asked."""


def expect_messages(tx: Transaction, peer_id: int | None, topic_id: str, outbox: list[Draft]) -> None:
    """Fetch ahead what `append_messages` will ask about these drafts, if the peer_id turns out to be right."""
    for draft in outbox:
        if draft.client_message_id is not None:
            given = {"topic_id": topic_id, "sender_id": peer_id, "client_message_id": draft.client_message_id}
            tx.ahead("message_sent_as", **given)
        if draft.reply_to is not None:
            tx.ahead("find_message", message_id=draft.reply_to)
            if draft.message_type == "answer":
                tx.ahead("find_question", question_id=draft.reply_to)
                tx.ahead("find_answer", question_id=draft.reply_to, peer_id=peer_id)
    for typed in _labels(outbox):
        expect_name(tx, topic_id, typed)


def append_messages(tx: Transaction, peer: Peer, outbox: list[Draft], highest_seq: int | None = None) -> list[Sent]:
    """Store messages in order, except those whose client_message_id was stored before.

    A caller that has read the topic's `highest_seq` under the topic's lock passes it, to save a query.
    """
    topic_id, repeated = peer.topic_id, _find_repeated(tx, peer, outbox)
    fresh = [draft for place, draft in enumerate(outbox) if place not in repeated]
    made: list[Sent] = []
    if fresh:
        # Before anything is changed, because the server would be asked once more for what is read later.
        _check_replies(tx, topic_id, fresh)
        names = {typed: present_name(tx, topic_id, typed) for typed in _labels(fresh)}
        first = _take_seqs(tx, topic_id, len(fresh), highest_seq)
        answered: set[str] = set()
        made = [_insert(tx, peer, draft, first + n, names, answered) for n, draft in enumerate(fresh)]
        if any(each.message.message_type != "ack" for each in made):  # an acknowledgement wakes no waiter
            tx.ring(topic_channel(topic_id))
    new = iter(made)
    sent: list[Sent] = []
    for place in range(len(outbox)):
        earlier = repeated.get(place)
        if earlier is None:
            sent.append(next(new))
        else:
            sent.append(Sent(sent[earlier].message if isinstance(earlier, int) else earlier, True))
    return sent


def _take_seqs(tx: Transaction, topic_id: str, count: int, highest_seq: int | None) -> int:
    """Take new numbers in one statement, so that the messages of a call are consecutive. Returns the first."""
    given = {"topic_id": topic_id, "count": count, "now": tx.now}
    if highest_seq is not None:
        tx.run("move_seqs", **given)
        return highest_seq + 1
    row = tx.one("take_seqs", **given)
    assert row is not None
    return int(row["next_seq"]) - count


def _find_repeated(tx: Transaction, peer: Peer, outbox: list[Draft]) -> dict[int, Message | int]:
    """The places of drafts that repeat a client_message_id, each with the stored message or the earlier place."""
    repeated: dict[int, Message | int] = {}
    places: dict[str, int] = {}
    for place, draft in enumerate(outbox):
        key = draft.client_message_id
        if key is None:
            continue
        if key in places:
            repeated[place] = places[key]
            continue
        places[key] = place
        row = tx.one("message_sent_as", topic_id=peer.topic_id, sender_id=peer.peer_id, client_message_id=key)
        if row is not None:
            repeated[place] = to_message(row)
    return repeated


def _insert(tx: Transaction, peer: Peer, draft: Draft, seq: int, names: dict[str, str], answered: set[str]) -> Sent:
    topic_id = peer.topic_id
    columns: Row = {
        "message_id": new_id("msg"),
        "topic_id": topic_id,
        "seq": seq,
        "message_type": draft.message_type,
        "reply_to": draft.reply_to,
        "content_markdown": draft.content_markdown,
        "metadata_json": _with_names(draft.metadata_json, names),
        "client_message_id": draft.client_message_id,
        "created_at": tx.now,
    }
    tx.run("insert_message", sender_id=peer.peer_id, **columns)
    message = Message(sender=peer.agent_name, sender_agent_id=peer.agent_id or None, **columns)
    for addressee in indexed_addressees(message.metadata_json):
        tx.run("insert_addressee", addressee=addressee, topic_id=topic_id, seq=seq, sender_id=peer.peer_id)
    if draft.message_type == "question":
        tx.run(
            "insert_question", question_id=message.message_id, topic_id=topic_id, asked_by_id=peer.peer_id, now=tx.now
        )
    elif draft.message_type == "answer" and draft.reply_to is not None:
        return Sent(message, False, _count_answer(tx, peer, message, answered))
    return Sent(message, False)


def _addressees(metadata_json: str | None) -> list[str]:
    # Most messages have no addressee; a search in the text is cheaper than parsing the JSON.
    if metadata_json is None or '"to"' not in metadata_json:
        return []
    to = json.loads(metadata_json).get("to")
    return [to] if isinstance(to, str) else to if isinstance(to, list) else []


def indexed_addressees(metadata_json: str | None) -> set[str]:
    """The addressees of a message that can be a peer's name or an agent_id."""
    return {each for each in _addressees(metadata_json) if isinstance(each, str) and len(each) <= _LONGEST_ADDRESSEE}


def find_addressees(tx: Reader, messages: list[Message]) -> dict[str, Called]:
    """The addressees of the messages of one topic, each under the text that the messages call it by."""
    wanted = addressees_of(messages)
    return find_called(tx, messages[0].topic_id, wanted) if wanted else {}


def addressees_of(messages: Iterable[Message]) -> set[str]:
    return {each for message in messages if message.metadata_json is not None for each in message.addressees}


def _labels(outbox: list[Draft]) -> list[str]:
    """The addressees that can be labels, each once."""
    return list(dict.fromkeys(each for draft in outbox for each in _addressees(draft.metadata_json) if _has_dot(each)))


def _with_names(metadata_json: str | None, names: dict[str, str]) -> str | None:
    """The metadata with the labels in `to` replaced by these names, because a reader looks for its names."""
    if names.keys().isdisjoint(addressees := _addressees(metadata_json)):
        return metadata_json
    metadata = json.loads(metadata_json or "{}")
    found = [names.get(each, each) for each in addressees]
    metadata["to"] = found if isinstance(metadata["to"], list) else found[0]
    return json.dumps(metadata, ensure_ascii=False)


def _has_dot(text: str) -> bool:
    """Whether a label can be in the text."""
    return DOT in text or PLAIN_DOT in text


def _check_replies(tx: Transaction, topic_id: str, outbox: list[Draft]) -> None:
    for message_id in dict.fromkeys(draft.reply_to for draft in outbox if draft.reply_to is not None):
        row = tx.one("find_message", message_id=message_id)
        if row is None or row["topic_id"] != topic_id:
            field = next(draft.field for draft in outbox if draft.reply_to == message_id)
            where = "is on another topic" if row else "does not exist"
            message = f"{field}.reply_to: the message {message_id!r} {where}."
            raise InvalidArgument(message, field=f"{field}.reply_to")


def _count_answer(tx: Transaction, peer: Peer, message: Message, answered: set[str]) -> Obstacle | None:
    """Count a reply to another peer's pending question as an answer. Only the first answer of each peer counts.

    `answered` are the questions that were answered before it in the same call.
    """
    if message.reply_to in answered:
        return _ALREADY_ANSWERED
    question = tx.one("find_question", question_id=message.reply_to)
    if question is None:
        return None
    obstacle = find_obstacle(tx, peer, question)
    if obstacle is None:
        answered.add(question["question_id"])
        tx.run(
            "insert_answer",
            question_id=message.reply_to,
            answered_by_id=peer.peer_id,
            answer_id=message.message_id,
            now=tx.now,
        )
    return obstacle


def find_obstacle(tx: Transaction, peer: Peer, question: Row) -> Obstacle | None:
    """Why a peer cannot answer a question of its topic; None if it can."""
    if question["status"] != "pending":
        return Obstacle("QUESTION_NOT_PENDING", f"the question is {question['status']}")
    if question["asked_by_id"] == peer.peer_id:
        return Obstacle("FORBIDDEN_SELF_ANSWER", "you asked the question yourself")
    if tx.one("find_answer", question_id=question["question_id"], peer_id=peer.peer_id):
        return _ALREADY_ANSWERED
    return None


def to_message(row: Row) -> Message:
    return Message(**row)


# -- waiting


def wait_on_topic(
    bell: Bell, topic_id: str, look: Callable[[Pause], Found | None], seconds: float, call: Call, settings: Settings
) -> Found | None:
    """Wait with `wait_for` on a topic's channel. The waiting agent stays active."""
    polls = (settings.poll_initial_ms / 1_000, settings.poll_max_ms / 1_000)
    renewal = renewal_ms(settings) / 1_000
    return wait_for(bell, [topic_channel(topic_id)], look, seconds, call, linger=0.0, polls=polls, renewal=renewal)
