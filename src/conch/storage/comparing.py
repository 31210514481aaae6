"""Compares the schema of a store with the schema that the migrations make.

An engine describes a schema as facts: what there is, such as `index topics_open_name_idx`, and its definition.
"""

from __future__ import annotations

from collections.abc import Mapping

from conch.storage.base import Problem

Facts = Mapping[str, str]


def compare_schemas(expected: Facts, found: Facts) -> list[Problem]:
    """Every difference, one problem each. Of a missing or unknown table, only the table itself is named."""
    problems = []
    for fact in sorted({*expected, *found}):
        table = _table_of(fact)
        is_part = fact != f"table {table}"
        if expected.get(fact) == found.get(fact) or (is_part and _is_other(f"table {table}", expected, found)):
            continue
        if not is_part and fact in expected and fact in found and _differs_in_part(table, expected, found):
            continue
        problems.append(Problem("schema", table, _describe(fact, expected.get(fact), found.get(fact))))
    return problems


def _table_of(fact: str) -> str:
    """The table that a fact is about. The facts are `table T`, `... of T` and others without a table."""
    return fact.removeprefix("table ") if fact.startswith("table ") else fact.rpartition(" of ")[2]


def _is_other(table: str, expected: Facts, found: Facts) -> bool:
    """Whether a whole table is missing or unknown."""
    return (table in expected) != (table in found)


def _differs_in_part(table: str, expected: Facts, found: Facts) -> bool:
    parts = (fact for fact in {*expected, *found} if fact.endswith(f" of {table}"))
    return any(expected.get(part) != found.get(part) for part in parts)


def _describe(fact: str, expected: str | None, found: str | None) -> str:
    if found is None:
        return (
            f"The {fact} is missing from the schema. It should be: {expected}"
            if expected
            else f"The {fact} is missing."
        )
    if expected is None:
        return f"The {fact} is not part of conch's schema."
    return f"The {fact} was changed. It is: {found}. It should be: {expected}"
