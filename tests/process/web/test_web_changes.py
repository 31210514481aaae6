"""Whatever a page shows, a change of it is announced at once, also one that leaves no entry in any log.

Each change is made in one room between two entries of another room, so that the server hears all three together.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.callers import named
from tests.process.web.conftest import Console

from conch.agents.records import Caller
from conch.app import App, open_app
from conch.bus.drafts import Draft
from conch.bus.peers import Peer
from conch.calls import Call
from conch.host import processes

_SECONDS = 5


@pytest.fixture
def environ(environ: dict[str, str], every_engine: dict[str, str]) -> dict[str, str]:
    return {**environ, **every_engine}


@pytest.fixture
def console(environ: dict[str, str], consoles: Callable[..., Console]) -> Console:
    return consoles(environ)


class Scene:
    """A room in which one agent holds the stick and another is there, and a busy room beside it."""

    def __init__(self, app: App, console: Console, busy: Path) -> None:
        self.app = app
        self.console = console
        self.holder, self.other = named(app.store, "ada:1"), named(app.store, "bob:2")
        joined = app.membership.join_path(self.holder, str(console.folder)).snapshot.room
        self.room_id, self.topic_id = joined.room_id, joined.topic_id
        app.membership.join_path(self.other, str(console.folder))
        self.wait_for_turn(self.holder)
        self.busy_agent = named(app.store, "eve:3")
        self.busy_id = app.membership.join_path(self.busy_agent, str(busy)).snapshot.room.room_id
        self.call = Call()
        self.threads = ThreadPoolExecutor()
        self.prepared = ""  # the id of what the change is about
        self.plans = app.topics.create("plans", None, "reuse")[0].topic_id
        self.peer = self.join_topic(self.holder, "ada")

    @property
    def room(self) -> str:
        return f"/api/rooms/{self.room_id}"

    def wait_for_turn(self, caller: Caller) -> Any:
        return self.app.claims.wait_for_turn(caller, self.room_id, max_wait_ms=0)

    def join_topic(self, caller: Caller, name: str) -> Peer:
        return self.app.peers.join(caller, name, self.plans, None, None).peer

    def be_busy(self) -> None:
        self.app.membership.append_note(self.busy_agent, self.busy_id, "busy")

    def close(self) -> None:
        self.call.cancel()
        self.threads.shutdown()
        self.app.close()


class Change(NamedTuple):
    address: Callable[[Scene], str]
    """What a page reads."""
    make: Callable[[Scene], Any]
    prepare: Callable[[Scene], Any] = lambda scene: None
    fact: Callable[[Any], Any] = lambda reply: {**reply, "now": ""}
    """What must be other than before."""


def renew_lease(scene: Scene) -> None:
    room = scene.app.rooms.get_state(None, scene.room_id).room
    scene.app.turns.heartbeat(scene.holder, scene.room_id, room.lease_id, room.turn_id)


def begin_wait(scene: Scene) -> None:
    scene.threads.submit(scene.app.claims.wait_for_turn, scene.other, scene.room_id, call=scene.call)


def begin_and_see_wait(scene: Scene) -> None:
    begin_wait(scene)
    while "waiting" not in doings(scene.console.get(scene.room)):
        time.sleep(0.01)


def doings(reply: Any) -> list[str]:
    return [member["doing"] for member in reply["room"]["members"]]


def listen(scene: Scene) -> None:
    scene.threads.submit(scene.app.listening.listen, scene.other, 60, scene.call)


def say_as_person(scene: Scene) -> None:
    scene.console.act("send", room_id=scene.room_id, content_markdown="Have you seen this?")


def read_messages(scene: Scene) -> None:
    peer = scene.app.peers.join_as_itself(scene.other, scene.topic_id)
    scene.app.messages.mark_read(peer, 100)


def send_notice(scene: Scene) -> None:
    payload = {"subject": "a", "blocker": "b", "requested_action": "c", "urgency": "low"}
    sent = scene.app.notices.send(scene.holder, scene.room_id, "BLOCKED", "bob:2", payload)
    scene.prepared = sent.event.event_id


def mark_notice(scene: Scene) -> None:
    scene.app.notices.mark(scene.other, scene.prepared, "seen")


def ask(scene: Scene) -> None:
    scene.prepared = scene.app.questions.ask(scene.peer, "Why?").question.question_id


def cancel_question(scene: Scene) -> None:
    scene.app.questions.cancel(scene.peer, scene.prepared, None)


def settle_question(scene: Scene) -> None:
    scene.app.questions.mark_answered(scene.peer, scene.prepared)


def come_in_a_process(scene: Scene) -> None:
    caller = named(scene.app.store, "bob:2", processes.look_up(os.getpid()))
    scene.app.membership.join_path(caller, str(scene.console.folder))


def reserve(scene: Scene) -> None:
    scene.app.reservations.reserve(scene.other, scene.room_id, "src")


def send_message(scene: Scene) -> None:
    scene.app.messages.send(scene.peer, [Draft("Hello")])


def acknowledge(scene: Scene) -> None:
    scene.app.messages.send(scene.peer, [Draft("Read.", "ack")])


def of_room(scene: Scene) -> str:
    return scene.room


def of_topic(scene: Scene) -> str:
    return f"/api/topics/{scene.plans}"


def of_messages(scene: Scene) -> str:
    return f"/api/topics/{scene.plans}/messages"


def of_topics(scene: Scene) -> str:
    return "/api/topics"


CHANGES = {
    "a lease is renewed": Change(of_room, renew_lease),
    "an agent is active": Change(of_room, lambda scene: scene.app.registration.heartbeat(scene.other, scene.room_id)),
    "a wait begins": Change(of_room, begin_wait, fact=doings),
    "a wait ends": Change(of_room, lambda scene: scene.call.cancel(), begin_and_see_wait, doings),
    "an agent listens": Change(of_room, listen, fact=doings),
    "a message is read": Change(of_room, read_messages, say_as_person),
    "an agent has a new name": Change(
        of_room, lambda scene: scene.app.registration.register(scene.other, scene.room_id, "new-name")
    ),
    "an agent has a process": Change(lambda scene: "/api/health", come_in_a_process),
    "the rules are others": Change(
        lambda scene: f"{scene.room}/policy",
        lambda scene: scene.app.membership.set_room_policy(scene.holder, scene.room_id, {"presence_ttl_ms": 77_000}),
    ),
    "the order is another": Change(
        of_room, lambda scene: scene.app.membership.reorder_members(scene.holder, scene.room_id, ["bob:2", "ada:1"])
    ),
    "a member leaves": Change(of_room, lambda scene: scene.app.membership.leave_path(scene.other, scene.room_id)),
    "a notice is seen": Change(of_room, mark_notice, send_notice),
    "a path is reserved": Change(of_room, reserve),
    "a reservation is renewed": Change(of_room, reserve, reserve),
    "a question is cancelled": Change(of_topic, cancel_question, ask),
    "a question is settled": Change(of_topic, settle_question, ask),
    "an agent joins a topic": Change(of_topic, lambda scene: scene.join_topic(scene.other, "bob")),
    "an agent reads a topic": Change(of_topic, lambda scene: scene.app.messages.mark_read(scene.peer, 1), send_message),
    "a topic is created": Change(of_topics, lambda scene: scene.app.topics.create("ideas", None, "reuse")),
    "a topic is renamed": Change(of_topics, lambda scene: scene.app.topics.rename(scene.plans, "old plans")),
    "a topic is closed": Change(of_topics, lambda scene: scene.app.topics.close(scene.plans, None)),
    "a message is sent": Change(of_messages, send_message),
    "a message is acknowledged": Change(of_messages, acknowledge),
    "a name is freed": Change(of_topic, lambda scene: scene.app.messages.free_name(scene.plans, "ada", "A person")),
}


@pytest.fixture
def scene(console: Console, tmp_path: Path) -> Iterator[Scene]:
    busy = tmp_path / "busy"
    busy.mkdir()
    (busy / "AGENTS.md").write_text("")
    scene = Scene(open_app(console.environ), console, busy)
    yield scene
    scene.close()


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_is_announced_while_another_room_is_busy(console: Console, scene: Scene, kind: str) -> None:
    change = CHANGES[kind]
    change.prepare(scene)
    address = change.address(scene)
    before = change.fact(console.get(address))
    stream = console.stream()
    stream.next("hello")

    scene.be_busy()
    change.make(scene)
    scene.be_busy()

    is_seen = False
    while not is_seen:
        stream.next("changed", within=_SECONDS)
        is_seen = change.fact(console.get(address)) != before


def test_a_page_that_reads_causes_no_change(console: Console, scene: Scene) -> None:
    """Otherwise each page would keep itself and all others busy."""
    stream = console.stream()
    stream.next("hello")
    addresses = [scene.room, f"{scene.room}/timeline", f"{scene.room}/turns", "/api/rooms", "/api/health"]
    everywhere = [*addresses, of_topic(scene), of_messages(scene), "/api/topics", "/api/items", "/api/search?q=busy"]
    for address in everywhere:  # the person becomes known, and the search index complete
        console.get(address)
    scene.be_busy()
    stream.next("changed")

    for address in everywhere:
        console.get(address)
    scene.be_busy()
    following = [event.kind for event in stream.take(2)]

    assert following == ["entry", "changed"]
