"""What names look like, by the rules of UTS #39."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from conch.letters import names
from conch.letters.invisible import is_invisible
from conch.letters.names import find_flaw, kind_posed_as, poses_as, skeletons
from conch.tools.text import is_plain, visible


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("con\u034fch", "invisible"),
        ("scout\u3164", "invisible"),
        ("a\ufe0f", "invisible"),
        ("tag\U000e0041", "invisible"),
        ("1\u2800", "invisible"),  # an empty Braille pattern
        ("scout\U0001d159", "invisible"),  # an empty note
        ("scout\ufffc", "invisible"),  # the place of an object
        ("\uff43\uff4f\uff4e\uff43\uff48", "not_nfkc"),
        ("e\u0301mile", "not_nfkc"),
        ("\ufb01x", "not_nfkc"),
        ("c\u043ench", "mixed_scripts"),  # Cyrillic o
        ("c\u03bfnch", "mixed_scripts"),  # Greek omicron
        ("plan\u6771", "mixed_scripts"),  # Han with Latin
        ("\u3042\ud55c", "mixed_scripts"),  # Hiragana with Hangul
    ],
)
def test_a_name_that_could_pass_for_another_has_a_flaw(name: str, reason: str) -> None:
    flaw = find_flaw(name)

    assert flaw is not None
    assert flaw.reason == reason


@pytest.mark.parametrize(
    "name",
    [
        "plan",
        "\u00e9mile",
        "\u6771\u4eac\u30ce\u30fc\u30c8",  # Han with Katakana
        "\u97d3\ud55c",  # Han with Hangul
        "\u4e2d\u3105",  # Han with Bopomofo
        "\u0433\u043e\u0440\u043e\u0434-2",
        "\U0001f422 turtle",
        "\u05e9\u05dc\u05d5\u05dd",
    ],
)
def test_a_name_in_one_writing_system_is_fit(name: str) -> None:
    assert find_flaw(name) is None


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("c\u043ench", "conch"),
        ("\u0441\u043e\u0441\u043e", "coco"),
        ("con\u034fch", "conch"),
        ("modern", "modem"),
        ("agent-1", "agent-l"),
        ("\uff43onch", "conch"),
        ("STOUT-ZEBRA", "stout-zebra"),
        ("Modern", "modem"),
        ("Agent-I", "agent-l"),  # a capital i
        ("STRASSE", "stra\u00dfe"),
        ("\u041c\u0410\u0425", "max"),  # Cyrillic capitals
        ("\u041c\u0430\u0445", "max"),
        ("\u039d\u0399\u0391", "nia"),  # Greek capitals with an iota
        ("\ua4e1\ua4f2\ua4df", "lim"),  # Lisu
        ("\u13b7\u13aa\u13a2", "mat"),  # Cherokee
        ("\u0455\u0441\u043e\u0440\u0435", "scope"),  # Cyrillic
        ("\u1d0d\u1d00\u0445", "ma\u0445"),  # small capitals
        ("\U0001f17c\U0001f170\U0001f187", "max"),  # white in squares
        ("\U0001f1f2\U0001f1e6\U0001f1fd", "max"),  # as in flags
        ("\u0455\u0443\u0455\u0442\u0435\u043c\u0430", "systema"),  # Cyrillic, with letters like Latin capitals
        ("\u0430\u0440\u0440\u04cf\u0435", "apple"),  # Cyrillic, with a palochka
        ("\u2ca5\u2c9f\u2c9b\u2ca5\u2c8f", "conch"),  # Coptic
        ("ali\u0307ce", "alice"),  # a dot above a letter that has one
        ("al\u0131\u0307ce", "alice"),
        ("\u1ecb\u0307ris", "\u1ecbris"),
        ("q\u0323\u0323", "q\u0323"),  # the same mark twice
        ("\u0393\u0395\u0399\u0391\u03a3", "\u03b3\u03b5\u03b9\u03b1\u03c2"),  # Greek with a final sigma
    ],
)
def test_names_that_look_alike_share_a_skeleton(name: str, other: str) -> None:
    assert not skeletons(name).isdisjoint(skeletons(other))


def test_names_that_look_different_share_no_skeleton() -> None:
    names = ("scout", "scouts", "\u00e9mile", "emile", "agent-i", "agent-1", "na\u00efve", "naive", "q\u0307", "q")
    seen = [skeletons(name) for name in names]

    assert sum(map(len, seen)) == len(set().union(*seen))


@pytest.mark.parametrize(
    ("name", "reserved"),
    [
        *(("conch", "conch"), ("Conch", "conch"), ("C0NCH", "conch"), ("\uff23onch", "conch"), ("c\u043ench", "conch")),
        *(("human", "human"), ("HUMAN", "human"), ("hurnan", "human"), ("system", "system"), ("Systern", "system")),
        *(
            ("\u0405\u04ae\u0405\u0422\u0415\u041c", "system"),
            ("\ua4e7\ua4f4\ua4df\ua4ee\ua4e0", "human"),
        ),  # Cyrillic, Lisu
        *(("\u1d04\u1d0f\u0274\u1d04\u029c", "conch"), ("\u029c\u1d1c\u1d0d\u1d00\u0274", "human")),  # small capitals
        *(("conch-2", None), ("humane", None), ("ecosystem", None)),
    ],
)
def test_names_that_look_like_the_program_or_a_person_are_known(name: str, reserved: str | None) -> None:
    assert poses_as(name) == reserved


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "human") for name in ("human:ada", "Human:ada", "hurnan:ada", "human\ua789ada", "\uff48uman:ada")),
        *(
            ("human:", "human"),
            ("human.ada", "human"),
            ("conch:1", "conch"),
            ("C0nch.x", "conch"),
            ("system:1", "system"),
        ),
    ],
)
def test_every_way_to_begin_like_a_person_or_conch_is_known(name: str, kind: str) -> None:
    assert kind_posed_as(name) == kind
    assert kind_posed_as(f"a {name}") is None
    assert kind_posed_as(kind) is kind_posed_as(f"{kind}-2:1") is None


def test_ascii_names_look_as_the_table_says() -> None:
    shapes = names._load_table().shapes

    for code in range(128):
        assert names._skeleton(chr(code)) == shapes.get(code, chr(code))


def test_no_name_that_is_ascii_loads_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_load_table", None)

    assert find_flaw("amber-otter") is None
    assert skeletons("amber-otter") == {"arnber-otter"}


def test_every_format_character_that_is_not_seen_is_on_the_one_list() -> None:
    unlisted = {0x6DD, 0x70F, 0x8E2, 0x110BD, 0x110CD, *range(0x600, 0x606), 0x890, 0x891, *range(0xFFF9, 0xFFFC)}
    formats = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"]

    # Unicode gives these few a shape: signs around numbers, and marks of annotations and hieroglyphs.
    shown = [code for code in formats if not is_invisible(code) and not 0x13430 <= code < 0x13440]
    assert set(shown) <= unlisted


def test_plain_text_looks_the_same_beside_text_that_is_not_plain() -> None:
    plain = [letter for letter in map(chr, range(0x3000)) if is_plain(letter)]

    assert len(plain) > 180
    assert [letter for letter in plain if visible(f"{letter}\u65e5") != f"{letter}\u65e5"] == []
