"""At a real terminal: colours, tables that fit, and a line that says for whom a command waits."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Conch = Callable[..., Any]
ESCAPE = "\x1b["
SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")
WIDTHS = (40, 80, 200)
TABLES = [("rooms", "--all"), ("who",), ("reservations",), ("state",), ("questions",), ("topics", "list")]


@pytest.fixture
def busy(conch: Conch) -> None:
    """A room with long names, reservations, questions and topics."""
    conch("join")
    conch("join", agent="bob:2")
    conch("agent", "register", "the-agent-with-quite-a-long-name", "--role", "reviews everything twice", agent="bob:2")
    conch("reserve", "src/a/very/long/path/to/some/module/with/a/long/name.py", "docs", agent="bob:2")
    conch("ask", "What is the plan for the week after the next one, and who takes part in it?", "--wait", "0")
    conch("topics", "create", "a-topic-with-a-name-that-is-longer-than-forty-columns")


def lines(screen: str) -> list[str]:
    """What a person sees, without colours and without the last line, which the test prints itself."""
    return [SEQUENCE.sub("", line).rstrip() for line in screen.replace("\r", "").split("\n")][:-1]


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("columns", WIDTHS)
def test_tables_fit_the_width_of_the_terminal_and_lose_nothing(terminal: Any, conch: Conch, columns: int) -> None:
    window = terminal(columns)
    for words in TABLES:
        shown = lines(window.run(*words))

        assert [line for line in shown if len(line) > columns and "`" not in line and not line.startswith("/")] == [], (
            words
        )
    seen = re.sub(r"\s", "", "".join(lines(window.run("reservations"))))
    assert "name.py" in seen and "the-agent-with-quite-a-long-name"[:12] in seen


@pytest.mark.usefixtures("busy")
def test_in_a_pipe_a_table_is_never_wrapped(conch: Conch) -> None:
    path = "src/a/very/long/path/to/some/module/with/a/long/name.py"

    assert [line for line in conch("reservations").out.splitlines() if path in line and "(in " in line]


@pytest.mark.usefixtures("busy")
def test_a_terminal_gets_colours_and_a_pipe_does_not(terminal: Any, conch: Conch) -> None:
    assert ESCAPE in terminal(80).run("who")
    assert ESCAPE not in conch("who").out


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("switch", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"FORCE_COLOR": "0"}])
def test_colours_can_be_turned_off(terminal: Any, switch: dict[str, str]) -> None:
    window = terminal(80, **switch)

    assert ESCAPE not in window.run("who") + window.run("relase")


@pytest.mark.usefixtures("busy")
def test_colours_can_be_demanded_where_there_is_no_terminal(conch: Conch) -> None:
    assert ESCAPE in conch("who", FORCE_COLOR="1").out
    assert conch("relase", FORCE_COLOR="1").err.startswith("\x1b[31mconch relase:\x1b[0m ")
    assert ESCAPE not in conch("who", "--json", FORCE_COLOR="1").out


def test_no_text_of_an_agent_brings_a_colour(conch: Conch) -> None:
    conch("join")
    conch("note", "\x1b[31mred\x1b[0m")
    conch("topics", "create", "plan")
    conch("ask", "\x1b[31mred?\x1b[0m", "--wait", "0")

    shown = conch("events", FORCE_COLOR="1").out + conch("questions", FORCE_COLOR="1").out

    assert "\x1b[31m" not in shown
    assert "\\x1b[31mred" in shown


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_waiting_command_shows_for_whom_and_how_long_on_one_line(conch: Conch, terminal: Any, columns: int) -> None:
    conch("join")
    conch("wait")
    window = terminal(columns)
    window.run("join")
    window.start("wait", "--timeout", "3s")
    screen = window.read_until(b"ended: 3.").decode()

    told = [part for part in screen.split("\r\x1b[K") if part.strip() and "conch wait:" not in part]
    assert len(told) >= 2
    assert all(len(part) < columns for part in told)
    assert all(re.search(r"\d min \d\d s", part) for part in told)
    assert all(part.startswith("ada") for part in told)


def test_a_question_at_a_terminal_shows_who_may_answer(conch: Conch, terminal: Any) -> None:
    conch("join")
    conch("send", "I am here")
    name = conch("whoami", "--json").data["name"]
    window = terminal(80)
    window.run("join")
    window.start("ask", "Anybody?", "--wait", "2s")

    assert f"Waiting for an answer from {name} for 0 min 0".encode() in window.read_until(b"ended: 3.")


def test_a_dumb_terminal_gets_whole_lines(conch: Conch, terminal: Any) -> None:
    conch("join")
    conch("wait")
    window = terminal(80, TERM="dumb")
    window.run("join")
    window.start("wait", "--timeout", "1s")

    assert b"\x1b" not in window.read_until(b"ended: 3.")


MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


def test_people_see_local_times_and_programs_iso(conch: Conch, tmp_path: Path) -> None:
    conch("join", TZ="Asia/Tokyo")
    conch("join", agent="bob:2")
    waited = conch("wait", TZ="Asia/Tokyo")
    conch("reserve", "src", agent="bob:2")
    conch("agent", "send", "ada:1", "--subject", "s", "--summary", "s", "--next", "n", agent="bob:2")
    conch("send", "hello", agent="bob:2")
    conch("ask", "why?", "--wait", "0", agent="bob:2")
    everything = [
        *("state", "who", "agent list", "agent show", "reservations", "reservations src", "reserve src", "rooms"),
        *("agent reserve docs", "agent inbox", "events", "read --since 0", "questions", "topics list", "topics show"),
        *("search hello --mode fts", "release --status s --next n", "wait --timeout 0"),
    ]

    for line in everything:
        shown, data = conch(*line.split(), TZ="Asia/Tokyo"), conch(*line.split(), "--json")

        assert not MOMENT.search(shown.out + shown.err), line
        assert not re.search(r'_at": [0-9]', data.out), line
    assert not MOMENT.search(waited.out)
    assert re.search(r"until (\d{4}-\d\d-\d\d )?\d\d:\d\d \(in ", conch("reserve", "docs").out)
