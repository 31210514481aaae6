"""A store is copied whole or not at all, whatever becomes of the other side, and however long it takes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.process.postgres.conftest import Run

from conch.app import App, open_app
from conch.storage.base import Store

MANY = 2_000

Copy = Callable[..., Any]


@pytest.fixture
def database(new_database: str) -> str:
    return new_database


@pytest.fixture
def agents_in_store(app: App, server: Any, database: str) -> int:
    """How many agents there are: more than are read at once."""
    app.store.migrate()
    agent = "'codex:' || n, 'name-' || n, 'codex', 'mcp_harness', 0, 0"
    columns = "agent_id, name, harness, session_kind, created_at, last_seen_at"
    server.ask(f"INSERT INTO conch.agents ({columns}) SELECT {agent} FROM generate_series(1, {MANY}) AS n", database)
    return MANY


@pytest.fixture
def copy(environ: dict[str, str], tmp_path: Path, run_conch: Run) -> Copy:
    """Run `conch db copy`, into a new file by default; returns its answer."""

    def copy(to: str = str(tmp_path / "copy.sqlite"), **variables: str) -> Any:
        env = {**os.environ, **environ, **variables}
        return json.loads(run_conch(["db", "copy", "--to", to, "--json"], env, tmp_path).stdout)

    return copy


@pytest.fixture
def target(server: Any) -> Iterator[str]:
    """A second, empty database on the server."""
    server.ask("CREATE DATABASE target OWNER conch")
    yield "target"
    server.ask("DROP DATABASE target WITH (FORCE)")


@pytest.fixture
def reader(agents_in_store: int, server: Any, database: str) -> Iterator[str]:
    """A role that may read every table."""
    server.ask("CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA conch TO reader", database)
    server.ask("GRANT SELECT ON ALL TABLES IN SCHEMA conch TO reader", database)
    yield "reader"
    server.ask("DROP OWNED BY reader; DROP ROLE reader", database)


@pytest.fixture
def hasty(environ: dict[str, str]) -> Iterator[Store]:
    """The same store, whose server ends a transaction that stands still for a moment."""
    hasty = environ["CONCH_STORE"] + "&options=-c%20idle_in_transaction_session_timeout%3D100ms"
    app = open_app({**environ, "CONCH_STORE": hasty})
    yield app.store
    app.close()


def test_a_copy_that_the_target_refuses_in_the_middle_ends_with_its_error(
    copy: Copy, agents_in_store: int, server: Any, database: str
) -> None:
    server.ask("ALTER TABLE conch.agents DROP CONSTRAINT agents_name_key", database)
    server.ask("UPDATE conch.agents SET name = 'name-1' WHERE name = 'name-2'", database)

    answer = copy()

    assert answer["ok"] is False
    assert "UNIQUE constraint failed" in answer["error"]["message"]


def test_a_large_table_is_copied_whole(copy: Copy, agents_in_store: int) -> None:
    assert copy()["data"]["tables"]["agents"] == agents_in_store


def test_a_copy_may_idle_while_it_reads_a_table(hasty: Store, agents_in_store: int, server: Any) -> None:
    with hasty.read() as tx:
        rows = tx.dump("agents")
        first = next(rows)
        server.ask("SELECT pg_sleep(0.5)")
        rest = list(rows)

    assert len([first, *rest]) == agents_in_store


def test_a_copy_may_idle_after_it_has_filled_a_table(
    hasty: Store, agents_in_store: int, server: Any, database: str
) -> None:
    with hasty.read() as tx:
        first = next(tx.dump("agents"))
    with hasty.write("schema") as tx:
        tx.load("agents", [{**first, "agent_id": "codex:last", "name": "last"}])
        server.ask("SELECT pg_sleep(0.5)")

    assert server.ask("SELECT count(*) FROM conch.agents", database) == [(agents_in_store + 1,)]


@pytest.mark.parametrize("table", ["messages", "agents", "path_rooms"])
def test_a_table_that_may_not_be_read_is_not_left_out_of_a_copy(
    copy: Copy, reader: str, server: Any, database: str, table: str
) -> None:
    server.ask(f"REVOKE ALL ON conch.{table} FROM reader", database)

    answer = copy(CONCH_STORE=server.url(database, user=reader))

    assert answer["error"]["code"] == "DB_READ_ONLY"
    assert f"permission denied for table {table}" in answer["error"]["message"]


def test_what_the_source_refuses_is_not_blamed_on_a_target_of_the_same_engine(
    copy: Copy, reader: str, server: Any, database: str, target: str
) -> None:
    server.ask("REVOKE ALL ON conch.messages FROM reader", database)

    error = copy(to=server.url(target, user="conch"), CONCH_STORE=server.url(database, user=reader))["error"]

    assert "permission denied for table messages" in error["message"]
    assert error["store"].startswith("postgresql://reader@") and f"/{database}" in error["store"]


@pytest.mark.usefixtures("agents_in_store")
def test_what_the_target_refuses_is_not_blamed_on_a_source_of_the_same_engine(
    copy: Copy, server: Any, database: str, target: str
) -> None:
    server.ask("ALTER TABLE conch.agents DROP CONSTRAINT agents_name_key", database)
    server.ask("UPDATE conch.agents SET name = 'name-1' WHERE name = 'name-2'", database)

    error = copy(to=server.url(target, user="conch"))["error"]

    assert "duplicate key value" in error["message"]
    assert f"/{target}" in error["store"]


@pytest.mark.parametrize("moment", [b"FETCH", b"CLOSE"])
def test_a_copy_whose_source_is_cut_off_is_made_again(
    copy: Copy, agents_in_store: int, server: Any, proxy: Any, database: str, target: str, moment: bytes
) -> None:
    proxy.at_words(moment, lambda link, data: link.cut())

    answer = copy(to=server.url(target, user="conch"), CONCH_STORE=proxy.url(database))

    assert proxy.deed is None
    assert answer["data"]["tables"]["agents"] == agents_in_store
    assert server.ask("SELECT count(*) FROM conch.agents", target) == [(agents_in_store,)]


def test_a_copy_whose_target_is_cut_off_before_the_end_is_made_again(
    copy: Copy, agents_in_store: int, server: Any, proxy: Any, target: str
) -> None:
    proxy.at_words(b"COPY ", lambda link, data: link.cut())

    answer = copy(to=proxy.url(target))

    assert proxy.deed is None
    assert answer["data"]["tables"]["agents"] == agents_in_store
    assert server.ask("SELECT count(*) FROM conch.agents", target) == [(agents_in_store,)]


@pytest.mark.usefixtures("agents_in_store")
def test_a_copy_whose_commit_was_not_confirmed_is_told_and_not_made_again(copy: Copy, proxy: Any, target: str) -> None:
    def lose_the_answer(link: Any, data: bytes) -> None:
        link.deafen()
        link.forward(data)

    def await_the_end(link: Any, data: bytes) -> None:
        proxy.at_words(b"COMMIT", lose_the_answer)
        link.forward(data)

    proxy.at_words(b"COPY ", await_the_end)  # the COMMIT before is that of the schema

    answer = copy(to=proxy.url(target))

    assert proxy.deed is None
    assert answer["error"]["code"] == "DB_UNCERTAIN"
