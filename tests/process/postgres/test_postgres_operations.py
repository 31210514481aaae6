"""`conch db` with a server: the line it prints backs the store up, and its errors name what the operator typed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.process.postgres.conftest import Run, Server

from conch.app import App
from conch.bus.topics import make_home
from conch.errors import StoreReplaced

SECRET = "mother of/pe@rl?"

Conch = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def database(new_database: str) -> str:
    return new_database


@pytest.fixture
def conch(environ: dict[str, str], tmp_path: Path, run_conch: Run) -> Conch:
    """Run a command, and see to it that no stream has a password in it."""

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **environ, **variables}
        if "PYTHONPATH" in variables:  # for an interpreter that starts
            command = [sys.executable, "-m", "conch", *words]
            done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
        else:
            done = run_conch(words, env, tmp_path)
        for spelling in (SECRET, quote(SECRET, safe=""), json.dumps(SECRET)[1:-1]):
            assert spelling not in done.stdout + done.stderr
        return done

    return run


def error(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode in (1, 2, 4)
    refused: dict[str, Any] = json.loads(done.stdout)["error"]
    return refused


@pytest.fixture
def room_id(app: App) -> str:
    """A room in the store."""
    with app.store.write("a") as tx:
        tx.run("insert_room", room_id="a", canonical_path="/a", topic_id="t", now=tx.now)
        make_home(tx, "t", "/a")
    return "a"


@pytest.fixture
def restored(server: Any) -> Iterator[str]:
    server.ask("CREATE DATABASE restored OWNER conch")
    yield "restored"
    server.ask("DROP DATABASE restored WITH (FORCE)")


# -- backup


@pytest.mark.usefixtures("room_id")
def test_the_line_that_backup_prints_makes_a_dump_that_can_be_restored(
    conch: Conch, server: Any, database: str, restored: str, programs: Any, tmp_path: Path
) -> None:
    query = "sslmode=disable&connect_timeout=7&application_name=it%27s%20%26%20us&options=-c%20lock_timeout%3D1s"
    told = conch("db", "backup", "the dump's file", CONCH_STORE=f"{server.tcp_url(database)}?{query}")
    line = next(line for line in told.stderr.splitlines() if "pg_dump " in line).strip()

    tools = {"PATH": f"{programs.folder}:{os.environ['PATH']}", "PGPASSWORD": SECRET}
    subprocess.run(line, shell=True, check=True, env=tools, cwd=tmp_path, capture_output=True)
    target = server.url(restored, user="conch")
    subprocess.run(["pg_restore", "-e", "-d", target, "the dump's file"], check=True, env=tools, cwd=tmp_path)

    assert told.returncode == 1
    assert all(setting in line for setting in ("sslmode=disable", "connect_timeout=7", "application_name=", "options="))
    assert server.ask("SELECT room_id FROM conch.path_rooms", restored) == [("a",)]


def test_the_line_that_backup_prints_keeps_the_tls_settings_and_no_password(
    conch: Conch, server: Any, database: str
) -> None:
    settings = "&sslmode=prefer&sslrootcert=/etc/ca.pem&sslcert=/c.pem&sslkey=/k.pem"
    address = server.url(database, user="conch", password=SECRET, sslpassword=SECRET) + settings

    refused = error(conch("db", "backup", "--json", CONCH_STORE=address))

    command = refused["command"]
    assert command.startswith("pg_dump --schema=conch --format=custom --file=conch.dump 'postgresql://conch@/")
    assert command in refused["message"]
    assert all(setting in command for setting in settings.split("&"))
    assert "password" not in command


@pytest.mark.usefixtures("room_id")
def test_the_line_that_restore_prints_brings_a_dump_back_under_a_running_process(
    conch: Conch, app: App, server: Any, database: str, programs: Any, tmp_path: Path
) -> None:
    lines = [error(conch("db", *words, "--json"))["command"] for words in (["backup"], ["restore", "conch.dump"])]
    tools = {"PATH": f"{programs.folder}:{os.environ['PATH']}", "PGPASSWORD": SECRET}
    subprocess.run(lines[0], shell=True, check=True, env=tools, cwd=tmp_path, capture_output=True)
    server.ask("DELETE FROM conch.path_rooms", database)

    subprocess.run(lines[1], shell=True, check=True, env=tools, cwd=tmp_path, capture_output=True)

    with pytest.raises(StoreReplaced, match="restored"), app.store.read():
        pass
    with app.store.read() as tx:
        assert [row["room_id"] for row in tx.all("all_rooms")] == ["a"]


def test_the_line_that_restore_prints_for_what_wipe_has_kept_brings_it_back(
    conch: Conch, server: Any, database: str, room_id: str, tmp_path: Path
) -> None:
    wiped = json.loads(conch("db", "wipe", "--yes", "--json").stdout)["data"]

    refused = error(conch("db", "restore", wiped["backup"], "--json"))
    setting, *words = shlex.split(refused["command"])
    conch(*words[1:], CONCH_STORE=setting.partition("=")[2])

    assert words[:3] == ["conch", "db", "copy"]
    assert server.ask("SELECT room_id FROM conch.path_rooms", database) == [(room_id,)]


@pytest.mark.usefixtures("room_id")
def test_a_restore_waits_for_a_transaction_of_an_agent_and_both_succeed(
    conch: Conch, app: App, server: Any, database: str, programs: Any, tmp_path: Path, until: Callable[..., Any]
) -> None:
    lines = [error(conch("db", *words, "--json"))["command"] for words in (["backup"], ["restore", "conch.dump"])]
    tools = {"PATH": f"{programs.folder}:{os.environ['PATH']}", "PGPASSWORD": SECRET}
    subprocess.run(lines[0], shell=True, check=True, env=tools, cwd=tmp_path, capture_output=True)

    with app.store.write("a") as tx:
        assert tx.all("all_rooms")
        restoring = subprocess.Popen(lines[1], shell=True, env=tools, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        until(lambda: server.ask("SELECT count(*) FROM pg_locks WHERE NOT granted", database) != [(0,)])
        rows = [row for table in tx.tables() for row in tx.dump(table)]

    assert rows
    assert restoring.communicate(timeout=60) == (None, "")
    assert restoring.returncode == 0


@pytest.mark.usefixtures("room_id")
@pytest.mark.parametrize("version", ["1", "99"])
def test_a_store_of_another_schema_can_be_backed_up(conch: Conch, server: Any, database: str, version: str) -> None:
    server.ask(f"UPDATE conch.meta SET value = '{version}'", database)

    assert "command" in error(conch("db", "backup", "--json"))


def test_a_server_that_is_down_is_not_backed_up(conch: Conch, server: Any) -> None:
    server.stop()

    assert error(conch("db", "backup", "--json"))["code"] == "DB_UNAVAILABLE"


# -- copying


def test_two_services_are_two_places(
    conch: Conch, server: Any, database: str, restored: str, room_id: str, tmp_path: Path
) -> None:
    where = f"host={server.folder}\nport={server.port}\nuser=conch\n"
    (tmp_path / "services").write_text(f"[here]\n{where}dbname={database}\n\n[there]\n{where}dbname={restored}\n")
    services = {"PGSERVICEFILE": str(tmp_path / "services"), "CONCH_STORE": "postgresql:///?service=here"}

    itself = error(conch("db", "copy", "--to", "postgresql:///?service=here", "--json", **services))
    copied = conch("db", "copy", "--to", "postgresql:///?service=there", **services)

    assert itself["field"] == "to"
    assert (copied.returncode, copied.stderr) == (0, "")
    assert server.ask("SELECT room_id FROM conch.path_rooms", restored) == [(room_id,)]


# -- verifying


@pytest.mark.usefixtures("room_id")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            "ALTER TABLE conch.messages DROP COLUMN content_markdown CASCADE",
            "The column content_markdown of messages is missing",
        ),
        ("DROP TABLE conch.questions CASCADE", "The table questions is missing"),
        ("DROP TABLE conch.path_rooms CASCADE", "The table path_rooms is missing"),
        ("DROP INDEX conch.topics_open_name_idx", "The index topics_open_name_idx of topics is missing"),
    ],
)
def test_a_schema_that_somebody_has_changed_is_not_sound(
    conch: Conch, server: Any, database: str, change: str, problem: str
) -> None:
    sound = conch("db", "verify")
    server.ask(change, database)

    refused = error(conch("db", "verify", "--json"))

    assert sound.returncode == 0
    assert refused["code"] == "verification_failed"
    assert any(problem in each["problem"] for each in refused["problems"])


# -- whose clock


def test_an_age_is_counted_from_the_moment_of_the_store(conch: Conch, tmp_path: Path) -> None:
    (tmp_path / "clock").mkdir()
    ahead = "import time\n_true = time.time\ntime.time = lambda: _true() + 3 * 3_600\n"
    (tmp_path / "clock" / "sitecustomize.py").write_text(ahead)
    wrong = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "clock"), *sys.path]), "CONCH_AGENT_ID": "codex:1"}
    conch("join", **wrong)
    conch("send", "just now", **wrong)

    assert "just now" in conch("read", "--since", "2h", **wrong).stdout
    assert "**just** now" in conch("search", "just", "--since", "2h", **wrong).stdout


# -- another schema


@pytest.mark.usefixtures("room_id")
@pytest.mark.parametrize(
    ("change", "advice"),
    [
        (
            "UPDATE conch.meta SET value = '1' WHERE key = 'schema_version'",
            "Stop every process that uses it, make a dump",
        ),
        ("UPDATE conch.meta SET value = '99' WHERE key = 'schema_version'", "Upgrade conch and restart its servers"),
        ("DELETE FROM conch.meta", "Restore a dump"),
        ("UPDATE conch.meta SET value = '0' WHERE key = 'schema_version'", "Restore a dump"),
        ("ALTER TABLE conch.meta RENAME TO facts", "Restore a dump"),
    ],
)
def test_each_mismatch_has_its_own_advice(conch: Conch, server: Any, database: str, change: str, advice: str) -> None:
    server.ask(change, database)

    refused = error(conch("rooms", "--all", "--json"))

    assert refused["code"] == "DB_SCHEMA_MISMATCH"
    assert advice in refused["message"]


# -- advice for operators


@pytest.mark.parametrize(
    ("words", "named"),
    [(("rooms", "--store"), "--store"), (("db", "copy", "--to"), "--to"), (("db", "migrate", "--store"), "--store")],
)
@pytest.mark.parametrize("query", ["", "?sslmode=banana", "?foo=bar", "?options=-c%20pearls%3D1"])
def test_an_error_names_the_option_that_the_address_was_given_with(
    conch: Conch, server: Any, database: str, words: tuple[str, ...], named: str, query: str
) -> None:
    password = SECRET if "options" in query else f"not {SECRET}"
    refused = error(conch(*words, server.tcp_url(database, password=password) + query, "--json"))

    assert refused["code"] == ("invalid_setting" if query else "DB_UNAVAILABLE")
    assert named in refused["message"]
    assert "CONCH_STORE" not in refused["message"]


def test_an_error_names_the_variable_when_no_option_was_given(conch: Conch, server: Any, database: str) -> None:
    refused = error(conch("rooms", "--json", CONCH_STORE=server.tcp_url(database, password=f"not {SECRET}")))

    assert "CONCH_STORE" in refused["message"]


def test_what_an_address_looks_like_is_shown_as_it_is_typed(conch: Conch) -> None:
    refused = error(conch("rooms", "--json", "--store", "postgresql://conch:pe@rl@db.example/conch"))

    assert "postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full" in refused["message"]
    assert "***" not in refused["message"]


@pytest.mark.parametrize("words", [("db", "path"), ("rooms",), ("db", "copy", "--to", "copy.sqlite"), ("db", "wipe")])
def test_a_mistyped_address_becomes_no_file_and_is_not_shown(
    conch: Conch, server: Any, database: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    mistyped = server.tcp_url(database).replace("://", ":/")

    refused = [
        error(conch(*words, "--json", CONCH_STORE=mistyped)),
        error(conch(*words, "--json", "--store", f"host=127.0.0.1 password='{SECRET}'")),
    ]

    assert [each["setting"] for each in refused] == ["CONCH_STORE", "--store"]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "words",
    [
        ("rooms", "{}"),
        ("{}",),
        ("db", "{}"),
        ("db", "path", "--sotre={}"),
        ("db", "path", "--sotre", "{}"),
        ("db", "copy", "{}"),
        ("db", "backup", "{}", "--store", "here.sqlite"),
        ("join", "{}"),
        ("state", "--path", "{}"),
        ("mcp", "--store", "{}"),
    ],
)
@pytest.mark.parametrize("flag", [(), ("--json",)])
def test_an_address_in_the_wrong_place_is_repeated_without_its_password(
    conch: Conch, server: Any, database: str, words: tuple[str, ...], flag: tuple[str, ...]
) -> None:
    done = conch(*(word.format(server.tcp_url(database)) for word in words), *flag)

    assert done.returncode in (1, 2, 4)
    assert "pe%40rl" not in done.stdout + done.stderr


def test_a_database_that_is_called_as_a_tool_is_keeps_its_name(conch: Conch, server: Any) -> None:
    refused = error(conch("rooms", "--json", "--store", server.url("metadata", user="conch")))

    assert 'database "metadata" does not exist' in refused["message"]
    assert "/metadata?" in refused["message"]


def test_the_doctor_says_what_a_power_cut_may_cost(conch: Conch, server: Server, database: str) -> None:
    def durability() -> tuple[str, str]:
        done = json.loads(conch("doctor", "--json", CONCH_SYNCHRONOUS="full").stdout)
        (found,) = [each for each in (done["data"] or done["error"])["findings"] if each["what"] == "durability"]
        return found["state"], found["found"]

    without_fsync = durability()
    server.restart(fsync="on")
    safe = durability()
    server.ask(f"ALTER DATABASE {database} SET synchronous_commit = off")
    hasty = durability()
    server.restart()

    assert without_fsync == ("problem", "fsync=off: a power cut may destroy the whole store")
    assert safe == ("ok", "on: every commit survives a power cut")
    assert hasty[0] == "note" and hasty[1].startswith("off: a power cut may lose the last commits")
