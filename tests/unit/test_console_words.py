"""The console has a word for everything that it may have to name."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conch.doors import web
from conch.overseeing import turns

PARTS = Path(web.__file__).parent / "static" / "parts"
LANES = PARTS / "lanes.js"
VERB = """
const document = {createTreeWalker() {}, createComment() {}}, customElements = {define() {}};
Object.assign(globalThis, {document, customElements, HTMLElement: class {}}); // a browser has them, and Node does not
const {verb} = await import(process.argv[1]);
console.log(verb({message_type: process.argv[2]}));
process.exit();
"""


def test_the_lane_chart_has_words_for_every_way_in_which_a_turn_ends() -> None:
    words = re.search(r"^const ENDS = {(.*)};$", LANES.read_text(encoding="utf-8"), re.M)

    assert words is not None
    assert set(re.findall(r"(\w+): \"", words[1])) == {*turns._ENDINGS.values(), "taken_over"}


@pytest.mark.skipif(shutil.which("node") is None, reason="the console's modules run in Node or a browser")
@pytest.mark.parametrize(
    ("message_type", "verb"), [("ack", "acknowledged"), ("plan", "undefined"), ("constructor", "undefined")]
)
def test_only_a_known_type_of_message_has_a_verb(message_type: str, verb: str) -> None:
    command = ["node", "--input-type=module", "-e", VERB, (PARTS / "entries.js").as_uri(), message_type]

    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert said.strip() == verb
