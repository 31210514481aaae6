"""Every form of the eight calls with a budget keeps it, and holds its lock for two round trips at most."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.callers import named, person
from tests.process.postgres.counted import HANDOFF, KINDS, Caller, Clock, make_presence_due, post_from
from tests.process.postgres.flights import Flights

from conch.app import App, open_app
from conch.bells.base import room_channel, seat_channel
from conch.calls import Call
from conch.clock import MINUTE
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS

SEND, EMPTY, RECEIVE, CLAIM, HEARTBEAT, RELEASE, JOIN, CHECK = 3, 1, 4, 4, 2, 3, 4, 1
REFUSED = 3  # a refusal also says who took the stick
HELD = 2
MANY = 60  # members: more than a release reads at once, unless it has to ask who waits
HOUR = 60 * MINUTE
PRESENCE = 30 * 60_000
LOCK = "pg_advisory_xact_lock("
NUMBERS = count(1)
Object = dict[str, Any]
Act = Callable[[], object]


class Scene:
    """A room of ada and bob with a nested room in it, a free topic of both, and a third agent elsewhere."""

    def __init__(self, app: App, clock: Clock, folder: Path) -> None:
        self.app, self.clock = app, clock
        self.root, nested, elsewhere = folder / "workspace", folder / "workspace" / "nested", folder / "elsewhere"
        for each in (nested / "deeper", elsewhere):
            each.mkdir(parents=True)
        for each in (self.root, elsewhere):
            (each / "AGENTS.md").touch()
        self.ada, self.bob = (Caller(app, agent_id, str(self.root)) for agent_id in ("codex:ada", "claude:bob"))
        self.eve = Caller(app, "gemini:eve", str(elsewhere))
        app.membership.join_path(named(app.store, "codex:ada"), str(nested), force_new=True)
        self.nia = Caller(app, "qwen:nia", str(nested / "deeper"))
        self.home = self.ada.joined["topic_id"]
        self.free = self.ada.call("topic_create", name="free")["topic_id"]
        self.ears: list[Any] = []
        for caller in (self.ada, self.bob):
            caller.call("topic_join", topic_id=self.free, agent_name=caller.joined["agent_id"].replace(":", "-"))

    def label(self, caller: Caller) -> str:
        return f"{caller.joined['agent_id'].partition(':')[0]}·{caller.joined['name']}"

    def send(self, caller: Caller, *drafts: Object, topic: str = "", **given: Any) -> Object:
        outbox = [{"content_markdown": "hello", **each} for each in drafts]
        return caller.call("sync", topic_id=topic or self.home, outbox=outbox, wait_seconds=0, **given)

    def message_id(self, caller: Caller, **draft: Any) -> str:
        return str(self.send(caller, draft)["sent"][0]["message"]["message_id"])

    def known_message(self, **draft: Any) -> str:
        """A message of bob that ada has read."""
        message_id = self.message_id(self.bob, **draft)
        self.read(self.ada)
        return message_id

    def give(self, caller: Caller) -> None:
        """Let the caller hold the stick, whoever it was offered to."""
        other = self.bob if caller is self.ada else self.ada
        if not self.takes(caller):
            if not self.takes(other):
                self.let_lapse()
                assert self.takes(other)
            self.hand_over(other, caller)
            caller.claim()

    def takes(self, caller: Caller) -> bool:
        found = caller.claim()
        if found["status"] == "takeover_available":
            caller.call("takeover_stick", expected_turn_id=found["turn_id"], reason="It is silent.")
        return found["status"] != "not_yet"

    def hand_over(self, caller: Caller, to: Caller) -> None:
        caller.call("set_room_policy", policy={"presence_ttl_ms": PRESENCE})
        to.join()
        caller.call("pass_stick", to_agent_id=to.joined["agent_id"], handoff=HANDOFF)

    def watch(self) -> str:
        """A person is there. Returns its agent_id."""
        watcher = person(self.app.store, "eve")
        self.app.membership.join_path(watcher, str(self.root))
        return watcher.agent_id

    def wait(self, agent_id: str) -> None:
        room_id = self.ada.joined["room_id"]
        self.ears.append(self.app.bell.listen(room_channel(room_id), announce=seat_channel(room_id, agent_id)))

    def let_lapse(self) -> None:
        self.clock.ahead += HOUR

    def read(self, caller: Caller, topic: str = "", **given: Any) -> Object:
        return caller.call("sync", topic_id=topic or self.home, wait_seconds=0, **given)


# -- the calls; each function prepares one, and returns it

Form = Callable[[Scene], Act]
FORMS: list[tuple[int, Form]] = []


def form(most: int) -> Callable[[Form], Form]:
    def note(prepare: Form) -> Form:
        FORMS.append((most, prepare))
        return prepare

    return note


@form(SEND)
def send_to_a_label(s: Scene) -> Act:
    return lambda: s.send(s.ada, {"metadata": {"to": s.label(s.bob)}})


@form(SEND)
def send_to_names(s: Scene) -> Act:
    return lambda: s.send(s.ada, {"metadata": {"to": [s.bob.joined["name"], "nobody", s.bob.joined["agent_id"]]}})


@form(SEND)
def send_with_metadata(s: Scene) -> Act:
    return lambda: s.send(s.ada, {"metadata": {"branch": "main", "nested": {"to": "nobody"}}})


@form(SEND)
def send_a_reply(s: Scene) -> Act:
    replied = s.known_message()
    return lambda: s.send(s.ada, {"reply_to": replied})


@form(SEND)
def send_a_question(s: Scene) -> Act:
    return lambda: s.send(s.ada, {"message_type": "question"})


@form(SEND)
def send_a_question_to_a_label(s: Scene) -> Act:
    return lambda: s.send(s.ada, {"message_type": "question", "metadata": {"to": s.label(s.bob)}})


@form(SEND)
def send_an_answer(s: Scene) -> Act:
    asked = s.known_message(message_type="question")
    return lambda: s.send(s.ada, {"message_type": "answer", "reply_to": asked})


@form(SEND)
def send_an_answer_again(s: Scene) -> Act:
    asked = s.known_message(message_type="question")
    s.send(s.ada, {"message_type": "answer", "reply_to": asked})
    return lambda: s.send(s.ada, {"message_type": "answer", "reply_to": asked})


@form(SEND)
def send_an_ack(s: Scene) -> Act:
    replied = s.known_message()
    return lambda: s.send(s.ada, {"message_type": "ack", "reply_to": replied})


@form(SEND)
def send_with_an_id(s: Scene) -> Act:
    return lambda: s.send(s.ada, {"client_message_id": f"id-{next(NUMBERS)}"})


@form(SEND)
def repeat_a_message(s: Scene) -> Act:
    own = {"client_message_id": f"id-{next(NUMBERS)}"}
    s.send(s.ada, own)
    return lambda: s.send(s.ada, own)


@form(SEND)
def repeat_a_message_to_a_label(s: Scene) -> Act:
    own = {"client_message_id": f"id-{next(NUMBERS)}", "metadata": {"to": s.label(s.bob)}}
    s.send(s.ada, own)
    return lambda: s.send(s.ada, own)


@form(SEND)
def send_on_a_free_topic(s: Scene) -> Act:
    return lambda: s.send(s.ada, {}, topic=s.free)


@form(SEND)
def send_to_a_name_on_a_free_topic(s: Scene) -> Act:
    return lambda: s.send(s.ada, {"metadata": {"to": "claude-bob"}}, topic=s.free)


@form(SEND)
def send_and_acknowledge(s: Scene) -> Act:
    s.message_id(s.bob)
    seq = s.read(s.ada, auto_advance=False)["received"][-1]["seq"]
    return lambda: s.send(s.ada, {}, ack_through=seq)


@form(SEND)
def send_a_batch(s: Scene) -> Act:
    return lambda: s.send(s.ada, *[{}] * 5)


@form(SEND)
def send_a_batch_of_all_kinds(s: Scene) -> Act:
    replied = s.known_message()
    to = {"metadata": {"to": s.label(s.bob)}}
    return lambda: s.send(
        s.ada, {}, to, {"reply_to": replied}, {"message_type": "question"}, {**to, "reply_to": replied}
    )


@form(SEND)
def repeat_a_batch(s: Scene) -> Act:
    own = [{"client_message_id": f"id-{next(NUMBERS)}"} for _ in range(3)]
    s.send(s.ada, *own)
    return lambda: s.send(s.ada, *own, {})


@form(RECEIVE)
def send_and_receive(s: Scene) -> Act:
    s.message_id(s.bob)
    return lambda: s.send(s.ada, {})


@form(RECEIVE)
def send_and_receive_to_names(s: Scene) -> Act:
    s.message_id(s.bob, metadata={"to": s.label(s.ada)})
    return lambda: s.send(s.ada, {"metadata": {"to": s.label(s.bob)}})


@form(RECEIVE)
def reply_before_reading(s: Scene) -> Act:
    asked = s.message_id(s.bob, message_type="question")
    return lambda: s.send(s.ada, {"message_type": "answer", "reply_to": asked})


@form(RECEIVE)
def receive_a_message_to_oneself(s: Scene) -> Act:
    s.message_id(s.bob, metadata={"to": s.label(s.ada)})
    return lambda: s.read(s.ada)


@form(RECEIVE)
def receive_a_question(s: Scene) -> Act:
    s.message_id(s.bob, message_type="question")
    return lambda: s.read(s.ada)


@form(RECEIVE)
def receive_an_ack(s: Scene) -> Act:
    s.message_id(s.bob, message_type="ack")
    return lambda: s.read(s.ada)


@form(RECEIVE)
def receive_a_part(s: Scene) -> Act:
    s.send(s.bob, *[{}] * 3)
    return lambda: s.read(s.ada, max_items=1)


@form(RECEIVE)
def receive_a_hundred(s: Scene) -> Act:
    s.send(s.bob, *[{}] * 50)
    s.send(s.bob, *[{}] * 50)
    return lambda: s.read(s.ada, max_items=30)


@form(RECEIVE)
def receive_ones_own(s: Scene) -> Act:
    s.message_id(s.ada)
    return lambda: s.read(s.ada, include_self=True)


@form(RECEIVE)
def receive_without_moving_the_cursor(s: Scene) -> Act:
    s.message_id(s.bob)
    return lambda: s.read(s.ada, auto_advance=False)


@form(RECEIVE)
def acknowledge(s: Scene) -> Act:
    s.message_id(s.bob)
    seq = s.read(s.ada, auto_advance=False)["received"][-1]["seq"]
    return lambda: s.read(s.ada, ack_through=seq)


@form(RECEIVE)
def receive_on_a_free_topic(s: Scene) -> Act:
    s.send(s.bob, {}, topic=s.free)
    return lambda: s.read(s.ada, topic=s.free)


@form(EMPTY)
def receive_nothing_on_a_free_topic(s: Scene) -> Act:
    s.read(s.ada, topic=s.free)
    return lambda: s.read(s.ada, topic=s.free)


@form(EMPTY)
def receive_nothing_of_ones_own(s: Scene) -> Act:
    s.read(s.ada, include_self=True)
    return lambda: s.read(s.ada, include_self=True)


@form(EMPTY)
def receive_nothing_after_ones_own(s: Scene) -> Act:
    s.read(s.ada)
    s.message_id(s.ada)
    return lambda: s.read(s.ada)


@form(CLAIM)
def claim_what_was_passed(s: Scene) -> Act:
    s.give(s.bob)
    s.hand_over(s.bob, s.ada)
    return s.ada.claim


@form(CLAIM)
def claim_after_notes(s: Scene) -> Act:
    s.give(s.bob)
    s.bob.call("append_note", note="Half of it is done.")
    s.hand_over(s.bob, s.ada)
    s.bob.call("append_note", note="One more thing.")
    return s.ada.claim


@form(CLAIM)
def claim_what_is_free(s: Scene) -> Act:
    s.give(s.bob)
    s.bob.call("set_room_policy", policy={"presence_ttl_ms": 1})
    s.bob.release()
    s.bob.call("set_room_policy", policy={"presence_ttl_ms": PRESENCE})
    return s.ada.claim


@form(CLAIM)
def claim_too_late(s: Scene) -> Act:
    s.give(s.bob)
    s.hand_over(s.bob, s.ada)
    s.let_lapse()
    return s.ada.claim


@form(CLAIM)
def claim_beside_reservations(s: Scene) -> Act:
    s.give(s.bob)
    s.bob.call("scope_reserve", scope="src")
    s.hand_over(s.bob, s.ada)
    return s.ada.claim


@form(CLAIM)
def claim_again(s: Scene) -> Act:
    s.give(s.bob)
    s.hand_over(s.bob, s.ada)
    s.ada.claim()
    return s.ada.claim


@form(CLAIM)
def claim_ones_own_lapsed_turn(s: Scene) -> Act:
    s.give(s.ada)
    s.let_lapse()
    return s.ada.claim


@form(CLAIM)
def claim_in_vain(s: Scene) -> Act:
    s.give(s.bob)
    return s.ada.claim


@form(CLAIM)
def claim_in_vain_with_a_cursor(s: Scene) -> Act:
    s.give(s.bob)
    cursor = s.ada.claim()["cursor"]
    return lambda: s.ada.call("wait_for_turn", max_wait_ms=0, cursor=cursor)


@form(CLAIM)
def claim_what_may_be_taken_over(s: Scene) -> Act:
    s.give(s.bob)
    s.let_lapse()
    return s.ada.claim


@form(HEARTBEAT)
def beat(s: Scene) -> Act:
    s.give(s.ada)
    return lambda: s.ada.call("heartbeat")


@form(HEARTBEAT)
def beat_late(s: Scene) -> Act:
    s.give(s.ada)
    s.let_lapse()
    return lambda: s.ada.call("heartbeat")


def refused(caller: Caller, tool: str, lease: Object, **given: Any) -> Act:
    shown = {"lease_id": lease["lease_id"], "expected_turn_id": lease["turn_id"]}

    def act() -> None:
        reply = call_tool(TOOLS[tool], caller.session, {**shown, **given}, Call())
        assert reply.data["error"] == "turn_mismatch"
        reply.delivery.sent()

    return act


def lost_lease(s: Scene) -> Object:
    """Ada held the stick, and bob has taken it over."""
    s.give(s.ada)
    lease = s.ada.claim()
    s.let_lapse()
    assert s.takes(s.bob)
    return lease


@form(REFUSED)
def beat_in_a_turn_that_was_taken(s: Scene) -> Act:
    return refused(s.ada, "heartbeat", lost_lease(s))


@form(REFUSED)
def release_a_turn_that_was_taken(s: Scene) -> Act:
    return refused(s.ada, "release_stick", lost_lease(s), handoff=HANDOFF)


def release_by(caller: Caller, to: str) -> Act:
    def release() -> None:
        assert caller.release()["reserved_for"] == to

    return release


@form(RELEASE)
def release(s: Scene) -> Act:
    s.give(s.ada)
    s.bob.join()
    return s.ada.release


@form(RELEASE)
def release_to_nobody(s: Scene) -> Act:
    s.give(s.ada)
    s.ada.call("set_room_policy", policy={"presence_ttl_ms": 1})
    return s.ada.release


@form(RELEASE)
def release_to_a_waiting_one_first(s: Scene) -> Act:
    s.give(s.ada)
    s.bob.join()
    s.ada.call("set_room_policy", policy={"presence_ttl_ms": PRESENCE, "release_order": "waiting_first"})
    s.wait(s.bob.joined["agent_id"])
    return release_by(s.ada, to=s.bob.joined["agent_id"])


@form(RELEASE)
def release_for_the_first_time_in_this_process(s: Scene) -> Act:
    act = release_to_a_waiting_one_first(s)
    s.app.turns._asked.clear()
    return act


@form(RELEASE)
def release_to_a_waiting_one_of_many(s: Scene) -> Act:
    act = release_to_a_waiting_one_first(s)
    for number in range(MANY):
        Caller(s.app, f"kilo:{number}", str(s.root))
    return act


@form(RELEASE)
def release_with_all_that_a_handoff_has(s: Scene) -> Act:
    s.give(s.ada)
    s.bob.join()
    s.ada.call("set_room_policy", policy={"presence_ttl_ms": PRESENCE, "release_order": "sequence"})
    artifacts = [{"path": "src/a.py", "lines": [1, 9], "role": "review", "note": "new"}]
    handoff = {**HANDOFF, "artifacts": artifacts, "open_questions": ["Why?"], "do_not": ["rewrite it"]}
    return lambda: s.ada.call("release_stick", handoff=handoff)


@form(RELEASE)
def release_late(s: Scene) -> Act:
    s.give(s.ada)
    s.let_lapse()
    s.bob.join()
    return s.ada.release


@form(RELEASE)
def release_past_a_person(s: Scene) -> Act:
    s.give(s.bob)
    s.ada.join()
    s.watch()
    return release_by(s.bob, to=s.ada.joined["agent_id"])


@form(RELEASE)
def release_past_a_person_for_the_first_time(s: Scene) -> Act:
    act = release_past_a_person(s)
    s.app.turns._asked.clear()
    return act


@form(RELEASE)
def pass_to_a_label(s: Scene) -> Act:
    s.give(s.ada)
    s.bob.join()
    return lambda: s.ada.call("pass_stick", to_agent_id=s.label(s.bob), handoff=HANDOFF)


@form(RELEASE)
def release_to_a_person_that_waits(s: Scene) -> Act:
    s.give(s.bob)
    s.ada.join()
    watcher = s.watch()
    s.wait(watcher)
    return release_by(s.bob, to=watcher)


@form(JOIN)
def join_from_a_subfolder(s: Scene) -> Act:
    folder = str(s.root / "src")
    os.makedirs(folder, exist_ok=True)
    return lambda: s.ada.call("join_path", context_path=folder)


@form(JOIN)
def join_without_a_path(s: Scene) -> Act:
    s.ada.join()
    return lambda: s.ada.call("join_path", context_path=str(s.root))


@form(JOIN)
def join_as_the_owner(s: Scene) -> Act:
    s.give(s.ada)
    return s.ada.join


@form(JOIN)
def join_with_a_role(s: Scene) -> Act:
    s.ada.call("agent_register", role="reviewer")
    return s.ada.join


@form(JOIN)
def join_as_one_that_returns(s: Scene) -> Act:
    s.let_lapse()
    return s.ada.join


@form(JOIN)
def join_in_another_connection(s: Scene) -> Act:
    return lambda: Caller(s.app, "codex:ada", str(s.root))


@form(JOIN)
def join_a_nested_room(s: Scene) -> Act:
    return s.nia.join


@form(CHECK)
def check_a_reserved_path(s: Scene) -> Act:
    s.bob.call("scope_reserve", scope="src")
    return lambda: s.ada.call("scope_check", scope="src/a.py")


@form(CHECK)
def check_a_folder(s: Scene) -> Act:
    s.bob.call("scope_reserve", scope="src/a.py")
    return lambda: s.ada.call("scope_check", scope="src/*")


@form(CHECK)
def check_everything(s: Scene) -> Act:
    return lambda: s.ada.call("scope_check", scope=".")


@form(CHECK)
def check_an_absolute_path(s: Scene) -> Act:
    return lambda: s.ada.call("scope_check", scope=str(s.root / "src" / "b.py"))


@form(CHECK)
def check_inside_a_nested_room(s: Scene) -> Act:
    s.nia.call("scope_reserve", scope="deeper")
    return lambda: s.nia.call("scope_check", scope="deeper/a.py")


@form(CHECK)
def check_a_path_of_a_nested_room(s: Scene) -> Act:
    return lambda: s.ada.call("scope_check", scope="nested/deeper/a.py")


# -- counting


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def scene(environ: dict[str, str], flights: Flights, database: str, clock: Clock, tmp_path: Path) -> Iterator[Scene]:
    url = f"postgresql://conch@127.0.0.1:{flights.port}/{database}?gssencmode=disable&sslmode=disable"
    app = open_app({**environ, "CONCH_STORE": url}, clock)
    yield Scene(app, clock, Path(os.path.realpath(tmp_path)))
    app.close()


def held(flights: list[list[str]]) -> int:
    """For how many round trips a lock is held at most."""
    longest = current = 0
    for flight in flights:
        is_held = current > 0
        for words in flight:
            if LOCK in words and not is_held:
                is_held, current = True, 0
            if words in ("COMMIT", "ROLLBACK") and is_held:
                longest, current, is_held = max(longest, current + 1), 0, False
        current += is_held
    return max(longest, current)


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_a_call_keeps_its_budget(kind: str, scene: Scene, flights: Flights) -> None:
    post = post_from(scene.eve, scene.ada, scene.bob)
    too_many: list[str] = []
    if kind == "mail":
        post()
    for most, prepare in FORMS:
        prepare(scene)()  # warm
        act = prepare(scene)
        if "new mail" in kind:
            post()
        if "presence" in kind:
            make_presence_due(scene.app, scene.clock)
        found = flights.during(act)
        if not 0 < len(found) <= most or held(found) > HELD:
            lines = ["; ".join(" ".join(words.split())[:110] for words in flight) for flight in found]
            too_many += [f"{prepare.__name__}: {len(found)} of {most}, lock {held(found)}", *lines]

    assert not too_many, "\n".join(too_many)
