"""The tool that waits for everything at once. It belongs to the group `bus`."""

from __future__ import annotations

from functools import partial

from conch.bells.waits import FOREVER
from conch.bus.peers import Peer
from conch.calls import Call
from conch.notices.delivery import News, mark_shown, mark_unshown
from conch.tools import bus_view, fields, scopes_view, turns_view
from conch.tools.granting import your_turn
from conch.tools.registry import Tool, grouped
from conch.tools.replies import Delivered, Delivery, Object, QueuedDelivery, Reply, known
from conch.tools.session import Session

_SUBJECT = "listen"  # a listener waits until the reply of the one before is settled
_CLAIM_FREE = "The stick is free, and listening does not claim it: call `wait_for_turn` if you want to work."
_WAIT_SECONDS: Object = {**fields.WAIT_SECONDS, "description": "0: do not wait."}


def listen(session: Session, given: Object, call: Call) -> Reply:
    session.replies.wait(_SUBJECT)  # otherwise the same news might be returned twice
    caller, patience, listening = session.caller(), session.patience(call), session.app.listening
    seconds = given.get("wait_seconds", FOREVER)
    seconds = seconds if session.is_command else patience.wait_seconds(seconds)  # no client waits for a command
    heard = listening.listen(caller, seconds, call, takes_turns=session.offers("release_stick"))
    if heard.news is not None:
        return _with_free_stick(session, _news(session, heard.news))
    if heard.wait is None:
        nothing = Reply({"status": "timeout"}, "timeout: nothing is new.", next=patience.instead_of_listening)
        return _with_free_stick(session, nothing)
    if heard.wait.status == "your_turn":
        return your_turn(session, heard.wait)
    told = QueuedDelivery(session.replies, _SUBJECT, sent=partial(listening.note_takeover, caller, heard.wait))
    data, text = turns_view.takeover_available(heard.wait), turns_view.takeover_text(heard.wait)
    return Reply(data, text, told, next=turns_view.TAKE_OVER, shown=heard.wait)


def _with_free_stick(session: Session, reply: Reply) -> Reply:
    """The reply, and that the stick of a room is free, for a client that can claim it."""
    room_id = session.app.listening.find_free_stick(session.caller()) if session.offers("wait_for_turn") else None
    if room_id is None:
        return reply
    data = {**reply.data, "free_room_id": room_id}
    return reply._replace(data=data, next=f"{_CLAIM_FREE} {reply.next}")


def _news(session: Session, news: News) -> Reply:
    """As much of the news as fits. The notices come first, because they are few and must be accepted."""
    budget, talk, peer = session.budget(), news.talk, reader(news)
    called = session.app.peers.find_called(peer.topic_id, set(peer.names)) if peer.names else {}
    notices = budget.fill(news.notices, scopes_view.envelope, scopes_view.event_text)
    talked = budget.fill(
        talk, lambda each: bus_view.received(each, peer), lambda each: bus_view.message_text(each, peer, called)
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
        _showing(session, news),
        next=_after(news),
        delivered=Delivered(peer.topic_id, through=news.talk[-1].seq if news.talk else 0, ids=ids),
        shown=news,
    )


def reader(news: News) -> Peer:
    """The agent as the reader of its news: all that has an addressee is for this agent."""
    addressees = {name for each in news.talk for name in each.addressees}
    topic_id = news.talk[0].topic_id if news.talk else ""
    return Peer(topic_id, news.agent_id, names=tuple(addressees))


def _showing(session: Session, news: News) -> Delivery:
    show, unshow = partial(mark_shown, session.app.store, news), partial(mark_unshown, session.app.store, news)
    return QueuedDelivery(session.replies, _SUBJECT, sent=show, retracted=unshow)


def _after(news: News) -> str:
    parts = ["There is more: call `listen` again."] if news.has_more else []
    if news.questions:
        parts.append("Answer a question with `answer` or `sync` (message_type=answer, reply_to=its message_id).")
    if news.notices:
        parts.append("Accept the notices that you take on with `event_mark`.")
    return " ".join(parts) or "Act on it if it concerns you, then call `listen` again."


TOOLS = grouped(
    "bus",
    Tool(
        listen,
        "Wait for anything",
        "Wait for news for you: messages, questions, notices. Also for your turn or a takeover, but a free stick needs "
        "`wait_for_turn`.",
        fields.takes(wait_seconds=_WAIT_SECONDS),
        fields.WRITES,
    ),
)
