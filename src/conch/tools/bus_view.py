"""How topics, messages and news look: as objects for programs, and as text for models.

Times are unix seconds, and `warnings` is always present.
"""

from __future__ import annotations

from functools import lru_cache

from conch.agents.records import label
from conch.bus.peers import Peer
from conch.clock import spell_seconds, to_seconds
from conch.errors import StoreError
from conch.lean import TYPE_CHECKING
from conch.tools.replies import Delivered, Object, Reply, known
from conch.tools.text import MARGIN, behind_margin, is_plain, one_line, with_name
from conch.warnings import Warning, Warnings, warning

if TYPE_CHECKING:
    from conch.bus.peers import Called, Peers, Presence
    from conch.bus.stream import Message, Sent
    from conch.bus.sync import Page
    from conch.bus.topics import Topic
    from conch.notices.delivery import News
    from conch.tools.pages import Budget


STATUSES = {"open": ["open"], "closed": ["closed"], "all": ["open", "closed"]}  # what a caller may ask for


def sent_warnings(peers: Peers, topic_id: str, messages: list[Sent]) -> Warnings:
    """What a sender should know about the messages it just sent."""
    warnings: Warnings = []
    for sent in messages:
        if sent.is_repeated:
            message = f"#{sent.message.seq} was already sent with this client_message_id; it was not sent again."
            warnings.append(warning("ALREADY_SENT", message, seq=sent.message.seq))
        elif sent.obstacle is not None:
            message = f"#{sent.message.seq} was sent, but does not count as an answer: {sent.obstacle.reason}."
            context = {"seq": sent.message.seq, "question_id": sent.message.reply_to}
            warnings.append(warning(sent.obstacle.code, message, **context))
    for name in _unknown_addressees(peers, topic_id, messages):
        message = f"No peer of this topic is called {name[:80]!r}."
        warnings.append(warning("UNKNOWN_ADDRESSEE", message, name=name))
    return warnings


def _unknown_addressees(peers: Peers, topic_id: str, messages: list[Sent]) -> list[str]:
    found = {name for sent in messages for name in sent.known or ()}
    meant = {name for sent in messages if sent.known is None for name in sent.message.addressees}
    unknown = {name for sent in messages if sent.known is not None for name in sent.message.addressees} - found
    try:
        return sorted(unknown | (meant and meant - peers.find_called(topic_id, meant).keys()))
    except StoreError:  # the messages are sent already, so a missing warning must not fail the call
        return []


def topic_closed() -> Warning:
    return warning("TOPIC_CLOSED", "The topic is closed: no new messages will come.")


def topic(topic: Topic) -> Object:
    return known(
        topic_id=topic.topic_id,
        name=topic.name,
        status=topic.status,
        created_at=to_seconds(topic.created_at),
        closed_at=to_seconds(topic.closed_at),
        close_reason=topic.close_reason,
        metadata=topic.metadata,
    )


def message(message: Message) -> Object:
    return {
        "message_id": message.message_id,
        "topic_id": message.topic_id,
        "seq": message.seq,
        "sender": message.sender,
        "message_type": message.message_type,
        "reply_to": message.reply_to,
        "content_markdown": message.content_markdown,
        "metadata": message.metadata,
        "client_message_id": message.client_message_id,
        "created_at": to_seconds(message.created_at),
    }


def echo(sent: list[Sent], budget: Budget) -> tuple[list[Object], list[str]]:
    """What was sent, as objects and as lines. Of long messages only the numbers and the ids, which the sender lacks."""
    objects, lines = [{"message": message(each.message)} for each in sent], [_sent_line(each) for each in sent]
    if not sent or budget.fits(objects, lines):
        return objects, lines
    page = budget.fill(sent, _sent_ids, _sent_line)
    if page.has_more:
        page.lines.append(f"All {len(sent)} messages were sent; the first {page.length} are listed.")
    return page.objects, page.lines


def _sent_ids(sent: Sent) -> Object:
    each = sent.message
    return {"message": {"message_id": each.message_id, "seq": each.seq, "client_message_id": each.client_message_id}}


def presence(peer: Presence) -> Object:
    return {
        "agent_name": peer.agent_name,
        "last_seq": peer.last_seq,
        "updated_at": to_seconds(peer.updated_at),
        "age_seconds": peer.age_seconds,
    }


def received(each: Message, peer: Peer) -> Object:
    shown = message(each)
    shown["addressed"] = each.metadata_json is not None and peer.is_meant(each.addressees)
    return shown


def after_sync(page: Page) -> str:
    """What a reader can do with the messages it has just got."""
    parts = ["There is more: call `sync` again."] if page.has_more else []
    if any(each.message_type == "question" for each in page.received):
        parts.append("To answer a question, send message_type=answer with reply_to set to its message_id.")
    return " ".join(parts)


# -- as text for models


def topic_line(topic: Topic, count: int) -> str:
    return f"{topic.topic_id} {one_line(topic.name)} ({topic.status}, message_count={count})"


PRESENCE_TOLD = frozenset(("agent_name", "last_seq", "updated_at", "age_seconds"))


def presence_line(peer: Presence) -> str:
    who = one_line(with_name(peer.label, "agent_name", peer.agent_name))
    line = f"- {who}, age_seconds={peer.age_seconds}, read up to #{peer.last_seq}"
    return f"{line}\n{MARGIN}updated_at={spell_seconds(peer.updated_at)}"


# All messages of a list are on one topic, which the reply names once.
RECEIVED_TOLD = frozenset(
    ("message_id", "topic_id", "seq", "sender", "message_type", "reply_to", "content_markdown", "created_at")
)


def received_text(each: Message, peer: Peer, called: dict[str, Called]) -> str:
    return f"{message_text(each, peer, called)}\n{MARGIN}created_at={spell_seconds(each.created_at)}"


def message_text(each: Message, peer: Peer, called: dict[str, Called]) -> str:
    to = ""
    if each.metadata_json is not None and (addressees := each.addressees):
        mark = " (to you)" if peer.is_meant(addressees) else ""
        to = f" to {', '.join(each.addressee_labels(called))}{mark}"
    reply = f" in reply to {each.reply_to}" if each.reply_to else ""
    head, content = f"#{each.seq} {_sender(each.sender_agent_id, each.sender)}", each.content_markdown
    about = f"{to} [{each.message_type}] {each.message_id}{reply}:"
    if is_plain(about + content):  # as almost always
        return f"{head}{about}\n{MARGIN}{content}"
    return f"{head} {one_line(about)}\n{behind_margin(content)}"


@lru_cache(maxsize=256)  # most messages of a page are from few senders
def _sender(agent_id: str | None, name: str) -> str:
    sender = with_name(label(agent_id, name), "sender", name)
    return sender if is_plain(sender) else one_line(sender)


def _sent_line(sent: Sent) -> str:
    return f"Sent #{sent.message.seq} {sent.message.message_id}"


# -- news


def view_news(news: News, peers: Peers, budget: Budget) -> Reply:
    """As much of the news as fits. The notices come first, because they are few and must be accepted."""
    from conch.tools import scopes_view  # not at the top: commands that only send do not need it

    talk, peer = news.talk, reader(news)
    called = peers.find_called(peer.topic_id, set(peer.names)) if peer.names else {}
    notices = budget.fill(news.notices, scopes_view.envelope, scopes_view.event_text)
    if talk and notices.length == 1:
        budget.spend(notices.objects[0], notices.lines[0])  # a page does not count a single item
    talked = budget.fill(
        talk,
        lambda each: received(each, peer),
        lambda each: received_text(each, peer, called),
        told=RECEIVED_TOLD,
        is_extra=bool(news.notices),
    )
    news = news.cut(talked.length, notices.length)
    open_ids = {each.message_id for each in news.questions}
    data = known(
        status="news",
        topic_id=peer.topic_id or None,
        messages=[each for each in talked.objects if each["message_id"] not in open_ids],
        questions=[each for each in talked.objects if each["message_id"] in open_ids],
        notices=notices.objects,
        has_more=news.has_more,
    )
    ids = (*open_ids, *(event.event_id for event in news.notices))
    return Reply(
        data,
        "\n".join(["news:", *notices.lines, *talked.lines]),
        next=_after(news),
        delivered=Delivered(peer.topic_id, through=news.talk[-1].seq if news.talk else 0, ids=ids),
        shown=news,
    )


def reader(news: News) -> Peer:
    """The agent as the reader of its news: all that has an addressee is for this agent."""
    addressees = {name for each in news.talk for name in each.addressees}
    topic_id = news.talk[0].topic_id if news.talk else ""
    return Peer(topic_id, news.agent_id, names=tuple(addressees))


def _after(news: News) -> str:
    parts = ["There is more: call `listen` again."] if news.has_more else []
    if news.questions:
        parts.append("Answer a question with `answer` or `sync` (message_type=answer, reply_to=its message_id).")
    if news.notices:
        parts.append("With `event_mark`, accept the notices that you take on.")
    return " ".join(parts) or "Act on it if it concerns you, then call `listen` again."
