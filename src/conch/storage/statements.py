"""The named statements of `sql/*.sql`, and the ordered migrations.

What an engine does in its own way stands in a file beside the shared one: `search.sqlite.sql` beside `search.sql`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from conch.errors import SchemaMismatch
from conch.lean import Any, NamedTuple
from conch.storage.base import Parameters

HERE = os.path.dirname(__file__)
_MARK = "-- name:"


class Dialect(NamedTuple):
    """An engine's name in file names, and what it calls the types that every engine calls otherwise."""

    engine: str
    serial_key: str
    bytes: str


class Migration(NamedTuple):
    version: int
    script: str


def load_statements(dialect: Dialect) -> dict[str, str]:
    """Every statement by its name; names are unique across the files of an engine."""
    statements: dict[str, str] = {}
    for script in _scripts("sql", dialect.engine).values():
        for block in script.split(_MARK)[1:]:
            name, _, statement = block.partition("\n")
            if name.strip() in statements:
                raise ValueError(f"two statements are named {name.strip()}")
            statements[name.strip()] = statement.strip().rstrip(";")
    return statements


def count_migrations(dialect: Dialect) -> int:
    """Which schema they lead to, without reading them: most processes only compare it."""
    return len({name[0] for name in _names("migrations", dialect.engine)})


def load_migrations(dialect: Dialect) -> list[Migration]:
    """Oldest first, numbered from 1 without gaps."""
    scripts: dict[str, str] = {}
    for name, script in _scripts("migrations", dialect.engine).items():
        stem = name.partition(".")[0]
        spelled = script.replace("$serial_key", dialect.serial_key).replace("$bytes", dialect.bytes)
        scripts[stem] = scripts.get(stem, "") + spelled
    return [Migration(number, script) for number, script in enumerate(scripts.values(), start=1)]


def still_in_use(place: str, stored: int, wanted: int, why: str, **details: Any) -> SchemaMismatch:
    """An older store is not migrated under processes of the version that it belongs to."""
    message = (
        f"The store at {place} has schema {stored} and must be migrated to schema {wanted}, but {why}. Nothing was "
        "touched. End every conch of the older version, then try again. `conch db migrate --force` migrates at once; "
        "the older version is refused from then on."
    )
    return SchemaMismatch(message, expected=wanted, **details)


def _scripts(folder: str, engine: str) -> dict[str, str]:
    """The shared files and the engine's own, by name; a shared one comes before those that add to it."""
    scripts = {}
    for name in sorted(_names(folder, engine), key=lambda parts: (parts[0], len(parts))):
        path = ".".join(name)
        with open(os.path.join(HERE, folder, path), encoding="utf-8") as file:
            scripts[path] = file.read()
    return scripts


def _names(folder: str, engine: str) -> list[list[str]]:
    """The parts of the names of these files."""
    names = [name.split(".") for name in os.listdir(os.path.join(HERE, folder)) if name.endswith(".sql")]
    return [parts for parts in names if len(parts) == 2 or parts[1] == engine]


def expand_lists(statement: str, parameters: Parameters) -> tuple[str, Parameters]:
    """`IN :paths` with a list becomes `IN (:paths_0, :paths_1)`: no engine binds a list the same way."""
    if not any(isinstance(value, list) for value in parameters.values()):
        return statement, parameters
    flat = {}
    for name, value in parameters.items():
        if isinstance(value, list):
            items = {f"{name}_{index}": item for index, item in enumerate(value)}
            statement = statement.replace(f":{name}", "(" + ", ".join(f":{key}" for key in items) + ")")
            flat.update(items)
        else:
            flat[name] = value
    return statement, flat


def referred_first(references: Mapping[str, set[str]]) -> list[str]:
    """Tables in an order in which each comes after those that it refers to."""
    ordered: list[str] = []
    while waiting := [table for table in references if table not in ordered]:
        ready = [table for table in waiting if references[table] - {table} <= set(ordered)]
        ordered += ready or waiting
    return ordered
