"""`python -m tests.explore [NAME ...]`: explores the deep scenarios, or those named, and prints what was explored."""

from __future__ import annotations

import sys

from tests.explore.invariants import RULES
from tests.explore.scenarios import BRIEF, DEEP
from tests.explore.search import Violation, explore
from tests.explore.world import World


def main(names: list[str]) -> int:
    wanted = [each for each in (*BRIEF, *DEEP) if each.name in names] if names else DEEP
    print(f"{len(RULES)} rules; exhaustive, so there is no seed. Scenarios: {', '.join(s.name for s in wanted)}.")
    for scenario in wanted:
        with World(scenario.agents) as world:
            try:
                print(explore(world, scenario, RULES), flush=True)
            except Violation as violation:
                print(f"{scenario.name}: {violation}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
