"""The tool that waits for everything at once. It belongs to the group `bus`."""

from __future__ import annotations

from functools import partial

from conch.bells.waits import FOREVER
from conch.calls import Call
from conch.notices.delivery import News, mark_shown, mark_unshown
from conch.tools import fields, turns_view
from conch.tools.bus_view import view_news
from conch.tools.granting import your_turn
from conch.tools.registry import Tool, grouped
from conch.tools.replies import Delivery, Object, QueuedDelivery, Reply
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
        reply = view_news(heard.news, session.app.peers, session.budget())
        return _with_free_stick(session, reply._replace(delivery=_showing(session, reply.shown)))
    if heard.wait is None:
        nothing = Reply({"status": "timeout"}, "timeout: nothing is new.", next=patience.instead_of_listening)
        return _with_free_stick(session, nothing)
    if heard.wait.status == "your_turn":
        return your_turn(session, heard.wait)
    told = QueuedDelivery(session.replies, _SUBJECT, sent=partial(listening.note_takeover, caller, heard.wait))
    data, text = turns_view.takeover_available(heard.wait), turns_view.takeover_text(heard.wait)
    return Reply(data, text, told, next=turns_view.TAKE_OVER, shown=heard.wait)


def _with_free_stick(session: Session, reply: Reply) -> Reply:
    """The reply, with a note that the stick of a room is free, for a client that can claim it."""
    room_id = session.app.listening.find_free_stick(session.caller()) if session.offers("wait_for_turn") else None
    if room_id is None:
        return reply
    data = {**reply.data, "free_room_id": room_id}
    return reply._replace(data=data, next=f"{_CLAIM_FREE} {reply.next}")


def _showing(session: Session, news: News) -> Delivery:
    show, unshow = partial(mark_shown, session.app.store, news), partial(mark_unshown, session.app.store, news)
    return QueuedDelivery(session.replies, _SUBJECT, sent=show, retracted=unshow)


TOOLS = grouped(
    "bus",
    Tool(
        listen,
        "Wait for anything",
        "Wait for messages, questions and notices for you. It also ends on your_turn or "
        "takeover_available; `wait_for_turn` claims a free stick.",
        fields.takes(wait_seconds=_WAIT_SECONDS),
        fields.WRITES,
    ),
)
