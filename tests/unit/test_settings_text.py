"""Whatever people write around conch's entries in a settings file stays when these are removed."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from conch.harnesses import json_text, toml_text

GAPS = [
    "",
    "",
    " ",
    "\n",
    "\r\n  ",
    "\n\n\t",
    " // a\n",
    "/* b, } */",
    "\n  // c: [\r\n  ",
    " /* d */ // e\n\n",
    "//\n",
]
OURS = '{"command": "x", "args": ["mcp"]}'
OTHERS = ["1", '"// no, comment"', "{}", '{"y": [1, 2]}', '[ {"z": null} ]']
COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|(//[^\r\n]*|/\*.*?\*/)', re.DOTALL)
gaps = st.sampled_from(GAPS)


@st.composite
def containers(draw: st.DrawFn) -> tuple[str, bool, int, int]:
    """An object or a list with comments anywhere, whether it is a list, where our part is, and how many there are."""
    is_list, count = draw(st.booleans()), draw(st.integers(1, 4))
    place = draw(st.integers(0, count - 1))
    values = [OURS if at == place else draw(st.sampled_from(OTHERS)) for at in range(count)]
    keys = [
        "" if is_list else f'"k{at}"{draw(gaps)}:{draw(gaps)}' if at != place else '"conch": ' for at in range(count)
    ]
    parts = [f"{draw(gaps)}{key}{value}{draw(gaps)}" for key, value in zip(keys, values, strict=True)]
    trailing = f",{draw(gaps)}" if draw(st.booleans()) else ""
    begin, end = "[]" if is_list else "{}"
    return f"{begin}{','.join(parts)}{trailing}{end}", is_list, place, count


def comments(text: str) -> list[str]:
    return [found for found in COMMENT.findall(text) if found]


@given(containers(), gaps)
def test_removing_a_part_of_json_keeps_all_values_and_comments(made: tuple[str, bool, int, int], gap: str) -> None:
    inner, is_list, place, count = made
    text = f'{{"top":{gap}{inner}{gap}}}\n'
    before = json_text.read_value(text)["top"]
    wanted = [each for at, each in enumerate(before) if at != place] if is_list else dict(before)
    if isinstance(wanted, dict):
        del wanted["conch"]

    after = json_text.remove(text, ("top", place if is_list else "conch"))

    assert json_text.read_value(after) == {"top": wanted}
    assert comments(after) == comments(text)
    assert json_text.is_empty(after, ("top",)) == (count == 1 and not comments(inner))


@given(containers(), gaps)
def test_adding_to_json_and_removing_it_again_keeps_all_values_and_comments(
    made: tuple[str, bool, int, int], gap: str
) -> None:
    inner, is_list, _, count = made
    text = f'{{"top":{gap}{inner}{gap}}}\n'
    before = json_text.read_value(text)

    added = json_text.add_item(text, ("top",), 7) if is_list else json_text.add_member(text, ("top", "new"), 7)
    after = json_text.remove(added, ("top", count if is_list else "new"))

    assert json_text.read_value(added)["top"] == ([*before["top"], 7] if is_list else before["top"] | {"new": 7})
    assert json_text.read_value(after) == before
    assert comments(added) == comments(after) == comments(text)


PIECES = ["", "\n", "# mine\n", "\n# about the next\n", "\n\n  # [not.a.table]\n\n", "[other]\nb = 1 # one\n", "# last"]
PIECES += ['[more]\ntext = """\n# in a text\n[no.table]\n"""\n', "\r\n[last]\r\nlist = [ # here\r\n  1,\r\n]\r\n"]
ENTRY = ("mcp_servers", "conch")


@given(st.lists(st.sampled_from(PIECES), max_size=4, unique=True), st.integers(0, 4), st.booleans())
def test_removing_a_table_of_toml_keeps_every_other_line(pieces: list[str], place: int, is_nested: bool) -> None:
    before, after = "\n".join(pieces[:place]), "\n".join(pieces[place:])
    ours = toml_text.add_table(before, ENTRY, {"command": "x", "args": ["mcp"]})
    ours += "[mcp_servers.conch.env]\nA = '''\n# ours\n'''\n" if is_nested else ""

    text = toml_text.remove_table(ours + after, ENTRY)

    assert lines(text) == lines(f"{before}\n{after}")
    assert toml_text.read_value(text) == toml_text.read_value(f"{before}\n{after}")


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]
