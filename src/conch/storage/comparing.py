"""Compares the schema of a store with the schema that the migrations make.

An engine describes a schema as facts: what there is, such as `index topics_open_name_idx`, and its definition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from conch.lean import re
from conch.storage.base import Check, Problem

Facts = Mapping[str, str]
_LAST_TIME = 253_402_300_799_999_999  # the end of the year 9999: no later one can be shown
_LAST_NUMBER = 2**53 - 1  # a row with a higher one would leave few numbers for others
_NOT_A_TIME = "process_started_at"  # systems count it in different ways
_COLUMN = r"column (\w+) of"
_SERIAL = r"^INTEGER|IDENTITY"
_PRIMARY_KEY = r"constraint PRIMARY KEY \((.+)\)"


def compare_schemas(expected: Facts, found: Facts) -> list[Problem]:
    """Every difference, one problem each. For a missing or unknown table, only the table itself is named."""
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


def range_checks(expected: Facts) -> list[Check]:
    """One check for each table with times or numbered rows: whether their values are possible."""
    columns, keys = defaultdict[str, dict[str, str]](dict), defaultdict[str, list[str]](list)
    for fact, meant in expected.items():
        named, table = re.match(_COLUMN, fact), _table_of(fact)
        if named:
            columns[table][named[1]] = meant
        # SQLite says of each column whether it belongs to the primary key, PostgreSQL has a constraint for it.
        if named and meant.endswith("PRIMARY KEY"):
            keys[table].append(named[1])
        elif constraint := re.match(_PRIMARY_KEY, fact):
            keys[table] += constraint[1].split(", ")
    checks = [_range_check(table, columns[table], keys[table]) for table in columns]
    return [check for check in checks if check is not None]


def _range_check(table: str, columns: Facts, keys: list[str]) -> Check | None:
    limits = {name: _LAST_TIME for name in columns if name.endswith("_at") and name != _NOT_A_TIME}
    limits |= {name: _LAST_NUMBER for name, meant in columns.items() if re.search(_SERIAL, meant)}
    if not limits:
        return None
    wrong = {name: f"{name} NOT BETWEEN 1 AND {last}" for name, last in limits.items()}
    which = " ".join(f"WHEN {condition} THEN '{name}'" for name, condition in wrong.items())
    shown = ", ".join(dict.fromkeys([*keys, *limits]))
    query = f"SELECT CASE {which} END AS wrong, {shown} FROM {table} WHERE {' OR '.join(wrong.values())}"
    named = ", ".join(f"{key} {{{key}}}" for key in keys)
    return Check(table, "", f"The row of {table} with {named} has an impossible {{wrong}}.", query)
