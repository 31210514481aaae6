"""`conch db wipe` and `conch close`: what would be lost is named first, and a person or `--yes` decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Conch = Callable[..., Any]
Open = Callable[..., Any]


@pytest.fixture
def two_rooms(conch: Conch, tmp_path: Path) -> str:
    """ada holds the stick of a room with bob and three messages; there is another room. Returns the first one's id."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "AGENTS.md").touch()
    conch("join", str(tmp_path / "other"))
    room_id: str = conch("join", "--json").data["room_id"]
    conch("join", agent="bob:2")
    conch("wait")
    conch("ask", "Which branch?", "--wait", "0")
    conch("answer", "1", "main", agent="bob:2")
    conch("send", "one more", "--path", str(tmp_path / "other"))
    conch("reserve", "src", "docs")
    conch("send", "the last one", "--to", "bob:2")
    return room_id


def open_rooms(conch: Conch) -> list[str]:
    return [room["room_id"] for room in conch("rooms", "--all", "--json").data["rooms"]]


def test_a_wipe_names_what_it_would_destroy_and_destroys_nothing_without_a_yes(conch: Conch, two_rooms: str) -> None:
    people, script = conch("db", "wipe"), conch("db", "wipe", "--json")

    name = conch("whoami", "--json").data["name"]
    assert people.status == 1
    assert "2 rooms and 4 messages" in people.err
    assert f"Alive now, with the stick: ada·{name} in {conch.workspace}" in people.err  # type: ignore[attr-defined]
    assert (script.error["code"], script.error["field"]) == ("DECISION_NEEDED", "yes")
    assert (script.error["rooms"], script.error["messages"]) == (2, 4)
    assert [holder["agent_id"] for holder in script.error["holders"]] == ["ada:1"]
    assert len(open_rooms(conch)) == 2


def test_a_wipe_makes_a_backup_first_which_brings_everything_back(conch: Conch, two_rooms: str) -> None:
    wiped = conch("db", "wipe", "--yes", "--json")

    assert open_rooms(conch) == []
    assert (wiped.data["rooms"], wiped.data["messages"]) == (2, 4)
    assert conch("db", "restore", wiped.data["backup"], "--yes").status == 0
    assert len(open_rooms(conch)) == 2


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_on_a_terminal_the_number_of_rooms_must_be_typed(
    conch: Conch, two_rooms: str, terminal: Open, columns: int
) -> None:
    window = terminal(columns)
    window.start("db", "wipe")
    asked = window.read_until(b"delete them: ")
    window.type("1\n")
    refused = window.read_until(b"ended: 1.")
    kept = len(open_rooms(conch))
    window.start("db", "wipe")
    window.read_until(b"delete them: ")
    window.type("2\n")
    window.read_until(b"ended: 0.")

    assert b"2 rooms and 4 messages" in asked
    assert b"but the number of rooms is 2. Nothing was deleted." in refused
    assert kept == 2
    assert open_rooms(conch) == []


def test_a_wipe_of_one_room_leaves_the_others_and_a_sound_store(conch: Conch, two_rooms: str) -> None:
    conch("search", "one", "--mode", "fts")  # builds the index

    wiped = conch("db", "wipe", "--room", two_rooms, "--yes", "--json").data

    assert two_rooms not in open_rooms(conch)
    assert len(open_rooms(conch)) == 1
    assert (wiped["rooms"], wiped["messages"]) == (1, 3)
    assert conch("db", "verify").status == 0
    assert conch("search", "branch", "--mode", "fts").out == "Nothing found.\n"
    assert "one more" in conch("search", "more", "--mode", "fts").out.replace("*", "")
    conch("join")
    conch("send", "a new beginning")
    assert conch("db", "verify").status == 0


def test_a_message_that_goes_missing_after_a_wipe_of_a_room_is_still_found(
    conch: Conch, two_rooms: str, database: Path
) -> None:
    import sqlite3

    conch("db", "wipe", "--room", two_rooms, "--yes")
    conch("join")
    conch("note", "noted")
    connection = sqlite3.connect(database)
    connection.execute("DELETE FROM room_events WHERE event_seq = (SELECT max(event_seq) FROM room_events)")
    connection.commit()
    connection.close()

    assert conch("db", "verify").status == 1


def test_a_process_in_another_room_goes_on_after_the_wipe_of_a_room(
    conch: Conch, two_rooms: str, start: Any, tmp_path: Path
) -> None:
    other = str(tmp_path / "other")
    conch("wait", "--path", other)
    conch("join", other, agent="bob:2")
    waiting = start("wait", "--path", other, "--json", agent="bob:2")
    assert waiting.stderr.readline()

    conch("db", "wipe", "--room", two_rooms, "--yes")
    conch("release", "--status", "s", "--next", "n", "--path", other)
    out, _ = waiting.communicate(timeout=30)

    assert '"status": "your_turn"' in out


def test_a_wait_in_the_room_that_is_wiped_ends(conch: Conch, two_rooms: str, start: Any) -> None:
    waiting = start("wait", "--json", agent="bob:2")
    assert waiting.stderr.readline()

    conch("db", "wipe", "--room", two_rooms, "--yes")
    out, _ = waiting.communicate(timeout=30)

    assert '"code": "unknown_room"' in out


def test_the_wipe_of_a_server_keeps_its_contents_in_a_file(conch: Conch, postgres_url: str) -> None:
    conch("join", CONCH_STORE=postgres_url)
    conch("send", "keep me", CONCH_STORE=postgres_url)

    wiped = conch("db", "wipe", "--yes", "--json", CONCH_STORE=postgres_url).data

    assert conch("rooms", "--all", "--json", CONCH_STORE=postgres_url).data["rooms"] == []
    assert "keep me" in conch("read", "--since", "0", "--store", wiped["backup"]).out


def test_a_room_that_does_not_exist_cannot_be_wiped(conch: Conch, two_rooms: str) -> None:
    refused = conch("db", "wipe", "--room", "room_0", "--yes", "--json")

    assert (refused.status, refused.error["code"]) == (1, "unknown_room")
    assert len(open_rooms(conch)) == 2


# -- closing a room


def test_a_script_closes_a_room_that_others_are_in_only_with_a_yes(conch: Conch, two_rooms: str) -> None:
    refused = conch("close", "--json")
    closed = conch("close", "--yes")

    assert (refused.status, refused.error["code"], refused.error["field"]) == (1, "DECISION_NEEDED", "yes")
    assert conch("whoami", "--json", agent="bob:2").data["name"] in refused.error["message"]
    assert closed.status == 0


def test_a_room_without_others_is_closed_without_a_question(conch: Conch) -> None:
    conch("join")

    assert conch("close").status == 0


def test_a_refused_close_claims_nothing(conch: Conch) -> None:
    conch("join")
    conch("join", agent="bob:2")

    conch("close")

    assert conch("state", "--json").data["room"]["state"] == "idle"


@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_what_comes_after_an_unanswered_question_stands_below_it(two_rooms: str, terminal: Open, key: str) -> None:
    window = terminal()
    window.start("db", "wipe", "--room", two_rooms)
    window.read_until(b"them: ")

    window.type(key)

    assert window.read_until(b"ended: ").startswith(b"\r\n")


def test_on_a_terminal_a_person_is_asked_before_a_room_is_closed_for_others(conch: Conch, terminal: Open) -> None:
    conch("join")
    window = terminal()
    window.run("join")
    window.start("close")
    window.read_until(b"[y/N] ")
    window.type("n\n")
    refused = window.read_until(b"ended: 1.")
    window.start("close")
    window.read_until(b"[y/N] ")
    window.type("y\n")
    window.read_until(b"ended: 0.")

    assert b"The room was not closed" in refused
    assert conch("rooms", "--json").data["rooms"] == []
