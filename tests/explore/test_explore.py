"""Every interleaving of a few operations keeps every rule, and a bug planted against a rule is found."""

from __future__ import annotations

import pytest
from tests.explore import state
from tests.explore.bugs import BUGS, Bug
from tests.explore.invariants import RULES
from tests.explore.scenarios import BRIEF, LOST_CLAIMS
from tests.explore.search import Scenario, Violation, explore
from tests.explore.world import World


@pytest.mark.parametrize("scenario", BRIEF, ids=lambda scenario: scenario.name)
def test_every_interleaving_keeps_every_rule(scenario: Scenario) -> None:
    with World(scenario.agents) as world:
        report = explore(world, scenario, RULES)

    assert report.succeeded >= set(scenario.operations), report  # otherwise it has shown nothing


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.plant.__name__)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)

    with World(bug.scenario.agents) as world, pytest.raises(Violation):
        explore(world, bug.scenario, [bug.rule])


def test_every_rule_has_a_planted_bug() -> None:
    assert {bug.rule for bug in BUGS} == set(RULES)


def test_a_key_that_forgets_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_doing", lambda now, client, clients: client.doing and client.doing.operation)

    with World(LOST_CLAIMS.agents) as world, pytest.raises(Violation, match="different futures"):
        explore(world, LOST_CLAIMS, [])
