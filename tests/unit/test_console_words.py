"""The console has a word for everything that it may have to name."""

from __future__ import annotations

import re
from pathlib import Path

from conch.doors import web
from conch.overseeing import turns

LANES = Path(web.__file__).parent / "static" / "parts" / "lanes.js"


def test_the_lane_chart_has_words_for_every_way_in_which_a_turn_ends() -> None:
    words = re.search(r"^const ENDS = {(.*)};$", LANES.read_text(encoding="utf-8"), re.M)

    assert words is not None
    assert set(re.findall(r"(\w+): \"", words[1])) == {*turns._ENDINGS.values(), "taken_over"}
