"""The named statements of `sql/*.sql`, the checks of `checks/*.sql`, and the ordered migrations.

Statements of one engine only are in a file beside the shared one: `search.sqlite.sql` beside `search.sql`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache

from conch.errors import SchemaMismatch
from conch.lean import Any, NamedTuple, TypeVar
from conch.storage.base import Check, Parameters

HERE = os.path.dirname(__file__)
_MARK = "-- name:"
_CHECK = "-- check:"
# What short commands need, most of them first.
_FIRST_READ = (
    *("meta.sqlite.sql", "meta.sql", "agents.sql", "rooms.sql", "rooms.sqlite.sql", "mail.sql", "scopes.sql"),
    *("topics.sql", "peers.sql", "messages.sql"),
)
_BRIEF_USE_SECONDS = 0.5
_MOST_PADDED = 1_024
# Every store of conch has these tables, whatever its age. No other program has all of them.
_FIRST_TABLES = frozenset({"meta", "agents", "agent_signals", "path_rooms", "room_members", "room_events"})
_User = TypeVar("_User")


class Dialect(NamedTuple):
    """An engine's name in file names, and its words for what scripts call `$bytes`, `$json_row` and so on."""

    engine: str
    serial_key: str
    bytes: str
    json_list: str
    """The aggregate that makes one JSON list of all rows."""
    json_row: str
    """The function that makes a JSON list of its arguments."""


class Migration(NamedTuple):
    version: int
    script: str


class Statements(dict[str, str]):
    """The statements of an engine by name. A file is read when one of its statements is first needed."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self._dialect = dialect
        names = _names("sql", dialect.engine)
        self._unread = dict.fromkeys(sorted(map(".".join, names), key=lambda name: (*_FIRST_READ, name).index(name)))

    def __missing__(self, name: str) -> str:
        for file in list(self._unread):
            self._read(file)
            if name in self:
                break
        if name not in self:  # another thread may have read its file
            raise KeyError(name)
        return self[name]

    def load(self) -> None:
        """Read all files now."""
        for file in list(self._unread):
            self._read(file)

    def _read(self, file: str) -> None:
        self.update(_statements(file, self._dialect))
        self._unread.pop(file, None)


@cache
def _statements(file: str, dialect: Dialect) -> dict[str, str]:
    """The statements of a file, read once for all stores of a process."""
    statements = {}
    for block in _read("sql", file, dialect).split(_MARK)[1:]:  # before the first mark is only a comment
        name, _, statement = block.partition("\n")
        statements[name.strip()] = statement.strip().rstrip(";")
    return statements


def load_checks(dialect: Dialect) -> list[Check]:
    """All checks. Each block names its table and its test, if it has one; then come its sentence and its query."""
    checks = []
    for script in _scripts("checks", dialect).values():
        for block in script.split(_CHECK)[1:]:
            named, sentence, query = block.split("\n", 2)
            table, _, test = named.strip().partition(" ")
            checks.append(Check(table, test, sentence.removeprefix("-- "), query.partition(";")[0]))
    return checks


def count_migrations(dialect: Dialect) -> int:
    """The newest schema's number. It does not read the scripts, because most processes only compare the number."""
    return len({name[0] for name in _names("migrations", dialect.engine)})


def load_migrations(dialect: Dialect) -> list[Migration]:
    """All migrations, oldest first, numbered from 1 without gaps."""
    scripts: dict[str, str] = {}
    for name, script in _scripts("migrations", dialect).items():
        stem = name.partition(".")[0]
        scripts[stem] = scripts.get(stem, "") + script
    return [Migration(number, script) for number, script in enumerate(scripts.values(), start=1)]


def to_version(text: str | None) -> int | None:
    """The schema version as `meta` has it. None if it is missing or damaged."""
    is_number = isinstance(text, str) and text.isascii() and text.isdecimal() and not text.startswith("0")
    return int(text) if is_number and text is not None else None


def are_ours(tables: Iterable[str]) -> bool:
    """Whether these are the tables of an old store, from before stores were marked as conch's."""
    return _FIRST_TABLES.issubset(tables)


def lasting_users(find: Callable[[], list[_User] | None]) -> list[_User] | None:
    """The other users of a store. Processes that only read the schema version get a moment to finish."""
    deadline = time.monotonic() + _BRIEF_USE_SECONDS
    while (users := find()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return users


def still_in_use(place: str, stored: int, wanted: int, why: str, **details: Any) -> SchemaMismatch:
    """The error for an older store that processes of the older version may still use."""
    message = (
        f"The store at {place} has schema {stored} and must be migrated to schema {wanted}, but {why}. Stop every "
        "conch process of the older version, then try again. Or run `conch db migrate --force` to migrate now; "
        "processes of the older version then can no longer use the store."
    )
    return SchemaMismatch(message, expected=wanted, **details)


def _scripts(folder: str, dialect: Dialect) -> dict[str, str]:
    """The shared files and the engine's own, by name. A shared file comes before the engine's file beside it."""
    scripts = {}
    for name in sorted(_names(folder, dialect.engine), key=lambda parts: (parts[0], len(parts))):
        path = ".".join(name)
        scripts[path] = _read(folder, path, dialect)
    return scripts


def _read(folder: str, name: str, dialect: Dialect) -> str:
    with open(os.path.join(HERE, folder, name), encoding="utf-8") as file:
        script = file.read()
    if "$" in script:
        for name, spelling in dialect._asdict().items():
            script = script.replace(f"${name}", spelling)
    return script


def _names(folder: str, engine: str) -> list[list[str]]:
    """The names of these files, split at the dots."""
    names = [name.split(".") for name in os.listdir(os.path.join(HERE, folder)) if name.endswith(".sql")]
    return [parts for parts in names if len(parts) == 2 or parts[1] == engine]


def expand_lists(statement: str, parameters: Parameters) -> tuple[str, Parameters]:
    """Turn `IN :paths` with a list into `IN (:paths_0, :paths_1)`, because each driver binds lists in its own way.

    The last item is repeated up to the next power of two. Drivers keep statements ready, and each length would be
    another statement.
    """
    if not _has_list(statement):  # every statement comes here, and few have a list
        return statement, parameters
    flat, lengths = parameters.copy(), []
    for name, value in parameters.items():
        if type(value) is list:
            items = _padded(flat.pop(name))
            lengths.append((name, len(items)))
            flat.update(zip(_places(name, len(items)), items, strict=True))
    return _expanded(statement, tuple(lengths)), flat


@cache
def _has_list(statement: str) -> bool:
    return " IN :" in statement


@lru_cache(maxsize=128)
def _places(name: str, length: int) -> tuple[str, ...]:
    return tuple(f"{name}_{index}" for index in range(length))


@lru_cache(maxsize=128)
def _expanded(statement: str, lengths: tuple[tuple[str, int], ...]) -> str:
    for name, length in lengths:
        places = ", ".join(f":{place}" for place in _places(name, length))
        statement = statement.replace(f":{name}", f"({places})")
    return statement


def _padded(items: list[Any]) -> list[Any]:
    missing = (1 << (len(items) - 1).bit_length()) - len(items) if 2 < len(items) <= _MOST_PADDED else 0
    return items + items[-1:] * missing


def referred_first(references: Mapping[str, set[str]]) -> list[str]:
    """The tables, each after those it refers to."""
    ordered: list[str] = []
    while waiting := [table for table in references if table not in ordered]:
        ready = [table for table in waiting if references[table] - {table} <= set(ordered)]
        ordered += ready or waiting  # tables that refer to each other have no right order
    return ordered
