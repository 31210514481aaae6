"""The data of another program comes to a server, with real processes, while others use the store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contract.foreign import NOON, ForeignFile, bus_file, event, message, stick_file
from tests.process.forking import Fork

SOON = 60
MANY = 300

Conch = Callable[..., Any]


@pytest.fixture
def database(new_database: str) -> str:
    return new_database


@pytest.fixture
def begin(environ: dict[str, str], workspace: str, start_conch: Callable[..., Fork]) -> Callable[..., Fork]:
    """Start a command as a process of its own."""
    return lambda *words: start_conch([*words, "--json"], {**os.environ, **environ}, workspace)


@pytest.fixture
def conch(begin: Callable[..., Fork]) -> Conch:
    """Run a command to its end; returns its data."""
    return lambda *words: finish(begin(*words))


def finish(process: Fork) -> Any:
    answer = json.loads(process.communicate(timeout=SOON)[0])
    assert answer["ok"], answer
    return answer["data"]


@pytest.fixture(params=["bus 6", "bus 5", "stick"])
def file(request: pytest.FixtureRequest, tmp_path: Path, workspace: str) -> ForeignFile:
    if request.param == "stick":
        stick = stick_file(tmp_path / "stick.sqlite", workspace, ["codex:9b22", "two words", "human:eve"])
        stick.insert(
            "room_events", event(1, "claim", 1, None, "codex:9b22"), event(2, "release", 1, "codex:9b22", None)
        )
        stick.insert("room_events", event(3, "claim", 2, None, "two words", reason="\0\x1b[2J"))
        return stick
    bus = bus_file(tmp_path / "bus.sqlite", version=int(request.param[-1]))
    if request.param == "bus 6":
        bus.insert("messages", *(message(n, f"peer-{n % 7}", f"text {n} \0 \x1b[2J") for n in range(1, MANY)))
        bus.insert("messages", {**message(MANY, "p\u0430ypal", "x"), "metadata_json": '{"to": "\\u0000"}'})
        bus.insert("cursors", {"topic_id": "t1", "agent_name": "peer-1", "last_seq": 9, "updated_at": NOON})
        return bus
    question = {"question_id": "q1", "topic_id": "t1", "asked_by": "red-fox", "question_text": "why?", "asked_at": NOON}
    bus.insert("questions", {**question, "status": "pending"})
    answer = {"answer_id": "a1", "topic_id": "t1", "question_id": "q1", "answered_by": "blue-fox"}
    bus.insert("answers", {**answer, "answered_at": NOON, "payload_json": '{"answer_markdown": "because"}'})
    return bus


def test_a_file_comes_to_a_server_once_and_a_dry_run_says_the_same(conch: Conch, file: ForeignFile) -> None:
    before = file.path.read_bytes()

    dry = conch("import", str(file.path), "--dry-run")
    first = conch("import", str(file.path))
    again = conch("import", str(file.path))

    assert dry["added"] == first["added"] and any(first["added"].values())
    assert not any(again["added"].values())
    assert file.path.read_bytes() == before
    assert conch("db", "verify")["problems"] == []


def test_two_processes_that_import_one_file_add_it_once(
    begin: Callable[..., Fork], conch: Conch, file: ForeignFile
) -> None:
    expected = conch("import", str(file.path), "--dry-run")["added"]
    both = [finish(each)["added"] for each in [begin("import", str(file.path)) for _ in range(2)]]

    assert {kind: sum(each.get(kind, 0) for each in both) for kind in expected} == expected
    assert conch("db", "verify")["problems"] == []


def test_an_import_waits_for_a_change_of_the_room_that_is_under_way(
    begin: Callable[..., Fork],
    conch: Conch,
    app: Any,
    server: Any,
    database: str,
    tmp_path: Path,
    workspace: str,
    until: Callable[..., Any],
) -> None:
    file = stick_file(tmp_path / "stick.sqlite", workspace, ["codex:9b22"])
    file.insert("room_events", event(1, "claim", 1, None, "codex:9b22"))
    room_id = conch("join")["room_id"]

    with app.store.write(room_id) as tx:
        assert tx.now  # it has the lock
        importing = begin("import", str(file.path))
        until(lambda: server.ask("SELECT count(*) FROM pg_locks WHERE NOT granted", database) != [(0,)])
        waits = server.ask("SELECT locktype FROM pg_locks WHERE NOT granted", database)

    assert waits == [("advisory",)]
    assert finish(importing)["added"]["events"] == 1
    assert conch("db", "verify")["problems"] == []
