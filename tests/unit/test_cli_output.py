"""What the command line prints, and what never reaches a terminal."""

from __future__ import annotations

import io
import json
import re
import sys
import unicodedata

import pytest

from conch.doors.cli.context import find_member
from conch.doors.cli.handoffs import read_handoff
from conch.doors.cli.output import Report, clean, duration, failure, print_report
from conch.doors.cli.parser import split_words
from conch.doors.cli.tables import columns, shortened, table
from conch.errors import InvalidArgument, UnknownMember
from conch.rooms.room import Member
from conch.tools.text import behind_margin, one_line


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0)])
def test_no_control_character_but_the_newline_is_shown_as_it_is(code: int) -> None:
    shown = clean(f"a{chr(code)}b")

    assert chr(code) not in shown or code == 0x0A
    assert shown.isascii()


def test_everything_else_that_is_cleaned_is_invisible_or_turns_the_line_around() -> None:
    escaped = [chr(code) for code in range(0xA0, 0x110000) if not 0xD800 <= code < 0xE000 and len(clean(chr(code))) > 1]

    seen = [letter for letter in escaped if unicodedata.category(letter) not in ("Cf", "Cn", "Zl", "Zp")]
    assert all(re.search("FILLER|JOINER|SELECTOR|INHERENT", unicodedata.name(letter)) for letter in seen)
    assert {"\u202e", "\u2066", "\u2028", "\u200b", "\ufeff", "\U000e0041"} <= set(escaped)


def test_no_format_character_is_shown_as_it_is_unless_it_is_seen_or_a_word_needs_it() -> None:
    formats = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf"]

    shown = [letter for letter in formats if clean(letter) == letter]

    assert [letter for letter in shown if unicodedata.bidirectional(letter) not in ("AN", "AL", "L")] == [
        "\u200c",
        "\u200d",
    ]


@pytest.mark.parametrize("letter", ["\u034f", "\u115f", "\u1160", "\u3164", "\uffa0", "\u180b", "\U000e0100"])
def test_no_letter_that_is_not_seen_is_shown_as_it_is(letter: str) -> None:
    assert clean(f"a{letter}b").isascii()


def test_ordinary_letters_of_every_script_stay_as_they_are() -> None:
    text = "grüße, 日本語, עברית, 👩‍🚀 and\nlines"

    assert clean(text) == text


def test_a_byte_that_was_no_letter_is_shown_as_an_escape() -> None:
    assert clean(b"a\xffb".decode(errors="surrogateescape")) == "a\\udcffb"


def test_cleaning_twice_is_the_same_as_once() -> None:
    text = "\x1b[31m\\x1b\r\n\u202e"

    assert clean(clean(text)) == clean(text)


def test_lines_of_others_stand_behind_the_margin_whatever_separates_them() -> None:
    lines = behind_margin("a\nb\r\nc\x0bd\u2028e\x1bf", "> ").split("\n")

    assert lines == ["> a", "> b", "> c", "> d", "> e\\x1bf"]


def test_one_line_is_one_line() -> None:
    assert one_line(" a\n\tb\x1b \u2028 c ") == "a b\\x1b c"


def test_a_table_lines_up_by_columns_of_the_terminal() -> None:
    shown = table(("ID", "NAME"), [("日本", "x"), ("abc", "y\nz"), ("e\u0301", "")])

    assert shown == "ID    NAME\n日本  x\nabc   y z\ne\u0301"


def test_a_long_text_stands_below_its_row() -> None:
    assert table(("A", "B"), [("1", "2"), ("3", "4")], below=["x", "y"]) == "A  B\n1  2\n    x\n3  4\n    y"


def test_a_line_is_shortened_to_the_columns_there_are() -> None:
    assert shortened("日本語", 5) == "日本"
    assert columns(shortened("x" * 100, 10)) == 10
    assert shortened("short", 10) == "short"


def test_programs_get_one_line_of_pure_ascii_and_people_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report({"path": "/tmp/\udcff", "note": "ü\x1b"}, "text\x1b")

    print_report("db path", report, as_json=True)
    print_report("db path", report, as_json=False)

    line, text = capsys.readouterr().out.splitlines()
    assert line.isascii()
    data = {"path": "/tmp/\\udcff", "note": "ü\x1b"}
    assert json.loads(line) == {"ok": True, "command": "db path", "data": data, "error": None}
    assert text == "text\\x1b"


def test_a_failure_goes_to_standard_error_for_people_and_to_standard_output_for_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = failure("not_yet", "Not yet.", {"turn_id": 3})

    print_report("wait", report, as_json=False)
    print_report("wait", report, as_json=True)

    printed = capsys.readouterr()
    assert printed.err == "conch wait: Not yet. (not_yet)\n"
    error = {"code": "not_yet", "message": "Not yet.", "turn_id": 3}
    assert json.loads(printed.out) == {"ok": False, "command": "wait", "data": None, "error": error}


def test_a_command_that_does_not_exist_is_named_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_report("x\n\x1b[2Jy", failure("invalid_argument", "There is none.", {}), as_json=False)

    assert capsys.readouterr().err == "conch x \\x1b[2Jy: There is none. (invalid_argument)\n"


def test_a_report_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[str] = []
    stream = io.StringIO()
    monkeypatch.setattr(stream, "write", writes.append)
    monkeypatch.setattr(sys, "stdout", stream)

    print_report("state", Report({}, "one\ntwo"), as_json=False)

    assert writes == ["one\ntwo\n"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0 min 00 s"), (0, "0 min 00 s"), (61.9, "1 min 01 s"), (3_599, "59 min 59 s"), (7_260, "2 h 01 min")],
)
def test_durations_read_naturally(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("words", "command", "rest"),
    [
        ([], "", []),
        (["state", "--json"], "state", ["--json"]),
        (["--json", "state"], "state", ["--json"]),
        (["--store", "db", "db", "--json", "path"], "db path", ["--store", "db", "--json"]),
        (["--store=db", "wait"], "wait", ["--store=db"]),
        (["db"], "db", []),
        (["--json"], "", ["--json"]),
        (["--store"], "", ["--store"]),
    ],
)
def test_the_command_is_found_among_the_options(words: list[str], command: str, rest: list[str]) -> None:
    assert split_words(words) == (command, rest)


# -- who is meant


def member(agent_id: str, name: str) -> Member:
    return Member(agent_id, name, 0, 0, 0, None, "mcp_harness", None, True)


MEMBERS = [member("codex:1", "amber-otter"), member("codex:12", "amber-fox"), member("amber-otter", "calm-owl")]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("codex:1", "codex:1"),
        ("codex:12", "codex:12"),
        ("amber-f", "codex:12"),
        ("calm", "amber-otter"),
        ("amber-otter", "codex:1"),
    ],
)
def test_an_exact_name_comes_before_an_id_and_both_before_a_beginning(text: str, meant: str) -> None:
    assert find_member(MEMBERS, text, "to_agent_id") == meant


@pytest.mark.parametrize("text", ["amber", "codex", ""])
def test_what_could_mean_several_members_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        find_member(MEMBERS, text, "to_agent_id")


def test_what_means_nobody_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownMember, match="codex·amber-otter"):
        find_member(MEMBERS, "eve", "to_agent_id")


# -- artifacts


class Options:
    """What argparse makes of `conch release`."""

    status = next_action = handoff = None
    question: list[str] = []
    do_not: list[str] = []

    def __init__(self, *artifact: str) -> None:
        self.artifact = list(artifact)


@pytest.mark.parametrize(
    ("text", "artifact"),
    [
        ("a.py", {"path": "a.py", "role": "examine"}),
        ("a.py=review", {"path": "a.py", "role": "review"}),
        ("a.py:10", {"path": "a.py", "role": "examine", "lines": [10, 10]}),
        ("a.py:10-42=edit", {"path": "a.py", "role": "edit", "lines": [10, 42]}),
        ("C:x=y.txt", {"path": "C:x=y.txt", "role": "examine"}),
        ("a.py:" + "9" * 5_000, {"path": "a.py:" + "9" * 5_000, "role": "examine"}),
    ],
)
def test_an_artifact_is_read_from_one_word(text: str, artifact: dict[str, object]) -> None:
    assert read_handoff(Options(text)) == {"artifacts": [artifact]}
