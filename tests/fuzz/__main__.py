"""`python -m tests.fuzz [SEED]`: 100,000 bad calls and commands on both engines.

Prints the seed first, and the report after the tools on SQLite, after those on PostgreSQL, and after the commands.
"""

from __future__ import annotations

import random
import sys

from tests.conftest import run_postgres
from tests.fuzz.run import Report, fuzz_commands, fuzz_tools
from tests.process.forking import command_forks


def main(words: list[str]) -> int:
    report = Report(int(words[0]) if words else random.randrange(10**6))
    print(f"seed {report.seed}", flush=True)
    fuzz_tools(report, 85_000)
    print(report, flush=True)
    with run_postgres() as postgres:
        fuzz_tools(report, 10_000, postgres.url)
    print(report, flush=True)
    with command_forks() as forks:
        fuzz_commands(report, 5_000, forks)
    print(report)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
