"""One world: the real store and the real domains, with a clock, processes and random numbers that the search controls.

A world can be put into any `State` and makes one step from there.

A step runs one transaction. An operation that needs several is suspended where the next one would begin, so that other
agents act in between. Python cannot copy a running function, so the suspended operation is abandoned; to go on, it runs
again from its start, and its earlier transactions return what they returned before.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

from tests.explore.operations import OPERATIONS, Agent
from tests.explore.state import Client, Doing, Row, Rows, State, Step

from conch import ids
from conch.app import App
from conch.config import Settings
from conch.errors import ConchError
from conch.host import processes
from conch.host.processes import Process
from conch.storage.base import Transaction
from conch.storage.sqlite.store import SqliteStore

# Every period lapses with the next tick, except that of a reservation, which outlives its owner's last call.
POLICY = {
    "CLAIM_TTL_MS": 9 * 60_000,
    "OWNER_LEASE_TTL_MS": 9 * 60_000,
    "PRESENCE_TTL_MS": 9 * 60_000,
    "STALE_MINUTES": 9,
}


class Border(BaseException):
    """The next transaction belongs to the next step."""


class Script:
    """Every answer an operation got from outside: from the store, the clock and the process table.

    An operation that runs again gets the same answers, and goes on where they end.
    """

    def __init__(self, answers: Iterable[Any], transactions: int) -> None:
        """Allow so many transactions after the given answers."""
        self.answers = list(answers)
        self.transactions = transactions
        self._place = 0

    @property
    def is_replaying(self) -> bool:
        return self._place < len(self.answers)

    def ask(self, question: Callable[[], Any]) -> Any:
        if not self.is_replaying:
            self.answers.append(question())
        self._place += 1
        return self.answers[self._place - 1]


class ScriptedTransaction:
    heard = False

    def __init__(self, script: Script, tx: Transaction | None) -> None:
        """`tx` is None if the script knows all the answers."""
        self._ask = script.ask
        self._tx: Any = tx
        self.now: int = self._ask(lambda: self._tx.now)

    def one(self, statement: str, **parameters: Any) -> Any:
        return self._ask(lambda: self._tx.one(statement, **parameters))

    def all(self, statement: str, **parameters: Any) -> Any:
        return self._ask(lambda: self._tx.all(statement, **parameters))

    def run(self, statement: str, **parameters: Any) -> Any:
        return self._ask(lambda: self._tx.run(statement, **parameters))

    def count(self, statement: str, **parameters: Any) -> Any:
        return self._ask(lambda: self._tx.count(statement, **parameters))

    def ahead(self, statement: str, **parameters: Any) -> bool:
        """Does nothing, as on SQLite."""
        return False

    def expect_hearing(self) -> bool:
        """Does nothing, as on SQLite."""
        return False

    def hears(self, channel: str) -> None:
        """Not known inside a transaction."""

    def forget(self) -> None:
        """Does nothing: nothing is fetched ahead."""

    def lock(self, name: str) -> None:
        """Does nothing: SQLite has one writer at a time."""

    def last(self, statement: str, **parameters: Any) -> Callable[[], Any]:
        rows = self._ask(lambda: self._tx.last(statement, **parameters)())
        return lambda: rows

    def ring(self, *channels: str) -> None:
        """Bells are only hints, and nobody sleeps here."""

    call = ring


class SteppedStore:
    """The real store, one transaction per step."""

    is_server = False

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.script = Script((), 0)

    @property
    def replacements(self) -> list[Any]:
        return self._store.replacements

    def read(self) -> AbstractContextManager[Any]:
        return self._transaction(self._store.read)

    look = read

    def beforehand(self, statement: str, **parameters: Any) -> AbstractContextManager[None]:
        """Changes nothing, as on SQLite."""
        return nullcontext()

    def write_at_once(self, *given: Any) -> None:
        """Changes nothing, as on SQLite."""

    def write(self, *locks: str) -> AbstractContextManager[Any]:
        return self._transaction(self._store.write)

    def briefly(self, work: Callable[[], Any]) -> Any:
        """Makes the change, as on SQLite."""
        return work()

    def ring(self, *channels: str) -> None:
        """Bells are only hints, and nobody sleeps here."""

    @contextmanager
    def _transaction(self, begin: Callable[[], AbstractContextManager[Transaction]]) -> Iterator[Any]:
        script = self.script
        if script.is_replaying:
            yield ScriptedTransaction(script, None)
            return
        if script.transactions == 0:
            raise Border
        script.transactions -= 1
        with begin() as tx:
            yield ScriptedTransaction(script, tx)


class Tables:
    """All rows of the store, read and put back through a connection of its own."""

    def __init__(self, store: SqliteStore) -> None:
        with store.read() as tx:
            names = [name for name in tx.tables() if name != "meta"]
        self._store = store
        self._connection = store._connect()
        self._connection.execute("PRAGMA foreign_keys = OFF")  # tables are put back one by one
        self._names = [*names, "sqlite_sequence"]
        self._columns = {name: self._read_columns(name) for name in self._names}
        self._rows: Rows = {name: self._read(name, []) for name in self._names}
        self._version = self._data_version()

    def read(self) -> Rows:
        """The rows now. Tables that have not changed are the same objects as before."""
        version = self._data_version()
        if version != self._version:
            self._version = version
            self._connection.execute("BEGIN")
            self._rows = {name: self._read(name, self._rows[name]) for name in self._names}
            self._connection.execute("COMMIT")
        return self._rows

    def put_back(self, wanted: Rows) -> None:
        rows = self.read()
        changed = [name for name in self._names if rows[name] is not wanted[name]]
        if changed:
            self._connection.execute("BEGIN IMMEDIATE")
            for name in changed:
                self._replace(name, wanted[name])
            self._connection.execute("COMMIT")
            self._trust_log()
        self._rows = wanted

    def _trust_log(self) -> None:
        """Otherwise the store takes this for a change by another program, and lets SQLite recover a copy of `-wal`."""
        with self._store._connections.borrowed() as lent:
            log = lent.generation.log
            assert log is not None
            log.trusted = log.changed_at()

    def close(self) -> None:
        self._connection.close()

    def _read_columns(self, name: str) -> list[str]:
        return [column[0] for column in self._connection.execute(f"SELECT * FROM {name}").description]

    def _read(self, name: str, known: list[Row]) -> list[Row]:
        """The rows of a table; the known ones themselves if they are the same."""
        cursor = self._connection.execute(f"SELECT * FROM {name}")
        cursor.row_factory = None
        found = cursor.fetchall()
        if len(found) == len(known) and all(map(_is_same, known, found)):
            return known
        columns = self._columns[name]
        return [dict(zip(columns, row, strict=True)) for row in found]

    def _replace(self, name: str, rows: list[Row]) -> None:
        self._connection.execute(f"DELETE FROM {name}")
        if rows:
            places = ", ".join(f":{column}" for column in rows[0])
            self._connection.executemany(f"INSERT INTO {name} ({', '.join(rows[0])}) VALUES ({places})", rows)

    def _data_version(self) -> Any:
        return self._connection.execute("PRAGMA data_version").fetchone()


def _is_same(row: Row, values: tuple[Any, ...]) -> bool:
    return tuple(row.values()) == values


class SilentBell:
    def ring(self, channels: Iterable[str]) -> None: ...

    def hears(self, channel: str) -> bool:
        return False

    def close(self) -> None: ...


class World:
    """Agents with one process each, on one store. Use it as a context: it replaces the process table and `urandom`."""

    def __init__(self, agents: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="conch-explore-")
        self.workspace = os.path.join(os.path.realpath(self._folder.name), "workspace")
        os.mkdir(self.workspace)
        open(os.path.join(self.workspace, "AGENTS.md"), "w").close()  # its own root, wherever the tests run
        environ = {"CONCH_DATA_DIR": self._folder.name} | {
            f"CONCH_{name}": str(value) for name, value in POLICY.items()
        }
        self._store = SqliteStore(
            os.path.join(self._folder.name, "rooms.sqlite"),
            ring=lambda channels: None,
            clock=self._clock,
            synchronous="off",  # no power cut happens here
        )
        self._state = State({}, 0, tuple(Client(number) for number in range(agents)))
        self._tables = Tables(self._store)
        self._stepped = SteppedStore(self._store)
        settings, bell = Settings.load(environ), SilentBell()
        self.apps = [App(self._stepped, bell, settings) for _ in range(agents)]  # type: ignore[arg-type]
        self._state = self._state._replace(rows=self._tables.read())
        self._salt, self._random = 0, itertools.count()
        self.tried: set[bytes] = set()
        """The states from which every agent has got the stick."""

    def __enter__(self) -> World:
        self._real = processes.check, ids.os
        processes.check = self._check  # type: ignore[assignment]
        ids.os = SimpleNamespace(urandom=self._urandom)  # type: ignore[assignment]
        return self

    def __exit__(self, *error: object) -> None:
        processes.check, ids.os = self._real
        self._tables.close()
        self._store.close()
        self._folder.cleanup()

    @property
    def start(self) -> State:
        return self._state

    def step(self, state: State, number: int, operation: str, whole: bool = False) -> Step:
        """Make one step: a transaction of this operation, or all of it."""
        self._enter(state)
        client = state.clients[number]
        doing = client.doing or Doing(operation, state.depth)
        self._salt, self._random = doing.salt, itertools.count()
        began = doing.seen[0] if doing.seen else state  # an operation that runs again makes the same choices
        agent, result = Agent(self.apps[number], self.workspace, began, client), None
        script = self._stepped.script = Script(doing.answers, -1 if whole else 1)
        try:
            result = OPERATIONS[doing.operation](agent) or "done"
            client = agent.finish()
        except ConchError as error:
            result, client = error, agent.finish()
        except Border as border:
            if isinstance(border.__context__, ConchError):  # it would only look for the cause of this refusal
                result, client = border.__context__, agent.finish()
            else:
                seen = (*doing.seen, state)
                client = client._replace(doing=Doing(doing.operation, doing.salt, script.answers, seen))
        if isinstance(result, ConchError):
            result.__traceback__ = result.__context__ = None  # otherwise it keeps every frame of the call
        after = state.with_client(client)._replace(rows=self._tables.read(), depth=state.depth + 1)
        return Step(state, after, state.clients[number], doing.operation, agent.showed, result)

    def come_back(self, state: State, number: int) -> Step:
        """An agent's session resumes in a new process, which finds out who it is."""
        client = state.clients[number]
        started = state.with_client(client._replace(alive=True, generation=client.generation + 1))
        step = self.step(started, number, "identify_itself", whole=True)
        return step._replace(before=state, operation="come_back")

    def verify(self, state: State, check: Callable[[Any], Any]) -> Any:
        """Run a check of conch on the store of a state."""
        self._enter(state)
        return check(self._store)

    def _enter(self, state: State) -> None:
        self._state = state
        self._tables.put_back(state.rows)

    def _clock(self) -> int:
        return self._state.now

    def _urandom(self, size: int) -> bytes:
        """Unique on a path, and the same when an operation runs again."""
        return (self._salt << 16 | next(self._random)).to_bytes(size, "big")

    def _check(self, process: Process | None) -> processes.Life:
        living = {client.process for client in self._state.clients if client.alive}
        life = "unknown" if process is None else "alive" if process in living else "gone"
        return self._stepped.script.ask(lambda: life)  # type: ignore[no-any-return]


def tick(state: State) -> Step:
    after = state._replace(ticks=state.ticks + 1, depth=state.depth + 1)
    return Step(state, after, None, "tick")


def die(state: State, number: int) -> Step:
    """The process of an agent ends, in the middle of an operation or not."""
    client = state.clients[number]
    after = state.with_client(client._replace(alive=False, doing=None, silences=()))
    return Step(state, after._replace(depth=state.depth + 1), client, "die", result="died")
