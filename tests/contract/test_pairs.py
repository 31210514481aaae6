"""Every feature leaves something behind. Whatever happens to it next, the store stays sound and every view answers.

Every feature has a room of its own. The same three agents are in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.arguments import HANDOFF, NOTICE
from tests.callers import named, person
from tests.contract.conftest import MovableClock
from tests.contract.foreign import bus_file, event, message, stick_file
from tests.contract.stores import Original

from conch.agents.people import Person
from conch.agents.records import Caller
from conch.app import App, open_app
from conch.bus.drafts import check_outbox
from conch.calls import Call
from conch.clock import DAY
from conch.errors import ConchError, StoreError, TopicNotFound, UnknownRoom
from conch.harnesses.alarms import Rung
from conch.importing.importing import import_file
from conch.overseeing.steering import Steering
from conch.overseeing.survey import survey
from conch.retention.retention import Retention
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.exporting import export_markdown
from conch.tools.session import Session
from conch.upkeep import wiping
from conch.upkeep.verify import verify_store
from conch.waking.signs import Signs
from conch.waking.waking import Reason

BLOCKED = {"subject": "CI", "blocker": "hunter2hunter2", "requested_action": "add one", "urgency": "high"}
WORDS = ("hunter2hunter2", "true", "null", "1800", "ada:1", "src/", "to_you", "suggested_followups")
HOUR = 60
NUMBERS = count()
A_DAY, A_YEAR = 24 * HOUR, 366 * 24 * HOUR  # minutes


class Scene:
    """A room, and the agents that act in it."""

    def __init__(self, app: App, clock: MovableClock, folder: Path, name: str) -> None:
        self.app, self.clock, self.folder, self.root = app, clock, folder, folder / name
        with app.store.read() as tx:
            found = [row for row in tx.dump("path_rooms") if row["canonical_path"] == str(self.root)]
        self.room_id, self.home = (found[-1]["room_id"], found[-1]["topic_id"]) if found else ("", "")

    def begin(self) -> None:
        self.root.mkdir(parents=True)
        (self.root / "AGENTS.md").touch()
        for who in ("ada", "bob", "carl"):
            joined = self.call(who, "join_path", context_path=str(self.root))
            self.room_id, self.home = joined["room_id"], joined["topic_id"]

    def agent(self, who: str) -> Caller:
        return named(self.app.store, f"{who}:1")

    @property
    def person(self) -> Person:
        return Person(person(self.app.store, "eve"))

    def call(self, who: str, tool: str, /, arrives: bool = True, **given: Any) -> dict[str, Any]:
        """The reply to an agent; a refusal is one, too."""
        session = Session(self.app, "mcp")
        session.speak_as(self.agent(who)._replace(overridden=True))
        properties = TOOLS[tool].input_schema["properties"]
        ours = {"room_id": self.room_id, "topic_id": self.home, "wait_seconds": 0, "max_wait_ms": 0}
        if tool in ("release_stick", "pass_stick", "close_room"):
            room = self.app.rooms.get_state(None, self.room_id).room
            ours |= {"lease_id": room.lease_id or "none", "expected_turn_id": room.turn_id}
        given = {name: value for name, value in ours.items() if name in properties} | given
        reply = call_tool(TOOLS[tool], session, given, Call())
        (reply.delivery.sent if arrives else reply.delivery.not_sent)()
        assert reply.data.get("error") not in ("internal_error", "DB_ERROR", "DB_UNAVAILABLE"), reply.text
        return reply.data

    def say(self, who: str, text: str, **more: Any) -> None:
        self.call(who, "sync", outbox=[{"content_markdown": text, **more}], auto_advance=False)

    def ids(self, table: str, column: str, place: str) -> list[str]:
        with self.app.store.read() as tx:
            return [row[column] for row in tx.dump(table) if place in (row.get("topic_id"), row.get("room_id"))]


Act = Callable[[Scene], object]

# -- what features leave behind


def claim(scene: Scene) -> None:
    scene.call("ada", "wait_for_turn")


def hand_over(scene: Scene) -> None:
    claim(scene)
    scene.call("ada", "release_stick", handoff=HANDOFF)


def pass_on(scene: Scene) -> None:
    claim(scene)
    scene.call("ada", "pass_stick", to_agent_id="bob:1", handoff=HANDOFF)


def decline(scene: Scene) -> None:
    pass_on(scene)
    scene.call("bob", "leave_path")


def lose_a_claim(scene: Scene) -> None:
    pass_on(scene)
    scene.call("bob", "wait_for_turn", arrives=False)


def take_over(scene: Scene) -> None:
    claim(scene)
    scene.clock.advance(minutes=HOUR)
    scene.call("carl", "takeover_stick", expected_turn_id=1, reason="true: 1800 s are over")


def step_in(scene: Scene) -> None:
    pass_on(scene)
    steering = Steering(scene.app)
    steering.nudge(scene.person, scene.room_id, "bob:1", "hunter2hunter2, please")
    steering.pass_for(scene.person, scene.room_id, "bob:1", "carl:1", "hunter2hunter2")


def kick(scene: Scene) -> None:
    pass_on(scene)
    Steering(scene.app).kick(scene.person, scene.room_id, "bob:1", "null")


def reserve(scene: Scene) -> None:
    scene.call("ada", "scope_reserve", scope="src", ttl_minutes=30, bead_id="bd-1")
    scene.call("bob", "scope_reserve", scope="src/a.py")
    scene.call("bob", "scope_reserve", scope="docs")
    scene.call("bob", "scope_release", scope="docs")


def take_a_stale_reservation(scene: Scene) -> None:
    reserve(scene)
    scene.clock.advance(minutes=HOUR)
    scene.call("carl", "scope_reserve", scope="src", takeover_stale=True)


def notify(scene: Scene) -> None:
    scene.call("ada", "event_send", event_type="BLOCKED", to_agent="bob:1", payload=BLOCKED, bead_id="bd-1")
    scene.call("bob", "event_send", event_type="HANDOFF", to_agent="ada:1", payload=NOTICE, scope="src")
    mark(scene, "seen")


def mark(scene: Scene, state: str) -> None:
    for notice in scene.call("bob", "event_inbox").get("events", ()):
        scene.call("bob", "event_mark", event_id=notice["id"], mark=state)


def accept(scene: Scene) -> None:
    pass_on(scene)
    notify(scene)
    mark(scene, "accepted")


def talk(scene: Scene) -> None:
    scene.say("ada", "the password is hunter2hunter2", metadata={"to": ["bob:1", "1800"], "is": True})
    scene.say("bob", "really true?", message_type="question")
    scene.call("carl", "sync")
    scene.call("ada", "messages_search", query="password")


def ask(scene: Scene) -> None:
    scene.call("ada", "ask", question="Is it null?")


def answer(scene: Scene) -> None:
    ask(scene)
    scene.call("bob", "ask", question="Or true?")
    for question_id in scene.ids("questions", "question_id", scene.home):
        response = {"question_id": question_id, "answer_markdown": "1800", "suggested_followups": ["hunter2hunter2?"]}
        for who in ("ada", "bob", "carl"):
            scene.call(who, "answer", responses=[response])


def cancel(scene: Scene) -> None:
    answer(scene)
    for question_id in scene.ids("questions", "question_id", scene.home):
        scene.call("ada", "ask_cancel", question_id=question_id, reason="hunter2hunter2")


def rename(scene: Scene) -> None:
    talk(scene)
    scene.call("ada", "agent_register", name="ada-the-second", role="hunter2hunter2")
    scene.call("bob", "agent_register")


def take_names(scene: Scene) -> None:
    own = scene.agent("bob").name
    scene.call("ada", "topic_join", agent_name="red-squirrel")
    token = scene.call("bob", "topic_join", agent_name=own).get("reclaim_token")
    scene.call("carl", "topic_join", agent_name=own, reclaim_token=token)


def free_names(scene: Scene) -> None:
    talk(scene)
    with scene.app.store.read() as tx:
        names = [
            row["name"] for row in tx.dump("peers") if row["topic_id"] == scene.home and row["agent_id"] == "bob:1"
        ]
    for name in names:
        Steering(scene.app).free_name(scene.person, scene.home, name)


def adopt(scene: Scene, heir: str = "bob", prior: str = "ada") -> Any:
    scene.clock.advance(minutes=A_DAY)
    return scene.app.adoption.adopt(scene.agent(heir), scene.room_id, f"{prior}:1", "*", confirmed=True)


def adopt_all(scene: Scene) -> None:
    answer(scene)
    reserve(scene)
    pass_on(scene)
    adopt(scene)
    adopt(scene, "carl", "bob")


def adopt_in_vain(scene: Scene) -> None:
    reserve(scene)
    scene.app.adoption.give_back(scene.agent("bob"), scene.room_id, adopt(scene).moved)


def wake(scene: Scene) -> None:
    signs = Signs(str(scene.folder), "ada:1")
    signs.note_stop("session-1")
    scene.app.waking.wake("ada:1", signs, [Reason("a", "message", "bob")], lambda text, session_id: Rung("queued"))


def watch(scene: Scene) -> None:
    scene.app.membership.enter(scene.person.caller, scene.room_id)
    peer = scene.app.peers.join_as_itself(scene.person.caller, scene.home)
    scene.app.messages.send(peer, check_outbox([{"content_markdown": "hello, ada:1"}], scene.app.settings))
    scene.app.membership.take_turns(scene.person.caller, scene.room_id)


def rule(scene: Scene) -> None:
    scene.call("ada", "set_room_policy", policy={"claim_ttl_ms": 5_000})
    scene.call("ada", "reorder_members", order=["carl:1", "ada:1"])
    scene.call("ada", "append_note", note="true or null, hunter2hunter2")


def leave(scene: Scene) -> None:
    for who in ("ada", "bob", "carl"):
        scene.call(who, "leave_path")


def close(scene: Scene) -> None:
    claim(scene)
    scene.call("ada", "close_room", reason="hunter2hunter2")


def open_again(scene: Scene) -> None:
    reserve(scene)
    notify(scene)
    close(scene)
    scene.call("bob", "join_path", context_path=str(scene.root))


def bring(scene: Scene) -> None:
    file = scene.folder / f"{scene.root.name}.stick"
    if not file.exists():
        rows = event(1, "claim", 1, None, "codex:7"), event(2, "release", 1, "codex:7", "ada:1")
        stick_file(file, str(scene.root), ["codex:7", "ada:1"]).insert("room_events", *rows)
    bus = scene.folder / "bus.sqlite"
    if not bus.exists():
        why = message(1, "blue-fox", "hunter2hunter2?", message_type="question")
        because = message(
            2, "red-squirrel", "1800", message_type="answer", reply_to="m1", metadata_json='{"to": "ada:1"}'
        )
        bus_file(bus).insert("messages", why, because)
    for each in (file, bus):
        import_file(scene.app.store, scene.app.settings, str(each), is_dry_run=False)


FEATURES: tuple[Act, ...] = (
    *(claim, hand_over, pass_on, decline, lose_a_claim, take_over, step_in, kick, reserve, take_a_stale_reservation),
    *(
        notify,
        accept,
        talk,
        ask,
        answer,
        cancel,
        rename,
        take_names,
        free_names,
        adopt_all,
        adopt_in_vain,
        wake,
        watch,
        rule,
    ),
    *(leave, close, open_again, bring),
)

# -- what happens then


def prune(scene: Scene) -> None:
    Retention(scene.app.store, scene.app.bell, scene.app.settings).prune(1 * DAY)


def redact(scene: Scene) -> None:
    for number, message_id in enumerate(scene.ids("messages", "message_id", scene.home)):
        Steering(scene.app).redact(scene.person, message_id, "a password", WORDS[number % len(WORDS)])


def erase(scene: Scene) -> None:
    (doomed,) = wiping.survey(scene.app.store, scene.app.rooms, scene.room_id).rooms
    wiping.erase_room(scene.app.store, doomed)


NEXT = (prune, redact, erase, adopt, adopt_in_vain, kick, free_names, bring, step_in)


def require_sound(app: App) -> None:
    assert [problem.sentence for problem in verify_store(app.store).problems] == []


def require_views(scene: Scene) -> None:
    """Every view of a room, of its topic and of what is in them answers."""
    for tool in ("get_room_state", "agent_list", "topic_presence", "pending_list"):
        scene.call("bob", tool)
    scene.call("bob", "get_room_events", all=True, after=0)
    scene.call("bob", "scope_list", include_ended=True)
    scene.call("bob", "event_inbox", state="all")
    scene.call("carl", "sync", arrives=False)
    for question_id in scene.ids("questions", "question_id", scene.home):
        scene.call("bob", "ask_poll", question_id=question_id)
    with suppress(UnknownRoom, TopicNotFound):  # it was erased
        assert (
            survey(scene.app.store, scene.app.bell, scene.app.rooms, scene.room_id, "ada:1", []).standings is not None
        )
        assert "\n".join(export_markdown(scene.app, scene.home)).startswith("#")


def play(scenes: list[Scene], act: Act) -> None:
    for scene in scenes:
        try:
            act(scene)
        except StoreError:
            raise
        except ConchError:  # it cannot be done there
            pass


def fill(environ: dict[str, str], workspace: Path) -> None:
    clock = MovableClock()
    app = open_app(environ, clock)
    for feature in FEATURES:
        scene = Scene(app, clock, workspace, feature.__name__)
        scene.begin()
        feature(scene)
    app.close()


@contextmanager
def filled(original: Original) -> Iterator[list[Scene]]:
    clock = MovableClock()
    clock.advance(minutes=30 * A_DAY)
    app = original.copy(f"pair-{next(NUMBERS)}", clock)
    yield [Scene(app, clock, original.workspace, feature.__name__) for feature in FEATURES]
    original.end(app)


@pytest.mark.parametrize("act", NEXT)
def test_nothing_breaks_at_what_a_feature_leaves_behind(original: Original, act: Act) -> None:
    with filled(original) as scenes:
        play(scenes, act)
        require_sound(scenes[0].app)
        for scene in scenes:
            require_views(scene)

        scenes[0].clock.advance(minutes=A_YEAR)
        prune(scenes[0])

        require_sound(scenes[0].app)
