"""Faults in turn: every write, sync, open, lock and thread start of the store fails once; every message is lost once.

    python -m tests.faults [--engine sqlite|postgres] [--seconds N] [--seed N] [--only KIND]

Exits 1 if an answer and the store disagree, if a call does not recover, or if anything acknowledged is lost.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile

from tests.faults import shim
from tests.faults.runs import PostgresRuns, SqliteRuns, Summary, count_in, run_all

LIBRARY = "CONCH_FAULTS_LIBRARY"
NO_COMPILER = "There is no C compiler, so the faults below SQLite were not run."


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--engine", choices=("sqlite", "postgres"))
    parser.add_argument("--seconds", type=float, help="stop after this time, for each engine")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--only", help="only this kind of fault")
    options = parser.parse_args()
    if LIBRARY in os.environ:
        return _report("sqlite", _run(SqliteRuns(os.environ[LIBRARY]), options))
    print(f"seed {options.seed}", flush=True)
    status = 0
    if options.engine != "postgres":
        status |= _run_sqlite(options)
    if options.engine != "sqlite":
        status |= _report("postgres", _run_postgres(options))
    return status


def _report(engine: str, summary: Summary) -> int:
    print(f"{engine}: {summary}")
    return 1 if summary.problems else 0


def _run_sqlite(options: argparse.Namespace) -> int:
    """In a process of its own, which the library is loaded into."""
    if shim.compiler() is None:
        print(NO_COMPILER)
        return 1
    with tempfile.TemporaryDirectory(prefix="conch-shim-") as folder:
        library = shim.build(folder)
        environ = {**os.environ, "LD_PRELOAD": library, LIBRARY: library}
        return subprocess.run([sys.executable, "-m", "tests.faults", *_again(options)], env=environ).returncode


def _again(options: argparse.Namespace) -> list[str]:
    words = ["--seed", str(options.seed)]
    words += ["--seconds", str(options.seconds)] if options.seconds else []
    return words + (["--only", options.only] if options.only else [])


def _run_postgres(options: argparse.Namespace) -> Summary:
    from tests.conftest import open_database, run_postgres

    with run_postgres() as postgres, open_database(postgres.url) as database:
        runs = PostgresRuns(postgres.url, database.empty, lambda query: count_in(database, query))
        try:
            return _run(runs, options)
        finally:
            runs.close()


def _run(runs: SqliteRuns | PostgresRuns, options: argparse.Namespace) -> Summary:
    faults = [fault for fault in runs.faults() if options.only in (None, fault.kind)]
    return run_all(faults, runs.play, options.seed, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
