"""What tests of stores share to save time: warm connections, and stores that are filled once and copied."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from psycopg import Connection, connect
from tests.conftest import Database

from conch.app import App, open_app
from conch.clock import Clock, system_clock
from conch.storage.base import Store
from conch.storage.postgres.store import PostgresStore


class WarmConnections:
    """Connections to one database for the next test. A new one plans every statement anew: half of a test's time."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def lend(self, store: Store) -> None:
        while self._kept and isinstance(store, PostgresStore):
            connection = self._kept.pop()
            connection.on_silence = store._note_silence
            store._give_back(connection)

    def take_back(self, store: Store) -> None:
        if isinstance(store, PostgresStore):
            self._kept += [connection for _, connection in store._idle[:2]]
            del store._idle[:2]

    def close(self) -> None:
        for connection in self._kept:
            connection.close()
        self._kept.clear()


# A new database for every test would take most of the time. Rows are put back instead, and their numbering.
SAVE = """
CREATE SCHEMA saved;
DO $$ DECLARE one text; BEGIN
    FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = 'conch' LOOP
        EXECUTE format('CREATE TABLE saved.%1$I AS TABLE conch.%1$I', one);
    END LOOP;
END $$;
CREATE TABLE saved.numbering AS SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'conch';
CREATE TABLE saved.latest AS SELECT pg_current_xact_id()::text::bigint AS transaction_id;
"""
# A row's `xmin` is the transaction that wrote it.
IS_CHANGED = """
SELECT '{0}' FROM conch.{0}
HAVING (count(*), count(*) FILTER (WHERE xmin::text::bigint > (SELECT transaction_id FROM saved.latest)))
    <> ((SELECT count(*) FROM saved.{0}), 0)
"""
PUT_BACK = """
DELETE FROM conch.{0} WHERE xmin::text::bigint > (SELECT transaction_id FROM saved.latest);
INSERT INTO conch.{0} OVERRIDING SYSTEM VALUE (TABLE saved.{0} EXCEPT ALL TABLE conch.{0});
"""
DIFFERS = """
SELECT '{0}' FROM (TABLE conch.{0} EXCEPT ALL TABLE saved.{0}) AS added
UNION SELECT '{0}' FROM (TABLE saved.{0} EXCEPT ALL TABLE conch.{0}) AS missing
"""
PUT_NUMBERS_BACK = """
SELECT setval(format('conch.%I', sequencename), coalesce(last_value, 1), last_value IS NOT NULL) FROM saved.numbering;
UPDATE saved.latest SET transaction_id = pg_current_xact_id()::text::bigint;
"""
CHANGES_THE_SCHEMA = re.compile(r"\b(ALTER|CREATE|DROP)\b")
Fill = Callable[[dict[str, str], Path], None]
"""Fills the store that an environment selects, from a workspace that it makes."""


class Original:
    """A filled store in a file, and copies of it that can be changed and damaged."""

    def __init__(self, folder: Path, fill: Fill) -> None:
        self._folder = folder
        self.workspace = folder / "workspace"
        fill(self._environ("original"), self.workspace)

    @property
    def file(self) -> Path:
        return self._folder / "original" / "rooms.sqlite"

    def _environ(self, name: str) -> dict[str, str]:
        return {"HOME": str(self._folder), "CONCH_DATA_DIR": str(self._folder / name)}

    def copy(self, name: str, clock: Clock = system_clock) -> App:
        target = self._folder / name
        target.mkdir()
        (target / "rooms.sqlite").write_bytes(self.file.read_bytes())
        return open_app(self._environ(name), clock)

    def damage(self, name: str, statements: str) -> None:
        """Run statements behind conch's back, with all constraints turned off."""
        with sqlite3.connect(self._folder / name / "rooms.sqlite") as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.executescript(statements.replace("$bytes", "BLOB"))
        connection.close()

    def end(self, app: App) -> None:
        app.close()

    def close(self) -> None:
        pass


class OriginalOnServer(Original):
    """A filled store in a database, and one copy of it, which is put right after each test."""

    def __init__(self, folder: Path, fill: Fill, server: Database) -> None:
        self._server = server
        self._warm = WarmConnections()
        self._has_another_schema = False
        server.connection.execute("CREATE DATABASE original")
        super().__init__(folder, fill)
        with self._connect("original") as connection:
            connection.execute(SAVE)
            found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'conch'").fetchall()
        self._tables = [name for (name,) in found]
        self._make_copy()

    def _environ(self, name: str) -> dict[str, str]:
        return {**super()._environ(name), "CONCH_STORE": self._url(name)}

    def _url(self, name: str) -> str:
        return self._server.url.replace("/postgres?", f"/{name}?")

    def _connect(self, name: str) -> Connection[Any]:
        options = "-c session_replication_role=replica -c search_path=conch"
        return connect(self._url(name), autocommit=True, options=options)

    def _make_copy(self) -> None:
        self._drop("copy")
        self._server.connection.execute("CREATE DATABASE copy TEMPLATE original")
        self._connection = self._connect("copy")

    def copy(self, name: str, clock: Clock = system_clock) -> App:
        app = open_app(self._environ("copy"), clock)
        self._warm.lend(app.store)
        return app

    def damage(self, name: str, statements: str) -> None:
        self._has_another_schema |= bool(CHANGES_THE_SCHEMA.search(statements))
        with self._connection.transaction():
            self._connection.execute(statements.replace("$bytes", "BYTEA").encode())

    def end(self, app: App) -> None:
        self._warm.take_back(app.store)
        app.close()
        if self._has_another_schema:
            self._warm.close()
            self._connection.close()
            self._make_copy()
        else:
            self._put_back()
        self._has_another_schema = False

    def _put_back(self) -> None:
        with self._connection.transaction():
            changed = self._connection.execute(
                " UNION ALL ".join(map(IS_CHANGED.format, self._tables)).encode()
            ).fetchall()
            back = "".join(PUT_BACK.format(name) for (name,) in changed) + PUT_NUMBERS_BACK
            self._connection.execute(back.encode())

    def close(self) -> None:
        """No test may have helped or harmed a later one."""
        different = self._connection.execute(" UNION ".join(map(DIFFERS.format, self._tables)).encode()).fetchall()
        self._warm.close()
        self._connection.close()
        self._drop("copy")
        self._drop("original")
        assert different == []

    def _drop(self, name: str) -> None:
        self._server.connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
