"""Messages on a server that dies and comes back: none is lost, none is sent twice, and every reply says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from conch.app import App
from conch.bells.base import topic_channel

TALKERS = 4
EACH = 60


class Witness:
    """Hears one talker out, in a thread of its own."""

    def __init__(self, talker: Any) -> None:
        self._talker = talker
        self.topic_id = talker.hear()[1]
        self.lines: list[list[Any]] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def start(self) -> None:
        self._talker.go()
        self._thread.start()

    def _listen(self) -> None:
        while ["done"] not in self.lines:
            self.lines.append(self._talker.hear())

    def finish(self) -> None:
        self._thread.join(60)
        assert self.lines[-1] == ["done"]

    def said(self, word: str) -> list[list[Any]]:
        return [line[1:] for line in self.lines if line[0] == word]


def test_a_server_killed_in_the_middle_of_the_talk_loses_and_doubles_no_message(
    agents: Callable[..., Any], server: Any, app: App, until: Callable[..., Any]
) -> None:
    witnesses = [Witness(agents(f"codex:{n}", "talk", f"talker-{n}", str(EACH))) for n in range(TALKERS)]

    for witness in witnesses:
        witness.start()
    for enough in (40, 120):
        until(lambda enough=enough: sum(len(w.said("sent")) for w in witnesses) >= enough)
        server.kill()
        server.start()
    for witness in witnesses:
        witness.finish()

    assert {code for w in witnesses for _, code in w.said("unsure")} <= {"DB_UNCERTAIN"}
    log = [*app.messages.history(witnesses[0].topic_id)]
    assert [message.seq for message in log] == [*range(1, TALKERS * EACH + 1)]
    for number, witness in enumerate(witnesses):
        mine = [message for message in log if message.sender == f"talker-{number}"]
        assert [message.content_markdown for message in mine] == [f"talker-{number} {n}" for n in range(EACH)]
        assert [message.seq for message in mine] == [seq for (seq,) in witness.said("sent")]


class Table:
    """Red and blue on one topic, each in a process of its own."""

    def __init__(self, agents: Callable[..., Any]) -> None:
        self.red, self.blue = agents("test:red"), agents("test:blue")
        for name, agent in (("red", self.red), ("blue", self.blue)):
            self.topic_id: str = agent.call("topic_create", name="pink")["topic_id"]
            agent.call("topic_join", topic_id=self.topic_id, agent_name=name)


def test_a_message_that_was_sent_is_reported_as_sent_though_the_server_is_gone_since(
    agents: Callable[..., Any], server: Any, app: App, until: Callable[..., Any]
) -> None:
    table = Table(agents)
    outbox = [{"content_markdown": "hello?"}]
    table.red.begin("sync", topic_id=table.topic_id, outbox=outbox, wait_seconds=3)
    until(lambda: [*app.messages.history(table.topic_id)])

    server.stop()
    answer = table.red.hear()
    server.start()

    assert [sent["message"]["content_markdown"] for sent in answer["sent"]] == ["hello?"]
    assert (answer["received"], answer["has_more"]) == ([], True)
    assert [each["code"] for each in answer["warnings"]] == ["DB_UNAVAILABLE"]
    received = table.blue.call("sync", topic_id=table.topic_id, wait_seconds=0)["received"]
    assert [message["content_markdown"] for message in received] == ["hello?"]


def test_a_sync_receives_even_if_the_connection_is_lost_after_its_send(
    agents: Callable[..., Any], proxy: Any, database: str
) -> None:
    table = Table(agents)
    green = agents("test:green", CONCH_STORE=proxy.url(database))
    green.call("topic_join", topic_id=table.topic_id, agent_name="green")
    table.blue.call("sync", topic_id=table.topic_id, outbox=[{"content_markdown": "good morning"}], wait_seconds=0)
    proxy.at_words(b"sender_id <>", lambda link, data: link.cut())

    outbox = [{"content_markdown": "good evening"}]
    answer = green.call("sync", topic_id=table.topic_id, outbox=outbox, wait_seconds=0)

    assert proxy.deed is None
    assert [sent["message"]["content_markdown"] for sent in answer["sent"]] == ["good evening"]
    assert [message["content_markdown"] for message in answer["received"]] == ["good morning"]


def test_a_question_that_was_asked_is_not_asked_again_though_the_server_is_gone_since(
    agents: Callable[..., Any], server: Any, app: App, until: Callable[..., Any]
) -> None:
    table = Table(agents)
    table.red.begin("ask", topic_id=table.topic_id, question="anybody?", wait_seconds=3)
    until(lambda: [*app.messages.history(table.topic_id)])

    server.stop()
    asked = table.red.hear()
    server.start()

    assert (asked["status"], asked["question_status"]) == ("timeout", "pending")
    assert [each["code"] for each in asked["warnings"]] == ["DB_UNAVAILABLE"]
    assert "its present state is not known" in asked["warnings"][0]["message"]
    pending = table.blue.call("pending_list", topic_id=table.topic_id, wait_seconds=0)["questions"]
    assert [question["question_id"] for question in pending] == [asked["question_id"]]


def test_a_wait_across_a_restart_gets_the_next_message(
    agents: Callable[..., Any], server: Any, app: App, until: Callable[..., Any]
) -> None:
    table = Table(agents)
    table.blue.begin("sync", topic_id=table.topic_id, wait_seconds=50)
    until(lambda: app.bell.hears(topic_channel(table.topic_id)))

    server.kill()
    server.start()
    table.red.call("sync", topic_id=table.topic_id, outbox=[{"content_markdown": "back"}], wait_seconds=0)

    assert [message["content_markdown"] for message in table.blue.hear()["received"]] == ["back"]
