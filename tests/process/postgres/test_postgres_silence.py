"""A server that is stopped says nothing, and its kernel answers for it. Every call must end all the same."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest
from psycopg.conninfo import conninfo_to_dict

from conch.app import App
from conch.bells import postgres as bell
from conch.bells.base import seat_channel
from conch.errors import ConchError, StoreInterrupted, StoreUnavailable, StoreUncertain
from conch.storage.postgres.connection import Connection

SOON = 30.0
OURS = "application_name = 'conch' AND datname = current_database()"


@pytest.fixture
def environ(environ: dict[str, str]) -> dict[str, str]:
    return {**environ, "CONCH_BUSY_TIMEOUT_MS": "500"}  # so that a silent server is given up on after 3 s


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def backends(server: Any, database: str) -> list[int]:
    return [pid for (pid,) in server.ask(f"SELECT pid FROM pg_stat_activity WHERE {OURS}", database)]


def whole(server: Any) -> list[int]:
    """All processes of a server, the one that accepts connections first."""
    postmaster = psutil.Process(int((server.folder / "data" / "postmaster.pid").read_text().split()[0]))
    return [postmaster.pid, *(child.pid for child in postmaster.children(recursive=True))]


def test_a_call_on_a_stopped_backend_is_made_on_another(
    agents: Callable[..., Any], server: Any, database: str, workspace: str, until: Callable[..., Any]
) -> None:
    codex = agents("codex:1")
    room_id = codex.call("join_path", context_path=workspace)["room_id"]

    with stopped(backends(server, database)):
        assert codex.call("get_room_state", room_id=room_id)["room"]["room_id"] == room_id
        assert "error" not in codex.call("append_note", room_id=room_id, note="written")

    until(lambda: len(backends(server, database)) <= 2)


def test_a_backend_stopped_inside_a_transaction_undoes_it(app: App, server: Any, database: str) -> None:
    with pytest.raises(StoreInterrupted) as refusal, app.store.write("a") as tx:
        assert tx.now  # it has begun
        with stopped(backends(server, database)):
            tx.all("schema_version")

    assert refusal.value.code == "DB_UNAVAILABLE"
    assert "stopped answering" in refusal.value.message


def test_a_backend_stopped_at_the_commit_leaves_it_uncertain(app: App, server: Any, database: str) -> None:
    def act() -> None:
        with app.store.write("a") as tx:
            assert tx.now
            pids.extend(backends(server, database))
            os.kill(pids[0], signal.SIGSTOP)

    pids: list[int] = []
    try:
        with pytest.raises(StoreUncertain):
            act()
    finally:
        os.kill(pids[0], signal.SIGCONT)


def test_every_call_on_a_frozen_server_ends_and_the_next_one_after_it_works(
    app: App, server: Any, workspace: str
) -> None:
    found: list[str] = []

    def ask() -> None:
        try:
            app.rooms.list_rooms(workspace)
            found.append("answered")
        except ConchError as refusal:
            found.append(refusal.code)

    ask()
    askers = [threading.Thread(target=ask) for _ in range(20)]
    with stopped(whole(server)):
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join(SOON)
    ask()

    assert found == ["answered", *["DB_UNAVAILABLE"] * 20, "answered"]


def test_after_a_silence_a_new_connection_gets_less_time(
    app: App, server: Any, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []
    connect = Connection.connect

    def spy(conninfo: str, **given: Any) -> Connection:
        limits.append(int(conninfo_to_dict(conninfo)["connect_timeout"]))
        return connect(conninfo, **given)

    app.rooms.list_rooms(workspace)
    monkeypatch.setattr(Connection, "connect", spy)
    with stopped(whole(server)), pytest.raises(StoreUnavailable):
        app.rooms.list_rooms(workspace)

    assert limits == [2], "otherwise the whole call would take longer than eight seconds"


def test_a_bell_whose_backend_is_stopped_is_heard_again(
    app: App, server: Any, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell, "_CHECK_SECONDS", 0.2)
    with app.bell.listen("a") as ear, stopped(backends(server, database)):
        assert ear.wait(SOON), "it connects again, and everybody looks"
        with app.store.write("a") as tx:
            tx.ring("a")
        assert ear.wait(SOON)


def test_a_wait_goes_on_when_a_frozen_server_runs_again(
    agents: Callable[..., Any], app: App, server: Any, workspace: str, until: Callable[..., Any]
) -> None:
    codex, gemini = agents("codex:1"), agents("gemini:1")
    room_id = codex.call("join_path", context_path=workspace)["room_id"]
    gemini.call("join_path", context_path=workspace)
    turn = codex.call("wait_for_turn", room_id=room_id, max_wait_ms=0)
    gemini.begin("wait_for_turn", room_id=room_id, max_wait_ms=30_000)
    until(lambda: app.bell.hears(seat_channel(room_id, "gemini:1")))  # a call that has not begun to wait is refused

    with stopped(whole(server)):
        refused = codex.call("heartbeat", room_id=room_id, lease_id=turn["lease_id"], expected_turn_id=turn["turn_id"])
    handoff = {"status": "done", "next_action": "go on"}
    lease = {"room_id": room_id, "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    codex.call("release_stick", **lease, handoff=handoff)

    assert refused["error"] == "DB_UNAVAILABLE"
    assert gemini.hear()["status"] == "your_turn"
