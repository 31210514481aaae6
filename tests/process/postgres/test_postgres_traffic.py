"""Many processes on one server: rooms do not wait for each other, and in each there is one owner at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from conch.app import App, open_app
from conch.calls import Call
from conch.errors import StoreBusy
from conch.ids import lock_number
from conch.storage.postgres import store as postgres
from conch.storage.postgres.schema import DIALECT
from conch.storage.statements import load_migrations
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.session import Session

SOON = 20.0


def make_workspace(root: Path) -> str:
    root.mkdir()
    (root / "AGENTS.md").write_text("")
    return str(root)


def hear_all(agent: Any) -> list[list[Any]]:
    lines = [agent.hear()]
    while lines[-1] != ["done"]:
        lines.append(agent.hear())
    return lines


def test_sixteen_processes_pass_the_sticks_of_four_rooms_and_lose_no_handoff(
    agents: Callable[..., Any], referee: Any, tmp_path: Path
) -> None:
    workspaces = [make_workspace(tmp_path / f"w{number}") for number in range(4)]
    players = [agents(f"codex:{number}", "play", workspaces[number % 4], "5") for number in range(16)]
    rooms = [player.hear()[1] for player in players]
    for player in players:
        player.go()

    told = [hear_all(player) for player in players]

    assert len(set(rooms)) == 4
    assert [line for lines in told for line in lines if line[0] in ("unsure", "away")] == []
    for number in range(4):
        log = referee.check(rooms[number])
        written = {e.event_seq: e.handoff["status"] for e in log if e.event_type == "release"}
        received = [written.get(e.details["handoff_event_seq"]) for e in log if e.event_type == "claim"]
        mine = [line for lines in told[number::4] for line in lines]
        assert sorted(written.values()) == sorted(line[2] for line in mine if line[0] == "released")
        assert len(written) == 20
        assert received == [None, *list(written.values())[:-1]]


def test_rooms_do_not_wait_for_each_other(app: App) -> None:
    with app.store.write("room-a") as tx:
        assert tx.now  # it has the lock
        done = threading.Event()

        def write() -> None:
            with app.store.write("room-b") as tx:
                assert tx.now
                done.set()

        other = threading.Thread(target=write)
        other.start()
        assert done.wait(SOON)
        other.join()


def test_who_waits_too_long_for_a_room_is_told_that_it_is_busy(environ: dict[str, str], app: App) -> None:
    hurried = open_app({**environ, "CONCH_BUSY_TIMEOUT_MS": "50"})

    with app.store.write("room-a") as tx:
        assert tx.now  # it has the lock
        with pytest.raises(StoreBusy) as refusal, hurried.store.write("room-a"):
            pass
    with hurried.store.write("room-a"):
        pass
    hurried.close()

    assert refusal.value.code == "DB_BUSY"


def test_a_deadlock_is_retried_silently(
    environ: dict[str, str], server: Any, database: str, workspace: str, until: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("CONCH_AGENT_ID", "codex:1")
    app = open_app({**environ, "CONCH_BUSY_TIMEOUT_MS": "60000"})
    session = Session(app, "mcp")
    room_id = call_tool(TOOLS["join_path"], session, {"context_path": workspace}, Call()).data["room_id"]
    answers: list[Any] = []

    def note() -> None:
        arguments = {"room_id": room_id, "note": "once"}
        answers.append(call_tool(TOOLS["append_note"], session, arguments, Call()).data)

    def waiting(kind: str) -> bool:
        return bool(server.ask("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = %s", database, kind))

    # A session looks for a deadlock once, when it has waited for a second. So the writer must be the last to wait:
    # it is held up at a gate, with the room's lock, until its rival waits for that lock.
    rival, gate = (psycopg.connect(server.url(database)) for _ in range(2))
    rival.execute("SET deadlock_timeout = '1h'")  # so that it is never the one who gives way
    rival.execute("UPDATE conch.agents SET last_seen_at = last_seen_at WHERE agent_id = 'codex:1'")
    gate.execute("LOCK TABLE conch.meta")
    writer = threading.Thread(target=note)
    writer.start()
    until(lambda: waiting("relation"))
    lock = f"SELECT pg_advisory_xact_lock({lock_number('write', room_id)})"
    waiter = threading.Thread(target=lambda: (rival.execute(lock.encode()), rival.rollback()))
    waiter.start()
    until(lambda: waiting("advisory"))
    gate.close()
    for thread in (writer, waiter):
        thread.join(SOON)
    rival.close()

    assert [answer.get("error") for answer in answers] == [None]
    app.close()
    notes = server.ask("SELECT count(*) FROM conch.room_events WHERE event_type = 'note'", database)
    assert notes == [(1,)]
    assert "deadlock detected" in server.log()


def test_many_processes_make_one_schema(agents: Callable[..., Any], server: Any, database: str, workspace: str) -> None:
    newcomers = [agents(f"codex:{number}") for number in range(6)]

    for newcomer in newcomers:
        newcomer.begin("join_path", context_path=workspace)
    answers = [newcomer.hear() for newcomer in newcomers]

    assert len({answer.get("room_id", answer.get("message")) for answer in answers}) == 1
    version = str(len(load_migrations(DIALECT)))
    facts = dict(server.ask("SELECT key, value FROM conch.meta WHERE key <> 'epoch'", database))
    assert facts == {"schema_version": version, "application": "conch"}


SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'conch'"


class Readers:
    """Threads that stay inside a transaction of the same store until they are let go."""

    def __init__(self, app: App, count: int) -> None:
        self._app = app
        self._inside = threading.Semaphore(0)
        self._over = threading.Event()
        self.rooms: list[Any] = []
        self._threads = [threading.Thread(target=self._read) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        with self._app.store.read() as tx:
            assert tx.now  # it has a connection
            self._inside.release()
            self._over.wait(SOON)
            with self._app.store.read() as tx:  # a thread inside a transaction need not queue again
                self.rooms.append(tx.all("all_rooms"))

    def see_inside(self, count: int) -> None:
        for _ in range(count):
            assert self._inside.acquire(timeout=SOON)

    def finish(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(SOON)


def test_a_process_with_many_calls_at_once_has_eight_connections_and_serves_them_all(
    app: App, server: Any, database: str
) -> None:
    readers = Readers(app, 20)

    readers.see_inside(8)
    sessions = server.ask(SESSIONS, database)
    readers.finish()

    assert sessions == [(8,)]
    assert readers.rooms == [[]] * 20


def test_connections_that_were_needed_once_are_given_back(
    app: App, server: Any, database: str, until: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = Readers(app, 8)
    readers.see_inside(8)
    readers.finish()
    monkeypatch.setattr(postgres, "IDLE_SECONDS", 0.0)

    with app.store.read():
        pass

    until(lambda: server.ask(SESSIONS, database) == [(2,)])


def test_a_process_that_is_left_alone_keeps_one_connection(
    agents: Callable[..., Any], server: Any, database: str, workspace: str
) -> None:
    codex = agents("codex:1")
    room_id = codex.call("join_path", context_path=workspace)["room_id"]
    turn = codex.call("wait_for_turn", room_id=room_id, max_wait_ms=0)
    codex.call(
        "release_stick",
        room_id=room_id,
        lease_id=turn["lease_id"],
        expected_turn_id=1,
        handoff={"status": "done", "next_action": "go on"},
    )

    assert server.ask(SESSIONS, database) == [(1,)]
