"""The named statements: each name is unique, and a file is read when it is needed."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from conch.storage import statements
from conch.storage.postgres.store import DIALECT as POSTGRES
from conch.storage.sqlite.store import DIALECT as SQLITE
from conch.storage.statements import Dialect, Statements


def loaded(dialect: Dialect) -> Statements:
    found = Statements(dialect)
    found.load()
    return found


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRES], ids=["sqlite", "postgres"])
def test_no_two_statements_of_an_engine_have_the_same_name(dialect: Dialect) -> None:
    files = [statements._read("sql", file, dialect) for file in Statements(dialect)._unread]
    named = Counter(name for file in files for name in re.findall(r"^-- name: (\w+)$", file, re.MULTILINE))

    assert named.keys() == loaded(dialect).keys()
    assert [name for name, times in named.items() if times > 1] == []
    assert named["find_agent"] == 1


def test_a_statement_is_found_in_whichever_file_it_is() -> None:
    assert {name: Statements(SQLITE)[name] for name in loaded(SQLITE)} == loaded(SQLITE)


def test_a_short_command_does_not_read_all_files(monkeypatch: Any) -> None:
    read: list[str] = []
    original = statements._statements
    monkeypatch.setattr(statements, "_statements", lambda file, dialect: read.append(file) or original(file, dialect))

    found = Statements(SQLITE)
    assert found["find_agent"] == found["find_agent"]

    assert read == ["meta.sqlite.sql", "meta.sql", "agents.sql"]


def test_an_unknown_statement_is_an_error() -> None:
    with pytest.raises(KeyError):
        Statements(SQLITE)["nothing"]
