"""`conch status` and `conch watch`: a person sees at a glance what goes on in a room."""

from __future__ import annotations

import re
import shlex
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.process.cli.conftest import Conch, Start, Terminal

OWNER, WAITER, ASKER, LEAVER = "claude-code:a1", "codex:b2", "gemini:c3", "cursor:d4"

OpenTerminal = Callable[[], Terminal]


def label(conch: Conch, agent: str) -> str:
    kind = agent.partition(":")[0].removesuffix("-code")
    return f"{kind}·{conch('whoami', '--json', agent=agent).data['name']}"


def line_about(text: str, agent: str) -> str:
    return next(line for line in text.splitlines() if agent in line)


@pytest.fixture
def busy(conch: Conch, start: Start) -> Conch:
    """One agent holds the stick, one waits, one has asked and reserved."""
    for agent in (OWNER, WAITER, ASKER):
        assert conch("join", agent=agent).status == 0
    assert conch("wait", "--timeout", "0", agent=OWNER).status == 0
    assert conch("note", "refactoring the parser", agent=OWNER).status == 0
    assert conch("ask", "--wait", "0", "May I change render()?", agent=ASKER).status == 0
    assert conch("agent", "reserve", "docs/", agent=ASKER).status == 0
    return conch


@pytest.fixture
def waiting(busy: Conch, start: Start) -> subprocess.Popen[str]:
    child = start("wait", agent=WAITER)
    assert child.stderr is not None and "held the stick" in child.stderr.readline()
    return child


def test_a_glance_shows_who_works_waits_and_asks_and_what_is_reserved(busy: Conch, waiting: object) -> None:
    seen = busy("status", agent="viewer:1").out

    head, *_ = seen.splitlines()
    assert head.startswith("workspace  ") and "turn 1, " in head
    assert re.search(r'has the stick: "refactoring the parser"', line_about(seen, label(busy, OWNER)))
    assert re.search(r"waiting \d+ s, next", line_about(seen, label(busy, WAITER)))
    asked = line_about(seen, label(busy, ASKER))
    assert re.search(r'asked #1 \d+ s ago: "May I change render\(\)\?" +conch answer 1 "..."$', asked)
    assert re.search(rf"reserved  docs/ \({label(busy, ASKER)}, 1 h 59 min left\)", seen)


def test_what_a_person_can_do_stands_behind_the_longest_text_in_one_column(busy: Conch) -> None:
    assert busy("send", "please hurry", agent=WAITER).status == 0

    seen = busy("status", agent=WAITER).out

    owner, asker = line_about(seen, label(busy, OWNER)), line_about(seen, label(busy, ASKER))
    assert owner.index("  1 unread from you") == asker.index("  conch answer 1") == asker.index('"  conch') + 1


def test_the_holder_comes_first_then_who_waits_then_who_asks_wherever_they_are_in_the_sequence(
    busy: Conch, waiting: object
) -> None:
    assert busy("reorder", ASKER, WAITER, OWNER, agent=OWNER).status == 0

    signs = [line[0] for line in busy("status", agent="viewer:1").out.splitlines()[1:]]

    assert signs == ["●", "◐", "?", "r"]


def test_an_agent_that_waits_and_has_asked_is_shown_as_both(busy: Conch, start: Start) -> None:
    child = start("wait", agent=ASKER)
    assert child.stderr is not None and "held the stick" in child.stderr.readline()

    lines = [line for line in busy("status", agent="viewer:1").out.splitlines() if label(busy, ASKER) in line]

    assert [re.search(r"waiting \d+ s|asked #1|reserved", line)[0][:7] for line in lines] == [  # type: ignore[index]
        *("waiting", "asked #", "reserve"),
    ]


def test_the_command_that_a_line_names_works(busy: Conch) -> None:
    assert 'conch answer 1 "..."' in busy("status", agent=OWNER).out
    assert busy("answer", "1", "Yes", agent=OWNER).status == 0

    assert "asked #1" not in busy("status", agent=OWNER).out


def test_a_notice_that_nobody_accepts_names_a_command_that_works(busy: Conch, tmp_path: Path) -> None:
    notice = ("--subject", "Parser", "--summary", "half done", "--next", "the rest")
    event_id = busy("agent", "send", WAITER, *notice, "--json", agent=OWNER).data["event"]["id"]
    with closing(sqlite3.connect(tmp_path / "data" / "rooms.sqlite")) as connection, connection:
        connection.execute("UPDATE protocol_events SET created_at = created_at - 3600000000")

    remind, accept = (
        re.search(r'^! .*has not accepted "Parser" for 1 h 00 min +conch (.*)$', busy("status", agent=agent).out, re.M)
        for agent in (OWNER, WAITER)
    )

    assert remind and busy(*shlex.split(remind[1]), agent=OWNER).status == 0
    assert "message to you" in busy("state", agent=WAITER).out
    assert accept and accept[1] == f"agent accept {event_id}" and busy(*accept[1].split(), agent=WAITER).status == 0
    assert "has not accepted" not in busy("status", agent=OWNER).out


def test_without_a_note_the_holder_works_on_what_it_was_handed(conch: Conch) -> None:
    for agent in (OWNER, WAITER):
        conch("join", agent=agent)
    conch("wait", "--timeout", "0", agent=OWNER)
    conch("release", "--status", "schema done", "--next", "write the tests", agent=OWNER)
    conch("wait", "--timeout", "0", agent=WAITER)

    assert 'has the stick: "write the tests"' in line_about(conch("status").out, label(conch, WAITER))


def test_a_member_shows_what_it_has_not_read_of_the_viewer(busy: Conch) -> None:
    assert busy("send", "please hurry", agent=WAITER).status == 0
    assert busy("send", "really", agent=WAITER).status == 0

    assert line_about(busy("status", agent=WAITER).out, label(busy, OWNER)).endswith("2 unread from you")
    busy("read", agent=OWNER)
    assert "unread" not in line_about(busy("status", agent=WAITER).out, label(busy, OWNER))


def test_an_owner_that_is_gone_comes_first_with_what_to_do(conch: Conch, shell: Callable[[str], object]) -> None:
    conch("join", agent=WAITER)
    harness = shell("claude")
    assert harness.run("join").status == 0 and harness.run("wait", "--timeout", "0").status == 0  # type: ignore[attr-defined]
    subprocess.run(["git", "init", "-q"], cwd=conch.workspace, check=True)
    (conch.workspace / "one.py").write_text("x")
    harness.end()  # type: ignore[attr-defined]

    seen = conch("status", agent=WAITER).out.splitlines()

    assert re.match(r"! claude·\S+ .*has the stick and is gone, last seen \d+ s ago: any member may take over", seen[1])
    assert seen[1].endswith('conch take --reason "..."')
    gone = next(line for line in seen if line.startswith("✗ claude·"))
    assert re.search(r"gone, last seen \d+ s ago, left 2 uncommitted files +conch agent adopt \S+$", gone)


def test_all_shows_every_open_room_and_those_in_trouble_first(conch: Conch, tmp_path: Path) -> None:
    calm, closed = tmp_path / "calm", tmp_path / "closed"
    for place in (calm, closed):
        place.mkdir()
        (place / "AGENTS.md").write_text("")
        conch("join", str(place))
    conch("close", "--path", str(closed))
    conch("join")

    seen = conch("status", "--all").out

    assert "calm  " in seen and "workspace  " in seen and "closed  " not in seen


def test_a_script_gets_the_same_facts_as_json(busy: Conch, waiting: object) -> None:
    (room,) = busy("status", "--json", agent=ASKER).data["rooms"]

    doing = {member["agent_id"]: member["doing"] for member in room["members"]}
    assert doing == {OWNER: "holding", WAITER: "waiting", ASKER: "here"}
    assert (room["owner"], room["next"], room["troubles"]) == (OWNER, WAITER, [])
    assert room["members"][2]["questions"][0]["question_text"] == "May I change render()?"
    assert room["reservations"][0]["scope"] == "docs/"


def test_looking_makes_nobody_a_member(conch: Conch) -> None:
    conch("join", agent=OWNER)
    before = conch.contents()

    assert conch("status", agent="stranger:1").status == 0
    assert conch.contents() == before


def test_a_place_without_a_room_says_how_to_make_one(conch: Conch) -> None:
    answer = conch("status")

    assert answer.status != 0 and "conch join" in answer.err


def test_the_glance_is_the_same_on_postgresql(
    conch: Conch, postgres_url: str, env: dict[str, str], start: Start
) -> None:
    env["CONCH_STORE"] = postgres_url
    for agent in (OWNER, ASKER):
        conch("join", agent=agent)
    conch("wait", "--timeout", "0", agent=OWNER)
    conch("ask", "--wait", "0", "May I?", agent=ASKER)
    conch("agent", "reserve", "docs", agent=ASKER)
    conch("send", "hello", agent=OWNER)

    seen = conch("status", agent=OWNER).out

    assert "has the stick" in seen and "asked #1 " in seen and "reserved  docs" in seen


def test_text_of_agents_cannot_begin_a_line_or_control_the_terminal(conch: Conch) -> None:
    conch("join", agent=OWNER)
    conch("wait", "--timeout", "0", agent=OWNER)
    conch("note", "one\n● forged·agent   has the stick\x1b[31m\u202e", agent=OWNER)

    seen = conch("status").out

    assert not any(line.startswith("● forged") for line in seen.splitlines())
    assert "\x1b" not in seen and "\u202e" not in seen


# -- on a terminal


def plain(screen: bytes) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.decode())


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_every_line_fits_the_terminal(busy: Conch, terminal: OpenTerminal, columns: int) -> None:
    person = terminal()
    person.resize(columns)

    seen = plain(person.run("status").encode())

    lines = seen.split("\r\n")
    assert max(map(len, lines)) <= columns
    assert "has the stick" in seen and "reserved  docs" in seen and 'conch answer 1 "..."' in seen
    assert re.search(r'asked #1 \d+ s ago: "May I change render\(\)\?" conch answer 1 "..."', " ".join(seen.split()))


def test_conch_alone_shows_the_status_in_a_room_and_else_the_help(
    busy: Conch, terminal: OpenTerminal, tmp_path: Path
) -> None:
    person = terminal()
    assert "has the stick" in person.run()

    person.type(f"cd {tmp_path}\n")
    assert "usage" in person.run().lower()


def test_colours_are_only_for_terminals_that_want_them(busy: Conch, terminal: OpenTerminal) -> None:
    person = terminal()
    assert "\x1b[32m" in person.run("status")
    assert "\x1b[" not in busy("status").out
    assert "\x1b[32m" in busy("status", FORCE_COLOR="1").out
    person.type("export NO_COLOR=1\n")
    assert "\x1b[32m" not in person.run("status")


def test_a_terminal_without_unicode_gets_plain_signs(busy: Conch) -> None:
    seen = busy.afresh("status", PYTHONIOENCODING="ascii").out

    assert re.search(r"^\* claude.* has the stick", seen, re.MULTILINE)


# -- live


def test_watch_shows_changes_as_they_happen_and_q_ends_it(busy: Conch, terminal: OpenTerminal) -> None:
    person = terminal()
    person.start("watch")
    person.read_until(b"has the stick")

    busy("send", "the parser is done", agent=ASKER)
    assert "the parser is done" in plain(person.read_until(b"parser is done"))
    busy("release", "--status", "done", "--next", "review it", agent=OWNER)
    person.read_until(b"has not claimed the stick")

    person.type("q")
    person.read_until(b"ended: 0.")
    assert b"\x1b[?1049l" in person.screen


def test_watch_goes_on_when_the_store_is_replaced(busy: Conch, terminal: OpenTerminal, tmp_path: Path) -> None:
    busy("db", "backup", str(tmp_path / "copy"))
    person = terminal()
    person.start("watch")
    person.read_until(b"has the stick")

    busy("db", "restore", str(tmp_path / "copy"), "--yes")
    busy("send", "after the restore", agent=ASKER)

    person.read_until(b"after the restore")
    person.type("q")
    person.read_until(b"ended: 0.")


@pytest.mark.parametrize("columns", [40, 200])
def test_watch_draws_again_when_the_window_changes_its_size(busy: Conch, terminal: OpenTerminal, columns: int) -> None:
    person = terminal()
    person.start("watch")
    person.read_until(b"\x1b[J")

    person.resize(columns)

    drawn = person.read_until(b"\x1b[J").split(b"\x1b[J")[-2]
    lines = plain(drawn).split("\r\n")
    assert "has the stick" in plain(drawn) and max(map(len, lines)) <= columns
    person.type("q")
    person.read_until(b"ended: 0")


def test_q_ends_watch_after_it_was_stopped_and_continued(busy: Conch, terminal: OpenTerminal) -> None:
    person = terminal()
    person.type("set -m\n")
    person.start("watch")
    person.read_until(b"\x1b[J")
    person.type("\x1a")
    assert b"\x1b[?1049l" in person.read_until(b"ended: 148.")
    person.type("fg; echo went on: $?.\n")
    person.read_until(b"\x1b[J")

    person.type("q")

    person.read_until(b"went on: 0.")


def test_ctrl_c_ends_watch_and_leaves_the_terminal_as_it_was(busy: Conch, terminal: OpenTerminal) -> None:
    person = terminal()
    person.start("watch")
    person.read_until(b"\x1b[J")

    person.type("\x03")

    person.read_until(b"ended: 130")
    assert b"\x1b[?1049l" in person.screen and b"\x1b[?25h" in person.screen


def test_watch_needs_a_terminal(busy: Conch) -> None:
    answer = busy("watch")

    assert answer.status != 0 and "conch events --follow" in answer.err
