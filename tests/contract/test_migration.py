"""A store of the previous version opens, verifies, and loses nothing.

The last version with schema 5 wrote the rows in `store_of_schema_5.json`. The facts beside them are what its tools
returned for that store.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from tests.callers import named
from tests.conftest import Database
from tests.contract.conftest import DEADLINE, Client, MovableClock
from tests.contract.stores import Original

from conch.app import App, open_app
from conch.errors import SchemaMismatch
from conch.ids import lock_number
from conch.letters.names import skeletons
from conch.notices.timeline import read_timeline
from conch.storage.sqlite.store import DIALECT
from conch.storage.statements import count_migrations, load_migrations
from conch.tools import timeline_view
from conch.tools.session import Session
from conch.upkeep.verify import verify_store

OLD = json.loads(Path(__file__).with_name("store_of_schema_5.json").read_text())
NEWEST = count_migrations(DIALECT)
FACTS = OLD["facts"]
NAMES = sorted(FACTS["agent_ids"])
HOME, PINK = FACTS["home"], FACTS["pink"]

SENDERS = {
    "history": [
        *["ruby-crane"] * 4,
        "gray-wolf",
        "old-elm",
        "ruby-crane",
        *["gray-wolf"] * 2,
        *["old-elm"] * 2,
        *["lost-one"] * 2,  # of the one that was resumed, which had no name of its own left
        *["lost-two"] * 2,
        *["lost-two"] * 2,
        "old-elm",
        "conch",
        "old-elm",
        "ruby-crane",
    ],
    "history of pink": [*["ruby-crane"] * 2, *["zed"] * 2, "conch", *["zed"] * 2],
}

Enter = Callable[[str], Client]


def load(place: str) -> None:
    """Put the older store into a new file or database."""
    with closing(open_at(place, 5)) as store, store.write("schema") as tx:
        for table, rows in OLD["tables"].items():
            tx.load(table, rows)


@pytest.fixture(scope="module")
def older_database(first_database: Database) -> Iterator[Database]:
    """A server with an older store, from which tests make databases of their own."""
    first_database.connection.execute("CREATE DATABASE oldest")
    load(first_database.url.replace("/postgres?", "/oldest?"))
    yield first_database
    first_database.connection.execute("DROP DATABASE oldest WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgres"])
def environ(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """An older store of either engine, in a file or a database of its own."""
    environ = {"HOME": str(tmp_path), "CONCH_DATA_DIR": str(tmp_path / "data")}
    if request.param == "sqlite":
        load(str(tmp_path / "data" / "rooms.sqlite"))
        yield environ
        return
    server: Database = request.getfixturevalue("older_database")
    server.connection.execute("CREATE DATABASE older TEMPLATE oldest")
    yield {**environ, "CONCH_STORE": server.url.replace("/postgres?", "/older?")}
    server.connection.execute("DROP DATABASE older WITH (FORCE)")


USER = """
import sys
from conch.letters.names import skeletons
from conch.storage.statements import load_migrations
{importing}
store = {opening}
with store.read():
    pass
print(flush=True)
input()
"""
OPENING = {
    "sqlite": (
        "from conch.storage.sqlite.store import DIALECT, SqliteStore",
        "SqliteStore(sys.argv[1], ring=list, migrations=load_migrations(DIALECT)[:5])",
    ),
    "postgres": (
        "from conch.storage.postgres.schema import DIALECT; from conch.storage.postgres.store import PostgresStore",
        "PostgresStore(sys.argv[1], migrations=load_migrations(DIALECT)[:5])",
    ),
}


@pytest.fixture
def user(environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the version before that has the store open."""
    store = environ.get("CONCH_STORE") or f"{environ['CONCH_DATA_DIR']}/rooms.sqlite"
    importing, opening = OPENING["postgres" if "CONCH_STORE" in environ else "sqlite"]
    words = [sys.executable, "-c", USER.format(importing=importing, opening=opening), store]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        yield process
        process.kill()


def test_a_store_that_others_use_is_migrated_once_they_have_ended(
    environ: dict[str, str], user: subprocess.Popen[bytes]
) -> None:
    store = open_app(environ).store

    with pytest.raises(SchemaMismatch, match="--force") as refusal:
        store.migrate()
    user.kill()
    user.wait()

    found = refusal.value.details
    if "processes" in found:
        assert [each["pid"] for each in found["processes"]] == [user.pid]
        assert str(user.pid) in refusal.value.message
    else:
        assert [each["application_name"] for each in found["sessions"]] == ["conch"]
        assert "this host" in refusal.value.message and "since 20" in refusal.value.message
    deadline = time.monotonic() + DEADLINE
    while True:  # a server takes a moment to see that a client is gone
        try:
            assert store.migrate() == (5, NEWEST)
            break
        except SchemaMismatch:
            assert time.monotonic() < deadline
    store.close()


@pytest.mark.parametrize("environ", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("user")
def test_a_link_to_a_store_does_not_hide_those_who_use_it(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "link.sqlite").symlink_to(f"{environ['CONCH_DATA_DIR']}/rooms.sqlite")
    store = open_app({**environ, "CONCH_STORE": str(tmp_path / "link.sqlite")}).store

    with pytest.raises(SchemaMismatch, match="--force"):
        store.migrate()
    store.close()


@pytest.mark.usefixtures("user")
def test_a_store_that_others_use_is_migrated_at_once_with_force(environ: dict[str, str]) -> None:
    store = open_app(environ).store
    assert store.migrate(force=True) == (5, NEWEST)
    store.close()


@pytest.mark.parametrize("environ", ["postgres"], indirect=True)
def test_a_process_that_was_refused_does_not_stand_in_the_way(environ: dict[str, str]) -> None:
    refused, migrating = open_app(environ).store, open_app(environ).store
    with pytest.raises(SchemaMismatch, match="older version of conch"), refused.read():
        pass

    assert migrating.migrate() == (5, NEWEST)
    migrating.close()


def conch(environ: dict[str, str], *words: str) -> subprocess.Popen[str]:
    env = {**os.environ, **environ, "CONCH_AGENT_ID": "new:1"}
    return subprocess.Popen([sys.executable, "-m", "conch", *words, "--json"], env=env, stdout=PIPE, text=True)


@pytest.mark.parametrize("environ", ["sqlite"], indirect=True)
def test_a_command_is_refused_while_others_use_an_older_file(
    environ: dict[str, str], user: subprocess.Popen[bytes]
) -> None:
    refused = json.loads(conch(environ, "topics", "list").communicate()[0])["error"]
    forced = json.loads(conch(environ, "db", "migrate", "--force").communicate()[0])["data"]

    assert refused["code"] == "DB_SCHEMA_MISMATCH"
    assert f"{user.pid} (" in refused["message"] and "conch db migrate --force" in refused["message"]
    assert forced == {"from": 5, "to": NEWEST}
    assert len([name for name in os.listdir(environ["CONCH_DATA_DIR"]) if name.endswith(".backup")]) == 1


@pytest.mark.parametrize("environ", ["sqlite"], indirect=True)
def test_processes_of_the_new_version_do_not_stand_in_each_others_way(environ: dict[str, str]) -> None:
    started = [conch(environ, "topics", "list") for _ in range(6)]

    answers = [json.loads(process.communicate()[0]) for process in started]

    assert [answer["error"] for answer in answers] == [None] * 6


@pytest.mark.parametrize("environ", ["postgres"], indirect=True)
def test_two_processes_that_migrate_at_once_both_succeed(environ: dict[str, str]) -> None:
    import psycopg

    waiting = b"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with psycopg.connect(environ["CONCH_STORE"], autocommit=True, application_name="a test") as connection:
        connection.execute(f"SELECT pg_advisory_lock({lock_number('write', 'schema')})".encode())
        started = [conch(environ, "db", "migrate") for _ in range(2)]
        while connection.execute(waiting).fetchone() != (2,):
            assert all(process.poll() is None for process in started)

    answers = [json.loads(process.communicate()[0]) for process in started]

    assert sorted(answer["data"]["from"] for answer in answers) == [5, NEWEST]


def fill(environ: dict[str, str], workspace: Path) -> None:
    """The older store, migrated."""
    load(environ.get("CONCH_STORE") or f"{environ['CONCH_DATA_DIR']}/rooms.sqlite")
    with closing(open_app(environ, later(MovableClock()))) as app:
        assert app.store.migrate() == (5, NEWEST)


def later(clock: MovableClock) -> MovableClock:
    clock.advance(minutes=200)
    return clock


@pytest.fixture
def app(original: Original, clock: MovableClock, tmp_path: Path) -> Iterator[App]:
    app = original.copy(tmp_path.name, later(clock))
    yield app
    original.end(app)


class Returning(Client):
    """One of the store's agents, which is in its room already."""

    def __init__(self, app: App, agent_id: str) -> None:
        self.app, self.agent_id, self.session = app, agent_id, Session(app, "mcp")
        self.session.speak_as(named(app.store, agent_id))
        self.room_id, self.home = FACTS["room_id"], HOME


@pytest.fixture
def enter(app: App) -> Enter:
    return lambda name: Returning(app, FACTS["agent_ids"].get(name, name))


def test_the_migrated_store_is_sound(app: App) -> None:
    assert verify_store(app.store).problems == []


@pytest.mark.parametrize(("topic", "topic_id"), [("history", HOME), ("history of pink", PINK)])
def test_every_message_is_there_and_of_the_peer_that_sent_it(app: App, topic: str, topic_id: str) -> None:
    found = [(each.seq, each.sender, each.content_markdown) for each in app.messages.history(topic_id)]

    assert [(seq, text) for seq, _, text in found] == [(seq, text) for seq, _, text in FACTS[topic]]
    assert [sender for _, sender, _ in found] == SENDERS[topic]


@pytest.mark.parametrize("name", NAMES)
def test_every_cursor_stands_where_it_stood(enter: Enter, name: str) -> None:
    assert enter(name).read(HOME, max_items=100, auto_advance=False) == FACTS["unread"][name]


@pytest.mark.parametrize("name", NAMES)
def test_every_question_is_open_to_those_to_whom_it_was(enter: Enter, name: str) -> None:
    pending = enter(name).data("pending_list", topic_id=HOME, wait_seconds=0)["questions"]

    assert [question["question_text"] for question in pending] == FACTS["pending"][name]


@pytest.mark.parametrize("name", ["ada", "bob", "heir"])
def test_every_open_question_is_still_its_askers(enter: Enter, name: str) -> None:
    given = {"topic_id": HOME, "question_id": FACTS["questions"][name]}

    assert enter(name).data("question_mark_answered", **given)["status"] == "answered"


def test_every_answer_is_there(enter: Enter) -> None:
    ada = enter("ada")

    found = [ada.data("ask_poll", topic_id=HOME, question_id=FACTS["questions"][name]) for name in ("ada", "bob")]

    answers = [[(each["answered_by"], each["answer_markdown"]) for each in asked["answers"]] for asked in found]
    assert answers == [[("gray-wolf", "So.")], [("old-elm", "Thus."), ("lost-one", "by the lost one")]]


def test_every_event_says_what_its_agents_were_called_on_that_day(app: App) -> None:
    entries = read_timeline(app.store, FACTS["room_id"], 0, 500).entries

    # The old version showed names. Only in a few sentences it showed an agent_id, too.
    then = [re.sub(r" \(\w+:\d\) joined", " joined", line) for line in FACTS["timeline"]]
    then = [line.replace("the work of lost:9,", "the work of lost-two,") for line in then]
    now = [timeline_view.sentence(entry) for entry in entries if entry.kind != "message"]
    assert [re.sub(r"\w+·", "", line) for line in now] == then


def test_every_name_means_whom_it_meant(app: App, enter: Enter) -> None:
    former = [FACTS["first_names"]["ada"], "amber-otter", "red-hen", "ruby-crane"]
    members = {member["agent_id"]: member["name"] for member in enter("ada").data("get_room_state")["members"]}

    with app.store.read() as tx:
        meant = [tx.one("peer_named", topic_id=HOME, agent_name=name) for name in [*former, "lost-one", "green-owl"]]

    agents = [peer["agent_id"] for peer in meant if peer]
    assert agents == [*["ada:1"] * 4, "heir:4", "cleo:3"]
    assert members == FACTS["members"]


@pytest.mark.parametrize(
    ("topic_id", "name", "now"), [(PINK, "spare", "spare"), (PINK, "zed", "zed"), (HOME, "green-owl", "old-elm")]
)
def test_every_token_reclaims_its_name(enter: Enter, topic_id: str, name: str, now: str) -> None:
    joined = enter("new:1").join(topic_id, name, reclaim_token=FACTS["tokens"][name])

    assert joined["agent_name"] == now


def test_what_was_sent_under_a_key_is_not_sent_again(enter: Enter) -> None:
    ada, heir = enter("ada"), enter("heir")
    keyed = {"content_markdown": "again", "client_message_id": "k-1"}

    again = ada.data("sync", topic_id=HOME, outbox=[keyed], wait_seconds=0)
    new = heir.data("sync", topic_id=HOME, outbox=[{**keyed, "client_message_id": "l"}], wait_seconds=0)

    assert [warning["code"] for warning in again["warnings"]] == ["ALREADY_SENT"]
    assert new["warnings"] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_notice_waits_for_its_recipient(enter: Enter, name: str) -> None:
    assert [event["id"] for event in enter(name).inbox()] == FACTS["inbox"][name]


def test_the_handoff_that_waits_is_claimed_with_its_stick(enter: Enter) -> None:
    turn = enter("heir").data("wait_for_turn", max_wait_ms=0)

    assert (turn["status"], turn["handoff"]["status"]) == ("your_turn", "for the lost")


def test_old_messages_are_found_by_the_senders_present_and_former_names(app: App) -> None:
    for name in ("ruby-crane", "red-hen", FACTS["first_names"]["ada"]):
        found = app.search.search("ada", sender=name, mode="fts", topic_id=HOME)

        assert {hit.sender for hit in found.hits} == {"ruby-crane"}
        assert len(found.hits) == 3


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a store can be: a new file or a new database."""
    if request.param == "sqlite":
        yield str(tmp_path / "rooms.sqlite")
        return
    server: Database = request.getfixturevalue("first_database")
    server.connection.execute("CREATE DATABASE earlier")
    yield server.url.replace("/postgres?", "/earlier?")
    server.connection.execute("DROP DATABASE earlier WITH (FORCE)")


def test_a_name_of_an_older_store_cannot_be_taken_again_in_the_letters_that_its_capitals_look_like(place: str) -> None:
    cyrillic = "\u041c\u0410\u0425"
    listed = [{"name": cyrillic, "skeleton": "max"}, {"name": cyrillic, "skeleton": "\u028dax"}]
    with closing(open_at(place, 24)) as store, store.write("schema") as tx:
        tx.load("name_skeletons", listed)

    with closing(open_at(place)) as store:
        store.migrate()
        with store.read() as tx:
            found = tx.one("anybody_like", skeletons=sorted(skeletons("max")))

    assert found == {"name": cyrillic}


def test_the_names_of_an_older_store_get_all_their_shapes_and_keep_no_other(place: str) -> None:
    cyrillic = "\u041c\u0430\u043c\u0430"
    with closing(open_at(place, 26)) as store, store.write("schema") as tx:
        tx.load("name_skeletons", [{"name": cyrillic, "skeleton": "rna\u028da"}])

    with closing(open_at(place)) as store:
        store.migrate()
        with store.read() as tx:
            found = tx.one("anybody_like", skeletons=["mama"]), tx.one("anybody_like", skeletons=["rna\u028da"])

    assert found == ({"name": cyrillic}, None)


def open_at(place: str, version: int | None = None) -> Any:
    """A store whose code has the migrations to this version only."""
    if place.endswith(".sqlite"):
        from conch.storage.sqlite.store import DIALECT, SqliteStore

        return SqliteStore(place, ring=lambda channels: None, migrations=load_migrations(DIALECT)[:version])
    from conch.storage.postgres.schema import DIALECT as POSTGRES
    from conch.storage.postgres.store import PostgresStore

    return PostgresStore(place, migrations=load_migrations(POSTGRES)[:version])
