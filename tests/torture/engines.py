"""The stores under torture: how to select one, read it whole, and do it harm."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from tests.torture.history import Object
from tests.torture.pids import Target
from tests.torture.server import CONCH

TABLES = {
    "messages": "topic_id, seq, message_id, content_markdown, client_message_id",
    "room_events": "event_id, reason, handoff_json, details_json",
    "protocol_events": "event_id, event_type, state, payload_json",
    "reservations": "reservation_id, scope_key",
    "room_activity": "number, room_id, kind, agent_id, subject_id, details_json",
}

Tables = dict[str, list[Object]]
MOST_TRIES = 40  # of a command that the agents get in the way of


class Engine(Protocol):
    environ: dict[str, str]
    disasters: tuple[str, ...]

    def processes(self) -> tuple[int, ...]:
        """The processes that are the store. The killer adopts a restarted one, and must not end it."""
        ...

    def read_tables(self) -> Tables: ...

    def strike(self, dice: random.Random) -> str | None:
        """Do the store, not its users, a harm that must cost nothing; returns which, or nothing if it failed."""
        ...

    def ruin(self, disaster: str, dice: random.Random) -> Ruin:
        """Take the store away; return what of it is still there."""
        ...


class Ruin:
    """What a new epoch begins with."""

    def __init__(self, kept_until: float = -1.0, base: Tables | None = None) -> None:
        self.kept_until = kept_until
        self.base = base or {}


def run_conch(environ: dict[str, str], *arguments: str) -> Object:
    """Run a command; returns its report."""
    done = subprocess.run((*CONCH, *arguments, "--json"), env=environ, capture_output=True, text=True, timeout=120)
    report: Object = json.loads(done.stdout or json.dumps({"ok": False, "error": {"code": "", "message": done.stderr}}))
    return report


def _demand(environ: dict[str, str], *arguments: str) -> None:
    """Run a command until it succeeds. Agents that write meanwhile may make the store busy for it."""
    for _ in range(MOST_TRIES):
        report = run_conch(environ, *arguments)
        if report["ok"]:
            return
        if report["error"]["code"] not in ("DB_BUSY", "DB_UNAVAILABLE"):
            break
    raise RuntimeError(f"a command of the killer failed: {report}")


class Sqlite:
    """A file in a data directory of its own."""

    disasters: tuple[str, ...] = ("wipe", "restore", "delete", "overwrite")

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._data, self._folder, self._backups = folder / "data", folder, 0
        self._store, self._older = self._data / "rooms.sqlite", folder / "older.sqlite"
        self.environ = {**environ, "CONCH_DATA_DIR": str(self._data)}

    def processes(self) -> tuple[int, ...]:
        return ()

    def read_tables(self) -> Tables:
        return _read_file(self._store)

    def strike(self, dice: random.Random) -> str | None:
        others = [path for path in self._data.iterdir() if not path.name.startswith("rooms.sqlite")]
        bells = [each for path in others for each in (path, *path.rglob("*")) if each.is_file()]
        for path in dice.sample(bells, min(3, len(bells))):
            path.unlink(missing_ok=True)
        return "delete bells"

    def ruin(self, disaster: str, dice: random.Random) -> Ruin:
        if disaster == "delete":
            return self._delete(dice.choice((("", "-wal", "-shm"), ("-wal", "-shm"), ("",))))
        if disaster == "wipe":
            _demand(self.environ, "db", "wipe", "--yes")
            return Ruin()
        if disaster == "overwrite":
            return self._overwrite()
        backup = self._back_up()
        kept_until = time.monotonic()
        _demand(self.environ, "db", "restore", str(backup), "--yes")
        return Ruin(kept_until, _read_file(backup))

    def _back_up(self) -> Path:
        self._backups += 1
        backup = self._folder / f"backup-{self._backups}.sqlite"
        _demand(self.environ, "db", "backup", str(backup))
        return backup

    def _copy(self) -> None:
        """Copy the store as SQLite's own shell does: the copy says that it is the same store."""
        self._older.unlink(missing_ok=True)
        with closing(sqlite3.connect(self._store, timeout=30)) as source, closing(sqlite3.connect(self._older)) as copy:
            source.backup(copy)

    def _overwrite(self) -> Ruin:
        """Put a copy from a few seconds ago over the file."""
        self._copy()
        time.sleep(3)
        shutil.copyfile(self._older, self._store)
        return Ruin(kept_until=time.monotonic())

    def _delete(self, suffixes: tuple[str, ...]) -> Ruin:
        for suffix in suffixes:
            Path(f"{self._store}{suffix}").unlink(missing_ok=True)
        # Without its log, the file holds what was last moved into it.
        return Ruin() if "" in suffixes else Ruin(kept_until=time.monotonic())


def _read_file(path: Path) -> Tables:
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        return {name: _rows(connection.execute(f"SELECT {columns} FROM {name}")) for name, columns in TABLES.items()}


def _rows(cursor: sqlite3.Cursor) -> list[Object]:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


class Postgres:
    """A server of its own on a socket and on a port of the loopback interface."""

    disasters: tuple[str, ...] = ("wipe", "restore")

    def __init__(
        self,
        url: str,
        environ: dict[str, str],
        postmaster: Callable[[], int],
        restart: Callable[[], None],
        programs: str,
    ) -> None:
        """`programs` is the folder with PostgreSQL's own programs."""
        self.environ = {**environ, "CONCH_STORE": url}
        self._url, self._postmaster, self._restart = url, postmaster, restart
        self._tools = {**environ, "PATH": f"{programs}:{environ['PATH']}"}

    def processes(self) -> tuple[int, ...]:
        return (self._postmaster(),)

    def read_tables(self) -> Tables:
        import psycopg
        from psycopg.rows import dict_row

        self._wait_until_ready()
        with psycopg.connect(self._url, row_factory=dict_row) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SET search_path = conch")
            return {
                name: connection.execute(f"SELECT {columns} FROM {name}".encode()).fetchall()
                for name, columns in TABLES.items()
            }

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while not self._ask("SELECT 1"):
            assert time.monotonic() < deadline, "the database did not recover"
            time.sleep(0.1)

    def strike(self, dice: random.Random) -> str | None:
        kind = dice.choices(("terminate backend", "STOP backend", "KILL backend", "restart database"), (60, 6, 2, 1))[0]
        if kind == "restart database":
            self._restart()
            return kind
        pid = self._pick_backend(dice)
        if pid is None:
            return None
        if kind == "terminate backend":
            self._ask("SELECT pg_terminate_backend(%s)", pid)
        else:
            self._signal(pid, kind)
        return kind

    def _signal(self, pid: int, kind: str) -> None:
        try:
            target = Target(pid, self._postmaster())
        except (ProcessLookupError, FileNotFoundError):
            return
        with closing(target), suppress(ProcessLookupError):  # it ended meanwhile
            if kind == "KILL backend":  # the server then ends all connections and recovers
                target.send(signal.SIGKILL)
            else:
                target.send(signal.SIGSTOP)
                time.sleep(0.3)
                target.send(signal.SIGCONT)

    def _pick_backend(self, dice: random.Random) -> int | None:
        found = self._ask(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return dice.choice(found)[0] if found else None

    def _ask(self, statement: str, *values: object) -> list[tuple[int]]:
        import psycopg

        try:
            with psycopg.connect(self._url, autocommit=True, connect_timeout=10) as connection:
                return connection.execute(statement.encode(), values).fetchall()
        except psycopg.OperationalError:  # it recovers from a killed backend
            return []

    def ruin(self, disaster: str, dice: random.Random) -> Ruin:
        if disaster == "wipe":
            _demand(self.environ, "db", "wipe", "--yes")
            return Ruin()
        base = self.read_tables()
        with tempfile.TemporaryDirectory() as folder:
            self._run_as_told("backup", f"{folder}/dump")
            kept_until = time.monotonic()
            self._run_as_told("restore", f"{folder}/dump")
        return Ruin(kept_until, base)

    def _run_as_told(self, verb: str, dump: str) -> None:
        """Run the line that `conch db` prints, as a person would. It succeeds although the agents go on."""
        self._wait_until_ready()
        line = run_conch(self.environ, "db", verb, dump)["error"]["command"]
        done = subprocess.run(line, shell=True, env=self._tools, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"{line} failed: {done.stderr}")


@contextmanager
def open_engine(name: str, folder: Path, environ: dict[str, str]) -> Iterator[Engine]:
    if name == "sqlite":
        yield Sqlite(folder, environ)
        return
    from tests.conftest import run_postgres
    from tests.process.postgres.conftest import Server

    with run_postgres() as postgres:
        server = Server(postgres.programs)
        server.start()
        pid_file = server.folder / "data" / "postmaster.pid"
        try:
            yield Postgres(
                server.url("postgres"),
                environ,
                lambda: int(pid_file.read_text().split()[0]),
                lambda: server.restart(),
                str(postgres.programs.folder),
            )
        finally:
            server.stop()
            shutil.rmtree(server.folder, ignore_errors=True)


def base_environ(folder: Path) -> dict[str, str]:
    """Nothing of the caller's session; times so short that leases, claims and agents lapse during the run."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "CONCH_OWNER_LEASE_TTL_MS": "1500",
        "CONCH_HEARTBEAT_INTERVAL_MS": "500",
        "CONCH_CLAIM_TTL_MS": "1000",
        "CONCH_STALE_MINUTES": "0.02",
    }
