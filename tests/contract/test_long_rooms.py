"""What a page shows of a room is found by an index, however much has happened there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.conftest import plan

from conch.app import App

MANY = 3_000


@pytest.fixture
def long_room(app: App, ada: Any) -> str:
    """A room with many notes and accepted notices, and hardly any turn."""
    event = {"room_id": ada.room_id, "turn_id": 1, "event_type": "note", "created_at": 1}
    notice = {
        "room_id": ada.room_id,
        "event_type": "HANDOFF",
        "payload_json": "{}",
        "state": "accepted",
        "created_at": 1,
    }
    with app.store.write(ada.room_id) as tx:
        tx.load("room_events", [{**event, "event_id": f"evt_{number}"} for number in range(MANY)])
        tx.load("protocol_events", [{**notice, "event_id": f"proto_{number}"} for number in range(MANY)])
    room_id: str = ada.room_id
    return room_id


@pytest.mark.parametrize(
    ("statement", "given", "index"),
    [
        ("turn_events_until", {"until": 2**50, "limit": 30}, "room_events_turns_idx"),
        ("first_turn_at", {}, "room_events_turns_idx"),
        ("unaccepted_notices", {"limit": 200}, "protocol_events_open_idx"),
    ],
)
def test_an_index_finds_what_a_page_shows(
    app: App, long_room: str, statement: str, given: dict[str, int], index: str
) -> None:
    found = plan(app, statement, room_id=long_room, **given)

    assert index in found, found
