"""The facts of an object that a text lacks, added to the text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.tools.facts import tell

NAMES = st.sampled_from(["turn_id", "room", "handoff", "warnings", "last_seq", "ä", "two words", ""]) | st.text(
    max_size=3
)
TEXTS = st.text(max_size=8).filter(str.strip) | st.sampled_from(["room_1", "src/a.py:7", "a\nb", "x" * 201, "say “hi”"])
WORDS = st.none() | st.booleans() | st.integers() | st.floats() | st.just("") | TEXTS
VALUES = WORDS | st.lists(WORDS.filter(lambda each: each not in (None, "")), max_size=2)
OBJECTS = st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, WORDS)), max_size=4)


@given(OBJECTS)
def test_what_a_view_does_not_know_to_be_told_is_added_as_if_it_was_searched_for(data: dict[str, Any]) -> None:
    assert tell(data, "", told=frozenset()) == tell(data, "")


@pytest.mark.parametrize(
    "told, added",
    [
        (set(), ["  room: room_id=r turn_id=0", "  is_mine=true cursor=7"]),
        ({"cursor"}, ["  room: room_id=r turn_id=0", "  is_mine=true"]),
        ({"room"}, ["  is_mine=true cursor=7"]),
        ({"room.room_id", "is_mine"}, ["  room: turn_id=0", "  cursor=7"]),
        ({"room.room_id", "room.turn_id", "is_mine", "cursor"}, []),
    ],
)
def test_each_fact_is_added_once_unless_the_view_tells_it(told: set[str], added: list[str]) -> None:
    data = {"room": {"room_id": "r", "turn_id": 0, "owner": None}, "is_mine": True, "warnings": [], "cursor": 7}

    assert tell(data, "The room.", "Next: wait.", told=frozenset(told)).split("\n") == [
        "The room.",
        *added,
        "Next: wait.",
    ]
