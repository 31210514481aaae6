"""What SQLite itself can find wrong with a file: damaged pages, a changed schema, and rows that refer to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice

from conch.lean import Any, re
from conch.storage.base import DERIVED, Problem
from conch.storage.comparing import Facts, compare_schemas
from conch.storage.sqlite import sqlite3
from conch.storage.sqlite.files import split
from conch.storage.sqlite.transaction import as_dict
from conch.storage.statements import Migration

_MOST_ORPHANS = _MOST_MISFITS = 20
_STORED_AS = {"TEXT": "text", "BIGINT": "integer", "INTEGER": "integer", "BLOB": "blob"}
# SQLite's own tables, such as the statistics of ANALYZE, come and go.
_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
_COMMENT = r"--[^\n]*"
_QUOTE = r"[\"`\[\]]"
_SPACE_AT_SIGN = r"\s*([(),])\s*"


def find_problems(connection: sqlite3.Connection, migrations: tuple[Migration, ...]) -> list[Problem]:
    """Check the pages, the schema, the foreign keys and the type of every value."""
    pages = [str(row["integrity_check"]) for row in connection.execute("PRAGMA integrity_check")]
    problems = [Problem("file", "", f"SQLite reports: {page}") for page in pages if page != "ok"]
    problems += compare_schemas(expected_facts(migrations), _facts(connection))
    problems += islice(_find_orphans(connection), _MOST_ORPHANS)
    for table in _plain_tables(connection):
        problems += islice(_find_misfits(connection, table), _MOST_MISFITS)
    return problems


@cache
def expected_facts(migrations: tuple[Migration, ...]) -> Facts:
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


def _plain_tables(connection: sqlite3.Connection) -> list[str]:
    """The tables that have rows of their own, without those of the full-text index."""
    listed = connection.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
    ).fetchall()
    return [row["name"] for row in listed if not row["name"].startswith("sqlite_")]


def _find_misfits(connection: sqlite3.Connection, table: str) -> Iterator[Problem]:
    """SQLite stores a value of any type in any column, and takes any bytes for text."""
    columns = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall()
    kinds = {each["name"]: _STORED_AS[each["type"]] for each in columns if each["type"] in _STORED_AS}
    wrong = " ".join(f"WHEN typeof(\"{name}\") NOT IN ('{kind}', 'null') THEN '{name}'" for name, kind in kinds.items())
    texts = [f"COALESCE(\"{name}\", '')" for name, kind in kinds.items() if kind == "text"]
    query = f'SELECT rowid, CASE {wrong} END, {" || char(10) || ".join(texts) or "NULL"} FROM "{table}"'
    for rowid, misfit, text in _fetch_bytes(connection, query) if kinds else ():
        if misfit is not None:
            column = misfit.decode()
            sentence = f"Row {rowid} of {table} has a value in {column} that is no {kinds[column]}."
            yield Problem("row", table, sentence, {"rowid": rowid, "column": column})
        elif not _is_text(text or b""):
            yield Problem("row", table, f"Row {rowid} of {table} has a text that is not UTF-8.", {"rowid": rowid})


def _fetch_bytes(connection: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """The rows with their texts as they are stored."""
    connection.text_factory = bytes
    try:
        cursor = connection.execute(query)
        cursor.row_factory = None
        yield from cursor
    finally:
        connection.text_factory = str


def _is_text(stored: bytes) -> bool:
    try:
        stored.decode()
    except UnicodeDecodeError:
        return False
    return True
