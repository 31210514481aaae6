"""A prune that is killed, or loses its connection, leaves a sound store, and the next one goes on."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.process.forking import Fork
from tests.process.postgres.conftest import CommitProxy, Server
from tests.process.postgres.counted import Caller, Clock

from conch.app import App, open_app
from conch.clock import DAY
from conch.retention.pruning import Pruning
from conch.upkeep.verify import verify_store

MESSAGES, TURNS = 350, 60
MOMENTS = [b"DELETE FROM messages", b"UPDATE topic_seq SET pruned_seq", b"DELETE FROM room_events"]
MOMENTS += [b"DELETE FROM protocol_events", b"DELETE FROM room_members"]


def fill(url: str, root: Path) -> None:
    """Ada and bob did all this long ago, and have not been seen since."""
    clock = Clock()
    clock.ahead = -200 * DAY
    (root / "AGENTS.md").touch()
    app = open_app({"HOME": str(root), "CONCH_STORE": url}, clock)
    ada, bob = (Caller(app, agent_id, os.path.realpath(root)) for agent_id in ("codex:ada", "claude:bob"))
    for start in range(0, MESSAGES, 50):
        ada.sync(*(f"old {number}" for number in range(start, start + 50)))
    for _ in range(TURNS // 2):
        for caller in (ada, bob):
            caller.claim()
            caller.release()
    app.search.search("old", mode="fts")
    app.close()


@pytest.fixture(scope="module")
def filled(one_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    one_server.ask("CREATE DATABASE filled OWNER conch")
    fill(one_server.url("filled", user="conch"), tmp_path_factory.mktemp("workspace"))
    yield "filled"
    one_server.ask("DROP DATABASE filled WITH (FORCE)")


@pytest.fixture
def database(server: Server, filled: str) -> Iterator[str]:
    server.ask(f"CREATE DATABASE pruned OWNER conch TEMPLATE {filled}")
    yield "pruned"
    server.ask("DROP DATABASE pruned WITH (FORCE)")


Prune = Callable[[], Fork]


@pytest.fixture
def prune(environ: dict[str, str], proxy: CommitProxy, database: str, start_conch: Callable[..., Fork]) -> Prune:
    """Starts `conch db prune` behind the proxy."""
    env = {**environ, "CONCH_STORE": proxy.url(database)}
    return lambda: start_conch(["db", "prune", "--older", "90d", "--yes"], env, "/")


def kill(process: Fork, server: Server, database: str) -> None:
    process.kill()


def terminate_backends(process: Fork, server: Server, database: str) -> None:
    mine = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    server.ask(f"{mine} AND pid <> pg_backend_pid()", database)


@pytest.mark.parametrize("end", [kill, terminate_backends])
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda words: words.decode())
@pytest.mark.parametrize("arrives", [True, False], ids=["after", "before"])
def test_a_prune_that_is_cut_off_leaves_a_sound_store(
    app: App,
    prune: Prune,
    proxy: CommitProxy,
    server: Server,
    database: str,
    end: Callable[..., None],
    moment: bytes,
    arrives: bool,
) -> None:
    started: queue.SimpleQueue[Fork] = queue.SimpleQueue()

    def cut_off(link: Any, data: bytes) -> None:
        if arrives:
            link.forward(data)
        end(started.get(timeout=60), server, database)
        if not arrives:
            link.forward(data)

    proxy.at_words(moment, cut_off)

    process = prune()
    started.put(process)
    printed = process.communicate(timeout=60)

    assert proxy.deed is None, printed
    assert process.returncode != 0 or end is terminate_backends  # which may be interrupted, and go on
    assert verify_store(app.store).problems == []
    Pruning(app.store, 90 * DAY).run()
    assert verify_store(app.store).problems == []
    ((topic_id,),) = server.ask("SELECT topic_id FROM conch.path_rooms", database)
    assert list(app.messages.history(topic_id)) == []
