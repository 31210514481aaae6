"""A store moves between engines whole, whichever way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conch.agents.records import Caller
from conch.app import App, open_app
from conch.calls import retry_interrupted
from conch.errors import InvalidArgument, StoreInterrupted
from conch.rooms.log import list_events
from conch.storage.base import Store, Transaction
from conch.storage.copying import copy_store
from conch.upkeep.verify import verify_store

HANDOFF = {"status": "naïve ☂ \n", "next_action": "'; DROP TABLE path_rooms; --"}


@pytest.fixture(params=["sqlite", "postgres"])
def other(request: pytest.FixtureRequest, tmp_path: Path, app: App) -> Iterator[App]:
    """An empty store of either engine; a second database where both are on one server."""
    environ = {"HOME": str(tmp_path), "CONCH_DATA_DIR": str(tmp_path / "other")}
    if request.param == "postgres":
        environ["CONCH_STORE"] = request.getfixturevalue("second_postgres_url")
    other = open_app(environ)
    other.store.wipe()
    yield other
    other.close()


@pytest.fixture
def room_id(app: App, agent: Callable[..., Caller], workspace: str) -> str:
    codex = agent("codex:1")
    room_id = app.membership.join_path(codex, workspace).snapshot.room.room_id
    room = app.claims.wait_for_turn(codex, room_id, max_wait_ms=0).snapshot.room
    app.turns.release_stick(codex, room_id, room.lease_id or "", room.turn_id, HANDOFF)
    return room_id


def test_a_copy_has_every_row_and_its_log_still_replays(app: App, other: App, room_id: str) -> None:
    copied = dict(copy_store(app.store, other.store))

    turns = {"agents": 1, "agent_signals": 0, "path_rooms": 1, "room_members": 1, "room_events": 3}
    assert {table: copied[table] for table in turns} == turns
    assert list_events(other.store, room_id, 0, 10) == list_events(app.store, room_id, 0, 10)
    assert verify_store(other.store).problems == []


def test_the_copy_goes_on_counting_where_the_original_stopped(
    app: App, other: App, room_id: str, agent: Callable[..., Caller]
) -> None:
    copy_store(app.store, other.store)

    event = other.membership.append_note(agent("codex:1"), room_id, "here now")

    assert event.event_seq > list_events(app.store, room_id, 0, 10).cursor
    assert verify_store(other.store).problems == []


def test_a_store_with_rows_in_it_is_never_copied_over(app: App, other: App, room_id: str) -> None:
    copy_store(app.store, other.store)

    with pytest.raises(InvalidArgument) as refusal:
        copy_store(app.store, other.store)

    assert refusal.value.details["field"] == "to"


class LostAtTheEnd:
    """A store that loses its connection at the end of its second read. The first read only checks that it works."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reads = 0

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._store.read() as tx:
            yield tx
        self._reads += 1
        if self._reads == 2:
            raise StoreInterrupted("The connection was lost; nothing was changed.")


@pytest.mark.usefixtures("room_id")
def test_a_copy_whose_source_is_lost_at_the_end_is_made_again(app: App, other: App) -> None:
    source: Any = LostAtTheEnd(app.store)

    copied = dict(retry_interrupted(lambda: copy_store(source, other.store)))

    assert copied["room_events"] == 3
    assert verify_store(other.store).problems == []
