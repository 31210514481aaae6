"""What is old and done with goes. What is open, unread or unaccepted stays, and the store stays sound."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.callers import named
from tests.contract.conftest import DEADLINE, MovableClock
from tests.contract.stores import Original

from conch.agents.records import Caller
from conch.agents.signals import console_signals, remote_signals
from conch.app import App, open_app
from conch.bus.drafts import check_outbox
from conch.bus.peers import Peer
from conch.calls import Call
from conch.clock import DAY
from conch.errors import UnknownRoom
from conch.harnesses.alarms import Rung
from conch.retention.pruning import Pruned, Pruning
from conch.retention.retention import Retention, keep_pruned
from conch.rooms.log import list_events
from conch.rooms.room import Room
from conch.storage.base import Problem
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.session import Session
from conch.upkeep.verify import verify_store
from conch.waking.signs import Signs
from conch.waking.waking import Reason

HANDOFF = {"status": "done", "next_action": "go on"}
BLOCKED = {"subject": "CI", "blocker": "no token", "requested_action": "add one", "urgency": "high"}


class World:
    """A room with two agents, in which days pass."""

    def __init__(self, app: App, agent: Callable[..., Caller], clock: Any, root: Path) -> None:
        root.mkdir(exist_ok=True)
        (root / "AGENTS.md").touch()
        self.app, self.clock, self.root = app, clock, root
        self.ada, self.bob = agent("ada:1"), agent("bob:1")
        self.room = app.membership.join_path(self.ada, str(root)).snapshot.room
        app.membership.join_path(self.bob, str(root))
        self.from_ada = app.peers.join_as_itself(self.ada, self.room.topic_id)
        self.from_bob = app.peers.join_as_itself(self.bob, self.room.topic_id)

    def pass_days(self, days: float, *, unseen: tuple[Caller, ...] = ()) -> None:
        """At the end, all agents are seen but these."""
        self.clock.advance(minutes=days * 24 * 60)
        for agent in (self.ada, self.bob):
            if agent not in unseen:
                self.see(agent)

    def see(self, agent: Caller) -> None:
        with self.app.store.write(agent.agent_id) as tx:
            tx.run("touch_agent", agent_id=agent.agent_id, now=tx.now)

    def say(self, *texts: str, peer: Peer | None = None, **more: Any) -> list[str]:
        drafts = [{"content_markdown": text, "message_type": "message", **more} for text in texts]
        settings = self.app.settings._replace(max_publish_batch=1_000)
        sent = self.app.messages.send(peer or self.from_ada, check_outbox(drafts, settings))
        return [each.message.message_id for each in sent]

    def read(self, *peers: Peer) -> None:
        for peer in peers or (self.from_ada, self.from_bob):
            with self.app.store.read() as tx:
                numbers = tx.one("topic_numbers", topic_id=peer.topic_id)
            assert numbers is not None
            self.app.messages.mark_read(peer, numbers["last_seq"])

    def take_turns(self, count: int = 1) -> None:
        for _ in range(count):
            for agent in (self.ada, self.bob):
                lease = self.claim(agent)
                self.app.turns.release_stick(agent, self.room.room_id, lease.lease_id, lease.turn_id, HANDOFF)

    def claim(self, agent: Caller) -> Room:
        self.app.claims.wait_for_turn(agent, self.room.room_id, max_wait_ms=0)
        return self.app.rooms.get_state(None, self.room.room_id).room

    def prune(self, days: int = 90) -> Pruned:
        return self.retention.prune(days * DAY).pruned

    @property
    def retention(self) -> Retention:
        return Retention(self.app.store, self.app.bell, self.app.settings)

    def texts(self, topic_id: str | None = None) -> list[str]:
        return [each.content_markdown for each in self.app.messages.history(topic_id or self.room.topic_id)]

    def problems(self) -> list[Problem]:
        return verify_store(self.app.store).problems


@pytest.fixture
def world(app: App, agent: Callable[..., Caller], clock: Any, tmp_path: Path) -> World:
    return World(app, agent, clock, tmp_path / "work")


def test_old_messages_that_everybody_read_go_and_the_rest_is_numbered_on(world: World) -> None:
    world.say(*(f"old {number}" for number in range(600)))
    world.read()
    world.app.search.search("old", mode="fts")
    world.pass_days(100)
    world.say("young")

    dry = world.retention.survey(90 * DAY)
    pruned = world.prune()
    again = world.prune()

    assert (dry.messages, pruned.messages, again) == (600, 600, Pruned())
    assert world.texts() == ["young"]
    assert [hit.seq for hit in world.app.search.search("young", mode="fts").hits] == [601]
    assert world.app.search.search("old", mode="fts").hits == []
    assert world.problems() == []


def test_a_message_that_a_living_agent_has_not_read_stays_with_all_after_it(world: World) -> None:
    world.say("read")
    world.read()
    world.say("unread", "unread too")
    world.read(world.from_ada)
    world.pass_days(100)
    world.app.messages.mark_read(world.from_bob, 0)  # it is alive, and has read no more

    assert world.prune().messages == 1
    assert world.texts() == ["unread", "unread too"]
    assert world.problems() == []


def test_an_agent_that_joined_later_holds_back_nothing_from_before(world: World, agent: Callable[..., Caller]) -> None:
    world.say("history")
    world.read()
    world.pass_days(100)
    carol = agent("carol:1")
    world.app.membership.join_path(carol, str(world.root))
    reader = world.app.peers.join_as_itself(carol, world.room.topic_id)
    world.say("young")

    assert world.prune().messages == 1
    assert [each.content_markdown for each in world.app.messages.sync(reader, []).page.received] == ["young"]
    assert world.problems() == []


def test_an_agent_that_is_long_gone_holds_nothing_back_and_counts_right_when_it_returns(world: World) -> None:
    world.say("one", "two", "three")
    world.say("of bob", peer=world.from_bob)
    world.read(world.from_ada)
    world.pass_days(100, unseen=(world.bob,))
    world.say("young", metadata={"to": world.bob.name})

    assert world.prune().messages == 4
    page = world.app.messages.sync(world.from_bob, []).page

    assert ([each.content_markdown for each in page.received], page.has_more) == (["young"], False)
    world.say("again of bob", peer=world.from_bob)
    assert world.problems() == []


def test_a_pending_question_stays_with_its_thread_and_an_answered_one_goes_with_its_answer(world: World) -> None:
    world.say("first")
    (thread,) = world.say("thread")
    world.say("between")
    (asked,) = world.say("Why?", message_type="question", reply_to=thread)
    world.read()
    world.pass_days(100)
    assert world.prune().messages == 1

    world.app.messages.send(
        world.from_bob,
        check_outbox([{"content_markdown": "So.", "message_type": "answer", "reply_to": asked}], world.app.settings),
    )
    world.app.questions.cancel(world.from_ada, asked, "enough")
    world.read()
    world.pass_days(50)
    world.prune()
    assert world.texts() == ["Why?", "So."]  # the answer is young
    world.pass_days(50)

    assert (world.prune().messages, world.texts()) == (2, [])
    assert world.problems() == []


def test_the_log_starts_at_a_checkpoint_and_the_last_handoff_stays(world: World) -> None:
    world.take_turns(200)
    world.pass_days(100)
    before = world.app.rooms.get_state(None, world.room.room_id)

    dry = world.retention.survey(90 * DAY)
    pruned = world.prune()
    events = list_events(world.app.store, world.room.room_id, 0, 100).events

    assert (pruned.events, pruned.events, pruned.notices) == (dry.events, 801, dry.notices)
    assert [event.event_type for event in events] == ["release"]
    assert world.app.rooms.get_state(None, world.room.room_id).room == before.room
    assert world.problems() == []
    world.take_turns()
    assert world.problems() == []


def test_a_hole_above_the_checkpoint_and_above_the_lowest_message_is_found(world: World) -> None:
    world.take_turns(3)
    world.say("old", "older")
    world.read()
    world.pass_days(100)
    world.take_turns(2)
    world.say("a", "b", "c")
    world.prune()
    with world.app.store.write(world.room.topic_id, world.room.room_id) as tx:
        (middle,) = tx.all("messages_after", topic_id=world.room.topic_id, after=3, limit=1)
        tx.run("prune_messages", topic_id=world.room.topic_id, after=middle["seq"] - 1, through=middle["seq"])
        first = tx.all("events_after", room_id=world.room.room_id, after=0, limit=2)[-1]
        tx.run("set_checkpoint", room_id=world.room.room_id, event_seq=first["event_seq"], replay_json="{}", now=0)

    sentences = " ".join(problem.sentence for problem in world.problems())

    assert f"The first missing seq is {middle['seq']}" in sentences
    assert "were pruned" in sentences
    assert "cannot be replayed" in sentences


def test_ended_reservations_and_accepted_notices_go_and_open_ones_stay(world: World) -> None:
    reservations, room_id = world.app.reservations, world.room.room_id
    reservations.reserve(world.ada, room_id, "ended", 60, False, None)
    reservations.release(world.ada, room_id, "ended")
    notices = [
        world.app.notices.send(world.ada, room_id, "BLOCKED", "bob:1", {**BLOCKED, "subject": reason}).event.event_id
        for reason in ("one", "another")
    ]
    world.app.notices.mark(world.bob, notices[0], "accepted")
    world.pass_days(100)
    reservations.reserve(world.ada, room_id, "active", 60, False, None)

    pruned = world.prune()

    assert (pruned.reservations, pruned.notices) == (1, 1)
    left = world.app.notices.inbox(world.bob, room_id, ["unread", "seen", "accepted"], 10)
    assert [event.event_id for event in left] == [notices[1]]
    assert world.problems() == []


def test_a_reservation_that_expired_goes_and_keeps_neither_its_owner_nor_a_closed_room(
    world: World, agent: Callable[..., Caller]
) -> None:
    crashed, room_id = agent("crashed:1"), world.room.room_id
    world.app.membership.join_path(crashed, str(world.root))
    for number in range(120):
        world.app.reservations.reserve(crashed, room_id, f"src/{number}", 60, False, None)
    world.pass_days(100)
    world.app.reservations.reserve(world.ada, room_id, "docs", 60, False, None)

    dry, pruned = world.retention.survey(90 * DAY), world.prune()

    assert (dry.reservations, pruned.reservations, pruned.members) == (120, 120, 1)
    assert [each.scope for each in world.app.reservations.list_reservations(None, room_id)] == ["docs"]
    assert world.problems() == []
    lease = world.claim(world.ada)
    world.app.membership.close_room(world.ada, room_id, lease.lease_id, lease.turn_id, "done")
    world.pass_days(100)
    assert (world.retention.survey(90 * DAY).rooms, world.prune().rooms, world.problems()) == (1, 1, [])


def test_a_closed_room_goes_whole_and_its_bells_with_it(world: World) -> None:
    world.take_turns()
    world.say("hello")
    world.read()
    lease = world.claim(world.ada)
    world.app.membership.close_room(world.ada, lease.room_id, lease.lease_id, lease.turn_id, "done")
    bells = Path(world.app.settings.data_dir, "bells")
    world.pass_days(100)

    assert world.prune(200) == Pruned()
    assert world.prune().rooms == 1

    with pytest.raises(UnknownRoom):
        world.app.rooms.get_state(None, world.room.room_id)
    assert [each.name for each in bells.glob(f"*{world.room.room_id}*")] == []
    assert world.problems() == []


def test_a_closed_topic_goes_unless_it_has_what_a_living_agent_has_not_read(world: World) -> None:
    topics = [world.app.topics.create(name, None, "reuse")[0].topic_id for name in ("first", "second")]
    for topic_id in topics:
        peer = world.app.peers.join_as_itself(world.ada, topic_id)
        world.say("hello", peer=peer)
    unread = world.app.peers.join_as_itself(world.bob, topics[1])
    for topic_id in topics:
        world.app.topics.close(topic_id, "done")
    world.pass_days(100)
    world.app.messages.mark_read(unread, 0)

    assert world.prune().topics == 1
    assert world.texts(topics[1]) == ["hello"]
    assert world.problems() == []


def test_a_closed_room_stays_while_a_notice_in_it_is_not_accepted(world: World) -> None:
    sent = world.app.notices.send(world.ada, world.room.room_id, "BLOCKED", "bob:1", BLOCKED).event.event_id
    lease = world.claim(world.ada)
    world.app.membership.close_room(world.ada, lease.room_id, lease.lease_id, lease.turn_id, "done")
    world.pass_days(100)

    assert world.prune().rooms == 0
    world.app.notices.mark(world.bob, sent, "accepted")
    world.pass_days(100)

    assert (world.prune().rooms, world.problems()) == (1, [])


def test_a_notice_for_an_agent_that_never_returns_does_not_keep_a_closed_room(world: World) -> None:
    world.app.notices.send(world.ada, world.room.room_id, "BLOCKED", "bob:1", BLOCKED)
    lease = world.claim(world.ada)
    world.app.membership.close_room(world.ada, lease.room_id, lease.lease_id, lease.turn_id, "done")
    world.pass_days(100, unseen=(world.bob,))

    assert (world.retention.survey(90 * DAY).rooms, world.prune().rooms, world.problems()) == (1, 1, [])
    assert "bob:1" not in agents_left(world)


def agents_left(world: World) -> set[str]:
    with world.app.store.read() as tx:
        return {row["agent_id"] for row in tx.dump("agents")}


def test_agents_of_long_ago_that_nothing_refers_to_leave_and_are_forgotten(
    world: World, agent: Callable[..., Caller]
) -> None:
    for number in range(120):
        passing = agent(f"passing:{number}")
        world.app.membership.join_path(passing, str(world.root))
        world.app.peers.join_as_itself(passing, world.room.topic_id)
    world.pass_days(100)

    dry, pruned, again = world.retention.survey(90 * DAY), world.prune(), world.prune()
    world.pass_days(100)  # until now, the log says that they left
    world.take_turns()
    later = world.prune()

    assert (dry.members, pruned.members, pruned.agents, again) == (120, 120, 0, Pruned())
    assert (later.members, later.agents) == (0, 120)
    assert agents_left(world) == {"ada:1", "bob:1"}
    assert [each.agent_id for each in world.app.rooms.get_state(None, world.room.room_id).members] == ["ada:1", "bob:1"]
    assert world.problems() == []
    back = agent("passing:7")
    assert world.app.membership.join_path(back, str(world.root)).created is False
    assert world.problems() == []


def test_an_agent_that_resumed_one_with_questions_stays_as_long_as_they_do(
    world: World, agent: Callable[..., Caller]
) -> None:
    prior, heir = agent("prior:1"), agent("heir:1")
    for each in (prior, heir):
        world.app.membership.join_path(each, str(world.root))
    peer = world.app.peers.join_as_itself(prior, world.room.topic_id)
    pending = world.app.questions.ask(peer, "Which one?").question.question_id
    world.pass_days(2)
    world.app.adoption.adopt(heir, world.room.room_id, prior.name, ".", confirmed=True)
    world.pass_days(100)

    assert world.prune().members == 2

    assert "heir:1" in agents_left(world)
    assert world.app.questions.poll(world.room.topic_id, pending).question.asked_by == prior.name
    assert world.problems() == []


@pytest.mark.parametrize("given", [{}, {"agent_id_override": "chosen:1"}])
def test_an_agent_with_a_chosen_id_and_no_known_process_can_join_again_after_being_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    session = Session(world.app, "web", signals=lambda called_in: remote_signals("codex", "session 1", called_in))
    session.rejoin("chosen:1")
    world.pass_days(100)
    assert world.prune().agents == 2  # and the agent that chose the id
    monkeypatch.setattr(time, "time", lambda: time.time_ns() / 1e9 + 100 * 86_400)

    reply = call_tool(TOOLS["join_path"], session, {"context_path": str(world.root), **given}, Call())

    assert not reply.is_error, reply.text
    assert session.caller().agent_id == "chosen:1"
    assert world.problems() == []


def test_a_person_whose_console_stayed_open_can_still_act_after_being_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Session(world.app, "web", signals=lambda called_in: console_signals({"USER": "eve"}))
    before = console.caller()
    world.pass_days(100)
    assert world.prune().agents == 1
    monkeypatch.setattr(time, "time", lambda: time.time_ns() / 1e9 + 100 * 86_400)

    room = world.app.membership.enter(console.caller(), world.room.room_id)

    assert room.room_id == world.room.room_id
    assert before.agent_id in agents_left(world)
    assert world.problems() == []


def test_the_record_of_a_wake_goes_and_does_not_keep_its_agent(
    world: World, agent: Callable[..., Caller], tmp_path: Path
) -> None:
    sleeper, signs = agent("sleeper:1"), Signs(str(tmp_path), "sleeper:1")
    world.app.membership.join_path(sleeper, str(world.root))
    signs.note_stop("session-1")
    world.app.waking.wake("sleeper:1", signs, [Reason("a", "message", "ada")], lambda text, session_id: Rung("queued"))
    world.pass_days(100)
    world.prune()
    world.pass_days(100)  # until now, the log says that it left
    world.take_turns()

    assert world.prune().agents == 1
    assert agents_left(world) == {"ada:1", "bob:1"}
    assert world.problems() == []


def test_agents_of_long_ago_stay_as_long_as_they_hold_said_or_await_something(
    world: World, agent: Callable[..., Caller], child: Callable[[], Any]
) -> None:
    room_id, running = world.room.room_id, child()
    holding, reserving, notified, alive = agent("a:1"), agent("b:1"), agent("c:1"), agent("d:1", running.process)
    for each in (holding, reserving, notified, alive):
        world.app.membership.join_path(each, str(world.root))
    world.claim(holding)
    world.app.reservations.reserve(reserving, room_id, "src")
    world.app.notices.send(world.ada, room_id, "BLOCKED", "c:1", BLOCKED)
    speaking = agent("e:1")
    world.say("heard by nobody", peer=world.app.peers.join_as_itself(speaking, world.room.topic_id))
    world.pass_days(100)

    world.prune()

    assert agents_left(world) >= {"a:1", "b:1", "c:1", "d:1", "e:1"}
    assert world.problems() == []


def test_a_prune_that_failed_is_tried_again_after_an_hour(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.say("old")
    world.read()
    world.pass_days(100)
    retention = Retention(world.app.store, world.app.bell, world.app.settings._replace(retention_days=90))

    def fail(self: Pruning) -> Pruned:
        raise OSError("no space left")

    with monkeypatch.context() as broken, pytest.raises(OSError, match="space"):
        broken.setattr(Pruning, "run", fail)
        retention.prune_if_due()

    assert retention.prune_if_due() is None
    world.pass_days(1.1 / 24)
    outcome = retention.prune_if_due()
    assert outcome is not None and outcome.pruned.messages == 1
    assert retention.prune_if_due() is None


def test_by_the_setting_it_is_pruned_once_a_day_by_whoever_comes_first(world: World) -> None:
    world.say("old")
    world.read()
    world.pass_days(100)
    app, settings = world.app, world.app.settings._replace(retention_days=90)
    first, second = (Retention(app.store, app.bell, settings) for _ in range(2))

    outcomes = [first.prune_if_due(), second.prune_if_due(), world.retention.prune_if_due()]
    world.pass_days(1)

    assert [outcome and outcome.pruned.messages for outcome in outcomes] == [1, None, None]
    assert second.prune_if_due() is not None
    assert world.problems() == []


def test_a_server_prunes_in_a_thread_of_its_own(world: World) -> None:
    world.say("old")
    world.read()
    world.pass_days(100)
    retention = Retention(world.app.store, world.app.bell, world.app.settings._replace(retention_days=90))

    keep_pruned(retention, first_pause=0)

    deadline = time.monotonic() + DEADLINE
    while world.texts() and time.monotonic() < deadline:
        time.sleep(0.02)  # so that the other thread gets the interpreter
    assert world.texts() == []


def fill(environ: dict[str, str], workspace: Path) -> None:
    clock = MovableClock()
    app = open_app(environ, clock)
    world = World(app, partial(named, app.store), clock, workspace)
    world.say(*(f"old {number}" for number in range(600)))
    world.read()
    world.app.search.search("old", mode="fts")
    world.take_turns(150)
    app.close()


@pytest.fixture
def full_world(original: Original, clock: MovableClock, tmp_path: Path) -> Iterator[World]:
    app = original.copy(tmp_path.name, clock)
    yield World(app, partial(named, app.store), clock, original.workspace)
    original.end(app)


@pytest.mark.parametrize("steps", range(0, 9, 2))
def test_a_run_that_is_killed_between_two_steps_leaves_a_sound_store(full_world: World, steps: int) -> None:
    world = full_world
    world.pass_days(100)
    left = iter(range(steps))

    def die() -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Pruning(world.app.store, 90 * DAY, die).run()

    assert world.problems() == []
    world.prune()
    assert (world.texts(), world.prune(), world.problems()) == ([], Pruned(), [])
