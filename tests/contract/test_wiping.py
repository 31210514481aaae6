"""Deleting one room takes everything that belongs to it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conch.agents.records import Caller
from conch.app import App
from conch.bus.drafts import check_outbox
from conch.calls import Call
from conch.errors import UnknownRoom
from conch.upkeep.verify import verify_store
from conch.upkeep.wiping import erase_room, survey


@pytest.fixture
def rooms(app: App, agent: Callable[..., Caller], tmp_path: Path) -> list[str]:
    """Two rooms, each with a holder of the stick, a reservation, a handoff and messages."""
    found = []
    for number in (1, 2):
        root = tmp_path / f"room-{number}"
        root.mkdir()
        (root / "AGENTS.md").touch()
        ada, bob = agent(f"ada:{number}"), agent(f"bob:{number}")
        room = app.membership.join_path(ada, str(root)).snapshot.room
        app.membership.join_path(bob, str(root))
        app.claims.wait_for_turn(ada, room.room_id, max_wait_ms=0)
        app.reservations.reserve(bob, room.room_id, "src", 60, False, None)
        peer = app.peers.join_as_itself(ada, room.topic_id)
        texts = [{"content_markdown": f"hello {each}", "message_type": "message"} for each in range(number)]
        app.messages.send(peer, check_outbox(texts, app.settings))
        app.listening.listen(bob, 0, Call(), takes_turns=False)
        found.append(room.room_id)
    return found


def test_a_survey_counts_rooms_messages_and_holders(app: App, rooms: list[str]) -> None:
    everything, one = survey(app.store, app.rooms), survey(app.store, app.rooms, rooms[1])

    assert (len(everything.rooms), everything.messages) == (2, 3)
    assert {holder.member.agent_id for holder in everything.holders} == {"ada:1", "ada:2"}
    assert (len(one.rooms), one.messages) == (1, 2)
    assert [holder.member.agent_id for holder in one.holders] == ["ada:2"]


@pytest.mark.parametrize("place", [0, 1])
def test_one_room_goes_with_everything_in_it_and_the_rest_is_sound(app: App, rooms: list[str], place: int) -> None:
    gone, kept = rooms[place], rooms[1 - place]

    erase_room(app.store, app.rooms.get_state(None, gone))

    with pytest.raises(UnknownRoom):
        app.rooms.get_state(None, gone)
    assert [snapshot.room.room_id for snapshot in app.rooms.all_rooms()] == [kept]
    assert survey(app.store, app.rooms).messages == 2 - place
    assert app.rooms.get_state(None, kept).room.owner is not None
    assert verify_store(app.store).problems == []


def test_no_row_of_the_room_is_left(app: App, rooms: list[str]) -> None:
    snapshot = app.rooms.get_state(None, rooms[0])

    erase_room(app.store, snapshot)

    with app.store.read() as tx:
        left = {
            table: [
                row
                for row in tx.dump(table)
                if {str(value) for value in row.values()} & {rooms[0], snapshot.room.topic_id}
            ]
            for table in tx.tables()
        }
    assert {table: found for table, found in left.items() if found} == {}
