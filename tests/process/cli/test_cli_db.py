"""`conch db`: where the store is, whether it is sound, copies, and a fresh start."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

Conch = Callable[..., Any]
Edit = Callable[[str], None]


@pytest.fixture
def room(conch: Conch) -> str:
    """A room with ada:1, who holds the stick, and bob:2."""
    room_id: str = conch("join", "--json").data["room_id"]
    conch("join", agent="bob:2")
    conch("wait")
    return room_id


@pytest.fixture
def edit(database: Path, room: str) -> Edit:
    """Change the store behind conch's back."""

    def run(statement: str) -> None:
        connection = sqlite3.connect(database)
        connection.execute("PRAGMA ignore_check_constraints = ON")
        with connection:
            assert connection.execute(statement).rowcount == 1
        connection.close()

    return run


def test_path_says_where_the_store_is_and_makes_none(new_conch: Conch) -> None:
    database = new_conch.database  # type: ignore[attr-defined]
    answer, data = new_conch("db", "path"), new_conch("db", "path", "--json").data

    assert answer.out == f"{database}\n"
    assert data == {"path": str(database)}
    assert not database.parent.exists()


def test_a_sound_store_is_verified(conch: Conch, room: str) -> None:
    answer = conch("db", "verify")

    assert answer.status == 0
    assert answer.out.startswith("No problems found: 1 room replayed, ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("owner", "bob:2"),
        ("turn_id", 7),
        ("state", "idle"),
        ("reserved_for", "bob:2"),
        ("last_event_seq", 1),
        ("pending_handoff_event_seq", 1),
        ("policy_json", '{"claim_ttl_ms": 1}'),
    ],
)
def test_a_room_that_is_not_what_its_log_says_is_found_by_its_row_and_field(
    conch: Conch, edit: Edit, room: str, field: str, value: Any
) -> None:
    edit(f"UPDATE path_rooms SET {field} = {value!r}")

    answer, error = conch("db", "verify"), conch("db", "verify", "--json").error

    assert answer.status == 1
    assert f"path_rooms: The {field} of room {room} is {value}, but according to its log it is" in answer.err
    assert "Restore a backup from before the damage." in answer.err
    found = [each["row"] for each in error["problems"] if each["row"].get("field")]
    assert [(row["room_id"], row["field"], row["stored"]) for row in found] == [(room, field, value)]


def test_a_member_that_is_not_where_the_log_put_it_is_found_by_its_row_and_field(
    conch: Conch, edit: Edit, room: str
) -> None:
    edit("UPDATE room_members SET ordinal = 9 WHERE agent_id = 'bob:2'")

    answer = conch("db", "verify")

    assert answer.status == 1
    told = f"room_members: The ordinal of member bob:2 of room {room} is 9, but according to its log it is 1."
    assert told in answer.err.splitlines()


def test_a_member_that_the_log_does_not_know_is_found(conch: Conch, edit: Edit, room: str) -> None:
    edit("DELETE FROM room_members WHERE agent_id = 'bob:2'")

    answer = conch("db", "verify")

    assert answer.status == 1
    assert "The ordinal of member bob:2" in answer.err


def test_a_verification_changes_nothing(conch: Conch, edit: Edit) -> None:
    edit("UPDATE path_rooms SET turn_id = 7")

    conch("db", "verify")

    assert conch("db", "verify", "--json").error["problems"][0]["row"]["stored"] == 7


def test_what_was_found_fits_into_a_reply_unless_more_is_asked_for(conch: Conch, room: str, database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)"
            " INSERT INTO room_members (room_id, agent_id, ordinal, joined_at, session_kind, name)"
            " SELECT room_id, 'nobody:' || i, 100 + i, 0, 'unknown', 'nobody-' || i FROM path_rooms, n"
        )

    small = {"CONCH_MAX_REPLY_BYTES": "4096"}
    few, found = conch("db", "verify", **small), conch("db", "verify", "--json", **small)
    everything = conch("db", "verify", "--limit", "10000", "--json", **small).error["problems"]

    assert max(len(few.err), len(found.out)) <= 4096
    assert f"more do not fit here. --limit {len(everything)} shows all." in few.err
    assert found.error["has_more"] is True
    assert found.error["problems"] == everything[: len(found.error["problems"])]
    assert len(everything) > len(found.error["problems"])


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE index_progress SET through_seq = 99 WHERE kind = 'words'",
        "DELETE FROM index_words_data WHERE id = 10",  # the structure of the index
        "DELETE FROM index_words_idx",
        "UPDATE index_words_config SET v = 9",
    ],
)
def test_a_damaged_search_index_is_built_again(conch: Conch, edit: Edit, room: str, damage: str) -> None:
    conch("send", "a needle")
    conch("search", "needle", "--mode", "fts")
    edit(damage)

    damaged, mended = conch("db", "verify"), conch("db", "reindex")

    assert "Run `conch db reindex`." in damaged.err
    assert mended.status == 0
    assert "needle" in conch("search", "needle", "--mode", "fts").out
    assert conch("db", "verify").status == 0


@pytest.mark.parametrize(
    "damage", ["DELETE FROM index_words_data WHERE id = 10", "UPDATE index_words_config SET v = 9"]
)
def test_a_command_that_meets_a_damaged_search_index_says_how_to_mend_it(
    conch: Conch, edit: Edit, room: str, damage: str
) -> None:
    conch("send", "a needle")
    conch("search", "needle", "--mode", "fts")
    edit(damage)

    refused = [conch("search", "needle"), conch("db", "wipe", "--room", room, "--yes")]

    assert all("DB_CORRUPT" in each.err and "Run `conch db reindex`." in each.err for each in refused)
    conch("db", "reindex")
    assert conch("db", "wipe", "--room", room, "--yes").status == 0


def test_a_copy_is_a_store_like_the_original(conch: Conch, room: str, tmp_path: Path) -> None:
    made = conch("db", "backup", str(tmp_path / "copy"), "--json")

    assert made.data == {"path": str(tmp_path / "copy")}
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    copied = conch("events", "--store", str(tmp_path / "copy"), "--json")
    assert copied.data == conch("events", "--json").data


def test_a_copy_without_a_name_lies_beside_the_store(conch: Conch, room: str, database: Path) -> None:
    made = Path(conch("db", "backup", "--json").data["path"])

    assert made.parent == database.parent and made.exists()


def test_a_copy_never_overwrites_a_file(conch: Conch, room: str, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep me")

    refused = conch("db", "backup", str(tmp_path / "precious"), "--json")

    assert (refused.status, refused.error["code"], refused.error["field"]) == (2, "invalid_argument", "file")
    assert (tmp_path / "precious").read_text() == "keep me"


def test_copies_without_a_name_that_are_made_at_the_same_moment_are_all_made(
    conch: Conch, room: str, database: Path, start: Any
) -> None:
    started = [start("db", "backup") for _ in range(8)]

    statuses = [each.wait(timeout=60) for each in started]

    assert statuses == [0] * 8
    assert len(list(database.parent.glob("*.backup*"))) == 8


def test_a_copy_to_a_place_that_is_not_there_is_refused_by_that_place(conch: Conch, room: str, tmp_path: Path) -> None:
    refused = conch("db", "backup", str(tmp_path / "no" / "such" / "copy"), "--json")

    assert refused.status == 4
    assert (refused.error["field"], refused.error["path"]) == ("file", str(tmp_path / "no" / "such" / "copy"))
    said = f"No copy was made, because {tmp_path}/no/such/copy cannot be written: No such file or directory."
    assert refused.error["message"].startswith(said)


def test_a_wipe_needs_a_yes(conch: Conch, room: str) -> None:
    refused = conch("db", "wipe", "--json")

    assert (refused.status, refused.error["field"]) == (1, "yes")
    assert conch("state", "--json").data["room"]["room_id"] == room


def test_a_wipe_forgets_everything_and_those_who_have_the_store_open_go_on(conch: Conch, room: str) -> None:
    wiped = conch("db", "wipe", "--yes", "--json")

    assert wiped.data["set_aside"] is None
    assert conch("rooms", "--all", "--json").data["rooms"] == []
    assert conch("join", "--json").data["room_id"] != room


def test_a_wait_in_a_wiped_room_ends_with_an_error(conch: Conch, room: str, start: Any) -> None:
    waiter = start("wait", "--json", agent="bob:2")
    assert waiter.stderr.readline()

    conch("db", "wipe", "--yes")
    out, _ = waiter.communicate(timeout=30)

    assert waiter.returncode == 1
    assert '"code": "unknown_room"' in out
