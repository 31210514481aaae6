"""A pasted secret goes: from its message, from what repeats it, from the index, and from every byte of the files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.callers import person as person_named

from conch.agents.people import Person
from conch.agents.records import Caller
from conch.app import App
from conch.bus.drafts import check_outbox
from conch.errors import InvalidArgument
from conch.notices.timeline import read_timeline
from conch.overseeing.steering import Steering
from conch.rooms.handoffs import _ARTIFACT_FIELDS, _FIELDS
from conch.upkeep.verify import verify_store

SECRET = "hunter2-correct-horse"
PASTED = f'the "password" is\n{SECRET} ' + "and so on " * 500  # too long for one page
BLOCKED = {"subject": "CI", "blocker": f"no token, only {SECRET}", "requested_action": "add", "urgency": "high"}


class World:
    def __init__(self, app: App, agent: Callable[..., Caller], root: Path) -> None:
        root.mkdir()
        (root / "AGENTS.md").touch()
        self.app, self.ada, self.bob = app, agent("ada:1"), agent("bob:1")
        self.person = Person(person_named(app.store, "eve"))
        self.room = app.membership.join_path(self.ada, str(root)).snapshot.room
        app.membership.join_path(self.bob, str(root))
        self.from_ada = app.peers.join_as_itself(self.ada, self.room.topic_id)

    def say(self, text: str, **more: object) -> str:
        draft = {"content_markdown": text, "message_type": "message", **more}
        return self.app.messages.send(self.from_ada, check_outbox([draft], self.app.settings))[0].message.message_id

    def redact(self, message_id: str, secret: str | None = None) -> int:
        redacted = Steering(self.app).redact(self.person, message_id, "a password was pasted", secret)
        assert self.app.store.tidy(compact=True)
        return redacted.repeats

    def texts(self) -> list[str]:
        return [each.content_markdown for each in self.app.messages.history(self.room.topic_id)]


@pytest.fixture
def world(app: App, agent: Callable[..., Caller], tmp_path: Path) -> World:
    return World(app, agent, tmp_path / "work")


def remains(app: App) -> list[str]:
    """The files, and the tables, in which the secret can still be found. Its words are in the full-text index."""
    with app.store.read() as tx:
        tables = [table for table in tx.tables() if any(SECRET in str(row) for row in tx.dump(table))]
    # By another process: closing a file here would drop SQLite's locks on it.
    search = ["grep", "--recursive", "--files-with-matches", "--text", "hunter2", app.settings.data_dir]
    found = subprocess.run(search, capture_output=True, text=True, check=False).stdout
    return tables + [name for name in found.split() if not name.endswith(".backup")]


def test_every_byte_of_a_secret_goes_and_the_record_says_who_did_it(world: World) -> None:
    app, room_id = world.app, world.room.room_id
    world.say("before")
    pasted = world.say(PASTED, metadata={"to": ["bob"], "why": SECRET}, message_type="question")
    world.say(f"you said: {PASTED.strip()}", reply_to=pasted)
    world.say("I used hunter2-correct-horse, thank you")
    app.membership.append_note(world.bob, room_id, f"never write {SECRET}")
    app.notices.send(world.ada, room_id, "BLOCKED", "bob:1", BLOCKED)
    for mode in ("fts", "semantic"):
        assert app.search.search("hunter2", mode=mode).hits
    assert remains(app) != []

    repeats = world.redact(pasted, SECRET)

    assert remains(app) == []
    assert repeats >= 4
    assert "redacted this message: a password was pasted" in world.texts()[1]
    assert world.texts()[0] == "before"
    assert world.texts()[3] == "I used [redacted], thank you"
    assert world.texts()[-1] == "I redacted message #2: a password was pasted"
    assert app.search.search("hunter2", mode="fts").hits == []
    assert [hit.seq for hit in app.search.search("before", mode="fts").hits] == [1]
    assert verify_store(app.store).problems == []


def test_a_secret_goes_from_every_field_of_a_handoff_and_from_the_ids_of_clients(world: World) -> None:
    artifact = {"path": f"src/{SECRET}", "role": "edit", "note": f"has {SECRET}", "lines": [1, 2]}
    handoff = {"status": SECRET, "next_action": SECRET, "open_questions": [SECRET], "do_not": [f"use {SECRET}"]}
    room = world.app.claims.wait_for_turn(world.ada, world.room.room_id, max_wait_ms=0).snapshot.room
    given = {**handoff, "artifacts": [artifact]}
    assert (given.keys(), artifact.keys()) == (_FIELDS.keys(), _ARTIFACT_FIELDS.keys())
    world.app.turns.release_stick(world.ada, room.room_id, room.lease_id or "", room.turn_id, given)
    said = [world.say("twice", client_message_id=f"{number} {SECRET}") for number in range(2)]

    assert world.redact(said[0], SECRET) >= 3

    assert remains(world.app) == []
    assert verify_store(world.app.store).problems == []


def test_without_the_secret_only_what_repeats_the_whole_message_goes(world: World) -> None:
    short, pasted = world.say("yes"), world.say(SECRET)
    world.say(f"quoted: {SECRET}.")
    world.say("yes, indeed")

    assert (world.redact(pasted), world.redact(short)) == (1, 0)

    assert world.texts()[2:4] == ["quoted: [redacted].", "yes, indeed"]
    assert remains(world.app) == []


def test_a_secret_goes_under_names_that_conch_reads_elsewhere(world: World) -> None:
    nested = world.say("nested", metadata={"to": "bob:1", "mail": {"to": SECRET, "redacted_by": [SECRET]}, "no": None})
    world.app.topics.create("pink", {"to": SECRET}, "reuse")

    world.redact(world.say("the message"), SECRET)
    world.redact(world.say("the message"), "null")

    assert remains(world.app) == []
    with world.app.store.read() as tx:
        (metadata,) = [
            json.loads(each["metadata_json"]) for each in tx.dump("messages") if each["message_id"] == nested
        ]
    assert metadata == {"to": "bob:1", "mail": {"to": "[redacted]", "redacted_by": ["[redacted]"]}, "no": None}
    assert verify_store(world.app.store).problems == []


@pytest.mark.parametrize("secret", ["1800", "true", "high", "sequence", "requires_ack", "src/hunter2", "bob:1"])
def test_a_secret_that_is_also_a_number_or_a_word_of_conch_leaves_the_store_sound(world: World, secret: str) -> None:
    app, room_id = world.app, world.room.room_id
    app.reservations.reserve(world.ada, room_id, "src/hunter2", 60, False, None)
    app.registration.register(world.bob, room_id, "bob-the-builder", f"knows {secret}")
    app.notices.send(world.ada, room_id, "BLOCKED", "bob:1", BLOCKED)
    app.claims.wait_for_turn(world.ada, room_id, max_wait_ms=0)
    app.membership.reorder_members(world.ada, room_id, ["bob:1", "ada:1"])
    room = app.rooms.get_state(None, room_id).room
    handoff = {"status": f"It is {secret}.", "next_action": "Go on."}
    app.turns.release_stick(world.ada, room_id, str(room.lease_id), room.turn_id, handoff)
    app.claims.wait_for_turn(world.bob, room_id, max_wait_ms=0)
    pasted = world.say(f"It is {secret}.", metadata={"to": "bob:1", secret: secret, "pin": 18001})

    world.redact(world.say("the message"), secret)

    assert verify_store(app.store).problems == []
    assert read_timeline(app.store, room_id, None, 50).entries
    with app.store.read() as tx:
        (message,) = [row for row in tx.dump("messages") if row["message_id"] == pasted]
        (handed,) = [row["handoff_json"] for row in tx.dump("room_events") if row["handoff_json"]]
        (role,) = [row["role"] for row in tx.dump("registrations")]
    kept = {"to": "bob:1", "[redacted]": "[redacted]", "pin": "[redacted]1" if secret == "1800" else 18001}
    assert json.loads(message["metadata_json"]) == kept
    assert (message["content_markdown"], json.loads(handed)["status"]) == ("It is [redacted].", "It is [redacted].")
    assert role == "knows [redacted]"


def test_a_person_is_told_where_a_secret_stays(world: World) -> None:
    app, room_id = world.app, world.room.room_id
    app.topics.create(f"about-{SECRET}", None, "reuse")
    app.reservations.reserve(world.ada, room_id, f"src/{SECRET}", 60, False, "bead-1")
    app.notices.send(world.ada, room_id, "BLOCKED", "bob:1", BLOCKED, bead_id=SECRET, scope=f"src/{SECRET}")
    pasted = world.say("the message", metadata={"to": [SECRET]})

    redacted = Steering(app).redact(world.person, pasted, "a password was pasted", SECRET)
    other = Steering(app).redact(world.person, world.say("another"), "a password was pasted", "nowhere-else")

    assert redacted.kept == ["names", "addressees", "reserved paths", "scopes of notices", "ids of work items"]
    assert other.kept == []


def test_a_message_can_be_redacted_again_and_keeps_saying_who_did_it(world: World) -> None:
    pasted = world.say(SECRET)
    world.redact(pasted)

    world.redact(pasted)

    assert "redacted this message" in world.texts()[0]
    assert verify_store(world.app.store).problems == []


def test_copies_from_before_are_named_and_those_made_after_are_clean(world: World, environ: dict[str, str]) -> None:
    if "CONCH_STORE" in environ:
        pytest.skip("a server has its own tool for copies")
    pasted = world.say(SECRET)
    world.app.search.search("hunter2", mode="fts")
    before = Path(world.app.store.backup(None))
    world.redact(pasted)
    after = Path(world.app.store.backup(str(before.with_name("after.backup"))))

    assert str(before) in world.app.store.copies()
    assert SECRET.encode() in before.read_bytes()
    assert SECRET.encode() not in after.read_bytes()


def test_what_is_no_message_and_what_is_too_short_for_a_secret_is_refused(world: World) -> None:
    pasted = world.say(SECRET)

    for message_id, secret, field in (("nothing", None, "message"), (pasted, "abc", "secret")):
        with pytest.raises(InvalidArgument) as refused:
            world.redact(message_id, secret)
        assert refused.value.details["field"] == field
    assert world.texts() == [SECRET]
