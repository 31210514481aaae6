"""A store that cannot be used: its own error, what to do next, and no data lost."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from conch.doors.cli.catalogue import COMMANDS as CATALOGUE
from conch.doors.cli.command import Command

Conch = Callable[..., Any]
Shell = Callable[[str], Any]

COMMANDS = [("join",), ("wait", "--timeout", "0"), ("state",), ("events",), ("note", "n"), ("db", "verify")]
IDS = [" ".join(words[:2]) for words in COMMANDS]
every_command = pytest.mark.parametrize("words", COMMANDS, ids=IDS)


@pytest.fixture
def used(conch: Any) -> Any:
    """A store with a room that no process has open."""
    conch("join")
    conch("note", "worth keeping")
    return conch


# -- not ours, or damaged


KINDS = ["garbage", "damaged", "not UTF-8", "newer", "nameless", "of schema 0", "of another schema", "renamed"]


@pytest.fixture(params=KINDS)
def unusable(request: pytest.FixtureRequest, used: Any) -> tuple[Any, str]:
    """A store that conch must not touch, and the code that says why."""
    database: Path = used.database
    if request.param == "garbage":
        database.write_bytes(b"this is not a database\n" * 500)
        return used, "DB_CORRUPT"
    if request.param == "damaged":
        content = bytearray(database.read_bytes())
        content[100:] = b"\xa5" * (len(content) - 100)
        database.write_bytes(content)
        return used, "DB_CORRUPT"
    if request.param == "not UTF-8":
        database.write_bytes(database.read_bytes().replace(b"CREATE TABLE peers", b"CREATE T\xa5BLE peers"))
        return used, "DB_CORRUPT"
    statement = {
        "newer": "UPDATE meta SET value = '999' WHERE key = 'schema_version'",
        "nameless": "DELETE FROM meta",
        "of schema 0": "UPDATE meta SET value = '0' WHERE key = 'schema_version'",
        "of another schema": "UPDATE meta SET value = '5' WHERE key = 'schema_version'",
        "renamed": "ALTER TABLE meta RENAME COLUMN value TO pearls",
    }[request.param]
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(statement)
    connection.close()
    return used, "DB_SCHEMA_MISMATCH"


@pytest.mark.parametrize("content", ["text", "database", "database in WAL mode"])
def test_a_file_of_another_program_is_refused_and_nothing_about_it_or_beside_it_changes(
    conch: Any, tmp_path: Path, content: str
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o755)
    file = folder / "recipes.db"
    if content == "text":
        file.write_text("eggs\n")
    else:
        connection = sqlite3.connect(file)
        if content != "database":
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE recipes (title TEXT)")
        connection.close()
    file.chmod(0o644)
    before = facts(folder)

    for words in (("join",), ("db", "wipe", "--yes"), ("db", "restore", str(conch.workspace / "AGENTS.md"), "--yes")):
        refused = conch(*words, "--json", "--store", str(file))
        assert refused.error["code"] == "DB_SCHEMA_MISMATCH"
        assert refused.error["message"].endswith("Nothing was changed.")
        assert facts(folder) == before


# These need no store, or work on one of their own.
# `watch` needs a terminal first.
STORELESS = {"db path", "demo", "mcp", "completion", "help", "version", "watch"}
STORELESS |= {"hook", "install", "uninstall", "guard install", "guard uninstall", "instructions"}
FAMILIES = sorted({name.partition(" ")[0] for name in CATALOGUE} - STORELESS)


def words_for(command: Command) -> list[str]:
    """The words of a command, with a value for everything that it requires."""
    needed = [option for option in command.options if option.required]
    values = {option.name: "1" if option.parse is not str else "known" for option in needed}
    given = [word for option in needed for word in ((option.name, values[option.name]) if option.is_flag else ("x",))]
    given += {"pass": ["known"], "db prune": ["--older", "90d"]}.get(command.name, [])  # required in one of two ways
    return [*command.name.split(), *given, *(("--yes",) if command.name.startswith("db ") and has_yes(command) else ())]


def has_yes(command: Command) -> bool:
    return any(option.name == "--yes" for option in command.options)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_command_leaves_a_trace_on_the_file_of_another_program(used: Any, tmp_path: Path, family: str) -> None:
    used("db", "backup", str(used.workspace / "x"))
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o755)
    connection = sqlite3.connect(folder / "rooms.sqlite")
    connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
    connection.execute("INSERT INTO meta VALUES ('schema_version', '5')")
    connection.commit()
    connection.close()
    before = facts(folder)
    names = [name for name in CATALOGUE if name.partition(" ")[0] == family and name not in STORELESS]

    for name in names:
        words = words_for(CATALOGUE[name])
        refused = used(*words, "--json", CONCH_DATA_DIR=str(folder), CONCH_STORE="").error
        assert "rooms.sqlite belongs to another program" in refused["message"] or name == "import", (words, refused)
        assert facts(folder) == before, name


def facts(folder: Path) -> dict[str, tuple[object, ...]]:
    found = {each: each.stat() for each in (folder, *folder.iterdir())}
    return {
        each.name: (its.st_mode, its.st_mtime_ns, its.st_ctime_ns, its.st_ino, each.is_file() and each.read_bytes())
        for each, its in found.items()
    }


@every_command
def test_a_file_that_is_no_usable_store_is_refused_and_left_as_it_is(
    unusable: tuple[Any, str], words: tuple[str, ...]
) -> None:
    conch, code = unusable
    before = conch.database.read_bytes()

    refused = conch(*words, "--json")

    assert (refused.status, refused.error["code"]) == (4, code)
    assert refused.err == ""
    assert refused.error["path"] == str(conch.database)
    assert "conch db wipe" in refused.error["message"]
    assert conch.database.read_bytes() == before


def test_a_wipe_moves_an_unusable_store_aside_whole_and_then_all_is_well(unusable: tuple[Any, str]) -> None:
    conch, _ = unusable
    before = conch.database.read_bytes()

    wiped = conch("db", "wipe", "--yes", "--json")

    assert Path(wiped.data["set_aside"]).read_bytes() == before
    assert conch("join").status == 0
    assert conch("db", "verify").status == 0


@pytest.mark.parametrize("table", ["path_rooms", "questions"])
def test_a_wipe_moves_a_store_aside_that_lacks_a_table(used: Any, table: str) -> None:
    with closing(sqlite3.connect(used.database)) as connection:
        connection.execute(f"DROP TABLE {table}")

    wiped = used("db", "wipe", "--yes", "--json")

    assert Path(wiped.data["set_aside"]).exists()
    assert used("join").status == 0
    assert used("db", "verify").status == 0


def test_a_wipe_moves_a_store_aside_that_can_be_read_but_not_emptied(used: Any) -> None:
    damaged = used.database.read_bytes().replace(b"agent_id", b"agent\xa5id", 1)
    used.database.write_bytes(damaged)

    wiped = used("db", "wipe", "--yes", "--json")

    assert Path(wiped.data["set_aside"]).stat().st_size == len(damaged)
    assert used("join").status == 0
    assert used("db", "verify").status == 0


def test_a_wipe_leaves_the_file_of_another_program_where_it_is(used: Any) -> None:
    used.database.unlink()
    connection = sqlite3.connect(used.database)
    connection.execute("CREATE TABLE recipes (title TEXT)")
    connection.close()
    before = used.database.read_bytes()

    for words in (("db", "wipe", "--yes"), ("join",), ("db", "verify"), ("db", "backup", "copy")):
        refused = used(*words, "--json")
        assert (refused.status, refused.error["code"]) == (4, "DB_SCHEMA_MISMATCH")
        assert "belongs to another program" in refused.error["message"]

    assert used.database.read_bytes() == before


def test_a_damage_that_only_verify_understands_is_not_called_a_defect(used: Any) -> None:
    with sqlite3.connect(used.database) as connection:
        connection.execute("ALTER TABLE path_rooms ADD COLUMN pearls TEXT")
    connection.close()

    failed = used("state", "--json").error

    assert failed["code"] == "internal_error"
    assert "If `conch db verify` finds no damage in the store, this is a defect" in failed["message"]


def test_a_data_directory_that_is_a_file_is_refused(new_conch: Any, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")

    refused = new_conch("join", "--json")

    assert (refused.status, refused.error["code"]) == (4, "DB_UNAVAILABLE")
    assert "CONCH_DATA_DIR" in refused.error["message"]


# -- no permission


@pytest.fixture
def ordinary(shell: Shell, used: Any) -> Any:
    """A shell without the privileges that let root write everywhere."""
    harness = shell("claude")
    if os.getuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root can write everywhere")
        harness.become("setpriv --inh-caps=-all --bounding-set=-all /bin/bash")
    return harness


@pytest.fixture
def read_only(used: Any) -> Iterator[Path]:
    """The data directory, in which nothing can be written."""
    folder: Path = used.database.parent
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    yield folder
    for path, mode in modes.items():
        path.chmod(mode)


@pytest.mark.usefixtures("read_only")
@every_command
def test_a_store_that_cannot_be_written_is_refused_and_left_as_it_is(
    ordinary: Any, used: Any, words: tuple[str, ...]
) -> None:
    before = used.database.read_bytes()

    refused = ordinary.run(*words, "--json", CONCH_AGENT_ID="ada:1")

    assert (refused.status, refused.error["code"]) == (4, "DB_READ_ONLY")
    assert "call the tools of the MCP server conch instead" in refused.error["message"]
    assert used.database.read_bytes() == before


def test_the_file_that_cannot_be_written_is_named(ordinary: Any, used: Any) -> None:
    with closing(sqlite3.connect(used.database)) as user:  # so that there are all files
        user.execute("SELECT * FROM meta").fetchall()
        file = used.database.with_name(f"{used.database.name}-shm")
        file.chmod(0o400)

        refused = ordinary.run("note", "n", "--json", CONCH_AGENT_ID="ada:1")
        file.chmod(0o600)

    assert (refused.status, refused.error["code"]) == (4, "DB_READ_ONLY")
    assert f"cannot write {file}" in refused.error["message"]


def test_a_restore_into_a_store_that_cannot_be_written_leaves_nothing_behind(
    ordinary: Any, used: Any, tmp_path: Path
) -> None:
    used("db", "backup", str(tmp_path / "backup"))
    used.database.chmod(0o400)

    refused = ordinary.run("db", "restore", str(tmp_path / "backup"), "--yes", "--json")
    used.database.chmod(0o600)

    assert (refused.status, refused.error["code"]) == (4, "DB_READ_ONLY")
    assert not [path.name for path in used.database.parent.iterdir() if "before-restore" in path.name]


@pytest.mark.parametrize("closed", ["folder", "folder/backup"])
@pytest.mark.parametrize("words", [("db", "restore", "--yes"), ("import",)])
def test_a_file_that_cannot_be_read_is_not_called_damaged_or_missing(
    ordinary: Any, used: Any, tmp_path: Path, closed: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "folder").mkdir()
    used("db", "backup", str(tmp_path / "folder" / "backup"))
    (tmp_path / closed).chmod(0)

    refused = ordinary.run(*words, str(tmp_path / "folder" / "backup"), "--json")
    (tmp_path / closed).chmod(0o700)

    assert (refused.status, refused.error["code"]) == (2, "invalid_argument")
    assert "folder/backup cannot be read" in refused.error["message"]


# Runs every command line in one process, because a new one for each would take long.
ALL = """
import contextlib, io, json, sys
from conch.main import main
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([*words, "--json"])
    print(json.dumps([words, status, out.getvalue()]), flush=True)
"""
LATER = {"import", "db restore"}  # they look at their file first


@pytest.mark.parametrize("place", ["read-only", "impossible"])
def test_every_command_says_what_to_do_where_nothing_can_be_written(
    used: Any, read_only: Path, tmp_path: Path, place: str
) -> None:
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root can write everywhere")
    without = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.getuid() == 0 else []
    (tmp_path / "sealed").mkdir(mode=0o500)
    data_dir = str(read_only) if place == "read-only" else f"{tmp_path}/sealed/data"
    names = [name for name in CATALOGUE if not {name, name.partition(" ")[0]} & (STORELESS | LATER | {"serve"})]
    lines = [words_for(CATALOGUE[name]) for name in names if name not in ("doctor", "db wipe")]

    ended = subprocess.run(
        [*without, sys.executable, "-c", ALL],
        cwd=used.workspace,
        env={**used.env, "CONCH_AGENT_ID": "ada:1", "CONCH_DATA_DIR": data_dir},
        input=json.dumps(lines),
        capture_output=True,
        text=True,
    )

    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [words for words, _, _ in answers] == lines
    for words, status, out in answers:
        error = json.loads(out)["error"]
        assert (status, error["code"]) == (4, "DB_READ_ONLY"), words
        assert "call the tools of the MCP server conch instead" in error["message"], words


def test_a_store_cannot_be_made_where_nothing_can_be_written(ordinary: Any, tmp_path: Path) -> None:
    (tmp_path / "sealed").mkdir(mode=0o500)

    refused = ordinary.run("join", "--json", CONCH_DATA_DIR=f"{tmp_path}/sealed/data")

    assert (refused.status, refused.error["code"]) == (4, "DB_READ_ONLY")


def test_a_damaged_store_that_cannot_be_moved_aside_stays_where_it_is(
    ordinary: Any, used: Any, read_only: Path
) -> None:
    used.database.chmod(0o600)
    used.database.write_bytes(b"garbage" * 500)

    refused = ordinary.run("db", "wipe", "--yes", "--json")

    assert refused.status == 4 and refused.error["code"].startswith("DB_")
    assert used.database.read_bytes() == b"garbage" * 500


# -- no space


@pytest.fixture
def small_disk(shell: Shell, conch: Any, tmp_path: Path) -> Any:
    """A shell that sees the data directory on a disk of 2 MB, with a room in it."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0:
        pytest.skip("no disk can be mounted here")
    harness = shell("claude")
    harness.become("unshare -rm /bin/bash")
    data = tmp_path / "data"
    assert harness.bash(f"mount -t tmpfs -o size=2m tmpfs {data}") == 0
    assert harness.run("join").status == 0
    return harness


def fill(harness: Any, data: Path) -> None:
    harness.bash(f"cat /dev/zero >{data}/filler 2>/dev/null")


def test_a_full_disk_is_reported_and_nothing_is_lost(small_disk: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    small_disk.run("wait")
    before = small_disk.run("events", "--json").data
    fill(small_disk, data)

    refused = [small_disk.run("note", "x" * 10_000, "--json") for _ in range(3)][-1]
    released = small_disk.run("release", "--status", "x" * 10_000, "--next", "n", "--json")
    small_disk.bash(f"rm {data}/filler")

    assert (refused.status, refused.error["code"]) == (4, "DB_FULL")
    assert "Free some space" in refused.error["message"]
    assert released.error["code"] == "DB_FULL"
    assert small_disk.run("events", "--json").data == before
    assert small_disk.run("db", "verify").status == 0
    assert small_disk.run("release", "--status", "s", "--next", "n").status == 0


def test_a_store_cannot_be_made_on_a_full_disk_but_can_be_later(small_disk: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    fill(small_disk, data)

    refused = small_disk.run("join", "--json", "--store", f"{data}/another.sqlite")
    small_disk.bash(f"rm {data}/filler")

    assert (refused.status, refused.error["code"]) == (4, "DB_FULL")
    assert small_disk.run("join", "--store", f"{data}/another.sqlite").status == 0


def test_a_copy_that_does_not_fit_is_not_left_half_made(small_disk: Any, tmp_path: Path) -> None:
    disk = tmp_path / "tiny"
    assert small_disk.bash(f"mkdir {disk} && mount -t tmpfs -o size=16k tmpfs {disk}") == 0

    refused = small_disk.run("db", "backup", f"{disk}/copy", "--json")

    assert (refused.status, refused.error["code"], refused.error["field"]) == (4, "DB_FULL", "file")
    assert small_disk.bash(f"test -e {disk}/copy") == 1


# -- not enough descriptors, or a queue that cannot be used


@pytest.mark.parametrize("files", range(5, 15))
@pytest.mark.parametrize("words", [("wait", "--timeout", "0"), ("ask", "Where?", "--wait", "0")], ids=["wait", "ask"])
def test_a_command_without_enough_descriptors_says_so(used: Any, files: int, words: tuple[str, ...]) -> None:
    script = f'ulimit -n {files}; exec "$@"'
    command = ["/bin/sh", "-c", script, "sh", sys.executable, "-m", "conch", *words]
    environ = {**used.env, "CONCH_AGENT_ID": "ada:1"}

    done = subprocess.run(command, env=environ, cwd=used.workspace, capture_output=True, text=True)

    assert "Traceback" not in done.stderr and "report it" not in done.stderr
    assert len(done.stderr.splitlines()) <= 1
    assert done.returncode in (0, 3) or "too many files are open" in done.stderr


def test_a_copied_store_whose_queue_cannot_be_opened_says_so(used: Any, tmp_path: Path) -> None:
    shutil.copytree(used.database.parent, tmp_path / "copied")  # other files than those written down
    (tmp_path / "copied" / "rooms.sqlite.queue").unlink()
    (tmp_path / "copied" / "rooms.sqlite.queue").mkdir()

    refused = used("note", "n", "--json", CONCH_DATA_DIR=str(tmp_path / "copied"))

    assert refused.error["code"] == "DB_UNAVAILABLE"
    assert "rooms.sqlite.queue" in refused.error["message"]
