"""Whatever is typed: a structured error that names the field, no traceback, and nothing changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.process.cli.conftest import typed

from conch.doors.exits import status_of

Conch = Callable[..., Any]
Words = tuple[str | bytes, ...]

DONE = ("--status", "s", "--next", "n")
LONG = "x" * 5_000
SQL = "'; DROP TABLE path_rooms; --"
NOT_UTF8 = b"\xff\xfe"

# What is typed, the code of the refusal, and the field that it names.
AS_HOLDER: list[tuple[Words, str, str]] = [
    (("join", ""), "invalid_argument", "dir"),
    (("join", "/no/such/place"), "invalid_argument", "dir"),
    (("join", LONG), "limit_exceeded", "dir"),
    (("join", NOT_UTF8), "invalid_argument", "dir"),
    (("rooms", "--path", ""), "invalid_argument", "path"),
    (("rooms", "--path", "/no/such/place"), "invalid_argument", "path"),
    (("state", "--path", ""), "invalid_argument", "path"),
    (("state", "--path", NOT_UTF8), "invalid_argument", "path"),
    (("state", "--room", ""), "invalid_argument", "room"),
    (("state", "--room", "room_0000"), "unknown_room", "room"),
    (("state", "--room", SQL), "unknown_room", "room"),
    (("state", "--room", LONG), "limit_exceeded", "room"),
    (("state", "--room", NOT_UTF8), "invalid_argument", "room"),
    (("wait", "--room", SQL), "unknown_room", "room"),
    (("events", "--room", SQL), "unknown_room", "room"),
    (("events", "--limit", "0"), "invalid_argument", "limit"),
    (("events", "--limit", "-1"), "invalid_argument", "limit"),
    (("events", "--limit", "9" * 30), "invalid_argument", "limit"),
    (("events", "--after", "soon"), "invalid_argument", "after"),
    (("events", "--after", ""), "invalid_argument", "after"),
    (("events", "--after", "-1"), "invalid_argument", "after"),
    (("events", "--after", "9" * 30), "limit_exceeded", "after"),
    (("note", ""), "invalid_argument", "text"),
    (("note", "x" * 20_000), "limit_exceeded", "text"),
    (("note", NOT_UTF8), "invalid_argument", "text"),
    (("release",), "invalid_handoff", "status"),
    (("release", "--status", "s"), "invalid_handoff", "next"),
    (("release", "--status", "", "--next", "n"), "invalid_handoff", "status"),
    (("release", "--status", "s", "--next", " "), "invalid_handoff", "next"),
    (("release", "--status", NOT_UTF8, "--next", "n"), "invalid_argument", "status"),
    (("release", *DONE, "--artifact", ""), "invalid_handoff", "artifact"),
    (("release", *DONE, "--artifact", "a.py=destroy"), "invalid_handoff", "artifact"),
    (("release", *DONE, "--artifact", "a.py:42-10"), "invalid_handoff", "artifact"),
    (("release", *DONE, "--question", ""), "invalid_handoff", "question"),
    (("release", *DONE, "--do-not", ""), "invalid_handoff", "do_not"),
    (("release", *DONE, "--handoff", "/no/such/file"), "invalid_argument", "handoff"),
    (("release", "--handoff", "/no/such/file"), "invalid_handoff", "handoff"),
    (("release", "--handoff", "/"), "invalid_handoff", "handoff"),
    (("release", "--handoff", "/dev/zero"), "limit_exceeded", "handoff"),
    (("release", "--handoff", NOT_UTF8), "invalid_handoff", "handoff"),
    (("pass", "", *DONE), "invalid_argument", "agent"),
    (("pass", SQL, *DONE), "unknown_member", "agent"),
    (("pass", LONG, *DONE), "unknown_member", "agent"),
    (("pass", NOT_UTF8, *DONE), "invalid_argument", "agent"),
    (("pass", "bob:2"), "invalid_handoff", "status"),
    (("pass", "ada:1", *DONE), "invalid_argument", "agent"),
    (("take", "--reason", ""), "invalid_argument", "reason"),
    (("take", "--reason", LONG), "limit_exceeded", "reason"),
    (("take", "--reason", NOT_UTF8), "invalid_argument", "reason"),
    (("close", "--reason", ""), "invalid_argument", "reason"),
    (("close", "--reason", LONG), "limit_exceeded", "reason"),
    (("close", "--reason", NOT_UTF8), "invalid_argument", "reason"),
    (("init", "--non-interactive", "--adopt", NOT_UTF8), "INVALID_ARGS", "adopt"),
    (("search", "--topic", NOT_UTF8, "text"), "INVALID_ARGUMENT", "topic"),
    (("reorder", "ada:1", "ada:1"), "invalid_argument", "agent"),
    (("reorder", "", ""), "invalid_argument", "agent"),
    (("policy", "claim_ttl_ms"), "invalid_argument", "policy"),
    (("policy", "claim_ttl_ms=soon"), "invalid_argument", "policy.claim_ttl_ms"),
    (("policy", "claim_ttl_ms=-5"), "invalid_argument", "policy.claim_ttl_ms"),
    (("policy", "claim_ttl_ms=" + "9" * 5_000), "invalid_argument", "policy.claim_ttl_ms"),
    (("policy", "heartbeat_interval_ms=9999999"), "invalid_argument", "policy.heartbeat_interval_ms"),
    (("policy", "no_such_thing=1"), "invalid_argument", "policy.no_such_thing"),
    (("policy", "=1"), "invalid_argument", "policy"),
    (("policy", b"claim_ttl_ms=\xff"), "invalid_argument", "name=value"),
    (("db", "backup", ""), "invalid_argument", "file"),
    (("db", "backup", "x" * 70_000), "DB_UNAVAILABLE", "file"),
    (("db", "wipe"), "DECISION_NEEDED", "yes"),
    (("state", "--store", ""), "invalid_argument", "store"),
]

UNPARSABLE: list[tuple[Words, str]] = [
    (("frobnicate",), "command"),
    (("db", "frobnicate"), "command"),
    (("db",), "command"),
    ((NOT_UTF8,), "command"),
    (("--tools=turns", "mcp"), "command"),
    (("wait", "--timeout", "-1"), "timeout"),
    (("wait", "--timeout", "soon"), "timeout"),
    (("wait", "--timeout", "nan"), "timeout"),
    (("wait", "--timeout", "inf"), "timeout"),
    (("wait", "--timeout", ""), "timeout"),
    (("wait", "--timeout"), "timeout"),
    (("wait", "--timeout", "\u0663"), "timeout"),
    (("wait", "--timeout", "1_000"), "timeout"),
    (("wait", "--until", "noon"), "until"),
    (("wait", "for", "me"), "for"),
    (("state", "--roo", "x"), "roo"),
    (("events", "--limit", "many"), "limit"),
    (("events", "--limit", "1.5"), "limit"),
    (("events", "--limit", "\u0663"), "limit"),
    (("events", "--limit", "1_0"), "limit"),
    (("note",), "text"),
    (("note", LONG, LONG), "x" * 200),
    (("pass",), "agent"),
    (("take",), "reason"),
    (("reorder",), "agent"),
    (("release", "--do-not"), "do_not"),
    (("state", NOT_UTF8), "\\udcff\\udcfe"),
    (("state", ""), "arguments"),
    (("state", "-"), "arguments"),
]


@pytest.fixture(scope="module")
def holder(shared_conch: Any) -> Any:
    """ada:1, who holds the stick of a room with bob:2."""
    shared_conch("join")
    shared_conch("join", agent="bob:2")
    shared_conch("wait")
    return shared_conch


@pytest.mark.parametrize(("words", "code", "field"), AS_HOLDER, ids=[typed(words) for words, _, _ in AS_HOLDER])
def test_bad_input_is_refused_with_its_field_and_changes_nothing(
    holder: Any, words: Words, code: str, field: str
) -> None:
    before = holder.contents()

    refused = holder(*words, "--json")

    assert (refused.error["code"], refused.error["field"]) == (code, field)
    assert (refused.status, refused.err) == (status_of(code), "")
    assert len(refused.out) < 3_000
    assert holder.contents() == before


@pytest.mark.parametrize(("words", "field"), UNPARSABLE, ids=[typed(words) for words, _ in UNPARSABLE])
def test_what_cannot_be_parsed_is_refused_with_its_field_and_status_2(conch: Conch, words: Words, field: str) -> None:
    refused = conch(*words, "--json")

    assert (refused.status, refused.err) == (2, "")
    assert (refused.error["code"], refused.error["field"]) == ("invalid_argument", field)
    assert len(refused.out) < 2_000


BAD_HANDOFFS = {
    "not JSON": ("{", "invalid_handoff", "handoff"),
    "not UTF-8": (b"\xff".decode(errors="surrogateescape"), "invalid_handoff", "handoff"),
    "empty": ("", "invalid_handoff", "handoff"),
    "a list": ("[]", "invalid_handoff", "handoff"),
    "null": ("null", "invalid_handoff", "handoff"),
    "bottomless": ("[" * 100_000, "invalid_handoff", "handoff"),
    "a number": ('{"status": 5, "next_action": "n"}', "invalid_handoff", "handoff"),
    "an endless number": ('{"status": ' + "9" * 10_000 + "}", "invalid_handoff", "handoff"),
    "an unknown field": ('{"status": "s", "next_action": "n", "mood": "good"}', "invalid_handoff", "handoff"),
    "NUL": ('{"status": "a\\u0000b", "next_action": "n"}', "invalid_handoff", "handoff"),
    "half a pair": ('{"status": "\\ud800", "next_action": "n"}', "invalid_handoff", "handoff"),
    "half a pair as a key": ('{"\\ud800": "s", "next_action": "n"}', "invalid_handoff", "handoff"),
    "artifacts of texts": (
        '{"status": "s", "next_action": "n", "artifacts": ["a"]}',
        "invalid_handoff",
        "handoff",
    ),
    "one megabyte": (json.dumps({"status": "x" * 2**20, "next_action": "n"}), "limit_exceeded", "handoff"),
}


@pytest.mark.parametrize("kind", BAD_HANDOFFS)
@pytest.mark.parametrize("words", [("release",), ("pass", "bob:2")], ids=["release", "pass"])
def test_a_bad_handoff_is_refused_with_its_field_and_the_holder_keeps_the_stick(
    holder: Any, kind: str, words: Words
) -> None:
    text, code, field = BAD_HANDOFFS[kind]
    before = holder.contents()

    refused = holder(*words, "--handoff", "-", "--json", stdin=text)

    assert (refused.error["code"], refused.error["field"]) == (code, field)
    assert (refused.status, refused.err) == (2, "")
    assert holder.contents() == before


AFRESH: list[Words] = [
    ("--help",),
    ("wait", "--help"),
    ("db",),
    ("relase",),
    (NOT_UTF8, "--json"),
    ("state", "--room", NOT_UTF8, "--json"),
    ("wait", "--room", SQL, "--json"),
    ("note", "x" * 20_000, "--json"),
    ("release", "--handoff", "/dev/zero", "--json"),
    ("pass", "bob:2"),
]


@pytest.mark.parametrize("words", AFRESH, ids=typed)
def test_a_new_interpreter_answers_as_the_forks_of_these_tests_do(holder: Any, words: Words) -> None:
    assert holder.afresh(*words) == holder(*words)


def test_people_get_the_same_refusals_as_one_sentence_on_standard_error(holder: Conch) -> None:
    refused = holder("note", "")

    assert (refused.status, refused.out) == (2, "")
    assert refused.err == "conch note: TEXT must be non-empty. (invalid_argument)\n"


def test_a_mistyped_command_gets_a_suggestion(conch: Conch) -> None:
    refused = conch("relase")

    assert refused.status == 2
    assert "did you mean `conch release`?" in refused.err


def test_a_line_without_a_command_is_refused_by_conch_itself(conch: Conch) -> None:
    assert conch("--nonsense").err.startswith("conch: ")


def test_a_working_directory_that_is_gone_is_refused_as_the_path(shell: Callable[[str], Any], tmp_path: Path) -> None:
    harness = shell("claude")
    harness.bash(f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone")

    refused = harness.run("state", "--json")

    assert (refused.error["code"], refused.error["field"]) == ("invalid_argument", "path")


def test_control_characters_of_others_never_reach_a_terminal_raw(conch: Conch) -> None:
    evil = "\x1b]0;owned\x07 \x1b[2J \x9b31m \r \u202e drow \x7f \x08"
    conch("join")
    conch("join", agent="bob:2")
    conch("wait")
    conch("note", evil)
    conch("release", "--status", evil, "--next", evil, "--artifact", evil.replace("\r", ""), "--question", evil)

    shown = conch("events").out + conch("wait", agent="bob:2").out + conch("pass", evil, *DONE, agent="bob:2").err

    assert not [letter for letter in shown if ord(letter) < 0x20 and letter != "\n"]
    assert not set(shown) & {"\x7f", "\x9b", "\u202e"}
    assert "\\x1b]0;owned\\x07" in shown


def test_an_environment_that_cannot_be_used_is_refused_by_the_name_of_the_variable(conch: Conch) -> None:
    refused = conch("state", "--json", CONCH_CLAIM_TTL_MS="soon")

    assert (refused.status, refused.error["code"]) == (2, "invalid_setting")
    assert refused.error["setting"] == "CONCH_CLAIM_TTL_MS"


def test_letters_that_the_terminal_cannot_show_are_escaped(conch: Conch) -> None:
    conch("join")
    conch("note", "grüße ✓")

    answer = conch.afresh("events", PYTHONIOENCODING="ascii")

    assert answer.status == 0
    assert "gr\\xfc\\xdfe \\u2713" in answer.out


@pytest.mark.parametrize("words", [("guard", "check"), ("send", "-"), ("release", "--handoff", "-")])
def test_standard_input_that_is_too_large_is_refused_and_not_cut(holder: Any, words: tuple[str, ...]) -> None:
    refused = holder(*words, "--json", stdin="a file\n" * 3_000_000)

    assert refused.status == 2
    assert "Standard input is larger than 16777216 bytes" in refused.error["message"]
