"""`conch db prune`: it says what it would delete, and a person or `--yes` decides."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def read(conch: Any) -> None:
    """Two agents have talked, and have read everything."""
    for agent in ("ada:1", "bob:2"):
        conch("join", agent=agent)
    conch("send", "one")
    conch("send", "two")
    for agent in ("ada:1", "bob:2"):
        assert conch("read", agent=agent).status == 0


@pytest.mark.usefixtures("read")
def test_a_dry_run_and_a_missing_yes_delete_nothing_and_say_what_would_go(conch: Any) -> None:
    dry = conch("db", "prune", "--older", "0s", "--dry-run", "--json")
    refused = conch("db", "prune", "--older", "0s", "--json")

    assert (dry.status, dry.data["messages"], dry.data["dry_run"]) == (0, 2, True)
    assert refused.status != 0 and refused.error["field"] == "yes"
    assert "2 messages" in refused.error["message"]
    assert conch("db", "prune", "--older", "0s", "--dry-run", "--json").data == dry.data


@pytest.mark.usefixtures("read")
def test_with_yes_it_is_deleted_and_the_next_message_is_numbered_on(conch: Any) -> None:
    young = conch("db", "prune", "--older", "1d", "--yes", "--json").data
    pruned = conch("db", "prune", "--older", "0s", "--yes", "--compact", "--json").data
    again = conch("db", "prune", "--older", "0s", "--yes").out
    conch("send", "four")

    assert (young["messages"], pruned["messages"]) == (0, 2)
    assert "Nothing" in again
    assert "#3" in conch("read", agent="bob:2").out
    assert conch("db", "verify").status == 0


def test_a_time_is_required_unless_the_setting_gives_one(conch: Any) -> None:
    missing = conch("db", "prune", "--json")
    wrong = conch("db", "prune", "--older", "soon", "--json")

    assert (missing.status, missing.error["field"]) == (2, "older")
    assert (wrong.status, wrong.error["field"]) == (2, "older")
    assert conch("db", "prune", "--dry-run", CONCH_RETENTION_DAYS="30").status == 0
