"""`conch`, which says on standard error how many transactions it has begun."""

from __future__ import annotations

import sqlite3
import sys
from typing import Any

from conch import main as program
from conch.storage.sqlite import sqlite3 as driver

connect = sqlite3.connect


def main(words: list[str]) -> int:
    statements: list[str] = []

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(statements.append)
        return connection

    driver.connect = traced
    status = program.main(words)
    print(sum(statement.startswith("BEGIN") for statement in statements), file=sys.stderr)
    return status
