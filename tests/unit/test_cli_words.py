"""Words of the command line: suggestions after a mistake, durations, and the exit status of every code."""

from __future__ import annotations

import pytest

from conch import errors
from conch.doors.cli.catalogue import COMMANDS, FAMILIES
from conch.doors.cli.command import age, parse_duration, seconds, ttl_minutes
from conch.doors.cli.other_programs import ELSEWHERE
from conch.doors.cli.parser import Words, parse_options, split_words
from conch.doors.cli.suggestions import near_commands, near_options
from conch.doors.exits import status_of
from conch.errors import ConchError, InvalidArgument
from conch.scopes.reservations import LONGEST_TTL, SHORTEST_TTL


def misspelt(word: str) -> set[str]:
    """The word with one letter left out, doubled, wrong or swapped with the next."""
    ends = [(word[:place], word[place:]) for place in range(len(word))]
    without = {head + tail[1:] for head, tail in ends}
    doubled = {head + tail[0] + tail for head, tail in ends}
    wrong = {head + letter + tail[1:] for head, tail in ends for letter in "aeostx"}
    swapped = {head + tail[1::-1] + tail[2:] for head, tail in ends}
    return {each for each in without | doubled | wrong | swapped if each != word and len(each) > 1}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_with_one_slip_is_suggested_so_that_none_that_only_reads_is_missing(name: str) -> None:
    family, _, action = name.rpartition(" ")

    for typed in (f"{family} {each}".strip() for each in misspelt(action)):
        assert typed in {*COMMANDS, *FAMILIES, *ELSEWHERE} or name in near_commands(typed), typed


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_with_one_slip_is_suggested(name: str) -> None:
    options = COMMANDS[name].options
    names = [option.name for option in options if option.is_flag]

    for option in names:
        for typed in misspelt(option.removeprefix("--")):
            assert f"--{typed}" in names or option in near_options(f"--{typed}", options), typed


def test_a_command_that_changes_is_never_the_only_suggestion_if_a_reading_one_is_as_near() -> None:
    assert near_commands("reserv")[0] == "reservations"
    assert COMMANDS[near_commands("stats")[0]].reads


@pytest.mark.parametrize("letters", ["wa", "st", "re", "ta", "ro", "who", "se", "cl", "no", "pa", "qu", "un", "le"])
def test_reading_commands_come_before_those_that_change(letters: str) -> None:
    found = [COMMANDS[name].reads for name in near_commands(letters) if name in COMMANDS]

    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize(
    "typed", ["--verison", "--versoin", "--hepl", "--jsn", "--stoer x wait", "wait --timout 5", "db wipe --yess"]
)
def test_every_mistyped_option_is_answered_with_a_question(typed: str) -> None:
    with pytest.raises(InvalidArgument, match="did you mean `--"):
        parse_options(split_words(typed.split()))


def test_the_words_of_other_programs_are_suggested_too() -> None:
    assert near_commands("lisst") == ["rooms"]
    assert near_commands("wipe") == ["db wipe"]


@pytest.mark.parametrize(
    ("typed", "own"),
    [
        ("sync", "read"),
        ("topics create x", "topics create"),
        ("db", "db path"),
        ("wipe", "db wipe"),
        ("", "topics list"),
    ],
)
@pytest.mark.parametrize("program", ["cli", "agent-bus cli"])
def test_the_commands_of_another_program_name_their_own(program: str, typed: str, own: str) -> None:
    with pytest.raises(InvalidArgument, match=f"use `conch {own}`"):
        parse_options(split_words(f"{program} {typed}".split()))


def test_what_looks_like_nothing_gets_no_suggestion() -> None:
    assert near_commands("xyzzy") == near_commands("") == near_options("--qqq", ()) == []


# -- durations


@pytest.mark.parametrize(
    ("given", "expected"),
    [("90s", 90), ("5m", 300), ("2h", 7_200), ("1d", 86_400), ("90", 90), ("0", 0), ("0.5", 0.5), ("1.5h", 5_400)],
)
def test_a_duration_has_a_unit_and_a_bare_number_counts_seconds(given: str, expected: float) -> None:
    assert seconds(given) == expected


@pytest.mark.parametrize(("given", "expected"), [("30", 30), ("30m", 30), ("2h", 120), ("300s", 5), ("1d", 1_440)])
def test_a_bare_number_of_a_ttl_counts_minutes(given: str, expected: int) -> None:
    assert ttl_minutes(given) == expected


@pytest.mark.parametrize(
    "given",
    ["", "s", "soon", "-1", "-5m", "5x", "m5", "5mm", "nan", "inf", "1e400s", "\uff11m", "1_0s", "9999999999d"],
)
def test_what_is_not_a_duration_is_refused(given: str) -> None:
    for parse in (seconds, ttl_minutes):
        with pytest.raises(ValueError, match="must be"):
            parse(given)
    assert parse_duration(given) is None


def test_a_ttl_is_rounded_up_to_whole_minutes() -> None:
    assert [ttl_minutes(given) for given in ("299s", "5m", "301s", "5.5")] == [5, 5, 6, 6]


@pytest.mark.parametrize("given", ["90s", "4", f"{SHORTEST_TTL - 1}m", f"{LONGEST_TTL + 1}", "25h", "2d"])
def test_a_ttl_that_is_too_short_or_too_long_is_refused_with_units(given: str) -> None:
    with pytest.raises(InvalidArgument, match=f"--ttl must be from 5 minutes to 24 hours.*, not '{given}'"):
        parse_options(split_words(["reserve", "src", "--ttl", given]))
    assert (ttl_minutes(f"{SHORTEST_TTL}m"), ttl_minutes(f"{LONGEST_TTL}m")) == (SHORTEST_TTL, LONGEST_TTL)


def test_every_option_that_takes_a_time_says_which_durations_it_takes() -> None:
    timed = [option for command in COMMANDS.values() for option in command.options if option.value == "TIME"]

    assert {option.name for option in timed} == {"--timeout", "--wait", "--ttl", "--older"}
    assert all("2h" in option.help and option.parse in (seconds, ttl_minutes, age) for option in timed)
    assert not [option for c in COMMANDS.values() for option in c.options if option.value in ("SECONDS", "MINUTES")]


def test_durations_are_read_wherever_an_option_takes_a_time() -> None:
    def value(*words: str) -> object:
        parsed = parse_options(split_words(words))
        return getattr(parsed, "timeout", None) or getattr(parsed, "wait", None) or getattr(parsed, "ttl", None)

    assert value("wait", "--timeout", "5m") == 300
    assert value("ask", "q", "--wait=2h") == 7_200
    assert value("reserve", "a", "--ttl", "2h") == value("agent", "reserve", "a", "--ttl", "120") == 120


def test_a_value_after_an_equals_sign_may_have_spaces() -> None:
    parsed = parse_options(split_words(["--store=/tmp/my store", "release", "--status=all is done", "--next=a=b c"]))

    assert (parsed.store, parsed.status, parsed.next_action) == ("/tmp/my store", "all is done", "a=b c")


def test_a_text_with_spaces_may_look_like_an_option() -> None:
    note = parse_options(split_words(["note", "--x=1 is ignored"]))
    release = parse_options(split_words(["release", "--status", "done", "--next", "--status=x is ignored"]))

    assert (note.text, release.next_action) == ("--x=1 is ignored", "--status=x is ignored")


@pytest.mark.parametrize("given", ["-1", "65536", "99999999999999999999"])
def test_a_port_that_cannot_exist_is_refused(given: str) -> None:
    with pytest.raises(InvalidArgument, match=f"--port must be from 0 to 65535, not '{given}'"):
        parse_options(split_words(["serve", "--port", given]))


# -- exit codes


def codes(kind: type[ConchError] = ConchError) -> dict[str, type[ConchError]]:
    found = {kind.code: kind}
    for child in kind.__subclasses__():
        found |= codes(child)
    return found


def test_every_error_has_one_of_the_documented_exit_statuses() -> None:
    statuses = {code: status_of(code) for code in codes()}

    assert {code for code, status in statuses.items() if status == 4} == {
        kind.code for kind in codes(errors.StoreError).values()
    }
    assert {code for code, status in statuses.items() if status == 2} == {
        *(kind.code for kind in codes(errors.InvalidArgument).values()),
        "invalid_setting",
        "INVALID_AGENT_ID",
    }
    assert set(statuses.values()) == {1, 2, 4}


@pytest.mark.parametrize("code", ["not_yet", "timeout", "takeover_available"])
def test_a_wait_that_brings_nothing_yet_ends_with_3(code: str) -> None:
    assert status_of(code) == 3


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_command_line_that_cannot_be_parsed_ends_with_2_whatever_its_code(family: object) -> None:
    invalid = getattr(family, "invalid", "") or InvalidArgument.code

    assert status_of(invalid) == 2


def test_the_version_is_asked_for_in_three_ways() -> None:
    assert Words("", ["-V"]).wants_version
    assert Words("", ["--json", "--version"]).wants_version
    assert not Words("wait", ["-V"]).wants_version
