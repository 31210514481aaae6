"""Another store in place of the one before: a session goes on, and nothing that it remembers hides anything."""

from __future__ import annotations

from typing import Any

import pytest

from conch.app import App, open_app
from conch.calls import Call
from conch.errors import StoreReplaced
from conch.tools.catalogue import TOOLS
from conch.tools.registry import call_tool
from conch.tools.session import Session

Object = dict[str, Any]


def call(session: Session, tool: str, **arguments: Any) -> Object:
    reply = call_tool(TOOLS[tool], session, arguments, Call())
    assert not reply.is_error, reply
    reply.delivery.sent()
    return reply.data


def wipe(environ: dict[str, str]) -> None:
    other = open_app(environ)
    other.store.wipe()
    other.close()


@pytest.fixture
def session(app: App) -> Session:
    return Session(app, "mcp")


def talk(session: Session, names: list[str]) -> list[str]:
    """Each says something on a new topic of the same name, then the first one reads."""
    topic = call(session, "topic_create", name="pink")["topic_id"]
    for name in names:
        call(session, "topic_join", topic_id=topic, agent_name=name)
        said = [{"content_markdown": f"{name} {number}"} for number in range(3)]
        call(session, "sync", topic_id=topic, outbox=said, wait_seconds=0, auto_advance=False)
    call(session, "topic_join", topic_id=topic, agent_name=names[0])
    read = call(session, "sync", topic_id=topic, wait_seconds=0)["received"]
    return [message["content_markdown"] for message in read]


@pytest.mark.parametrize("way", ["read", "write"])
def test_the_first_transaction_after_a_wipe_says_so_and_the_next_one_goes_on(
    app: App, environ: dict[str, str], way: str
) -> None:
    with app.store.read():
        pass
    wipe(environ)

    with pytest.raises(StoreReplaced), getattr(app.store, way)():
        pass
    with getattr(app.store, way)() as tx:
        rooms = tx.all("all_rooms")

    assert rooms == []
    assert len(app.store.replacements) == 1


def test_what_a_session_remembers_of_a_wiped_store_hides_no_message(session: Session, environ: dict[str, str]) -> None:
    talk(session, ["amber"])  # it notes that all messages are its own, and need not be read again
    wipe(environ)

    read = talk(session, ["beryl", "coral"])

    assert read == ["coral 0", "coral 1", "coral 2"]


def read_late(session: Session, environ: dict[str, str]) -> tuple[Object, Any]:
    """A reply with three messages is on its way, while another store takes the place of the one it came from.

    Returns the reply's delivery, and a topic of the new store where the same peer number has read nothing yet.
    """
    call(session, "topic_create", name="pink")
    talk(session, ["amber"])
    topic = call(session, "topic_join", name="pink", agent_name="beryl")["topic_id"]
    reply = call_tool(TOOLS["sync"], session, {"topic_id": topic, "wait_seconds": 0}, Call())
    assert len(reply.data["received"]) == 3
    wipe(environ)
    call(session, "ping")
    talk(session, ["amber"])
    return call(session, "topic_join", name="pink", agent_name="beryl"), reply.delivery


def test_a_reply_from_a_replaced_store_moves_no_cursor_of_the_new_one(
    session: Session, environ: dict[str, str]
) -> None:
    joined, delivery = read_late(session, environ)

    delivery.sent()

    unread = call(session, "sync", topic_id=joined["topic_id"], wait_seconds=0)["received"]
    assert [message["content_markdown"] for message in unread] == ["amber 0", "amber 1", "amber 2"]


def test_a_retracted_reply_from_a_replaced_store_moves_no_cursor_back(
    session: Session, environ: dict[str, str]
) -> None:
    joined, delivery = read_late(session, environ)
    call(session, "sync", topic_id=joined["topic_id"], wait_seconds=0)

    delivery.retracted(lambda task: task())

    assert call(session, "sync", topic_id=joined["topic_id"], wait_seconds=0)["received"] == []
