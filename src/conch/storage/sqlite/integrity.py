"""What SQLite itself can find wrong with a file: damaged pages, a changed schema, and rows that refer to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice

from conch.lean import Any, re
from conch.storage.base import Problem
from conch.storage.comparing import Facts, compare_schemas
from conch.storage.sqlite import DRIVER_ERRORS, sqlite3
from conch.storage.sqlite.files import split
from conch.storage.sqlite.fulltext import OWN_TABLES, find_contradiction
from conch.storage.sqlite.transaction import as_dict
from conch.storage.statements import Migration

_MOST_OF_A_KIND = 20
_STORED_AS = {"TEXT": "text", "BIGINT": "integer", "INTEGER": "integer", "BLOB": "blob"}
# SQLite's own tables, such as the statistics of ANALYZE, come and go.
_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
_VIRTUAL = r"CREATE VIRTUAL TABLE"
_SIZES = "SELECT sz FROM index_words_docsize"
_TOTALS = "SELECT block FROM index_words_data WHERE id = 1"
_WORDS = "SELECT count(*) AS words FROM index_vocabulary"
_COMMENT = r"--[^\n]*"
_QUOTE = r"[\"`\[\]]"
_SPACE_AT_SIGN = r"\s*([(),])\s*"


def find_problems(connection: sqlite3.Connection, migrations: tuple[Migration, ...]) -> list[Problem]:
    """Check the pages, the schema, the foreign keys and the type of every value."""
    problems: list[Problem] = []
    try:
        problems += compare_schemas(expected_facts(migrations), _facts(connection))
        tables = _plain_tables(connection)
    except DRIVER_ERRORS as error:
        return [Problem("file", "", f"The schema cannot be read. SQLite reports: {error}")]
    finders = [("", _find_damaged_pages(connection)), ("", _find_orphans(connection))]
    finders += [(table, _find_misfits(connection, table)) for table in tables]
    for table, found in finders:
        try:
            problems += islice(found, _MOST_OF_A_KIND)
        except DRIVER_ERRORS as error:  # pages that cannot be read at all
            problems.append(Problem("file", table, f"Not all rows could be read. SQLite reports: {error}"))
    return problems + (_find_lost_words(connection) or _find_contradiction(connection))


def _find_damaged_pages(connection: sqlite3.Connection) -> Iterator[Problem]:
    for row in connection.execute("PRAGMA integrity_check"):
        if row["integrity_check"] != "ok":
            yield Problem("file", "", f"SQLite reports: {row['integrity_check']}")


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
        elif name.startswith(OWN_TABLES):  # they differ between versions of SQLite
            facts[f"table {name}"] = ""
        else:
            facts[f"table {name}"] = _normalized(row["sql"])
            # To list its columns, SQLite would read an index that may be damaged.
            facts |= {} if re.match(_VIRTUAL, row["sql"]) else _column_facts(connection, name)
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
    tables = [row for row in connection.execute(_OBJECTS).fetchall() if row["type"] == "table"]
    plain = [row["name"] for row in tables if not re.match(_VIRTUAL, row["sql"])]
    return [name for name in plain if not name.startswith(OWN_TABLES)]


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
            sentence = f"Row {rowid} of {table} has a value in {column} that is not of type {kinds[column]}."
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


def _find_lost_words(connection: sqlite3.Connection) -> list[Problem]:
    """Whether the full-text index has as many words as the messages in it. Counting them reads the whole index."""
    try:
        count, size = 0, 0
        for row in connection.execute(_SIZES):
            count, size = count + 1, size + _varints(row["sz"])[0]
        totals = [number for row in connection.execute(_TOTALS) for number in _varints(row["block"])]
        words = connection.execute(_WORDS).fetchone()["words"]
    except (*DRIVER_ERRORS, IndexError, TypeError) as error:
        return [Problem("index", "index_words", f"The search index cannot be read: {error}.", {"error": str(error)})]
    if words == size and (totals == [count, size] or not (count or totals)):  # a new index has no totals
        return []
    sentence = f"The search index has {words} words and counts {sum(totals[1:])}, but its messages have {size}."
    return [Problem("index", "index_words", sentence, {"words": words, "size": size, "totals": totals})]


def _find_contradiction(connection: sqlite3.Connection) -> list[Problem]:
    try:
        found = find_contradiction(connection)
    except (*DRIVER_ERRORS, TypeError) as error:
        found = str(error)
    sentence = f"The tables of the search index contradict each other, so searches can fail or miss messages: {found}."
    return [Problem("index", "index_words", sentence, {"error": found})] if found else []


def _varints(block: bytes) -> list[int]:
    """The numbers in a record of the full-text index: seven bits in each byte, and the highest bit if more follow."""
    numbers, number = [], 0
    for byte in block:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    return numbers
