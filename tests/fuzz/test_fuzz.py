"""Bad input of every kind, to every tool and every command: a refusal that names the field, and no row changed.

`make fuzz` makes 100,000 calls. Here are about 5,000, with the same seeds each time: several for every field of every
tool, and one for every option of every command.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.fuzz.inputs import COMMAND_OPTIONS, ToolCall
from tests.fuzz.judge import judge_ended, judge_reply
from tests.fuzz.run import Report, fuzz_commands, fuzz_tools
from tests.process.forking import Ended, Forks, command_forks


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with command_forks() as forks:
        yield forks


@pytest.mark.parametrize("seed", range(4))
def test_a_bad_call_is_refused_with_its_field_and_changes_nothing(seed: int) -> None:
    report = Report(seed)

    fuzz_tools(report, 1_060)

    assert (report.findings, report.ends.total()) == ({}, 1_060), report


def test_postgresql_refuses_and_keeps_the_same(postgres_url: str) -> None:
    report = Report(4)

    fuzz_tools(report, 400, postgres_url)

    assert (report.findings, report.ends.total()) == ({}, 400), report


def test_a_bad_command_line_is_refused_with_its_field_and_changes_nothing(forks: Forks) -> None:
    report = Report(0)

    fuzz_commands(report, len(COMMAND_OPTIONS), forks)

    assert (report.findings, report.ends.total()) == ({}, len(COMMAND_OPTIONS)), report


GOOD = {"error": "invalid_argument", "message": "note must be non-empty.", "field": "note"}
BAD = {
    "an unknown code": {**GOOD, "error": "oops"},
    "a defect": {**GOOD, "error": "internal_error"},
    "no field": {**GOOD, "field": None, "message": "It is wrong."},
    "another field": {**GOOD, "field": "room_id", "message": "room_id is wrong."},
    "no sentence": {**GOOD, "message": "note"},
}


def refused(error: dict[str, object], length: int = 100, **changes: list[str]) -> list[str]:
    reply = {"result": {"isError": True, "structuredContent": error}}
    return list(judge_reply(ToolCall("append_note", {"note": ""}, "note"), reply, length, changes))


@pytest.mark.parametrize("kind", BAD)
def test_the_judge_finds_a_bad_refusal(kind: str) -> None:
    assert refused(GOOD) == []
    assert len(refused(BAD[kind])) == 1


def test_the_judge_finds_a_long_refusal_and_a_changed_row() -> None:
    assert len(refused(GOOD, length=100_000)) == 1
    assert len(refused(GOOD, agents=["a row"])) == 1


def test_the_judge_finds_a_command_that_fails_without_an_answer() -> None:
    assert len(list(judge_ended(Ended(1, b"", b"Traceback (most recent call last):"), {}))) == 2
