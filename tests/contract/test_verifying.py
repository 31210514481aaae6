"""A store that is sound is called sound, and every damage is found and named."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.contract.conftest import Client, MovableClock
from tests.contract.damages import DAMAGES, EVERY_TABLE, UNTOLD, Damage
from tests.contract.stores import Original

from conch.app import App, open_app
from conch.storage.postgres import integrity
from conch.upkeep.verify import verify_store

HANDOFF = {"status": "done", "next_action": "go on"}
BLOCKED = {"subject": "CI", "blocker": "no token", "requested_action": "add one", "urgency": "high"}


def let_go(client: Client, tool: str, **arguments: Any) -> None:
    turn = client.data("wait_for_turn", max_wait_ms=0)
    client.data(tool, lease_id=turn["lease_id"], expected_turn_id=turn["turn_id"], **arguments)


def take_turns(ada: Client, bob: Client, eve: Client, clock: MovableClock) -> None:
    let_go(ada, "release_stick", handoff=HANDOFF)
    let_go(bob, "pass_stick", to_agent_id="ada:1", handoff=HANDOFF)
    clock.advance(minutes=60)
    for each in (ada, bob, eve):
        each.data("agent_heartbeat")
    turn_id = ada.data("get_room_state")["room"]["turn_id"]
    eve.data("takeover_stick", expected_turn_id=turn_id, reason="ada is late")
    let_go(eve, "release_stick", handoff=HANDOFF)
    ada.data("wait_for_turn", max_wait_ms=0)
    bob.data("append_note", note="so far so good")
    bob.data("reorder_members", order=["eve:3", "ada:1", "bob:2"])
    bob.data("set_room_policy", policy={"claim_ttl_ms": 60_000})
    ada.call("heartbeat")
    eve.data("leave_path")


def talk(ada: Client, bob: Client) -> None:
    topic_id = ada.data("topic_create", name="pink", metadata={"for": "tests"})["topic_id"]
    ada.join(topic_id, "red")
    first, _ = ada.send(topic_id, "hello", "world", metadata={"to": "blue"})
    bob.join(topic_id, "blue")
    bob.send(topic_id, "hi", reply_to=first["message_id"], client_message_id="k-1")
    bob.read(topic_id)
    asked = [ada.data("ask", topic_id=topic_id, question=f"Why {n}?", wait_seconds=0)["question_id"] for n in range(3)]
    response = {"question_id": asked[0], "answer_markdown": "So.", "suggested_followups": ["Really?"]}
    bob.data("answer", topic_id=topic_id, responses=[response])
    ada.data("question_mark_answered", topic_id=topic_id, question_id=asked[1])
    ada.data("ask_cancel", topic_id=topic_id, question_id=asked[2], reason="never mind")
    ada.send(ada.home, "at home")
    ada.data("messages_search", query="hello", mode="fts")


def reserve(ada: Client, bob: Client) -> None:
    ada.data("agent_register", name="amber-otter", role="parser")
    ada.reserve("src")
    bob.reserve("docs")
    bob.refused("scope_reserve", scope="src/lib")
    ada.reserve("src/old")
    bob.reserve("tests/a")
    bob.data("scope_release", scope="tests/a")
    ada.reserve("tests")
    sent = bob.data("event_send", event_type="BLOCKED", to_agent="ada:1", payload=BLOCKED)
    assert sent["event"]["state"] == "unread"
    incursion = ada.inbox()[-2]
    ada.data("event_mark", event_id=incursion["id"], mark="accepted")


def fill(environ: dict[str, str], workspace: Path) -> None:
    """Let three agents use every domain, in a room after a closed one."""
    workspace.mkdir()
    (workspace / "AGENTS.md").write_text("")
    clock = MovableClock()
    app = open_app(environ, clock)
    let_go(Client(app, "ada:1", str(workspace)), "close_room", reason="to begin again")
    ada, bob, eve = (Client(app, agent_id, str(workspace)) for agent_id in ("ada:1", "bob:2", "eve:3"))
    take_turns(ada, bob, eve, clock)
    talk(ada, bob)
    reserve(ada, bob)
    app.close()


@pytest.fixture
def copy(original: Original, request: pytest.FixtureRequest) -> Iterator[tuple[App, Callable[[str], None]]]:
    """A copy of the filled store, and a way to damage it."""
    name = f"copy_{abs(hash(request.node.name))}"
    app = original.copy(name)
    yield app, partial(original.damage, name)
    original.end(app)


def test_a_store_that_was_used_in_every_way_is_sound(copy: tuple[App, Callable[[str], None]]) -> None:
    found = verify_store(copy[0].store)

    assert found.problems == []
    assert (found.rooms, found.checks > 60) == (2, True)


@pytest.mark.parametrize(
    ("original", "damage"),
    [
        pytest.param(engine, damage, id=f"{engine}-{name}")
        for engine in ("sqlite", "postgres")
        for name, damage in DAMAGES.items()
        if engine in damage.engines
    ],
    indirect=["original"],
)
def test_a_damage_is_found_and_named(copy: tuple[App, Callable[[str], None]], damage: Damage) -> None:
    app, run = copy

    run(damage.sql)
    problems = verify_store(app.store).problems

    named = [each for each in problems if each.table == damage.table and damage.words in each.sentence]
    assert named, problems
    assert all(each.row for each in named if each.kind in ("row", "index"))


@pytest.mark.parametrize("environ", ["postgres"], indirect=True)
def test_the_file_of_the_servers_schema_is_what_the_migrations_make(app: App, tmp_path: Path) -> None:
    with app.store.read() as tx:
        made = integrity.schema_facts(tx.connection)  # type: ignore[attr-defined]

    facts = "".join(f"{fact}{' := ' * bool(meant)}{meant}\n" for fact, meant in sorted(made.items()))
    (tmp_path / "schema.txt").write_text(facts)
    file = Path(integrity.__file__).with_name("schema.txt")
    assert file.read_text() == facts, f"The schema has changed. Run: cp {tmp_path / 'schema.txt'} {file}"


@pytest.mark.parametrize("original", ["sqlite"], indirect=True)
def test_a_page_that_cannot_be_read_is_a_problem_among_others(original: Original) -> None:
    app = original.copy("torn")
    with sqlite3.connect(original.file) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()
    connection.close()
    with (original.file.parents[1] / "torn" / "rooms.sqlite").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)

    kinds = {each.kind for each in verify_store(app.store).problems}

    app.close()
    assert kinds >= {"file", "unchecked"}


def changes(file: Path) -> Iterator[tuple[str, str, str]]:
    """For every column of every table: the table, the column, and a statement that changes one value in it."""
    with sqlite3.connect(file) as connection:
        listed = connection.execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
        tables = [name for (name,) in listed if not name.startswith("sqlite_")]
        for table in tables:
            for column, kind in connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)):
                other = f"COALESCE({column}, '') || 'x'" if kind == "TEXT" else f"COALESCE({column}, 0) + 1000"
                row = f"SELECT max(CASE WHEN {column} IS NULL THEN 0 ELSE 1 END * 1000 + rowid) FROM {table}"
                yield table, column, f"UPDATE {table} SET {column} = {other} WHERE rowid = ({row}) % 1000"
    connection.close()


@pytest.mark.parametrize("original", ["sqlite"], indirect=True)
def test_a_change_of_any_column_is_found_unless_nothing_else_tells_its_value(original: Original) -> None:
    missed = set()
    for number, (table, column, statement) in enumerate(changes(original.file)):
        app = original.copy(f"change_{number}")
        original.damage(f"change_{number}", EVERY_TABLE + statement)
        if not verify_store(app.store).problems:
            missed.add(f"{table}.{column}")
        app.close()

    assert missed == {f"{table}.{column}" for table, columns in UNTOLD.items() for column in columns.split()}
