"""What SQLite itself can find wrong with a file: damaged pages, a changed schema, and rows that refer to nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from conch.lean import re
from conch.storage.base import DERIVED, Problem
from conch.storage.comparing import compare_schemas
from conch.storage.sqlite import sqlite3
from conch.storage.sqlite.files import split
from conch.storage.sqlite.transaction import as_dict
from conch.storage.statements import Migration

_MOST_ORPHANS = 20
# SQLite's own tables, such as the statistics of ANALYZE, come and go.
_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
_COMMENT = r"--[^\n]*"
_QUOTE = r"[\"`\[\]]"
_SPACE_AT_SIGN = r"\s*([(),])\s*"


def find_problems(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> list[Problem]:
    """Check the pages, the schema and the foreign keys."""
    pages = [str(row["integrity_check"]) for row in connection.execute("PRAGMA integrity_check")]
    problems = [Problem("file", "", f"SQLite reports: {page}") for page in pages if page != "ok"]
    problems += compare_schemas(_expected_facts(migrations), _facts(connection))
    return problems + list(islice(_find_orphans(connection), _MOST_ORPHANS))


def _expected_facts(migrations: Sequence[Migration]) -> dict[str, str]:
    """The facts of an empty store in memory, made by the same migrations."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    try:
        memory.row_factory = as_dict
        for migration in migrations:
            for statement in split(migration.script):
                memory.execute(statement)
        return _facts(memory)
    finally:
        memory.close()


def _facts(connection: sqlite3.Connection) -> dict[str, str]:
    facts = {}
    for row in connection.execute(_OBJECTS).fetchall():
        kind, name, table = row["type"], row["name"], row["tbl_name"]
        if kind != "table":
            facts[f"{kind} {name} of {table}"] = _normalized(row["sql"])
        elif re.match(f"{DERIVED}words_", name):  # the index's own tables, which differ between versions of SQLite
            facts[f"table {name}"] = ""
        else:
            facts[f"table {name}"] = _normalized(row["sql"])
            facts |= _column_facts(connection, name)
    return facts


def _column_facts(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    columns = connection.execute("SELECT * FROM pragma_table_xinfo(?) WHERE hidden = 0", (table,))
    return {
        f"column {column['name']} of {table}": f"{column['type']}{' NOT NULL' * column['notnull']}"
        f"{_default(column['dflt_value'])}{' PRIMARY KEY' * (column['pk'] > 0)}"
        for column in columns
    }


def _default(value: str | None) -> str:
    return "" if value is None else f" DEFAULT {value}"


def _normalized(definition: str | None) -> str:
    """A definition without what SQLite writes in different ways after ALTER TABLE: comments, quotes, spaces."""
    text = re.sub(_COMMENT, "", definition or "")
    text = " ".join(re.sub(_QUOTE, "", text).split())
    return re.sub(_SPACE_AT_SIGN, r"\1", text)


def _find_orphans(connection: sqlite3.Connection) -> Iterator[Problem]:
    for found in connection.execute("PRAGMA foreign_key_check"):
        table, parent, rowid = found["table"], found["parent"], found["rowid"]
        keys = connection.execute('SELECT id, "from" FROM pragma_foreign_key_list(?)', (table,)).fetchall()
        column = next(key["from"] for key in keys if key["id"] == found["fkid"])
        row = connection.execute(f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', (rowid,)).fetchone()
        sentence = f"Row {rowid} of {table} refers to {row[column]} in {parent}, which does not exist."
        yield Problem("row", table, sentence, {"rowid": rowid, **row})
