"""Plays the story once for every fault, and collects what was answered."""

from __future__ import annotations

import fcntl
import os
import random
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, nullcontext
from itertools import chain, zip_longest
from typing import IO, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from psycopg.errors import InvalidSchemaName, UndefinedTable
from tests.conftest import Database
from tests.faults import proxy, shim
from tests.faults.story import Answer, Teller, judge, unsound
from tests.progress import Progress

from conch.app import open_app

# One write waits for half of this time. PostgreSQL needs longer to notice that a connection with a lock was cut.
SQLITE = {"CONCH_BUSY_TIMEOUT_MS": "200", "CONCH_SYNCHRONOUS": "full"}
POSTGRES = {"CONCH_BUSY_TIMEOUT_MS": "1000"}


class Fault(NamedTuple):
    kind: str
    number: int
    error: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.number}" + (f" with {os.strerror(self.error)}" if self.error else "")


class Outcome(NamedTuple):
    fault: Fault
    answers: list[Answer]
    problems: list[str]


class Summary:
    """What came of many faults."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self.codes: dict[str, Counter[str]] = {}
        self.problems: list[str] = []
        self.planned = 0

    def add(self, outcome: Outcome) -> None:
        kind = outcome.fault.kind
        self.faults[kind] += 1
        refused = [answer.code for answer in outcome.answers if answer.code != "ok"]
        self.codes.setdefault(kind, Counter()).update(refused or ["no call failed"])
        self.problems += [f"{outcome.fault}: {problem}" for problem in outcome.problems]

    def __str__(self) -> str:
        lines = [f"{sum(self.faults.values())} of {self.planned} faults, {len(self.problems)} problems"]
        for kind, count in self.faults.items():
            codes = ", ".join(f"{code} {number}" for code, number in sorted(self.codes[kind].items()))
            lines.append(f"  {kind:9} {count:5}   {codes}")
        return "\n".join([*lines, *self.problems])


def run_all(faults: list[Fault], play: Callable[[Fault], Outcome], seed: int, seconds: float | None) -> Summary:
    """Play every fault once, in an order that the seed decides, until the time is up. Each kind has its turn."""
    summary, deadline = Summary(), time.monotonic() + (seconds or float("inf"))
    summary.planned = len(faults)
    progress = Progress("faults", len(faults))
    random.Random(seed).shuffle(faults)
    kinds = [[fault for fault in faults if fault.kind == kind] for kind in sorted({fault.kind for fault in faults})]
    for fault in filter(None, chain.from_iterable(zip_longest(*kinds))):
        summary.add(play(fault))
        progress.tell(sum(summary.faults.values()), summary.problems)
        if time.monotonic() > deadline:
            break
    return summary


# -- SQLite


class SqliteRuns:
    """Needs the preloaded library."""

    def __init__(self, library: str) -> None:
        self._shim = shim.Shim(library)
        self._counts: dict[str, int] = {}

    def faults(self) -> list[Fault]:
        self.play(Fault("open", 0))
        return [
            Fault(kind, number, error)
            for kind, errors in shim.ERRORS.items()
            for number in range(1, self._counts[kind] + 1)
            for error in errors
        ]

    def play(self, fault: Fault) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="conch-faults-") as folder:
            data, workspace = os.path.join(folder, "data"), _make_workspace(folder)
            environ = {"HOME": folder, "CONCH_DATA_DIR": data, **SQLITE}
            path = os.path.join(data, "rooms.sqlite")
            count = self._unfaulted(lambda query: _count_in_file(path, query))
            with closing(open_app(environ)) as app:
                teller = Teller(app, workspace, count, self._unfaulted(lambda: _holding(f"{path}.queue")))
                self._shim.arm(data, fault.kind, fault.number, fault.error)
                teller.tell()
                self._counts = {kind: self._shim.count(kind) for kind in shim.KINDS}
                self._shim.arm(data, fault.kind, 0, 0)
            with closing(open_app(environ)) as app:
                problems = judge(teller.answers, count) + unsound(app)
        return Outcome(fault, teller.answers, problems)

    def _unfaulted(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def unfaulted(*given: Any) -> Any:
            self._shim.pause(True)
            try:
                return act(*given)
            finally:
                self._shim.pause(False)

        return unfaulted


def _make_workspace(folder: str) -> str:
    workspace = os.path.join(folder, "workspace")
    os.mkdir(workspace)
    open(os.path.join(workspace, "AGENTS.md"), "w").close()
    return os.path.realpath(workspace)


def _count_in_file(path: str, query: str) -> int:
    if not query or not os.path.exists(path):
        return 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        try:
            return int(connection.execute(query).fetchone()[0])
        except sqlite3.OperationalError:  # no tables yet
            return 0


def _holding(path: str) -> IO[str]:
    """The writers' queue, held until this file is closed."""
    file = open(path, "a")  # noqa: SIM115 - the caller closes it
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


# -- PostgreSQL


def count_in(database: Database, query: str) -> int:
    try:
        cursor = database.connection.execute(query.replace(" FROM ", " FROM conch.").encode())
    except (UndefinedTable, InvalidSchemaName):  # no tables yet
        return 0
    return int((cursor.fetchone() or [0])[0])


class PostgresRuns:
    """Through a proxy. `empty` deletes all rows; `ask` runs a query past the proxy."""

    def __init__(self, url: str, empty: Callable[[], None], ask: Callable[[str], int]) -> None:
        folder = parse_qs(urlsplit(url).query)["host"][0]
        port = parse_qs(urlsplit(url).query).get("port", ["5432"])[0]
        self._proxy = proxy.FaultyProxy(f"{folder}/.s.PGSQL.{port}")
        user, database = urlsplit(url).username or "postgres", urlsplit(url).path
        self._url = f"postgresql://{user}@127.0.0.1:{self._proxy.port}{database}?gssencmode=disable&sslmode=disable"
        self._empty, self._ask = empty, ask

    def faults(self) -> list[Fault]:
        self.play(Fault("request", 0))
        counts = {**self._proxy.counts, "silence": self._proxy.counts["request"]}
        return [Fault(kind, number) for kind in proxy.KINDS for number in range(1, counts[kind] + 1)]

    def play(self, fault: Fault) -> Outcome:
        def count(query: str) -> int:
            return self._ask(query) if query else 0

        with tempfile.TemporaryDirectory(prefix="conch-faults-") as folder:
            environ = {"HOME": folder, "CONCH_DATA_DIR": folder, "CONCH_STORE": self._url, **POSTGRES}
            workspace = _make_workspace(folder)
            with closing(open_app(environ)) as app:
                teller = Teller(app, workspace, count, nullcontext)
                self._proxy.arm(fault.kind, fault.number)
                teller.tell()
            counts = self._proxy.counts
            with closing(open_app(environ)) as app:
                self._proxy.arm("request", 0)
                problems = judge(teller.answers, count) + unsound(app)
            self._proxy.counts = counts
        self._empty()
        return Outcome(fault, teller.answers, problems)

    def close(self) -> None:
        self._proxy.close()
