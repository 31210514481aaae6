"""What the domains may rely on, whichever engine runs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from conch.app import App
from conch.errors import StoreError
from conch.storage.base import Store


def add_room(tx: Any, room_id: str) -> None:
    tx.run("insert_room", room_id=room_id, canonical_path=f"/{room_id}", topic_id=f"topic-{room_id}", now=tx.now)


def rooms(store: Store) -> list[str]:
    with store.read() as tx:
        return [row["room_id"] for row in tx.all("all_rooms")]


def test_a_write_is_seen_by_others_once_it_is_committed(store: Store) -> None:
    with store.write("a") as tx:
        add_room(tx, "a")
        assert rooms(store) == []

    assert rooms(store) == ["a"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_whatever_interrupts_a_write_undoes_all_of_it(store: Store, error: type[BaseException]) -> None:
    with pytest.raises(error), store.write("a") as tx:
        add_room(tx, "a")
        raise error

    assert rooms(store) == []
    with store.write("a") as tx:
        add_room(tx, "b")
    assert rooms(store) == ["b"]


def test_a_read_does_not_change_while_it_is_open(store: Store) -> None:
    with store.read() as before:
        assert before.all("all_rooms") == []
        with store.write("a") as tx:
            add_room(tx, "a")

        assert before.all("all_rooms") == []


def test_a_read_sees_the_changes_made_before_it_in_its_transaction(store: Store) -> None:
    with store.write("a") as tx:
        add_room(tx, "a")
        first = [row["room_id"] for row in tx.all("all_rooms")]
        add_room(tx, "b")
        changed = tx.count("take_turns", room_id="a", agent_id="nobody")
        second = [row["room_id"] for row in tx.all("all_rooms")]

    assert (first, changed, second) == (["a"], 0, ["a", "b"])


def test_a_change_that_the_database_refuses_undoes_all_of_it(store: Store) -> None:
    with pytest.raises(StoreError), store.write("a") as tx:
        add_room(tx, "a")
        tx.run("insert_peer", topic_id="none", name=None, agent_id=None, is_own=0, reclaim_token_hash=None, now=tx.now)
        add_room(tx, "b")

    assert rooms(store) == []
    with store.write("a") as tx:
        add_room(tx, "c")
    assert rooms(store) == ["c"]


@pytest.mark.parametrize("begin", ["read", "look", "write"])
def test_rows_fetched_ahead_are_those_that_are_asked_for(store: Store, begin: str) -> None:
    with store.write("a") as tx:
        add_room(tx, "a")
        add_room(tx, "b")

    with getattr(store, begin)() as tx:
        tx.ahead("find_room", room_id="a")
        tx.ahead("find_room", room_id="none")
        found = [tx.one("find_room", room_id=room_id) for room_id in ("b", "none", "a")]

    assert [row and row["room_id"] for row in found] == ["b", None, "a"]


def test_a_query_aside_sees_what_was_just_committed_or_is_not_asked(store: Store) -> None:
    query = ("rooms_and_agents", {})
    with store.aside(lambda: query) as seen:
        before = seen()
        with store.write("a") as tx:
            add_room(tx, "a")
        after = seen()

    assert before is None
    assert after is None or (after[0], after[1][0]["rooms"]) == (query, 1)


@pytest.mark.parametrize("begin", ["read", "look", "write"])
def test_a_transaction_that_has_ended_answers_nothing(store: Store, begin: str) -> None:
    """What it would answer is of another moment."""
    with getattr(store, begin)() as tx:
        pass

    with pytest.raises(RuntimeError, match="all_rooms was asked for after its transaction"):
        tx.all("all_rooms")


@pytest.mark.parametrize("others", [("shared",), ("own", "shared")], ids=["one lock", "one of two locks"])
def test_two_writers_of_one_lock_are_never_inside_together(store: Store, others: tuple[str, ...]) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def write(number: int) -> None:
        nonlocal inside, most
        for turn in range(20):
            with store.write(*(others if number else ("shared",))) as tx:
                assert tx.now  # from its first question on, it has the locks
                with lock:
                    inside += 1
                    most = max(most, inside)
                add_room(tx, f"{number}-{turn}")
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == 1
    assert len(rooms(store)) == 80


def test_a_transaction_has_one_moment(store: Store, clock: Any) -> None:
    with store.write("a") as tx:
        before = tx.now
        clock.advance(minutes=1)

        assert tx.now == before == clock.now - 60_000_000


def test_bells_ring_only_after_the_commit(app: App) -> None:
    with app.bell.listen("a-channel") as ear:
        with app.store.write("a") as tx:
            add_room(tx, "a")
            tx.ring("a-channel")
            assert not ear.wait(0)

        assert ear.wait(10)


def test_no_bell_rings_for_what_was_undone(app: App) -> None:
    with app.bell.listen("a-channel") as ear:
        with pytest.raises(ValueError), app.store.write("a") as tx:
            tx.ring("a-channel")
            raise ValueError

        assert not ear.wait(0)


def test_a_list_parameter_expands(store: Store) -> None:
    with store.write("a") as tx:
        for name in ("a", "b", "c"):
            add_room(tx, name)

        found = tx.all("rooms_at", paths=["/a", "/c", "/'; DROP TABLE path_rooms; --"])

    assert sorted(row["room_id"] for row in found) == ["a", "c"]


def test_one_open_room_per_path_is_a_matter_of_the_database(store: Store) -> None:
    with store.write("a") as tx:
        add_room(tx, "a")
        changed = tx.count("insert_room", room_id="b", canonical_path="/a", topic_id="t2", now=tx.now)

    assert changed == 0
    assert rooms(store) == ["a"]


def test_wiping_forgets_every_row_and_the_store_goes_on(store: Store) -> None:
    with store.write("a") as tx:
        add_room(tx, "a")

    store.wipe()

    assert rooms(store) == []
    with store.write("a") as tx:
        add_room(tx, "b")
    assert rooms(store) == ["b"]
    assert store.integrity_problems() == []
