"""An error says that nothing was changed only if that is so, for the whole request, on every engine."""

from __future__ import annotations

import pytest

from conch.calls import retry_interrupted
from conch.errors import StoreError, StoreFull, StoreInterrupted, StoreUncertain
from conch.storage.base import Store

CLAIM = "Nothing was changed."


@pytest.fixture
def store(store: Store) -> Store:
    """Already made: making it is a change."""
    with store.read():
        return store


def change(store: Store) -> None:
    with store.write("a") as tx:
        tx.run("set_schema_version", version=tx.one("schema_version")["value"])  # type: ignore[index]


def test_trouble_inside_the_only_transaction_changes_nothing_and_says_so(store: Store) -> None:
    def request() -> None:
        with store.write("a"):
            raise StoreFull("The disk is full.")

    with pytest.raises(StoreFull) as refusal:
        retry_interrupted(request)

    assert refusal.value.message == f"The disk is full. {CLAIM}"


def test_trouble_after_a_commit_does_not_claim_that_nothing_was_changed(store: Store) -> None:
    def request() -> None:
        change(store)
        with store.write("a"):
            raise StoreFull("The disk is full.")

    with pytest.raises(StoreFull) as refusal:
        retry_interrupted(request)

    assert refusal.value.message == "The disk is full."


def test_a_part_that_is_retried_alone_does_not_hide_what_came_before_it(store: Store) -> None:
    def part() -> None:
        raise StoreInterrupted("The connection was lost.")

    def request() -> None:
        change(store)
        retry_interrupted(part)

    with pytest.raises(StoreInterrupted) as refusal:
        retry_interrupted(request)

    assert refusal.value.message == "The connection was lost."


def test_an_earlier_request_does_not_count(store: Store) -> None:
    def request() -> None:
        raise StoreFull("The disk is full.")

    retry_interrupted(lambda: change(store))

    with pytest.raises(StoreFull, match=CLAIM):
        retry_interrupted(request)


def test_a_commit_of_unknown_fate_claims_nothing(store: Store) -> None:
    def request() -> None:
        raise StoreUncertain("The commit may have been made.")

    with pytest.raises(StoreError) as refusal:
        retry_interrupted(request)

    assert CLAIM not in refusal.value.message
