"""The named statements of `sql/*.sql`, and the ordered migrations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from conch.storage.base import Parameters

HERE = os.path.dirname(__file__)
MARK = "-- name:"


class Migration(NamedTuple):
    version: int
    script: str


def load_statements() -> dict[str, str]:
    """Every statement by its name; names are unique across files."""
    statements: dict[str, str] = {}
    for script in _scripts("sql"):
        for block in script.split(MARK)[1:]:
            name, _, statement = block.partition("\n")
            if name.strip() in statements:
                raise ValueError(f"two statements are named {name.strip()}")
            statements[name.strip()] = statement.strip().rstrip(";")
    return statements


def load_migrations() -> list[Migration]:
    """Oldest first, numbered from 1 without gaps."""
    return [Migration(number, script) for number, script in enumerate(_scripts("migrations"), start=1)]


def _scripts(folder: str) -> list[str]:
    directory = os.path.join(HERE, folder)
    names = sorted(name for name in os.listdir(directory) if name.endswith(".sql"))
    scripts = []
    for name in names:
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            scripts.append(file.read())
    return scripts


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
