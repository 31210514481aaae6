"""The replies that bring a turn, and what happens to a turn whose reply does not arrive."""

from __future__ import annotations

from functools import partial

from conch.rooms.room import Room
from conch.tools import turns_view as view
from conch.tools.replies import Delivery, QueuedDelivery, Reply
from conch.tools.session import Session
from conch.turns.waiting import Claim, Wait


def your_turn(session: Session, wait: Wait) -> Reply:
    delivery = granting(session, wait.snapshot.room, wait.claim)
    return Reply(
        view.your_turn(wait),
        view.your_turn_text(wait),
        delivery,
        next=view.after_claim(wait),
        shown=wait,
        told=view.TURN_TOLD,
    )


def granting(session: Session, room: Room, claim: Claim | None) -> Delivery:
    """The delivery of a reply that brings a turn.

    The connection knows the turn once the reply was sent. A claim that the client never hears about would block the
    room until its lease expires, so it is given back.
    """
    caller = session.caller()
    session.forget_replaced()  # otherwise the next call would forget this turn
    receive, give_back = session.own.receiving(room), session.app.claims.give_back
    if claim is None:
        return QueuedDelivery(session.replies, room.room_id, sent=receive)

    def take_back(unread: bool = False) -> None:
        was_known = session.own.lose_turn(room)
        if not give_back(caller, claim, unread) and was_known:
            receive()

    return QueuedDelivery(
        session.replies,
        room.room_id,
        sent=receive,
        not_sent=take_back,
        retracted=take_back,
        unread=partial(take_back, unread=True),
        read=partial(claim.telling.read, claim.reply),
    )
