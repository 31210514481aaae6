"""A change that reads much is tried without its locks first. Nothing is decided by what that has read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.process.postgres.flights import Flights

from conch.app import App, open_app
from conch.errors import TopicNotFound
from conch.storage.base import NOW, Transaction

Read = Callable[[Transaction], str]


@pytest.fixture
def database(new_database: str) -> str:
    return new_database


@pytest.fixture
def app(environ: dict[str, str], flights: Flights, database: str) -> Iterator[App]:
    url = f"postgresql://conch@127.0.0.1:{flights.port}/{database}?gssencmode=disable&sslmode=disable"
    app = open_app({**environ, "CONCH_STORE": url})
    for number in range(3):
        with app.store.write("topics") as tx:
            given = {"topic_id": f"t{number}", "name": f"n{number}", "mode": "new", "metadata_json": None}
            tx.run("insert_topic", now=tx.now, **given)
    yield app
    app.close()


@pytest.fixture
def other(environ: dict[str, str], app: App) -> Iterator[App]:
    """Another process, as it were."""
    other = open_app(environ)
    yield other
    other.close()


def name_of(tx: Transaction, topic_id: str) -> str:
    row = tx.one("find_topic", topic_id=topic_id)
    if row is None:
        raise TopicNotFound("gone", topic_id=topic_id)
    return str(row["name"])


def rename(app: App, topic_id: str, name: str) -> None:
    with app.store.write("topics") as tx:
        tx.run("rename_topic", topic_id=topic_id, name=name)


def holders(found: list[list[str]]) -> int:
    """For how many round trips the last transaction held its lock."""
    return len(found) - max(
        n for n, words in enumerate(found) if any("pg_advisory_xact_lock(" in each for each in words)
    )


def test_a_change_that_reads_again_and_again_holds_its_lock_for_two_round_trips(app: App, flights: Flights) -> None:
    def join_names() -> str:
        with app.store.write("topics") as tx:
            names = "".join(name_of(tx, f"t{number}") for number in range(3))
            tx.run("rename_topic", topic_id="t0", name=names)
        return names

    found = flights.during(lambda: app.store.briefly(join_names))

    assert app.topics.find("t0").name == "n0n1n2"
    assert holders(found) == 2


def test_what_has_changed_since_the_rehearsal_counts(app: App, other: App) -> None:
    attempts: list[bool] = []

    def follow() -> None:
        with app.store.write("topics") as tx:
            first = name_of(tx, "t1")
            second = name_of(tx, "t2")
            attempts.append(True)
            if len(attempts) == 1:  # it has let go of its lock
                rename(other, "t2", "changed")
            tx.run("rename_topic", topic_id="t0", name=first + second)

    app.store.briefly(follow)

    assert len(attempts) == 2
    assert app.topics.find("t0").name == "n1changed"


def test_a_refusal_is_decided_under_the_lock(app: App) -> None:
    attempts: list[int] = []

    def look_for(topic_id: str) -> str:
        with app.store.write("topics") as tx:
            attempts.append(1)
            name_of(tx, "t0")
            if len(attempts) == 1:
                name_of(tx, "t1")
                raise TopicNotFound("not yet", topic_id=topic_id)
            return name_of(tx, topic_id)

    assert app.store.briefly(lambda: look_for("t2")) == "n2"
    with pytest.raises(TopicNotFound):
        app.store.briefly(lambda: look_for("t9"))


def test_a_read_of_what_the_change_has_changed_sees_it(app: App) -> None:
    def swap() -> list[str]:
        with app.store.write("topics") as tx:
            before = [name_of(tx, "t0"), name_of(tx, "t1")]
            tx.run("rename_topic", topic_id="t0", name="new")
            return [*before, name_of(tx, "t0"), name_of(tx, "t2")]

    assert app.store.briefly(swap) == ["n0", "n1", "new", "n2"]


def test_a_change_that_never_asks_the_same_is_made_all_the_same(app: App) -> None:
    attempts: list[int] = []

    def wander() -> None:
        with app.store.write("topics") as tx:
            attempts.append(1)
            for number in range(3):
                tx.one("newest_topic_named", name=f"{len(attempts)}{number}", status="open")
            tx.run("rename_topic", topic_id="t0", name="made")

    app.store.briefly(wander)

    assert app.topics.find("t0").name == "made"
    assert len(attempts) == 3


def test_a_change_that_failed_without_its_lock_has_left_nothing(app: App, flights: Flights) -> None:
    def fail() -> None:
        with app.store.write("topics") as tx:
            name_of(tx, "t0")
            tx.run("rename_topic", topic_id="t0", name="half")
            tx.one("agent_named", name="nobody")
            raise ValueError

    with pytest.raises(ValueError):
        app.store.briefly(fail)

    assert app.topics.find("t0").name == "n0"


def test_the_time_of_the_change_is_known_before_its_locks(app: App) -> None:
    with app.store.write("topics") as tx:
        tx.run("close_topic", topic_id="t0", reason=None, now=NOW)
        row = tx.one("find_topic", topic_id="t0")
        now = tx.now

    assert row is not None
    assert abs(now - row["closed_at"]) < 1_000_000
