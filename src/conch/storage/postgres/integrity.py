"""What the server's catalogues say about a store: a changed schema, rows that refer to nothing, wrong numbering.

The server checks its pages itself. It does not check foreign keys while a superuser has turned the checks off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from psycopg import sql

from conch.lean import re
from conch.storage.base import Problem, Row
from conch.storage.comparing import compare_schemas
from conch.storage.postgres.connection import SCHEMA, Connection

_EXPECTED = os.path.join(os.path.dirname(__file__), "schema.txt")
_MOST_ORPHANS = 20
_SEPARATOR = " := "
_OBJECTS = """
SELECT relname AS name,
  CASE relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' ELSE 'table' END AS kind,
  CASE relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END
    || CASE WHEN EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid) THEN 'with rows of other tables ' ELSE '' END
    || CASE WHEN EXISTS (
        SELECT FROM pg_constraint k WHERE contype = 'f' AND confrelid = c.oid AND k.connamespace <> c.relnamespace
      ) THEN 'with foreign keys of other schemas ' ELSE '' END
    || CASE WHEN relrowsecurity THEN 'with row security ' ELSE '' END
    || CASE WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND tgisinternal AND tgenabled <> 'O')
      THEN 'with disabled foreign keys' ELSE '' END AS definition
FROM pg_class c WHERE relnamespace = to_regnamespace(%(schema)s) AND relkind IN ('r', 'p', 'v', 'm', 'f')
"""
_COLUMNS = """
SELECT attname AS name, relname AS of, concat_ws(' ',
  format_type(atttypid, atttypmod),
  CASE WHEN attcollation <> (SELECT typcollation FROM pg_type WHERE oid = atttypid)
    THEN 'COLLATE ' || (SELECT collname FROM pg_collation WHERE oid = attcollation) END,
  CASE WHEN attnotnull THEN 'NOT NULL' END,
  CASE WHEN attidentity <> '' THEN 'IDENTITY ' || attidentity::text END,
  'DEFAULT ' || pg_get_expr(adbin, adrelid)) AS definition
FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped
LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum
WHERE relnamespace = to_regnamespace(%(schema)s) AND relkind IN ('r', 'p')
"""
# Newer servers also list NOT NULL here, which is a fact about the column.
_CONSTRAINTS = """
SELECT pg_get_constraintdef(k.oid) AS name, relname AS of, '' AS definition
FROM pg_constraint k JOIN pg_class c ON c.oid = conrelid
WHERE relnamespace = to_regnamespace(%(schema)s) AND contype <> 'n'
"""
_INDEXES = """
SELECT i.relname AS name, c.relname AS of,
  pg_get_indexdef(i.oid) || CASE WHEN indisvalid AND indisready THEN '' ELSE ' INVALID' END AS definition
FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_class c ON c.oid = indrelid
WHERE c.relnamespace = to_regnamespace(%(schema)s)
  AND NOT (
    indisvalid AND indisready AND EXISTS (SELECT FROM pg_constraint WHERE conindid = i.oid AND contype IN ('p', 'u'))
  )
"""
_TRIGGERS = """
SELECT tgname AS name, relname AS of, pg_get_triggerdef(t.oid) AS definition
FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
WHERE relnamespace = to_regnamespace(%(schema)s) AND NOT tgisinternal
"""
_RULES = "SELECT rulename AS name, tablename AS of, definition FROM pg_rules WHERE schemaname = %(schema)s"
_COUNTERS = """
SELECT attname AS name, relname AS of, concat_ws(' ', 'FROM', seqmin, 'TO', seqmax, 'START', seqstart,
  'INCREMENT', seqincrement, CASE WHEN seqcycle THEN 'CYCLE' END) AS definition
FROM pg_class c JOIN pg_attribute ON attrelid = c.oid AND attidentity <> '' AND NOT attisdropped
JOIN pg_sequence ON seqrelid = pg_get_serial_sequence(format('%%I.%%I', %(schema)s::text, relname), attname)::regclass
WHERE relnamespace = to_regnamespace(%(schema)s)
"""
_FUNCTIONS = """
SELECT proname AS name, %(schema)s::text AS of, '' AS definition
FROM pg_proc WHERE pronamespace = to_regnamespace(%(schema)s)
"""
_REFERENCE = re.compile(r"constraint FOREIGN KEY \((\w+)\) REFERENCES (\w+)\((\w+)\) of (\w+)$")
_NUMBERING = """
SELECT relname AS of, attname AS name,
  pg_get_serial_sequence(format('%%I.%%I', %(schema)s::text, relname), attname) AS sequence
FROM pg_class c JOIN pg_attribute ON attrelid = c.oid AND attidentity <> '' AND NOT attisdropped
WHERE relnamespace = to_regnamespace(%(schema)s)
"""


def find_problems(connection: Connection) -> list[Problem]:
    """Compare the schema with ours, and look for rows that refer to nothing. One consistent view of the store."""
    expected, found = expected_facts(), schema_facts(connection)
    problems = compare_schemas(expected, found)
    missing = {problem.table for problem in problems}
    for fact in expected:
        reference = _REFERENCE.match(fact)
        if reference and not missing & {reference[2], reference[4]}:
            problems += _find_orphans(connection, *reference.groups())
    for column in connection.execute(_NUMBERING, {"schema": SCHEMA}).fetchall():
        problems += _check_numbering(connection, column)
    return problems


def schema_facts(connection: Connection) -> dict[str, str]:
    """The facts about the schema of a store."""
    asked = {"schema": SCHEMA}
    facts = {f"{row['kind']} {row['name']}": row["definition"].strip() for row in connection.execute(_OBJECTS, asked)}
    queries = {
        "column": _COLUMNS,
        "constraint": _CONSTRAINTS,
        "index": _INDEXES,
        "trigger": _TRIGGERS,
        "rule": _RULES,
        "numbering": _COUNTERS,
        "function": _FUNCTIONS,
    }
    for kind, query in queries.items():
        for row in connection.execute(query.encode(), asked):
            facts[f"{kind} {_plain(row['name'])} of {row['of']}"] = _plain(row["definition"])
    return facts


def expected_facts() -> dict[str, str]:
    """The facts about the schema that the migrations make. A test keeps the file current."""
    with open(_EXPECTED, encoding="utf-8") as file:
        parts = [line.rstrip("\n").partition(_SEPARATOR) for line in file]
    return {fact: meant for fact, _, meant in parts}


def _plain(definition: str) -> str:
    return definition.replace(f"{SCHEMA}.", "")


def _find_orphans(connection: Connection, column: str, parent: str, key: str, table: str) -> Iterator[Problem]:
    names = {"column": column, "parent": parent, "key": key, "table": table}
    query = sql.SQL(
        "SELECT c.{column} AS value FROM {table} c LEFT JOIN {parent} p ON p.{key} = c.{column} "
        "WHERE c.{column} IS NOT NULL AND p.{key} IS NULL LIMIT {most}"
    ).format(most=sql.Literal(_MOST_ORPHANS), **{name: sql.Identifier(value) for name, value in names.items()})
    for row in connection.execute(query).fetchall():
        sentence = f"A row of {table} refers to {column} {row['value']} in {parent}, which does not exist."
        yield Problem("row", table, sentence, {column: row["value"]})


def _check_numbering(connection: Connection, column: Row) -> Iterator[Problem]:
    """A sequence that is behind its column would give a number that is taken, and every insert would fail."""
    table, name = column["of"], column["name"]
    query = sql.SQL(
        "SELECT max({name}) AS highest, CASE WHEN has_sequence_privilege({sequence}, 'USAGE') "
        "THEN COALESCE(pg_sequence_last_value({sequence}::regclass), 0) END AS last FROM {table}"
    ).format(sequence=column["sequence"], name=sql.Identifier(name), table=sql.Identifier(table))
    row = connection.execute(query).fetchone()
    if row and row["last"] is not None and (row["highest"] or 0) > row["last"]:
        sentence = f"The numbering of {table} is at {row['last']}, but its highest {name} is {row['highest']}."
        yield Problem("row", table, sentence, {name: row["highest"]})
