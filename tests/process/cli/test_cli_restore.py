"""`conch db restore`: a backup is checked, put in place in one step, and what was there before is kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.process.cli.conftest import SOON
from tests.process.forking import Forks, command_forks

from conch.host.processes import other_users_of
from conch.storage.sqlite.recognition import APPLICATION_ID
from conch.storage.sqlite.store import DIALECT, SqliteStore
from conch.storage.statements import load_migrations

Conch = Callable[..., Any]


@pytest.fixture
def backup(conch: Conch, tmp_path: Path) -> Path:
    """A backup of a room in which ada:1 holds the stick. She has released it since."""
    conch("join")
    conch("wait")
    conch("db", "backup", str(tmp_path / "backup"))
    conch("release", "--status", "done", "--next", "go on")
    return tmp_path / "backup"


def owner(conch: Conch) -> str | None:
    found: str | None = conch("state", "--json").data["room"]["owner"]
    return found


def files(database: Path) -> list[str]:
    return sorted(path.name for path in database.parent.iterdir() if path.name.startswith("rooms.sqlite."))


def test_a_backup_is_restored_and_what_was_there_is_kept(conch: Conch, backup: Path, database: Path) -> None:
    restored = conch("db", "restore", str(backup), "--json").data
    before = owner(conch)
    again = conch("db", "restore", restored["kept"])

    assert again.status == 0, again
    assert restored["path"] == str(database)
    assert before == "ada:1"
    assert owner(conch) is None
    assert not [name for name in files(database) if "scratch" in name]


def test_a_backup_that_could_not_be_restored_says_so(conch: Conch, backup: Path, database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE path_rooms SET turn_id = 7")
    connection.close()

    made = conch("db", "backup", "--json")
    copy = made.error["path"]
    refused = conch("db", "restore", copy)

    assert (made.status, made.error["code"]) == (1, "verification_failed")
    assert f"Copied to {copy}. But `conch db restore` would refuse it" in made.error["message"]
    assert made.error["problems"][0] in refused.err
    assert Path(copy).exists()
    assert not [name for name in files(database) if "scratch" in name]


def test_a_backup_of_a_newer_store_is_made_and_called_unchecked(conch: Conch, backup: Path, database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    connection.close()

    made = conch("db", "backup")

    assert made.status == 0, made
    assert "was not checked" in made.out


@pytest.mark.parametrize("size", [512, 65_536])
def test_a_copy_with_pages_of_another_size_is_restored(conch: Conch, backup: Path, size: int) -> None:
    """Another program can have written it, with `VACUUM` for example."""
    with sqlite3.connect(backup, isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute(f"PRAGMA page_size = {size}")
        connection.execute("VACUUM")
    connection.close()

    restored = conch("db", "restore", str(backup))

    assert restored.status == 0, restored
    assert owner(conch) == "ada:1"


def test_a_copy_in_another_encoding_is_refused(conch: Conch, backup: Path, tmp_path: Path) -> None:
    """Running servers could not go on: SQLite refuses to change the encoding of a connection."""
    with sqlite3.connect(backup) as connection, sqlite3.connect(tmp_path / "copy") as copy:
        copy.executescript("PRAGMA encoding = 'UTF-16le'; CREATE TABLE meta (key TEXT, value TEXT)")
        copy.executemany("INSERT INTO meta VALUES (?, ?)", connection.execute("SELECT key, value FROM meta").fetchall())
        copy.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    contents = conch.contents()

    refused = conch("db", "restore", str(tmp_path / "copy"), "--json")

    assert "its encoding is UTF-16le" in refused.error["message"]
    assert conch.contents() == contents


def test_a_restore_removes_the_copies_of_restores_that_were_killed(conch: Conch, backup: Path, database: Path) -> None:
    killed, running = (database.with_name(f"{database.name}.scratch-{name}") for name in ("1-killed", "2-running"))
    for folder in (killed, running):
        folder.mkdir(mode=0o700)
        (folder / "rooms.sqlite").write_text("a copy")
        os.utime(folder, (0, 0))
    lock = os.open(running, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)

    restored = conch("db", "restore", str(backup))
    os.close(lock)

    assert restored.status == 0, restored
    assert not killed.exists()
    assert (running / "rooms.sqlite").exists()


def test_a_restore_of_an_older_backup_migrates_it(conch: Conch, tmp_path: Path) -> None:
    older = SqliteStore(str(tmp_path / "older"), ring=lambda _: None, migrations=load_migrations(DIALECT)[:5])
    with older.write("room"):
        pass
    older.close()

    assert conch("db", "restore", str(tmp_path / "older")).status == 0
    assert conch("db", "verify").status == 0


def test_a_store_that_is_not_there_or_cannot_be_read_is_restored(conch: Conch, backup: Path, database: Path) -> None:
    shutil.rmtree(database.parent)
    missing = conch("db", "restore", str(backup), "--json").data
    first = owner(conch)
    database.write_bytes(b"not a database, but long enough to be read as one" * 100)
    unreadable = conch("db", "restore", str(backup), "--json").data

    assert (missing["kept"], first, owner(conch)) == (None, "ada:1", "ada:1")
    assert Path(unreadable["kept"]).read_bytes().startswith(b"not a database")


def test_a_store_that_lost_its_version_is_restored(conch: Conch, backup: Path, database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("DROP TABLE meta")
    connection.close()

    refused = conch("state", "--json").error
    restored = conch("db", "restore", str(backup), "--json").data

    assert "its schema version is missing or damaged" in refused["message"]
    assert Path(restored["kept"]).exists()
    assert owner(conch) == "ada:1"


def test_what_is_no_sound_backup_is_refused_and_nothing_changes(conch: Conch, backup: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("words" * 1_000)
    sqlite3.connect(tmp_path / "foreign").execute("CREATE TABLE recipes (name TEXT)")
    damages = {
        "newer": "UPDATE meta SET value = '99' WHERE key = 'schema_version'",
        "damaged": "UPDATE path_rooms SET turn_id = 7",
        "marked by another program": "PRAGMA application_id = 5",
        "of schema 0": "UPDATE meta SET value = '0' WHERE key = 'schema_version'",
        "of another schema": "UPDATE meta SET value = '5' WHERE key = 'schema_version'",
    }
    for name, statement in damages.items():
        shutil.copy(backup, tmp_path / name)
        with sqlite3.connect(tmp_path / name) as connection:
            connection.execute(statement)
        connection.close()
    (tmp_path / "cut off").write_bytes(backup.read_bytes()[:-1])
    (tmp_path / "not UTF-8").write_bytes(backup.read_bytes().replace(b"CREATE TABLE peers", b"CREATE T\xa5BLE peers"))
    (tmp_path / "partly not UTF-8").write_bytes(backup.read_bytes().replace(b"agent_id", b"agent\xa5id"))
    contents = conch.contents()

    names = [
        "cut off",
        "not UTF-8",
        "partly not UTF-8",
        "of schema 0",
        "of another schema",
        "text",
        "foreign",
        "marked by another program",
        "newer",
        "damaged",
        "missing",
        "data/rooms.sqlite",
    ]
    errors = [conch("db", "restore", str(tmp_path / name), "--json").error for name in names]

    corrupt, invalid = "DB_CORRUPT", "invalid_argument"
    codes = [*[corrupt] * 8, "DB_SCHEMA_MISMATCH", corrupt, invalid, invalid]
    assert [error["code"] for error in errors] == codes
    assert [
        name for name, error in zip(names, errors, strict=True) if str(tmp_path / name) not in error["message"]
    ] == []
    assert conch.contents() == contents


def test_a_restore_stops_at_processes_that_use_the_store(
    conch: Conch, backup: Path, database: Path, start: Any, until: Any
) -> None:
    conch("join", agent="bob:2")
    conch("wait", agent="bob:2")
    waiting = start("wait", "--timeout", "60")  # ada waits for bob
    until(lambda: waiting.pid in [user.pid for user in other_users_of(str(database)) or ()])

    refused = conch("db", "restore", str(backup))
    restored = conch("db", "restore", str(backup), "--yes")

    assert refused.status == 1
    assert str(waiting.pid) in refused.err and "--yes" in refused.err
    assert restored.status == 0
    assert owner(conch) == "ada:1"


def test_what_is_no_file_is_refused_at_once(conch: Conch, backup: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    (tmp_path / "itself").symlink_to(conch.env["CONCH_DATA_DIR"] + "/rooms.sqlite")
    contents = conch.contents()

    names = [tmp_path / "folder", tmp_path / "pipe", tmp_path / "nowhere", tmp_path / "itself", "/dev/zero", " "]
    errors = [conch("db", "restore", str(name), "--json").error for name in names]

    assert [error["code"] for error in errors] == ["invalid_argument"] * 6
    assert [error["field"] for error in errors] == ["file"] * 6
    assert conch.contents() == contents


def test_a_place_that_cannot_hold_a_store_is_refused_before_anything_is_written(
    conch: Conch, backup: Path, tmp_path: Path
) -> None:
    folder, shared = tmp_path / "folder", tmp_path / "shared"
    folder.mkdir()
    shared.mkdir()
    shared.chmod(0o777)
    before = sorted(tmp_path.rglob("*"))

    for place in (folder, shared / "rooms.sqlite", Path("/dev/null")):
        refused = conch("db", "restore", str(backup), "--yes", "--json", "--store", str(place))
        assert refused.error["code"] == "DB_UNAVAILABLE", refused

    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_to_a_backup_is_restored_as_often_as_you_like(conch: Conch, backup: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(backup)

    kept = {conch("db", "restore", str(tmp_path / "link"), "--json").data["kept"] for _ in range(2)}

    assert owner(conch) == "ada:1"
    assert len(kept) == 2 and all(Path(each).exists() for each in kept)


def test_a_backup_may_have_a_name_that_is_not_utf8(conch: Conch, backup: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(backup) + b"\xff"))
    backup.rename(odd)

    restored = conch("db", "restore", str(odd))
    absent = conch("db", "restore", f"{odd}\udcfe", "--json")

    assert restored.status == 0, restored
    assert owner(conch) == "ada:1"
    assert absent.error["field"] == "file"


def test_restores_at_the_same_moment_all_succeed(conch: Conch, backup: Path, database: Path, start: Any) -> None:
    started = [start("db", "restore", str(backup), "--yes") for _ in range(4)]

    statuses = [each.wait(timeout=60) for each in started]

    assert statuses == [0] * 4, [each.stdout.read() + each.stderr.read() for each in started]
    assert len([name for name in files(database) if "before-restore" in name]) == 4
    assert owner(conch) == "ada:1"
    assert conch("db", "verify").status == 0


def test_a_restore_that_another_one_overtakes_has_succeeded(
    backup: Path, database: Path, env: dict[str, str], workspace: Path
) -> None:
    with command_forks("tests.process.cli.overtaking") as forks:
        restored = forks.run(["db", "restore", str(backup), "--yes"], env, workspace, b"", SOON)

    assert restored.status == 0, restored
    assert len([name for name in files(database) if "before-restore" in name]) == 2


@pytest.fixture(scope="module")
def crashing() -> Iterator[Forks]:
    with command_forks("tests.process.cli.crashing") as forks:
        yield forks


@pytest.mark.parametrize("readable", [True, False])
def test_a_crash_at_any_step_leaves_the_old_store_or_the_new_one(
    conch: Conch, crashing: Forks, backup: Path, database: Path, readable: bool
) -> None:
    if not readable:
        database.write_bytes(b"not a database, but long enough to be read as one" * 100)
    old = database.read_bytes()
    seen = set()
    for step in range(1, 400, 4):
        words = [str(step), "db", "restore", str(backup)]
        died = crashing.run(words, conch.env, conch.workspace, b"", SOON).status
        state = conch("state", "--json")
        seen.add(state.envelope["data"]["room"]["owner"] if state.status == 0 else "unreadable")
        assert state.status == 0 or database.read_bytes() == old
        if died != -signal.SIGKILL:
            break

    assert died == 0
    assert seen == ({None, "ada:1"} if readable else {"unreadable", "ada:1"})
    assert conch("db", "verify").status == 0
