"""`python -m tests.torture --engine sqlite --seconds 600`: tortures a store, and checks what its clients saw.

Prints the seed first. Exits with 1 and the shortest evidence if a rule was broken, and keeps the history then.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.torture.engines import base_environ, open_engine, run_conch
from tests.torture.history import History, load_history
from tests.torture.killer import Killer, Plan
from tests.torture.rules import RULES, check
from tests.torture.workspaces import make_workspaces

MOST_SHOWN = 5


def main() -> int:
    options = _parse()
    if options.check:
        return _judge(load_history(options.check), options.check)
    seed = options.seed if options.seed is not None else random.randrange(2**32)
    print(f"seed {seed}, engine {options.engine}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="conch-torture-"))
    began = time.monotonic()
    with open_engine(options.engine, folder, base_environ(folder)) as engine:
        disasters = tuple(each for each in engine.disasters if each in options.disasters.split(","))
        pause = min(60.0, max(5.0, options.seconds / 8))
        plan = Plan(seed, options.seconds, options.signals, options.players, options.rate, disasters, pause)
        assert run_conch(engine.environ, "db", "verify")["ok"]  # makes the store
        killer = Killer(plan, folder, engine, make_workspaces(folder))
        killer.run()
    print(f"{killer.counts.total()} signals in {time.monotonic() - began:.0f} s")
    status = _judge(load_history(folder), folder)
    if status == 0:
        shutil.rmtree(folder, ignore_errors=True)
    return status


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--engine", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--signals", type=int, default=10_000, help="end after this many")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--players", type=int, default=6)
    parser.add_argument("--rate", type=float, default=8, help="signals per second")
    parser.add_argument(
        "--disasters", default="wipe,restore,delete,overwrite", help="what may happen to the whole store"
    )
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="only check a history that was kept")
    return parser.parse_args()


def _judge(history: History, folder: Path) -> int:
    _print_summary(history)
    violations = check(history)
    if not violations:
        print(f"No violation of {len(RULES)} rules.")
        return 0
    print(f"{len(violations)} violations: {dict(Counter(each.rule for each in violations))}")
    shown = {each.rule: each for each in reversed(violations)}  # the shortest of each rule
    for violation in list(shown.values())[-MOST_SHOWN:]:
        print(f"\n{violation}")
    print(f"\nThe history is in {folder}")
    return 1


def _print_summary(history: History) -> None:
    print(f"{len(history.epochs)} epochs: {', '.join(epoch.disaster or 'end' for epoch in history.epochs)}")
    outcomes = Counter(call.outcome for call in history.calls)
    tables = {
        "signals": Counter(signal.kind for signal in history.signals),
        "calls": Counter(call.tool for call in history.calls),
        "refused": Counter(call.code for call in history.calls if call.outcome == "refused"),
        "replies": outcomes,
    }
    for title, counts in tables.items():
        print(f"{title} ({counts.total()}): " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))


if __name__ == "__main__":
    sys.exit(main())
